"""Functions that stand for an operator on tensors without elements."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from .utils import Kernel, RegistrationHandle


class FakeImplHolder:
    """The functions registered for one operator, the last in force."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.kernels: list[Kernel] = []

    @property
    def kernel(self) -> Kernel | None:
        return self.kernels[-1] if self.kernels else None

    def register(self, func: Callable, source: str, lib: Any, *, allow_override: bool = True) -> RegistrationHandle:
        """Puts a function in force, as the operator's Meta kernel; the handle takes it back."""
        from ..library import registered_keys

        keys = registered_keys(self.qualname)
        if not allow_override:
            if self.kernel is not None:
                raise RuntimeError(f"register_fake(...): the operator {self.qualname} already has a fake impl "
                                   f"registered at {self.kernel.source}.")
            if "Meta" in keys:
                raise RuntimeError(f"register_fake(...): the operator {self.qualname} already has a DispatchKey::Meta "
                                   "implementation via a pre-existing torch.library or TORCH_LIBRARY registration. "
                                   "Please either remove that registration or don't call register_fake.")
        kernel = Kernel(func, source)
        lib.impl(self.qualname, construct_meta_kernel(self.qualname, kernel), "Meta", allow_override=True)
        self.kernels.append(kernel)

        def deregister() -> None:
            self.kernels.remove(kernel)

        return RegistrationHandle(deregister)


def construct_meta_kernel(qualname: str, kernel: Kernel) -> Callable:
    """The Meta kernel that runs a fake function."""

    def meta_kernel(*args: Any, **kwargs: Any) -> Any:
        with set_ctx_getter(lambda: _current_ctx(qualname, kernel.source)):
            return kernel.func(*args, **kwargs)

    return meta_kernel


def _current_ctx(qualname: str, source: str) -> "FakeImplCtx":
    from .._subclasses.fake_tensor import FakeTensorMode
    from .._torch_dispatch import dispatch_modes
    from .utils import lookup_op

    mode = next((m for m in reversed(dispatch_modes()) if isinstance(m, FakeTensorMode)), _running_mode())
    if mode is None:
        raise RuntimeError(f"{qualname} ({source}): You're trying to run this operator with meta Tensors (as opposed "
                           "to FakeTensors), but this operator may return an output Tensor with data-dependent shape. "
                           "Meta Tensors don't support operators with outputs that have data-dependent shapes but "
                           "FakeTensors do. If your operator does not return an output with data-dependent shape, make "
                           "sure the FakeTensor and/or meta kernel does not call torch.library.get_ctx(). Otherwise, "
                           "please use FakeTensors.")
    return FakeImplCtx(mode, lookup_op(qualname))


def _running_mode() -> Any:
    from .._subclasses.fake_tensor import running_mode

    return running_mode()


_getter: ContextVar[Callable[[], Any] | None] = ContextVar("fake_impl_ctx", default=None)


@contextlib.contextmanager
def set_ctx_getter(ctx_getter: Callable[[], Any]) -> Iterator[None]:
    """Context in which a fake function finds what it is run for."""
    token = _getter.set(ctx_getter)
    try:
        yield
    finally:
        _getter.reset(token)


def get_ctx() -> Any:
    """What a fake function is run for; None outside of all."""
    getter = _getter.get()
    return None if getter is None else getter()


class FakeImplCtx:
    """What a fake function may ask for: sizes that depend on elements."""

    def __init__(self, _fake_mode: Any, _op: Any) -> None:
        self._fake_mode, self._op = _fake_mode, _op
        self._shape_env = _fake_mode.shape_env

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> int:  # noqa: A002 - PyTorch's names
        return self.new_dynamic_size(min=min, max=max)

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:  # noqa: A002 - PyTorch's names
        """Raises: sizes here are numbers, and none is known without elements."""
        from .._subclasses.fake_tensor import DynamicOutputShapeException

        if min < 0:
            raise ValueError(f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal to 0: "
                             "this API can only create non-negative sizes.")
        raise DynamicOutputShapeException(self._op)
