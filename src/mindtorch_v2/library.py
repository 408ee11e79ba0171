"""Operators of users: schemas, kernels, Meta and autograd formulas of their own."""

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ._compat.absent import absent_function
from ._compat.operator_names import OpOverload, overload_for
from ._dispatch.function_schema import parse_schema
from ._dispatch.keys import (
    AUTOCAST_MASK,
    AUTOGRAD_MASK,
    BACKENDS,
    DEVICE_MASKS,
    VIEW_MASK,
    DispatchKey,
    DispatchKeySet,
    changed_modes,
    modes,
)
from ._dispatch.registry import Around, Lazy, Operator, PerKeys, PerOperator, registry
from ._dispatch.schema import Schema
from ._library.autograd import custom_autograd, get_fallback_mode, has_fallback, set_fallback_mode, without_autograd
from ._library.custom_ops import OPDEFS, CustomOpDef, custom_op
from ._library.fake_impl import get_ctx
from ._library.infer_schema import infer_schema
from ._library.opcheck import opcheck
from ._library.simple_registry import singleton
from ._library.utils import KEYWORD_TENSORS, RegistrationHandle, get_source, has_kwarg_only_tensors, parse_namespace
from ._torch_dispatch import handler_arguments

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_get_autograd_fallback_mode, _set_autograd_fallback_mode = get_fallback_mode, set_fallback_mode
_NO_TRITON = "Kernels are NumPy's, CuPy's and those of the device's own library; use torch.library.custom_op."
triton_op, wrap_triton = (absent_function(f"torch.library.{name}", _NO_TRITON) for name in ("triton_op", "wrap_triton"))

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Keys of devices and of parts of PyTorch that are not here: what is registered for them is remembered, and never runs.
_FOREIGN_DEVICES = frozenset("""
    XPU HIP MPS XLA IPU HPU Lazy VE MTIA MAIA FPGA Vulkan Metal OpenGL OpenCL IDEEP PrivateUse2 PrivateUse3""".split())
_FOREIGN_KEYS = frozenset("""
    BackendSelect PythonTLSSnapshot PreDispatch PythonDispatcher QuantizedCPU QuantizedCUDA MkldnnCPU SparseCUDA
    SparseCsrCUDA NestedTensorCPU NestedTensorCUDA CustomRNGKeyId AutogradOther AutogradNestedTensor Conjugate Negative
    ZeroTensor FuncTorchBatched FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode Tracer Named Fake Undefined
    Batched VmapMode FuncTorchGradWrapper DeferredInit TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode
    """.split())
_DEVICE_TYPES = ("cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia "
                 "privateuseone npu").split()

# What registers kernels of operators that are not declared yet, or never, as those of a library that was not loaded.
_waiting: dict[str, list[Callable[[], None]]] = {}
# Names of keys by operator: what libraries registered.
_registered: dict[str, dict[str, "_Registration"]] = {}
# Where a namespace was defined as a whole.
_defined_at: dict[str, str] = {}
# Libraries of calls that name none: they stay.
_kept: list["Library"] = []

# Namespaces of libraries whose operators are declared here, whole: what the libraries register for them is left out.
_DECLARED_HERE = frozenset(("torchvision", "torchaudio"))


class _Registration:
    """One call of `Library.impl`, while it is in force."""

    alive = True


def fallthrough_kernel() -> None:
    """Given to `Library.impl` in place of a function, lets calls pass a key by."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def registered_keys(name: str) -> set[str]:
    """The keys that an operator has kernels for, by PyTorch's names."""
    found = set(_registered.get(name, ()))
    operator = _existing(name) if _is_declared(name) else None
    if operator is not None and DispatchKey.Autograd in operator.kernels and not has_fallback(operator):
        found.add("Autograd")
    if operator is not None and operator.declaration is not None:
        found |= {"CompositeImplicitAutograd"} if operator.is_composite else {k.name for k in operator.kernels}
    return found


def _keys_named(name: str) -> tuple[DispatchKey, ...]:
    """The keys here that a key of PyTorch's is."""
    if name in _COMPOSITE:
        return (*BACKENDS, DispatchKey.FuncTorch) if name == "CompositeImplicitAutograd" else BACKENDS
    if name.startswith("Autocast"):
        return (DispatchKey.Autocast,)
    if name == "Python":
        return (DispatchKey.PythonDispatch,)
    if name in DispatchKey.__members__:
        return (DispatchKey[name],)
    device = name.removeprefix("Autograd").removeprefix("Autocast")
    if device in _FOREIGN_DEVICES or name in _FOREIGN_KEYS:
        return ()
    raise RuntimeError(f"could not parse dispatch key: {name}")


class Library:
    """A namespace of operators: "DEF" declares them, "IMPL" or "FRAGMENT" adds to a namespace that exists."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], None]] = []
        if kind == "DEF":
            source = get_source()
            if ns in _defined_at:
                raise RuntimeError(f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                                   "put all of your definitions in a single TORCH_LIBRARY block.  If you were trying "
                                   "to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
                                   "duplicated).  If you really intended to define operators for a single namespace "
                                   "in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate "
                                   "this.  Previous registration of TORCH_LIBRARY was registered at "
                                   f"{_defined_at[ns]}; latest registration was registered at {source}")
            _defined_at[ns] = source
            self._undo.append(lambda: _forget(ns, source))
        weakref.finalize(self, _undo_all, self._undo)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declares an operator, and gives its qualified name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
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
        operator.tags = list(tags) if isinstance(tags, (tuple, list, set, frozenset)) else [tags]
        registry.register_kernel(name, DispatchKey.Autograd, Around(without_autograd))
        for register in _waiting.pop(name, ()):
            register()
        self._undo.append(lambda: _remove(name, operator))
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Gives an operator a kernel for a key; without one, for all devices, as what it is made of."""
        if self.ns in _DECLARED_HERE:
            return
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        name = op_name if isinstance(op_name, str) else op_name.name() if callable(op_name.name) else op_name.name
        name = name if "::" in name else f"{self.ns}::{name}"
        if dispatch_key and self.dispatch_key and dispatch_key != self.dispatch_key:
            raise RuntimeError(f'impl("{name.partition("::")[2]}", ...): Explicitly provided dispatch key '
                               f"({dispatch_key}) is inconsistent with the dispatch key of the enclosing "
                               f"TORCH_LIBRARY_IMPL block ({self.dispatch_key}).  Please declare a separate "
                               "TORCH_LIBRARY_IMPL block for this dispatch key and move your impl() there.")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if not _is_declared(name):
            _waiting.setdefault(name, []).append(
                lambda: self.impl(name, fn, dispatch_key, with_keyset=with_keyset, allow_override=allow_override)
            )
            return
        operator = _existing(name)
        known = _registered.setdefault(operator.name, {})
        if not allow_override and key in known:
            raise RuntimeError("This is not allowed since there's already a kernel registered from python overriding "
                               f"{name.partition('::')[2]}'s behavior for {key} dispatch key and {self.ns} namespace.")
        if key == "Meta" and "CompositeImplicitAutograd" in known:
            raise RuntimeError(f"We should not register a meta kernel directly to the operator '{operator.name}', "
                               "because it has a CompositeImplicitAutograd kernel in core. Instead we should let the "
                               "operator decompose, and ensure that we have meta kernels for the base ops that it "
                               "decomposes into.")
        keys = _keys_named(key)
        registration = _Registration()
        self._undo.append(_restoring(operator, key, keys, registration))
        known[key] = registration
        if fn is fallthrough_kernel:
            for each in keys:
                registry.register_fallthrough(operator.name, each)
            return
        if key == "CompositeImplicitAutograd" and has_fallback(operator):
            operator.kernels.pop(DispatchKey.Autograd)  # what it calls is recorded
        kernel = _kernel(operator, fn, with_keyset)
        for each in keys:
            if key in _COMPOSITE and each.name in known:
                continue  # which a device has its own kernel for
            registry.register_kernel(operator.name, each, kernel)

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Gives all operators that have none of their own a kernel for a key: `fn(op, *args, **kwargs)`."""
        key = dispatch_key or self.dispatch_key
        if self.ns != "_":
            raise RuntimeError("Fallback can only be registered using library fragment on the global namespace \"_\" "
                               f"but it is {self.ns}")
        if not key:
            raise AssertionError("dispatch_key must be specified")
        for each in _keys_named(key):
            earlier = registry.backend_select.get(each)

            def make(operator: Operator, mask: int) -> Callable:
                def kernel(*values: Any) -> Any:
                    args, kwargs = handler_arguments(operator.schema, values)
                    given = (DispatchKeySet(mask),) if with_keyset else ()
                    return fn(*given, overload_for(operator, values), *args, **kwargs)

                return kernel

            registry.register_for_all(each, PerKeys(make))
            self._undo.append(lambda each=each, earlier=earlier: _put_back(each, earlier))  # type: ignore[misc]

    def m(self) -> None:
        """The library of PyTorch's extension, of which there is none."""

    def _register_fake(self, op_name: str, fn: Callable, *, allow_override: bool = True) -> None:
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        handle = singleton.find(name).fake_impl.register(fn, get_source(), self, allow_override=allow_override)
        self._registration_handles(handle)

    def _register_torch_dispatch_rule(self, op_name: str, torch_dispatch_class: Any, fn: Callable) -> None:
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        self._registration_handles(singleton.find(name).torch_dispatch_rules.register(torch_dispatch_class, fn))

    def _registration_handles(self, handle: RegistrationHandle) -> None:
        self._undo.append(handle.destroy)

    def _give_up(self, name: str) -> None:
        """Frees the name of an operator; who has it can still call it, with the kernels that it has."""
        self._undo.clear()
        singleton.find(name).fake_impl.kernels.clear()
        if name in registry:
            _remove(name, registry.get(name))

    def _destroy(self) -> None:
        """Takes out what this library defined, and puts back what it replaced."""
        _undo_all(self._undo)


_RESERVED = ("prim",)


def _undo_all(steps: list[Callable[[], None]]) -> None:
    while steps:
        steps.pop()()


def _forget(ns: str, source: str) -> None:
    if _defined_at.get(ns) == source:
        del _defined_at[ns]


def _remove(name: str, operator: Operator) -> None:
    _registered.pop(name, None)
    if name in registry and registry.get(name) is operator:
        registry.remove(name)


def _put_back(key: DispatchKey, earlier: Any) -> None:
    if earlier is None:
        registry.backend_select.pop(key, None)
        for operator in registry:
            operator.table.clear()
    else:
        registry.register_for_all(key, earlier)


def _restoring(operator: Operator, name: str, keys: tuple[DispatchKey, ...], mine: _Registration) -> Callable[[], None]:
    """What takes a registration back: the kernels are again what they are now."""
    touched = (*keys, DispatchKey.Autograd)
    before = {key: operator.kernels.get(key) for key in touched}
    passed = operator.fallthrough & set(touched)
    known = _registered.get(operator.name, {}).get(name)

    def undo() -> None:
        mine.alive = False
        current = _registered.get(operator.name, {})
        if current.get(name) is not mine:
            return  # another registration has taken its place
        for key, kernel in before.items():
            if kernel is None:
                operator.kernels.pop(key, None)
            else:
                operator.kernels[key] = kernel
        operator.fallthrough -= set(touched)
        operator.fallthrough |= passed
        registry.changed(operator)
        del current[name]
        if known is not None:
            current[name] = known

    return undo


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that is gone at the end of the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def _is_declared(name: str) -> bool:
    return name in registry or name.partition(".")[0] in registry


def _existing(name: str) -> Operator:
    """The operator of a qualified name; `aten::add.Tensor` also finds an operator declared without overloads."""
    if name in registry:
        return registry.get(name)
    base = name.partition(".")[0]
    return registry.get(base if base in registry else name)


def _kernel(operator: Operator, function: Callable, with_keyset: bool = False) -> Any:
    """A user's function as a kernel: called as handlers are, without trailing defaults, keyword-only ones by name.

    What a kernel of a declared operator calls is not recorded: the operator has the derivative.
    """
    schema = operator.schema
    declared = operator.declaration is not None

    def run(keyset: tuple, values: tuple) -> Any:
        args, kwargs = handler_arguments(schema, values)
        if not declared:
            return function(*keyset, *args, **kwargs)
        with changed_modes(exclude=modes.exclude | AUTOGRAD_MASK | VIEW_MASK):
            return function(*keyset, *args, **kwargs)

    if with_keyset:
        return PerKeys(lambda operator, mask: lambda *values: run((DispatchKeySet(mask),), values))
    return lambda *values: run((), values)


def _library_for(lib: Library | None, name: str) -> Library:
    """The library to register with; without one given, one that stays."""
    if lib is None:
        lib = Library(name.partition("::")[0], "FRAGMENT")
        _kept.append(lib)
    return lib


def define(qualname: Any, schema: str, *, lib: Library | None = None, tags: Any = (), alias_analysis: str = "") -> Any:
    """Declares `ns::name` with a schema given without the name: "(Tensor x) -> Tensor".

    An older form names a library and a whole schema, and decorates the function.
    """
    if isinstance(qualname, Library):
        library, name = qualname, qualname.define(schema, alias_analysis, tags=tags)

        def add(function: Callable) -> Callable:
            library.impl(name, function)
            return function

        return add
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    name = parse_namespace(qualname)[1]
    if not _SIGNATURE.fullmatch(schema):
        raise ValueError('define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but '
                         f'got "{schema}"')
    _library_for(lib, qualname).define(name + schema, alias_analysis="", tags=tags)
    return None


_SIGNATURE = re.compile(r"\(.*\) -> .*", re.S)


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
    keys = []
    for kind in (types,) if isinstance(types, str) else types:
        lowered = kind.lower()
        if lowered == "default":
            keys.append("CompositeExplicitAutograd")
        elif lowered in DEVICE_MASKS:
            keys.append(DispatchKey(DEVICE_MASKS[lowered].bit_length() - 1).name)
        elif lowered in _DEVICE_TYPES:
            keys.append({"privateuseone": "PrivateUse1"}.get(lowered, lowered.upper()))
        elif _is_key(kind):
            keys.append(kind)
        else:
            raise RuntimeError(f"Expected one of {', '.join(_DEVICE_TYPES[:-1])} device type at start of device "
                               f"string: {kind}")

    def register(function: Callable) -> Callable:
        library = _library_for(lib, qualname)
        for key in keys:
            library.impl(qualname, function, key)
        return function

    return register if func is None else register(func)


def _is_key(name: str) -> bool:
    return name in _COMPOSITE or name in DispatchKey.__members__ or name in _FOREIGN_DEVICES


def _name_of(op: Any) -> str:
    if isinstance(op, (str, CustomOpDef)):
        return op if isinstance(op, str) else op._qualname
    name = getattr(op, "name", None)
    if name is None:
        raise ValueError(f"unrecognized op type: {type(op)}, expected the name of an operator or an operator")
    return name() if callable(name) else name


def register_fake(
    op: Any, func: Callable | None = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = True
) -> Any:
    """Gives an operator its Meta kernel: a function that makes results of the right shape and type."""

    def register(function: Callable) -> Callable:
        name = _name_of(op)
        if name.partition("::")[0] in _DECLARED_HERE:
            return function
        if name in OPDEFS and lib is not OPDEFS[name]._lib and lib is None:
            OPDEFS[name]._abstract_fn = function
        if not _is_declared(name):
            _waiting.setdefault(name, []).append(lambda: registry.register_kernel(name, DispatchKey.Meta, function))
        else:
            library = lib if lib is not None else OPDEFS[name]._lib if name in OPDEFS else _library_for(None, name)
            library._register_fake(name, function, allow_override=allow_override)
        return function

    return register if func is None else register(func)


def impl_abstract(qualname: Any, func: Callable | None = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """The earlier name of register_fake."""
    return register_fake(qualname, func, lib=lib)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Gives an operator a kernel for some device types, or for all with None."""
    name = _name_of(op)
    if name in OPDEFS:
        return OPDEFS[name].register_kernel(device_types, func)
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Lets autocast on a device type bring the operator's floating-point arguments to a type."""
    from .amp._casts import cast, state

    if device_type not in ("cpu", "cuda", "npu"):
        raise ValueError(f"Unknown device type: {device_type}")
    operator = _existing(_name_of(op))
    kinds = _CASTS.setdefault(operator.name, {})
    kinds[device_type] = cast_inputs

    def make(operator: Operator, below: Callable, mask: int) -> Callable:
        device = next((key.name.lower() for key in reversed(BACKENDS) if mask >> key & 1), "cpu")
        target = kinds.get(device)

        def kernel(*args: Any) -> Any:
            if target is None or device not in state.enabled:
                return below(*args)
            with changed_modes(exclude=modes.exclude | AUTOCAST_MASK):
                given = cast(args, target, device)
            return below(*given)

        return kernel

    registry.register_kernel(operator.name, DispatchKey.Autocast, Around(make))


_CASTS: dict[str, dict[str, Any]] = {}


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Callable | None = None, /, *,
                            lib: Library | None = None) -> Any:
    """Gives an operator a rule for a class of tensors or modes, in the place of their `__torch_dispatch__`."""
    name = _name_of(op)

    def register(function: Callable) -> Callable:
        library = lib or (OPDEFS[name]._lib if name in OPDEFS else _library_for(None, name))
        library._register_torch_dispatch_rule(name, torch_dispatch_class, function)
        return function

    return register if func is None else register(func)


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Gives an operator its rule for vmap: `func(info, in_dims, *args)` returns (outputs, out_dims)."""
    from ._functorch.autograd_function import operator_rule
    from ._functorch.batching import CUSTOM

    operator = _existing(_name_of(op))
    _refuse_keyword_tensors("register_vmap", operator)

    def register(function: Callable) -> None:
        CUSTOM[operator.name] = operator_rule(function)

    return register if func is None else register(func)


def _refuse_keyword_tensors(what: str, operator: Operator) -> None:
    schema = parse_schema(operator.schema.text)
    if operator.declaration is None and has_kwarg_only_tensors(schema):
        begin = KEYWORD_TENSORS.format("In the original definition of the op, p")
        raise NotImplementedError(f"{what}{begin}{operator.schema}")


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """Gives an operator its derivative: `setup_context(ctx, inputs, output)` and `backward(ctx, *grads)`."""
    name = _name_of(op)
    if name.partition("::")[0] in _DECLARED_HERE:
        return
    if name in OPDEFS:
        OPDEFS[name].register_autograd(backward, setup_context=setup_context)
        return
    operator = _existing(name)
    schema = parse_schema(operator.schema.text)
    if schema.is_mutable:
        out = any(a.is_out for a in schema.arguments)
        why = ("Out variants do not support autograd." if out else
               "Please create a functional operator and register an autograd formula for that.")
        raise RuntimeError(f"Cannot register autograd formula for {'' if out else 'non-functional '}operator {name} "
                           f"with schema {operator.schema}. {why}")
    _refuse_keyword_tensors("register_autograd", operator)
    registry.register_kernel(operator.name, DispatchKey.Autograd, Around(custom_autograd(backward, setup_context)))


class SafeKernelFunction:
    """A kernel of an operator for a key, as long as it is registered."""

    def __init__(self, operator: Operator, key: DispatchKey, registration: _Registration | None) -> None:
        self._operator, self._key, self._registration = operator, key, registration
        kernel = operator.kernels[key]
        mask = 1 << key
        if isinstance(kernel, Around):
            kernel = kernel.make(operator, operator.lookup(mask - 1 & mask), mask)
        elif isinstance(kernel, PerOperator):
            kernel = kernel.make(operator)
        elif isinstance(kernel, PerKeys):
            kernel = kernel.make(operator, mask)
        self._function = kernel.function if isinstance(kernel, Lazy) else kernel

    def op_handle(self) -> OpOverload:
        return overload_for(self._operator, ())

    def call_boxed(self, keys: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Runs it, below all other keys."""
        if self._registration is not None and not self._registration.alive:
            raise RuntimeError(f"The kernel of {self._operator.name} for {self._key.name} has been invalidated: its "
                               "library was destroyed.")
        return self._function(*self._operator.schema.bind(args, kwargs))


def get_kernel(op: Any, dispatch_key: Any) -> SafeKernelFunction:
    """The kernel that an operator has for a key now."""
    name = _name_of(op)
    key = dispatch_key.name if isinstance(dispatch_key, DispatchKey) else str(dispatch_key)
    if name not in registry and name.partition(".")[0] not in registry:
        raise RuntimeError(f"Operator {name} does not exist")
    operator = _existing(name)
    found = next((k for k in _keys_named(key) if k in operator.kernels), None)
    if found is None:
        raise RuntimeError(f"No kernel for {name} at dispatch key {key}")
    return SafeKernelFunction(operator, found, _registered.get(operator.name, {}).get(key))
