"""make_fx: the graph of a function as the operators that it calls, which a mode below autograd sees."""

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import mindtorch_v2 as torch

from ..._core.tensor import Tensor
from ..._torch_dispatch import dispatch_modes
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from ..graph import CodeGen, Graph
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["get_proxy_mode", "make_fx"]

_READ = ("It appears that you're trying to get value out of a tracing tensor with {} - erroring out! It's likely that "
         "this is caused by data-dependent control flow or similar.  It may be possible to trace this with dynamic "
         "shapes; try setting tracing_mode='symbolic' in your make_fx call.")


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes each operator that is called into a graph, and lets it run."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __init__(self, root: torch.nn.Module, graph: Graph, decompositions: dict[Any, Callable]) -> None:
        super().__init__()
        self.root, self.graph, self.decompositions = root, graph, decompositions
        self.nodes: dict[int, Node] = {}
        self.alive: list[Tensor] = []  # so that an id stays that of one tensor

    def track(self, tensor: Any, node: Node) -> None:
        if isinstance(tensor, Tensor):
            self.nodes[id(tensor)] = node
            self.alive.append(tensor)
            node.meta["val"] = node.meta["tensor_meta"] = tensor

    def node_of(self, value: Any) -> Any:
        """The node of a tensor; of one that comes from outside, one that gets it from the module."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self.nodes:
            kind = "_param_constant" if isinstance(value, torch.nn.Parameter) else "_tensor_constant"
            at = 0
            while hasattr(self.root, f"{kind}{at}"):
                at += 1
            setattr(self.root, f"{kind}{at}", value)
            self.track(value, self.graph.get_attr(f"{kind}{at}"))
        return self.nodes[id(value)]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func in self.decompositions:
            with self:
                made = self.decompositions[func](*args, **kwargs)
            if made is not NotImplemented:
                return made
        name = func._opname
        if name == "_local_scalar_dense" and id(args[0]) in self.nodes and self.nodes[id(args[0])].op != "get_attr":
            raise RuntimeError(_READ.format(func))
        # A tensor made of numbers is a constant, of which each run of the graph has a copy.
        made = args[0].clone() if name == "lift_fresh" else func(*args, **kwargs)
        target = torch.ops.aten.lift_fresh_copy.default if name == "lift_fresh" else func
        inputs, named = pytree.tree_map(self.node_of, (list(args), kwargs))
        node = self.graph.create_node("call_function", target, tuple(inputs), named, name=target._opname)
        if isinstance(made, Tensor):
            self.track(made, node)
        elif isinstance(made, (tuple, list)):
            for at, one in enumerate(made):
                self.track(one, self.graph.call_function(operator.getitem, (node, at)))
        return made


class _Nested(CodeGen):
    """A function that takes the arguments as they were, and a graph of their leaves."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        head = super().gen_fn_def(list(self.names), maybe_return_annotation)
        leaves, given = ", ".join(name for name in free_vars if name != "self"), ", ".join(self.names)
        return f"{head}\n    {leaves}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(self, output_args: str) -> str:
        return f"return pytree.tree_unflatten({output_args}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("fx_pytree", _Flattening), ("pytree", pytree)]

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_leaves(list(args))


class _Flattening:
    """What the code of such a function calls."""

    @staticmethod
    def tree_flatten_spec(values: list[Any], spec: Any) -> list[Any]:
        return pytree.tree_leaves(values)


def _names(function: Callable, args: tuple) -> list[str]:
    """What the function calls its positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [plain[i] if i < len(plain) else f"arg{i}" for i in range(len(args))]


def make_fx(f: Callable, decomposition_table: dict[Any, Callable] | None = None, tracing_mode: str = "real",
            _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False, record_module_stack: bool = False,
            _allow_fake_constant: bool = False, _error_on_data_dependent_ops: bool = True,
            record_stack_traces: bool = False, proxy_module_inputs: bool = False,
            _disable_torch_fn_metadata_mode: bool = False) -> Callable[..., GraphModule]:
    """A function that runs `f` on its arguments and gives the graph of the operators that ran.

    With `tracing_mode` "fake" or "symbolic" nothing is computed; sizes are those of the arguments in either.
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f'tracing_mode must be one of "real", "fake", "symbolic", got {tracing_mode}')

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        root, graph = torch.nn.Module(), Graph()
        names = _names(f, args)
        mode = ProxyTorchDispatchMode(root, graph, decomposition_table or {})
        around: Any = nullcontext()
        if tracing_mode != "real":
            from ..._subclasses.fake_tensor import FakeTensorMode

            around = FakeTensorMode(allow_non_fake_inputs=True)
            args = pytree.tree_map_only(Tensor, around.from_tensor, args)
        counts: dict[str, int] = {}
        for name, value in zip(names, args, strict=True):
            for leaf in pytree.tree_leaves(value):
                counts[name] = counts.get(name, 0) + 1
                mode.track(leaf, graph.placeholder(f"{name}_{counts[name]}"))
        nested = any(not pytree.tree_structure(value).is_leaf() for value in args)
        if nested:
            graph.set_codegen(_Nested(names))
        with around, mode:
            made = f(*args)
        leaves, spec = pytree.tree_flatten(made)
        nodes = [mode.node_of(leaf) for leaf in leaves]
        result = nodes if nested else pytree.tree_unflatten(nodes, spec)
        annotation = getattr(f, "__annotations__", {}).get("return")
        annotation = None if isinstance(annotation, str) or annotation is Any else annotation
        graph.output(tuple(result) if isinstance(result, tuple) else result, annotation)
        module = GraphModule(root, graph, getattr(f, "__name__", "GraphModule").strip("<>"))
        if nested:
            module._in_spec, module._out_spec = pytree.tree_structure(list(args)), spec  # type: ignore[assignment]
        return module

    return traced


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that records now, if one does."""
    return next((m for m in reversed(dispatch_modes()) if isinstance(m, ProxyTorchDispatchMode)), None)


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """Context in which nothing is recorded."""
    with _disable_current_modes():
        yield
