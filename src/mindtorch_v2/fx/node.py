"""Nodes: one step of a graph, with its inputs and its users."""

import builtins
import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
Argument = Any  # what a node takes: nodes, plain values, and containers of both
Target = Callable[..., Any] | str
_side_effectful_functions: set[Any] = set()
_side_effectful_names = ("_assert", "_assert_async", "_record_function_enter", "_record_function_enter_new",
                         "_record_function_exit", "_assert_scalar", "sym_constrain_range",
                         "sym_constrain_range_for_size")


def has_side_effect(fn: Callable) -> Callable:
    """Marks a function whose calls stay even if nobody uses their results. Usable as a decorator."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """An argument with `fn` applied to everything in it that is no container."""
    if isinstance(a, tuple):
        mapped = [map_aggregate(item, fn) for item in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[["Node"], Any]) -> Any:
    """An argument with `fn` applied to its nodes."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda item: fn(item) if isinstance(item, Node) else item)


def qualified_name(function: Any) -> str:
    """The dotted name under which programs know a function."""
    import mindtorch_v2 as torch

    name: str = getattr(function, "__name__", type(function).__name__)
    if getattr(builtins, name, None) is function:
        return name
    for place, home in (("torch", torch), ("torch.nn.functional", torch.nn.functional), ("torch.linalg", torch.linalg),
                        ("torch.special", torch.special), ("torch.fft", torch.fft)):
        if getattr(home, name, None) is function:
            return f"{place}.{name}"
    module = str(getattr(function, "__module__", None) or "").replace("mindtorch_v2", "torch", 1)
    if module.startswith("torch._ops."):
        module = module.replace("torch._ops", "torch.ops", 1)
    return f"{'operator' if module == '_operator' else module}.{name}"


class Node:
    """`op` says what is done, `target` to what, `args` and `kwargs` with what; other nodes stand for their results."""

    def __init__(self, graph: "Graph", name: str, op: str, target: Any, args: tuple, kwargs: dict[str, Any],
                 return_type: Any = None) -> None:
        assert op in OPS
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a "
                             "Callable is expected")
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a "
                             "str is expected")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple = ()
        self._kwargs: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._set_inputs(args, kwargs)

    def _set_inputs(self, args: tuple, kwargs: dict[str, Any]) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}
        self._args = map_arg(tuple(args), self._uses)
        self._kwargs = map_arg(dict(kwargs), self._uses)

    def _uses(self, node: "Node") -> "Node":
        self._input_nodes.setdefault(node)
        node.users.setdefault(self)
        return node

    args = property(lambda self: self._args, lambda self, args: self._set_inputs(args, self._kwargs))
    kwargs = property(lambda self: self._kwargs, lambda self, kwargs: self._set_inputs(self._args, kwargs))
    all_input_nodes = property(lambda self: list(self._input_nodes))
    next = property(lambda self: self._next)
    prev = property(lambda self: self._prev)

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: "Node") -> None:
        """Moves a node to before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: "Node") -> None:
        """Moves a node to after this one."""
        self._next.prepend(x)

    def update_arg(self, idx: int, arg: Any) -> None:
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(self, replace_with: "Node", delete_user_cb: Callable[["Node"], bool] | None = None, *,
                              propagate_meta: bool = False) -> list["Node"]:
        """Lets this node's users take another one; gives back the users that changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        args, kwargs = map_arg((self.args, self.kwargs), lambda n: new_input if n is old_input else n)
        self._set_inputs(args, kwargs)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay even if nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            packet = getattr(self.target, "overloadpacket", None)  # of one overload; marking the packet marks them all
            name = getattr(packet or self.target, "__name__", "")
            return (self.target in _side_effectful_functions or packet in _side_effectful_functions
                    or self.target is operator.setitem or name in _side_effectful_names)
        if self.op == "call_module":
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False))
        return self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__")

    def _shown_target(self) -> str:
        if isinstance(self.target, str):
            return self.target
        name = qualified_name(self.target)
        return name if "." in name else f"builtins.{name}"

    def format_node(self, placeholder_names: list | None = None,
                    maybe_return_typename: list | None = None) -> str | None:
        """The node as a line of the graph's text."""
        if self.op == "output":
            if maybe_return_typename is not None and self.type:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        if self.op == "placeholder" and placeholder_names is not None:
            placeholder_names.append(self.target + (f": {type_name(self.type)}" if self.type else ""))
        kind = f"{type_name(self.type)} " if self.type else ""
        text = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._shown_target()}]"
        if self.op == "get_attr":
            return text
        if self.op == "placeholder":
            return text + (f"(default={self.args[0]})" if self.args else "")
        return f"{text}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: "Node") -> bool:
        order = list(self.graph.nodes)
        return order.index(self) < order.index(other)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as a graph's text shows it; a list may be cut."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list):
        shown = [_format_arg(item) for item in arg[: int(min(len(arg), max_list_len))]]
        more = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len + 1 else ""
        return f"[{', '.join(shown)}{more}]"
    if isinstance(arg, tuple):
        inner = ", ".join(_format_arg(item) for item in arg)
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def type_name(kind: Any) -> str:
    """A type as annotations write it."""
    if inspect.isclass(kind) and not hasattr(kind, "__origin__"):
        module = kind.__module__.replace("mindtorch_v2", "torch", 1)
        if module == "builtins":
            return kind.__qualname__
        return "torch.Tensor" if module == "torch._core.tensor" else f"{module}.{kind.__qualname__}"
    return repr(kind).replace("mindtorch_v2._core.tensor", "torch").replace("mindtorch_v2", "torch")
