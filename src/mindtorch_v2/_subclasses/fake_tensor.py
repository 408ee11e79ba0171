"""Fake tensors: geometry, type and a device, but no elements, so that a program runs without computing anything.

A FakeTensor has a Meta tensor's array under the device it pretends to be on. Operators on fake tensors, and all that
run under a FakeTensorMode, are answered by the Meta kernels; their results are fake tensors again.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from .._core.device import CPU, META
from .._core.device import device as _device
from .._core.dtype import bool_, uint8
from .._core.tensor import Tensor
from .._core.tensor_base import fields_of
from .._dispatch.keys import DEVICE_MASKS, META_MASK, SUBCLASS_MASK, TORCH_DISPATCH_MASK, modes
from .._torch_dispatch import dispatch_modes
from ..utils._python_dispatch import TorchDispatchMode, _disable_current_modes, return_and_correct_aliasing
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from .meta_utils import MetaConverter

CONSTANT_NUMEL_LIMIT = 1

# Operators whose answer depends on elements.
_READS = frozenset("_local_scalar_dense item equal allclose is_nonzero".split())
_LIFTS = frozenset(("lift_fresh", "lift", "lift_fresh_copy"))


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that has no fake form."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _OfOperator(RuntimeError):
    """An operator that cannot be answered without elements."""

    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(_OfOperator):
    """The shape of its result depends on elements."""


class DataDependentOutputException(_OfOperator):
    """Its result is a number that depends on elements."""


class UnsupportedOperatorException(_OfOperator):
    """It has no Meta kernel."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """Operands that are on several devices."""


class UnsupportedMutationAliasingException(RuntimeError):
    """A write that a fake tensor cannot follow."""


class MetadataMismatchError(RuntimeError):
    """A fake result that differs from the real one."""


class FakeTensorConfig:
    """Switches that programs set."""

    debug = False


class FakeTensor(Tensor):
    """A tensor on `fake_device` without elements, made by a FakeTensorMode."""

    fake_device: _device
    fake_mode: "FakeTensorMode"
    constant: Tensor | None

    @staticmethod
    def __new__(cls: Any, fake_mode: "FakeTensorMode", elem: Tensor, device: Any,  # noqa: PLW0211
                constant: Tensor | None = None, **more: Any) -> Any:
        if elem.device.type != "meta":
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device.type}")
        where = _device(device)
        if where.index is None and where.type in ("cuda", "npu", "xpu", "hpu", "mtia"):
            where = _device(where.type, 0)
        made = elem._alias(cls)
        made._device, made._keys = where, DEVICE_MASKS[where.type] | cls._keys & SUBCLASS_MASK
        made.fake_mode, made.fake_device, made.constant = fake_mode, where, constant
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done in `__new__`."""

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: "FakeTensorMode") -> "FakeTensor":
        return fake_mode.from_tensor(t)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        found = {t.fake_mode for t in tree_leaves((args, kwargs)) if isinstance(t, FakeTensor)}
        first = next(iter(found))
        for other in found - {first}:
            raise AssertionError(f"Mixing fake modes NYI x.fake_mode={first} vs self={other}")
        if first in dispatch_modes():
            return NotImplemented
        with first:
            return func(*args, **(kwargs or {}))

    def tolist(self) -> Any:
        if self.dim() == 0:
            return self.item()
        return [row.tolist() for row in self.unbind(0)]

    def data_ptr(self) -> int:
        warnings.warn("Accessing the data pointer of FakeTensor is deprecated and will error in PyTorch 2.5. This is "
                      "almost definitely a bug in your code and will cause undefined behavior with subsystems like "
                      "torch.compile. Please wrap calls to tensor.data_ptr() in an opaque custom op; If all else "
                      "fails, you can guard accesses to tensor.data_ptr() on isinstance(tensor, FakeTensor).",
                      stacklevel=2)
        return 0

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        parts = [f"size={tuple(self.shape)}"]
        if self.fake_device is not CPU:
            parts.insert(0, f"device='{self.fake_device}'")
        from .. import get_default_dtype

        if self.dtype is not get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        shown = f"FakeTensor(..., {', '.join(parts)})"
        return f"Parameter({shown})" if getattr(self, "_is_param", False) else shown


def _meta_of(t: FakeTensor) -> Tensor:
    """The Meta tensor that a fake one is, on the same storage."""
    made = object.__new__(Tensor)
    fields_of(made).update({name: value for name, value in fields_of(t).items() if name in _OF_META})
    made._device, made._keys = META, META_MASK
    return made


_OF_META = frozenset(("_array", "_offset", "_storage"))


class FakeTensorMode(TorchDispatchMode):
    """Inside, operators compute nothing: factories make fake tensors and operators answer with fake tensors."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __init__(self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
                 shape_env: Any = None, static_shapes: bool | None = None, export: bool = False) -> None:
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.export = shape_env, export
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.fake_tensor_converter = FakeTensorConverter()
        self.in_kernel_invocation = False
        self._entered: list[bool] = []

    def __enter__(self) -> "FakeTensorMode":
        stack = dispatch_modes()
        outer = next((m for m in reversed(stack) if isinstance(m, FakeTensorMode)), None)
        self._entered.append(outer is not self)
        return super().__enter__() if outer is not self else self

    def __exit__(self, *exception: Any) -> None:
        if self._entered.pop():
            super().__exit__(*exception)

    def from_tensor(self, tensor: Tensor, *, static_shapes: bool | None = None, source: Any = None,
                    symbolic_context: Any = None, trace: bool = True) -> "FakeTensor":
        """The fake tensor that stands for a real one; always the same for the same."""
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self.dispatch(func, types, args, kwargs or {})

    def dispatch(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """An operator answered by its Meta kernel."""
        kwargs = dict(kwargs or {})
        if any(issubclass(t, Tensor) and t is not Tensor and not issubclass(t, FakeTensor) and t not in _plain_classes()
               for t in types):
            return NotImplemented
        name = func._opname
        if name in _LIFTS:
            (real,) = args
            if isinstance(real, FakeTensor):
                return real
            return self.fake_tensor_converter.from_constant(self, real)
        args, kwargs, fakes = self._faked(func, args, kwargs)
        constant = self._constant(func, name, args, kwargs, fakes)
        if name in _READS and constant is not None:
            return constant
        if name in _READS:
            raise DataDependentOutputException(func)
        if getattr(func._operator.declaration, "sized_by_data", False) and kwargs.get("output_size") is None:
            raise DynamicOutputShapeException(func)
        if name == "index" and any(i is not None and i.dtype in (bool_, uint8) for i in args[1]):
            raise DynamicOutputShapeException(_nonzero())
        where = self._device_of_result(func, fakes, kwargs)
        metas = {id(t): _meta_of(t) for t in fakes}
        given, named = tree_map_only(FakeTensor, lambda t: metas[id(t)], (args, kwargs))
        if "device" in named or not fakes:
            named["device"] = META
        result = self._run(func, given, named)
        owners = {id(metas[id(t)]): t for t in fakes}
        self._follow(func, args, kwargs, metas)

        def wrapped(value: Tensor) -> Any:
            owner = owners.get(id(value))
            if owner is not None:
                return owner
            return FakeTensor(self, value, where)

        made = tree_map_only(Tensor, wrapped, result)
        if constant is not None and isinstance(made, FakeTensor):
            made.constant = constant
        return return_and_correct_aliasing(func, args, kwargs, made)

    def _run(self, func: Any, args: tuple, kwargs: dict) -> Any:
        self.in_kernel_invocation = True
        running: list[FakeTensorMode] = modes.__dict__.setdefault("fake_modes", [])
        running.append(self)
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            raise UnsupportedOperatorException(func) from error
        finally:
            self.in_kernel_invocation = False
            running.pop()

    def _faked(self, func: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict, list[FakeTensor]]:
        """The arguments with fake tensors only, and those."""
        flat, spec = tree_flatten((args, kwargs))
        fakes: dict[int, FakeTensor] = {}
        for i, value in enumerate(flat):
            if not isinstance(value, Tensor):
                continue
            if not isinstance(value, FakeTensor):
                if not self.allow_non_fake_inputs and value.device is not META:
                    shown = _rendered(func, args, kwargs)
                    raise AssertionError("Please convert all Tensors to FakeTensors first or instantiate "
                                         f"FakeTensorMode with 'allow_non_fake_inputs'. Found in {shown}")
                value = flat[i] = self.fake_tensor_converter.from_real_tensor(self, value)
            elif value.fake_mode is not self:
                raise AssertionError(f"Mixing fake modes NYI x.fake_mode={value.fake_mode} vs self={self}")
            fakes[id(value)] = value
        args, kwargs = tree_unflatten(flat, spec)
        return args, kwargs, list(fakes.values())

    def _constant(self, func: Any, name: str, args: tuple, kwargs: dict, fakes: list[FakeTensor]) -> Any:
        """What an operator gives for tensors whose one element is known; None if it is not."""
        if not fakes or any(t.constant is None for t in fakes) or "device" in kwargs:
            for target in _written(func, args, kwargs):
                target.constant = None
            return None
        real = tree_map_only(FakeTensor, lambda t: t.constant, (args, kwargs))
        with _disable_current_modes():
            made = func(*real[0], **real[1])  # a write is one to the constants, too
        if name in _READS:
            return made
        if func._operator.schema.writes:
            return None
        return made if isinstance(made, Tensor) and made.numel() <= CONSTANT_NUMEL_LIMIT else None

    def _device_of_result(self, func: Any, fakes: list[FakeTensor], kwargs: dict) -> _device:
        """The device that was asked for, or that of the operands; tensors of no dimension on the CPU go anywhere."""
        asked = kwargs.get("device")
        if asked is not None:
            return _device(asked)
        found: FakeTensor | None = None
        for t in fakes:
            if found is None or _goes_anywhere(found) and not _goes_anywhere(t):
                found = t
            elif t.fake_device is not found.fake_device and not _goes_anywhere(t):
                raise FakeTensorDeviceMismatchError("Expected all tensors to be on the same device, but found at least "
                                                    f"two devices, {found.fake_device} and {t.fake_device}!")
        if found is not None:
            return found.fake_device
        from .. import get_default_device

        return get_default_device()

    @staticmethod
    def _follow(func: Any, args: tuple, kwargs: dict, metas: dict[int, Tensor]) -> None:
        """Takes over the geometry of what was written in place, which `t_` or `resize_` may have changed."""
        for target in _written(func, args, kwargs):
            meta = metas[id(target)]
            for name in _OF_META:
                if name in fields_of(meta):
                    fields_of(target)[name] = fields_of(meta)[name]


def running_mode() -> FakeTensorMode | None:
    """The mode that a Meta kernel is run for, if one is."""
    running = modes.__dict__.get("fake_modes")
    return running[-1] if running else None


def _nonzero() -> Any:
    from .. import ops

    return ops.aten.nonzero.default  # which a mask becomes


def _written(func: Any, args: tuple, kwargs: dict) -> list[FakeTensor]:
    """The arguments that a call writes to."""
    targets = [args[i] if i < len(args) else kwargs.get(argument.name)
               for i, argument in enumerate(func._operator.schema.arguments) if argument.writes]
    return [t for t in tree_leaves([*targets, kwargs.get("out")]) if isinstance(t, FakeTensor)]


def _goes_anywhere(t: FakeTensor) -> bool:
    return t.fake_device is CPU and t.dim() == 0


def _plain_classes() -> tuple[type, ...]:
    from ..nn.parameter import Buffer, Parameter

    return (Tensor, Parameter, Buffer)


def _rendered(func: Any, args: tuple, kwargs: dict) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, FakeTensor):
            return repr(value)
        if isinstance(value, Tensor):
            return f"tensor([...], size={tuple(value.shape)})"
        return repr(value)

    parts = [shown(a) for a in args] + [f"{name}={shown(value)}" for name, value in kwargs.items()]
    return f"{func}({', '.join(parts)})"


class FakeTensorConverter:
    """Fake tensors of real ones, remembered while the real ones live."""

    def __init__(self, *, copy_data: bool = False, export: bool = False) -> None:
        self.meta_converter = MetaConverter(copy_data=copy_data)

    @property
    def tensor_memo(self) -> Any:
        return self.meta_converter.tensor_memo

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **more: Any) -> FakeTensor:
        def make(meta: Callable[[], Tensor], where: _device) -> FakeTensor:
            with _disable_current_modes():
                return FakeTensor(fake_mode, meta(), where)

        with fake_mode if fake_mode not in dispatch_modes() else nullcontext():
            made = self.meta_converter(t, callback=make)
        if made is NotImplemented:
            raise UnsupportedFakeTensorException("meta converter nyi")
        return made

    def from_constant(self, fake_mode: FakeTensorMode, t: Tensor) -> FakeTensor:
        """A fake tensor whose elements are known, while nothing is written to it."""
        with _disable_current_modes():
            meta = t.detach().to(META)
            made = FakeTensor(fake_mode, meta, t.device, constant=t.detach())
        if t.requires_grad:
            made.requires_grad_()
        return made

    def from_meta_and_device(self, fake_mode: FakeTensorMode, t: Tensor, device: Any, **more: Any) -> FakeTensor:
        return FakeTensor(fake_mode, t, device)


class FakeCopyMode:
    """A mode of functions in which deepcopy makes fake tensors of real ones."""

    def __new__(cls, fake_mode: FakeTensorMode) -> Any:
        from ..overrides import TorchFunctionMode

        class Mode(TorchFunctionMode):
            """Answers `clone` and `__deepcopy__`."""

            def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
                if func is Tensor.clone:
                    return func(fake_mode.from_tensor(args[0]), **(kwargs or {}))
                if func is Tensor.__deepcopy__:
                    tensor, memo = args
                    if id(tensor) not in memo:
                        memo[id(tensor)] = fake_mode.from_tensor(tensor)
                    return memo[id(tensor)]
                return func(*args, **(kwargs or {}))

        return Mode()


def _is_tensor_constructor(func: Any) -> bool:
    """Whether an overload makes one tensor out of none."""
    schema = func._operator.schema
    takes_one = any(argument.type == "Tensor" or argument.name == "self" for argument in schema.arguments)
    return not takes_one and [value.type for value in schema.returns] == ["Tensor"]


def is_fake(x: object) -> bool:
    """Whether a value is a fake tensor, or one that is made of them."""
    from ..utils._python_dispatch import is_traceable_wrapper_subclass

    if isinstance(x, FakeTensor):
        return True
    if isinstance(x, Tensor) and is_traceable_wrapper_subclass(x):
        return all(is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0])  # type: ignore[attr-defined]
    return False


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    if isinstance(t, FakeTensor):
        return t.fake_mode
    if is_fake(t):
        return maybe_get_fake_mode(getattr(t, t.__tensor_flatten__()[0][0]))  # type: ignore[attr-defined]
    return None


def get_plain_tensors(subclass: Any, *, out: list) -> list:
    """The plain tensors that a wrapper is made of, at any depth."""
    names, _ = subclass.__tensor_flatten__()
    for name in names:
        inner = getattr(subclass, name)
        if hasattr(inner, "__tensor_flatten__"):
            get_plain_tensors(inner, out=out)
        else:
            out.append(inner)
    return out


@contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Context in which the innermost FakeTensorMode is out of force."""
    stack = dispatch_modes()
    at = next((i for i in range(len(stack) - 1, -1, -1) if isinstance(stack[i], FakeTensorMode)), None)
    if at is None:
        yield None
        return
    mode, include = stack.pop(at), modes.include
    modes.update(include=include if stack else include & ~TORCH_DISPATCH_MASK)
    try:
        yield mode
    finally:
        stack.insert(at, mode)
        modes.update(include=include)


@contextmanager
def in_kernel_invocation_manager(fake_mode: FakeTensorMode) -> Iterator[None]:
    """Context in which a fake mode's own kernels run."""
    before, fake_mode.in_kernel_invocation = fake_mode.in_kernel_invocation, True
    try:
        yield
    finally:
        fake_mode.in_kernel_invocation = before
