"""Operators of users: schemas, kernels, Meta and autograd formulas of their own."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ._autograd.function import Function
from ._C._schemas import parse_schema
from ._compat.old_names import Tag
from ._compat.operator_names import ops
from ._core.tensor import Tensor
from ._dispatch.callers import call_bound
from ._dispatch.keys import AUTOGRAD_MASK, BACKENDS, DEVICE_MASKS, VIEW_MASK, DispatchKey, changed_modes, modes
from ._dispatch.registry import Around, Operator, registry
from ._dispatch.schema import Schema
from ._schema_inference import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "impl",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "")


# Meta kernels of operators that are not declared, as those of a compiled library that could not be loaded.
_waiting: dict[str, Callable] = {}


# Namespaces of libraries whose operators are declared here, whole: what the libraries register for them is left out.
_DECLARED_HERE = frozenset(("torchvision", "torchaudio"))


def fallthrough_kernel() -> None:
    """Given to `Library.impl` in place of a function, lets calls pass a key by."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A namespace of operators: "DEF" declares them, "IMPL" or "FRAGMENT" adds to a namespace that exists."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []
        self._replaced: list[tuple[str, DispatchKey, Any]] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        if "(" not in schema:
            raise RuntimeError("Tried to parse a function schema but only the operator name was given")
        parse_schema(schema)  # which says where a text is no schema
        parsed = Schema(schema, namespace=self.ns)
        name = f"{self.ns}::{parsed.name}"
        if name in registry:
            raise RuntimeError(f"Tried to register an operator ({self.ns}::{schema}) with the same name and overload "
                               "name multiple times. Each overload's schema should only be registered with a single "
                               "call to def().")
        operator = registry.register_schema(name, parsed)
        operator.tags = list(tags) if isinstance(tags, (tuple, list)) else [tags]
        registry.register_kernel(name, DispatchKey.Autograd, Around(_without_autograd))
        if name in _waiting:
            registry.register_kernel(name, DispatchKey.Meta, _waiting.pop(name))
        self._defined.append(name)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        if self.ns in _DECLARED_HERE:
            return
        name = op_name if isinstance(op_name, str) else op_name.name
        name = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key
        operator = _existing(name)
        if fn is fallthrough_kernel:
            registry.register_fallthrough(operator.name, DispatchKey[key])
            return
        keys = BACKENDS if key in _COMPOSITE else (DispatchKey[key],)
        if key in _COMPOSITE and key != "CompositeExplicitAutograd" and _has_fallback(operator):
            operator.kernels.pop(DispatchKey.Autograd)  # what it calls is recorded
        if key in _COMPOSITE and key != "CompositeExplicitAutograd":
            keys = (*keys, DispatchKey.FuncTorch)
        for each in keys:
            self._replaced.append((operator.name, each, operator.kernels.get(each)))
            registry.register_kernel(operator.name, each, fn if operator.declaration is None else _below_autograd(fn))

    def _destroy(self) -> None:
        """Takes out what this library defined, and puts back what it replaced."""
        for name, key, kernel in reversed(self._replaced):
            if kernel is None:
                registry.get(name).kernels.pop(key)
            else:
                registry.register_kernel(name, key, kernel)
            registry.get(name).table.clear()
        self._replaced.clear()
        for name in self._defined:
            registry.remove(name)
        self._defined.clear()


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that is gone at the end of the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def _existing(name: str) -> Operator:
    """The operator of a qualified name; `aten::add.Tensor` also finds an operator declared without overloads."""
    if name in registry:
        return registry.get(name)
    base = name.partition(".")[0]
    return registry.get(base if base in registry else name)


def _below_autograd(function: Callable) -> Callable:
    """A user's kernel: what it calls is not recorded, its operator has the derivative."""

    def kernel(*args: Any) -> Any:
        with changed_modes(exclude=modes.exclude | AUTOGRAD_MASK | VIEW_MASK):
            return function(*args)

    return kernel


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Declares `ns::name` with a schema given without the name: "(Tensor x) -> Tensor"."""
    ns, _, name = qualname.partition("::")
    if not ns or not name:
        raise ValueError(f"torch.library.define({qualname!r}, ...): expected qualname to be of form 'namespace::name'")
    (lib or Library(ns, "FRAGMENT")).define(name + schema, tags=tags)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Gives an operator a kernel for device types; a decorator if `func` is left out.

    An older form names a library, an operator in it and a key.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def add(function: Callable) -> Callable:
            library.impl(name, function, key)
            return function

        return add

    def register(function: Callable) -> Callable:
        for kind in (types,) if isinstance(types, str) else types:
            keys = BACKENDS if kind == "default" else (DispatchKey(DEVICE_MASKS[kind.lower()].bit_length() - 1),)
            for key in keys:
                registry.register_kernel(_existing(qualname).name, key, _below_autograd(function))
        return function

    return register if func is None else register(func)


def _name_of(op: Any) -> str:
    if isinstance(op, (str, CustomOpDef)):
        return op if isinstance(op, str) else op._qualname
    name = getattr(op, "name", None)
    if name is None:
        raise ValueError(f"unrecognized op type: {type(op)}, expected the name of an operator or an operator")
    return name() if callable(name) else name


def register_fake(
    op: Any, func: Callable | None = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = False
) -> Any:
    """Gives an operator its Meta kernel: a function that makes results of the right shape and type."""

    def register(function: Callable) -> Callable:
        name = _name_of(op)
        if name.partition("::")[0] in _DECLARED_HERE:
            return function
        if name.partition(".")[0] not in registry and name not in registry:
            _waiting[name] = function
        else:
            registry.register_kernel(_existing(name).name, DispatchKey.Meta, function)
        return function

    return register if func is None else register(func)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Gives an operator a kernel for some device types, or for all with None."""
    return impl(_name_of(op), "default" if device_types is None else device_types, func)


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Gives an operator its rule for vmap: `func(info, in_dims, *args)` returns (outputs, out_dims)."""
    from ._functorch.autograd_function import operator_rule
    from ._functorch.batching import CUSTOM

    def register(function: Callable) -> None:
        CUSTOM[_existing(_name_of(op)).name] = operator_rule(function)

    return register if func is None else register(func)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """Gives an operator its derivative: `setup_context(ctx, inputs, output)` and `backward(ctx, *grads)`."""
    if _name_of(op).partition("::")[0] in _DECLARED_HERE:
        return
    operator = _existing(_name_of(op))
    registry.register_kernel(operator.name, DispatchKey.Autograd, Around(_custom_autograd(backward, setup_context)))


def _custom_autograd(backward: Callable, setup: Callable | None) -> Callable:
    def make(operator: Operator, below: Callable, mask: int) -> Callable:
        keyword_only = [i for i, a in enumerate(operator.schema.arguments) if a.keyword_only]

        def run_setup(ctx: Any, inputs: tuple, output: Any) -> None:
            if setup is None:
                return
            if keyword_only:
                given = {operator.schema.names[i]: inputs[i] for i in keyword_only}
                setup(ctx=ctx, inputs=inputs[: keyword_only[0]], keyword_only_inputs=given, output=output)
            else:
                setup(ctx=ctx, inputs=inputs, output=output)

        def run_backward(ctx: Any, *grads: Any) -> Any:
            result = backward(ctx, *grads)
            if keyword_only:
                result = (*(result if isinstance(result, tuple) else (result,)), *(None for _ in keyword_only))
            return result

        members = {"forward": staticmethod(lambda *args: below(*args)), "setup_context": staticmethod(run_setup),
                   "backward": staticmethod(run_backward)}
        made: type[Function] = type(operator.schema.base_name, (Function,), members)
        return made.apply

    return make


class _Fallback:
    """What backward through an operator without an autograd kernel does: nothing, or "warn"."""

    mode = "warn"


def _get_autograd_fallback_mode() -> str:
    return _Fallback.mode


def _set_autograd_fallback_mode(mode: str) -> None:
    if mode not in ("nothing", "warn", "error"):
        raise RuntimeError(f"Unsupported AutogradFallbackMode: {mode}")
    _Fallback.mode = mode


def _has_fallback(operator: Operator) -> bool:
    kernel = operator.kernels.get(DispatchKey.Autograd)
    return isinstance(kernel, Around) and kernel.make is _without_autograd


def _requires_grad(values: Any) -> bool:
    """Whether there is a tensor that needs grad among them."""
    if isinstance(values, (tuple, list)):
        return any(map(_requires_grad, values))
    return isinstance(values, Tensor) and values.requires_grad


def _without_autograd(operator: Operator, below: Callable, mask: int) -> Callable:
    """Autograd of an operator that has no kernel for it: gradients end here, with a warning."""
    count = len(operator.schema.arguments)

    def backward(ctx: Any, *grads: Any) -> Any:
        warn()
        return (None,) * count

    def warn(grad: Any = None) -> None:
        text = (f"{operator.name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to "
                "backprop through it. This may lead to silently incorrect behavior.")
        if _Fallback.mode == "error":
            raise RuntimeError(text)
        warnings.warn(
            f"{text} This behavior is deprecated and will be removed in a future version of PyTorch. If your operator "
            "is differentiable, please ensure you have registered an autograd kernel to the correct Autograd key (e.g. "
            "DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, "
            "or to squash this warning and use the previous behavior, please register "
            "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd.", stacklevel=2)

    results: list[Any] = []
    recorded = _custom_autograd(backward, None)(operator, lambda *args: results.pop(), mask)

    def kernel(*args: Any) -> Any:
        result = below(*args)  # the kernel may be made of operators, which are recorded
        if _Fallback.mode == "nothing" or not modes.grad_enabled or not _requires_grad(args):
            return result
        if not _requires_grad(result) and not operator.schema.writes:
            results.append(result)
            return recorded(*args)
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            for each in (tensor, getattr(tensor, "_base", None)):
                if each is not None and _requires_grad(each):
                    each.register_hook(warn)
        return result

    return kernel


def _no_formula(operator: Operator, below: Callable, mask: int) -> Callable:
    """Autograd of a custom operator without a formula: forward works, backward says what is missing."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"Trying to backward through {operator.name} but no autograd formula was registered. Please "
                           "use register_autograd to add one.")

    return _custom_autograd(backward, None)(operator, below, mask)


class CustomOpDef:
    """An operator made by `custom_op`; call it, and register more on it."""

    def __init__(self, qualname: str, schema: str, tags: Any = ()) -> None:
        namespace, _, name = qualname.partition("::")
        if not namespace or not name:
            raise ValueError(f"Expected the name of a custom operator to be 'namespace::name', got {qualname!r}")
        if qualname in registry:
            registry.remove(qualname)
        self._qualname, self._namespace, self._name = qualname, namespace, name
        self._operator = registry.register_schema(qualname, Schema(f"{name}{schema}", namespace=namespace))
        self._operator.tags = [Tag.pt2_compliant_tag, *tags]
        registry.register_kernel(qualname, DispatchKey.Autograd, Around(_no_formula))

    @property
    def _opoverload(self) -> Any:
        return getattr(getattr(ops, self._namespace), self._name).default

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_bound(self._operator, self._operator.schema.bind(args, kwargs))

    def register_fake(self, function: Callable, /) -> Callable:
        return register_fake(self._qualname, function)

    def register_kernel(self, device_types: Any, function: Callable | None = None, /) -> Any:
        return register_kernel(self._qualname, device_types, self._checking(function) if function else None)

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        register_autograd(self._qualname, backward, setup_context=setup_context)

    def register_vmap(self, function: Callable | None = None) -> Any:
        return register_vmap(self._qualname, function)

    def _checking(self, function: Callable) -> Callable:
        """`function`, with the rules of a custom operator: written arguments are counted, results are no arguments."""
        schema = self._operator.schema
        written = [i for i, a in enumerate(schema.arguments) if a.writes]
        positional = len(schema.positional)
        names = schema.names[positional:]

        def kernel(*args: Any) -> Any:
            result = function(*args[:positional], **dict(zip(names, args[positional:], strict=True)))
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, Tensor) and any(tensor is a for a in args):
                    raise RuntimeError(f"{self._qualname} (with implementation in {function.__module__}): The output "
                                       "of this custom operator (1) must not also be an input to this custom operator "
                                       "and (2) may not alias any inputs to this custom operator or other returns.")
            for i in written:
                for tensor in args[i] if isinstance(args[i], (tuple, list)) else (args[i],):
                    if tensor is not None:
                        tensor._bump_version()
            return result

        return kernel


def custom_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, device_types: Any = None,
              schema: str | None = None, tags: Any = None) -> Any:
    """Makes a Python function an operator; its schema comes from the annotations unless given."""

    def make(function: Callable) -> CustomOpDef:
        given = () if tags is None else tags if isinstance(tags, (tuple, list)) else (tags,)
        made = CustomOpDef(name, schema or infer_schema(function, mutates_args=mutates_args), given)
        made.register_kernel(device_types, function)
        made.__doc__ = function.__doc__
        return made

    return make if fn is None else make(fn)
