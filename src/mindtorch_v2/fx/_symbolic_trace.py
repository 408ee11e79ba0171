"""The tracer: runs a module's `forward` on proxies."""

import builtins
import copy
import functools
import inspect
import math
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import mindtorch_v2 as torch

from ..nn import Module, Parameter, Sequential
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate
from .proxy import ParameterProxy, Proxy, TracerBase

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

# (globals of a module, name) of the functions that `wrap` was called for
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
wrapped_names: set[str] = set()
_proxyable_classes: weakref.WeakSet[type] = weakref.WeakSet()
_COMPARABLE = (str, int, float, bool, complex, torch.dtype, torch.device, torch.memory_format, torch.layout)
_NN_MODULES = ("torch.nn", "torch.ao.nn", "mindtorch_v2.nn")


class _Placeholder:
    """In `concrete_args`, an argument that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction on traced values becomes a node."""

    def __init__(cls, name: str, bases: tuple, attrs: dict[str, Any]) -> None:
        _proxyable_classes.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        tracers: list[TracerBase] = []
        map_aggregate((args, kwargs), lambda a: tracers.append(a.tracer) if isinstance(a, Proxy) else None)
        if tracers:
            return tracers[0].create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def wrap(fn_or_name: str | Callable) -> Any:
    """Calls of this function, of the calling module, become nodes and are not traced through."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    wrapped_names.add(name)
    _wrapped[id(frame.f_back.f_globals), name] = frame.f_back.f_globals
    return fn_or_name


def _has_proxy(*values: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


def _recording(original: Callable) -> Callable:
    """A function that, called with a traced value, becomes a node."""

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _has_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


class Tracer(TracerBase):
    """Records what a module's `forward`, or a function, does. Subclasses say which modules are not looked into."""

    def __init__(self, autowrap_modules: tuple[ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable, ...] = (), param_shapes_constant: bool = False) -> None:
        self._autowrap = {id(f) for m in autowrap_modules for n, f in vars(m).items()
                          if not n.startswith("_") and callable(f)} | {id(f) for f in autowrap_functions}
        self._autowrap_modules = autowrap_modules
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] = {}
        self.root: Any = None
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict[int, str] = {}
        self._parameter_proxies: dict[str, Proxy] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module's call is one node: true for those of torch.nn other than Sequential."""
        return m.__module__.startswith(_NN_MODULES) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name of a module below the root."""
        if mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a call of a module gives while tracing."""
        path = self.path_of_module(m)
        calls = self.num_calls.get(path, 0)
        self.num_calls[path] = calls + 1
        key = f"{path}@{calls}" if calls else path
        self.module_stack[key] = path, type(m)
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What reading an attribute of a module gives while tracing: parameters become nodes."""
        traced = torch.Tensor if self.proxy_buffer_attributes else Parameter
        name = self.tensor_attrs.get(id(attr_val)) if isinstance(attr_val, traced) else None
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            known: Any = None
            if self.param_shapes_constant and isinstance(attr_val, Parameter):
                known = functools.partial(self._with_shape, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=known)
        return parameter_proxy_cache[name]

    def _with_shape(self, name: str, parameter: Parameter, node: Node) -> Proxy:
        return ParameterProxy(self, node, name, parameter)

    def __deepcopy__(self, memo: dict) -> "Tracer":
        """A tracer with copies of the graph and of what it collected; the modules it wraps are shared."""
        made = Tracer.__new__(Tracer)
        shared = ("_autowrap", "_autowrap_modules")
        for name, value in vars(self).items():
            vars(made)[name] = value if name in shared else copy.deepcopy(value, memo)
        return made

    def create_arg(self, a: Any) -> Any:
        if type(a) in _proxyable_classes:
            constant = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, constant, a)
            return self.create_node("get_attr", constant, (), {})
        if isinstance(a, torch.Tensor):
            name = self.tensor_attrs.get(id(a))
            if name is None and isinstance(a, Parameter):
                raise NameError("parameter is not a member of this module")
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                self.root.register_buffer(name, a, persistent=True) if isinstance(self.root, Module) else None
                self.tensor_attrs[id(a)] = name
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_args_for_root(self, root_fn: Callable, is_module: bool,
                             concrete_args: dict[str, Any] | None = None) -> tuple[Callable, list[Any]]:
        """The function to trace, and a proxy for each of its parameters."""
        signature = list(inspect.signature(root_fn).parameters.values())
        args: list[Any] = [self.root] if is_module else []
        concrete = concrete_args or {}
        for parameter in signature[1:] if is_module else signature:
            star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            name = parameter.name
            kind = None if parameter.annotation in (parameter.empty, Any) else parameter.annotation
            if name in concrete and concrete[name] is not PH:
                args.append(self._specialised(parameter, concrete[name]))
                continue
            default = () if parameter.default is parameter.empty else (self.create_arg(parameter.default),)
            given = f"_{name}" if star else name
            args.append(self.create_proxy("placeholder", star + name, default, {}, name=given, type_expr=kind))
        kinds = [p.kind for p in (signature[1:] if is_module else signature)]
        offset = int(is_module)

        def called(*values: Any) -> Any:
            """The function, with star arguments as the proxies that stand for them."""
            plain, named = list(values[:offset]), {}
            for kind, parameter, value in zip(kinds, signature[offset:], values[offset:], strict=True):
                if kind is parameter.KEYWORD_ONLY:
                    named[parameter.name] = value
                else:
                    plain.append(value)
            return root_fn(*plain, **named)

        if any(kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for kind in kinds):
            return _without_stars(root_fn), args
        return called, args

    def _specialised(self, parameter: inspect.Parameter, value: Any) -> Any:
        """A concrete argument: still an input, which must have that value; of a few types the graph checks it."""
        name = parameter.name
        default = () if parameter.default is parameter.empty else (parameter.default,)
        proxy = self.create_proxy("placeholder", f"{name}_1", default, {})
        text = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        elif isinstance(value, _COMPARABLE):
            self.create_proxy("call_function", torch._assert, (proxy == value, text), {})
        else:
            warnings.warn(f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                          "It is up to the user to make sure that your inputs match the inputs you specialized the "
                          "function with.", stacklevel=2)
        return value

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function."""
        is_module = isinstance(root, Module)
        if is_module:
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        else:
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs, self.num_calls = {}, {}
        self._parameter_proxies = {}
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is not None:
            self.graph._co_fields = {name: getattr(code, name) for name in ("co_name", "co_filename", "co_firstlineno")}
        for path, module in self.root.named_modules():
            for name, value in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
                if isinstance(value, torch.Tensor):
                    self.tensor_attrs.setdefault(id(value), f"{path}.{name}" if path else name)
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        annotation = getattr(root.forward if is_module else root, "__annotations__", {}).get("return")  # type: ignore[union-attr]
        annotation = None if annotation is Any else annotation
        with self._patched(getattr(function, "__globals__", {}), getattr(root, "__globals__", {})):
            result = function(*args)
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotation)
        self.submodule_paths = {}
        return self.graph

    @contextmanager
    def _patched(self, *scopes: dict[str, Any]) -> Iterator[None]:
        """In its block, calls of modules and of wrapped functions come to this tracer."""
        call, attribute = Module.__call__, Module.__getattr__

        def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def traced_attribute(module: Module, name: str) -> Any:
            return self.getattr(name, attribute(module, name), self._parameter_proxies)

        with ExitStack() as undo:
            def replace(scope: dict[str, Any], name: str, value: Any) -> None:
                if name in scope:
                    undo.callback(scope.__setitem__, name, scope[name])
                else:
                    undo.callback(scope.__delitem__, name)
                scope[name] = value

            undo.callback(setattr, Module, "__call__", call)
            undo.callback(setattr, Module, "__getattr__", attribute)
            Module.__call__, Module.__getattr__ = traced_call, traced_attribute  # type: ignore
            for (_, name), scope in _wrapped.items():
                original: Any = scope.get(name, getattr(builtins, name, None))
                replace(scope, name, _recording(original))
            for scope in (*(vars(module) for module in self._autowrap_modules), *scopes):
                for name, value in list(scope.items()):
                    if id(value) in self._autowrap and callable(value):
                        replace(scope, name, _recording(value))
            yield


def _without_stars(function: Callable) -> Callable:
    """A function in which `*args` and `**kwargs` are ordinary parameters, so that one proxy stands for each."""
    from types import CodeType, FunctionType

    code: CodeType = function.__code__
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    made = code.replace(co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
                        co_argcount=code.co_argcount + code.co_kwonlyargcount + stars, co_kwonlyargcount=0,
                        co_posonlyargcount=0)
    return FunctionType(made, function.__globals__, function.__name__, None, function.__closure__)


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


def symbolic_trace(root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module that does what `root` does, as a graph."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
