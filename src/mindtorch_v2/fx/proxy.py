"""Proxies: what stands for a value while a function is traced."""

import copy
import dis
import enum
import inspect
import operator
import os
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import mindtorch_v2 as torch

from .graph import Graph
from .node import Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

_LIBRARY = os.path.dirname(os.path.dirname(__file__)) + os.sep
_PLAIN = (str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format, torch.layout,
          range, enum.Enum, type(None), type(Ellipsis))
_BINARY = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
_COMPARED = "eq ne lt gt le ge getitem".split()
_UNARY = "neg pos invert abs".split()


class TraceError(ValueError):
    """A function does with a traced value what a graph cannot say."""


def _refuse_node(part: Any) -> None:
    if isinstance(part, Node):
        raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {part}")


def _user_stack() -> str:
    """The calls that led from the function that is traced to a node, those of the library left out."""
    stack = traceback.extract_stack()
    begin = max((i for i, frame in enumerate(stack) if frame.name == "trace" and frame.filename.startswith(_LIBRARY)),
                default=-1)
    frames = [frame for frame in stack[begin + 1 :] if not frame.filename.startswith(_LIBRARY)]
    return "".join(traceback.StackSummary.from_list(frames).format()).strip()


class TracerBase:
    """Makes nodes out of calls on proxies."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    # the modules that are being called: by name and number of the call, their names and classes
    module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()

    def create_node(self, kind: str, target: Any, args: tuple, kwargs: dict[str, Any], name: str | None = None,
                    type_expr: Any = None) -> Node:
        made = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            made.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and kind not in ("placeholder", "output"):
            made.stack_trace = _user_stack()
        return made

    def proxy(self, node: Node) -> "Proxy":
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: dict[str, Any], name: str | None = None,
                     type_expr: Any = None, proxy_factory_fn: Callable[[Node], "Proxy"] | None = None) -> "Proxy":
        """A new node, and the proxy of its result."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        return (proxy_factory_fn or self.proxy)(self.create_node(kind, target, args_, kwargs_, name, type_expr))

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes hold it: proxies as their nodes."""
        if isinstance(a, (tuple, list, dict, slice)):
            return self._container(a)
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node):
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, _PLAIN) or inspect.isclass(a) or inspect.isroutine(a) or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _container(self, a: Any) -> Any:
        """A tuple, list, dict or slice of arguments; one with named fields comes out of a call of its class."""
        if isinstance(a, tuple):
            parts = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), parts, {}) if hasattr(a, "_fields") else parts
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        made = {}
        for key, value in a.items():
            new_key = self.create_arg(key)
            map_aggregate(new_key, _refuse_node)
            made[new_key] = self.create_arg(value)
        return made

    def to_bool(self, obj: "Proxy") -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: "Proxy") -> Iterator:
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
                         "as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more "
                         "detailed explanation of what types of control flow can be traced, and check out the Proxy "
                         "docstring for help troubleshooting Proxy iteration errors")

    def keys(self, obj: "Proxy") -> Any:
        """What `**` of a proxy asks for."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends what is done with its proxies to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the result of a node: what is done with it becomes nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = tracer or GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> "Attribute":
        if k == "_keys":  # by which operators know tensors: a proxy is none
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict) -> "Proxy":
        """A proxy of a copy of the node; a tracer that cannot be copied is shared."""
        made = Proxy(copy.deepcopy(self.node, memo), self.tracer)
        memo[id(self)] = made
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        calling = frame.f_back
        at = calling.f_lasti
        instruction = next((i for i in dis.get_instructions(calling.f_code) if i.offset == at), None)
        if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instruction.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> "Proxy":
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object does not support item assignment")

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be "
                           "recorded, please call torch.fx.wrap('len') at module scope")

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, orig_method: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        tracers: dict[TracerBase, None] = {}
        map_aggregate((args, kwargs or {}), lambda a: tracers.setdefault(a.tracer) if isinstance(a, Proxy) else None)
        if len(tracers) > 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace operations "
                               f"{orig_method}")
        (tracer,) = tracers
        if torch.overrides.is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs or {})
        return tracer.create_proxy("call_function", orig_method, args, kwargs or {})


class ParameterProxy(Proxy):
    """A parameter, whose shape is known while tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self) -> torch.Size:
        return self.param.size()

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


class Attribute(Proxy):
    """An attribute of a traced value; a node of its own only if it is used other than by calling it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _recorded(function: Callable, special: str, reflected: bool = False) -> Callable:
    def method(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    method.__name__ = special
    return method


for _name in (*_BINARY, *_COMPARED, *_UNARY[:3]):
    _special = f"__{_name.strip('_')}__"
    setattr(Proxy, _special, _recorded(getattr(operator, _name), _special))
for _name in _BINARY:
    _special = f"__r{_name.strip('_')}__"
    setattr(Proxy, _special, _recorded(getattr(operator, _name), _special, reflected=True))
