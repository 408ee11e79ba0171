"""Checks that raise unless a condition holds, as torch._check and its kind."""

from collections.abc import Callable
from typing import Any

from ..overrides import overridable
from .tensor import Tensor


@overridable
def _assert(condition: Any, message: str) -> None:
    """Raises AssertionError unless the condition holds."""
    if not bool(condition):
        raise AssertionError(message)


def _assert_async(condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """As `_assert` of a tensor with one element, with the error that a device would report later."""
    if condition.numel() != 1:
        count = "more than one value" if condition.numel() else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {count} is ambiguous")
    if not bool(condition):
        raise RuntimeError(message)


def _assert_tensor_metadata(a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
                            layout: Any = None) -> None:
    """Raises unless a tensor is as described; what is None is not looked at."""
    numbers = (None if given is None else list(given) for given in (size, stride))
    wanted = zip(("sizes", "strides", "dtype", "device", "layout"), (*numbers, dtype, device, layout),
                 (list(a.shape), list(a.stride()), a.dtype, a.device, a.layout), strict=True)
    for name, expected, found in wanted:
        if expected is not None and expected != found and str(expected) != str(found):
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {expected}, Got: {found}")


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Raises an error of that type, with the text that `message` makes, unless the condition holds."""
    if isinstance(cond, Tensor):
        raise TypeError("cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() "
                        "to assert that all elements are true.")
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        if message is not None and not callable(message):
            raise TypeError("message must be a callable")
        raise error_type("Expected cond to be True, but got False. (Could this error message be improved? If so, "
                         "please report an enhancement request to PyTorch.)" if message is None else str(message()))


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """The same for a boolean tensor all of whose elements must hold."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _raising(error_type: type[Exception]) -> Callable:
    def check(cond: Any, message: Callable[[], Any] | None = None) -> None:
        _check_with(error_type, cond, message)

    return check


_check = _raising(RuntimeError)
_check_index, _check_value, _check_type = _raising(IndexError), _raising(ValueError), _raising(TypeError)
_check_not_implemented = _raising(NotImplementedError)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None) -> None:
    """Raises unless a number can be a size."""
    _check(i >= 0, message)
