"""Names of PyTorch's extension for what autograd keeps."""

import sys
from collections.abc import Sequence
from typing import Any

from .._autograd.engine import Task
from .._autograd.node import AccumulateGrad, Node
from .._autograd.saved import SavedTensor
from .._autograd.saved import make_saved_tensor as _make_saved_tensor
from .._core.tensor import Tensor
from .._dispatch.keys import modes

__all__ = ["SavedTensor", "_make_saved_tensor"]


def _saved_tensors_hooks_is_enabled() -> bool:
    return not modes.__dict__.get("saved_hooks_disabled")


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    return modes.__dict__.get("saved_hooks_disabled")


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Sets how often tensors count as written."""
    for tensor, version in zip(tensors, versions, strict=True):
        tensor._version_counter.value = version


def _current_pass() -> Task | None:
    return modes.__dict__.get("backward_pass")


def _current_graph_task_id() -> int:
    """A number for this thread's backward pass, -1 outside of one."""
    current = _current_pass()
    return -1 if current is None else current.number


def _current_autograd_node() -> Node | None:
    """The node that this thread's backward pass is running."""
    if _current_pass() is None:
        return None
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _RUNNING:
            return frame.f_locals.get(_RUNNING[frame.f_code])
        frame = frame.f_back  # type: ignore[assignment]
    return None


# The functions of the engine that run nodes, with the name that a node has there: the engine itself keeps no record.
_RUNNING = {Task.run.__code__: "source", Task.run_node.__code__: "node", Task.run_straight.__code__: "node"}


def _will_engine_execute_node(node: Any) -> bool:
    """Whether this thread's backward pass runs a node."""
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    current = _current_pass()
    if current is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    is_leaf = isinstance(node, AccumulateGrad)
    if is_leaf and not current.accumulate_grad:
        raise RuntimeError("A leaf node was passed to _will_engine_execute_node but we are currently running "
                           "autograd.grad(). This is currently not supported.")
    return current.will_run((node.variable, -1) if is_leaf else (node, 0))  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name == "DeviceType":
        from ..autograd.profiler import DeviceType

        return DeviceType
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
