"""torch._prims_common.wrappers: decorators of references. The functions here take `out=` and promote types already."""

from collections.abc import Callable
from typing import Any


def out_wrapper(*out_names: str, exact_dtype: bool = False, pass_is_out: bool = False,
                preserve_memory_format: bool = False) -> Callable:
    """Gives a function an `out=`: its results are copied into the tensors given, resized where they must be."""

    def decorate(function: Callable) -> Callable:
        def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            made = function(*args, is_out=out is not None, **kwargs) if pass_is_out else function(*args, **kwargs)
            if out is None:
                return made
            for target, value in zip(_listed(out), _listed(made), strict=True):
                _safe_copy_out(copy_from=value, copy_to=_maybe_resize_out(target, value.shape), exact_dtype=exact_dtype)
            return out

        with_out.__name__, with_out.__doc__, with_out.__wrapped__ = (  # type: ignore[attr-defined]
            function.__name__, function.__doc__, function)
        return with_out

    return decorate


def _listed(value: Any) -> list:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _maybe_resize_out(out: Any, shape: Any, memory_format: Any = None) -> Any:
    return out if out.shape == shape else out.resize_(shape)


def _safe_copy_out(*, copy_from: Any, copy_to: Any, exact_dtype: bool = False) -> Any:
    """Copies a result into the tensor that was given for it, if its type can be."""
    from .. import can_cast

    if exact_dtype and copy_from.dtype is not copy_to.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {copy_from.dtype} but got {copy_to.dtype} instead")
    if not can_cast(copy_from.dtype, copy_to.dtype):
        raise RuntimeError(f"Attempting to cast from {copy_from.dtype} to out tensor with dtype {copy_to.dtype}, but "
                           "this can't be cast because it is not safe!")
    return copy_to.copy_(copy_from)


def _maybe_remove_out_wrapper(fn: Callable) -> Callable:
    return getattr(fn, "__wrapped__", fn)
