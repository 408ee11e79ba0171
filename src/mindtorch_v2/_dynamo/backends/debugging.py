"""Backends that run graphs as they are, and what `torch._dynamo.explain` tells."""

import dataclasses
import functools
import logging
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from ...fx import GraphModule
from .registry import register_backend, register_debug_backend

_log = logging.getLogger(__name__.replace("mindtorch_v2", "torch"))


@register_debug_backend
def eager(gm: GraphModule, fake_tensor_inputs: list[Any], **kwargs: Any) -> Callable:
    """The graph as it is."""
    if kwargs:
        _log.warning("eager backend ignoring extra kwargs %s", kwargs)
    return gm.forward


@register_debug_backend
def aot_eager(
    gm: GraphModule,
    fake_tensor_inputs: list[Any],
    fw_compiler: Callable | None = None,
    bw_compiler: Callable | None = None,
    **kwargs: Any,
) -> Callable:
    """The graph as it is: graphs consist of ATen's operators here already."""
    if kwargs:
        _log.warning("aot_eager backend ignoring extra kwargs %s", kwargs)
    return gm.forward if fw_compiler is None else fw_compiler(gm, fake_tensor_inputs)


for _name in ("aot_eager_decomp_partition", "aot_eager_default_partitioner"):
    # whose only difference there is how forward and backward are divided, which nothing here depends on
    register_debug_backend(functools.partial(aot_eager), name=_name)


@register_debug_backend
def eager_noexcept(gm: GraphModule, fake_tensor_inputs: list[Any], **kwargs: Any) -> Callable:
    """The graph as it is; an error of it is said to be the compiler's."""

    def run(*args: Any) -> Any:
        try:
            return gm(*args)
        except Exception as error:
            raise RuntimeError("Unexpected exception when running generated GraphModule") from error

    return run


@register_backend
def inductor(gm: GraphModule, example_inputs: list[Any], **kwargs: Any) -> Callable:
    """The graph, planned into few kernels at its first call."""
    from ..._compile import compile

    return compile(gm.forward, **kwargs)


@register_backend
def cudagraphs(gm: GraphModule, example_inputs: list[Any], **kwargs: Any) -> Callable:
    """The graph, replayed as one plan (on a GPU: one captured CUDA graph)."""
    from ..._compile import compile

    return compile(gm.forward, mode="reduce-overhead", **kwargs)


class GraphCompileReason(NamedTuple):
    """Why a graph ended."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    """The graphs of a function, and what ended each of them."""

    graphs: list[GraphModule]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [
                f"  Break Reason {number}:",
                f"    Reason: {reason.reason}",
                "    User Stack:",
                *(f"      {frame}" for frame in reason.user_stack),
            ]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for number, ops in enumerate(self.ops_per_graph, 1):
                lines += [f"  Ops {number}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
            for number, guard in enumerate(self.out_guards, 1):
                lines += [f"  Guard {number}:", f"    {guard}"]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"
