"""What products of matrices share: their checks, and the way of plain ones straight into BLAS."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._backends.interface import Backend
from .._core.dtype import BOOL, dtype, uint16, uint32, uint64
from .._core.elements import type_text
from .._core.tensor import Tensor
from .._dispatch.registry import Operator
from ._declare.families import ArrayFamily
from ._declare.rules import Spec, c_name, shape_text

_NO_PRODUCT = frozenset((uint16, uint32, uint64))


def conj(tensor: Any) -> Any:
    """The complex conjugate; a real tensor as it is."""
    return tensor.conj_physical() if tensor.dtype.is_complex else tensor


def check_supported(kind: dtype, kernel: str, *factors: Tensor) -> None:
    if (kind.category == BOOL or kind in _NO_PRODUCT) and all(factor._array.size for factor in factors):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def times_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def check_chain(a: Sequence[int], b: Sequence[int]) -> None:
    """Raises unless a matrix of shape `a` can be multiplied by one of shape `b`."""
    if a[1] != b[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({times_text(a)} and {times_text(b)})")


def check_expands(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raises unless `tensor` can be expanded to `shape`."""
    own = tensor._array.shape
    if own == shape:
        return
    if len(own) > len(shape):
        raise RuntimeError(f"expand({type_text(tensor)}{{{shape_text(own)}}}, "
                           f"size={shape_text(shape)}): the number of sizes provided ({len(shape)}) must be greater or "
                           f"equal to the number of dimensions in the tensor ({len(own)})")
    for d in range(1, len(own) + 1):
        if own[-d] not in (1, shape[-d]):
            raise RuntimeError(f"The expanded size of the tensor ({shape[-d]}) must match the existing size "
                               f"({own[-d]}) at non-singleton dimension {len(shape) - d}.  Target sizes: "
                               f"{shape_text(shape)}.  Tensor sizes: {shape_text(own)}")


def check_same_mm(a: dtype, b: dtype) -> None:
    if a is not b:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {c_name(a)} != {c_name(b)}")


def check_same_addmm(a: dtype, b: dtype, name: str = "self") -> None:
    if a is not b:
        raise RuntimeError(f"{name} and mat2 must have the same dtype, but got {a.scalar_name} and {b.scalar_name}")


def check_same_scalar(expected: dtype, found: dtype) -> None:
    if expected is not found:
        raise RuntimeError(f"expected scalar type {expected.scalar_name} but found {found.scalar_name}")


def dot_spec(self: Tensor, other: Tensor) -> Spec:
    a, b = self._array.shape, other._array.shape
    if len(a) != 1 or len(b) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(a)}D and {len(b)}D tensors")
    kind = self.dtype
    if kind is not other.dtype:
        raise RuntimeError("dot : expected both vectors to have same dtype, but found "
                           f"{kind.scalar_name} and {other.dtype.scalar_name}")
    if a != b:
        raise RuntimeError(f"inconsistent tensor size, expected tensor {shape_text(a)} and src {shape_text(b)} to "
                           "have the same "
                           f"number of elements, but got {a[0]} and {b[0]} elements respectively")
    if kind.category == BOOL:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")
    check_supported(kind, "dot", self)
    return Spec((), kind)


def lies_turned(strides: tuple[int, ...] | None, rows: int, like: Any) -> bool:
    """Whether a matrix of so many rows, with elements as those of another tensor, lies column by column."""
    return strides == (like.itemsize, rows * like.itemsize)


def rows_of(array: Any) -> Any:
    """All leading dimensions as one."""
    return array if array.ndim == 2 else array.reshape((math.prod(array.shape[:-1]), array.shape[-1]))


class QuickFamily(ArrayFamily):
    """An operator with a way straight into BLAS for what nearly every call is: matrices of one plain type.

    `quick` takes the array namespace, and gives what takes the operator's arguments and gives the result, or None for a
    call that is not of that kind.
    """

    def __init__(self, infer: Callable, array: Callable, quick: Callable | None) -> None:
        super().__init__(infer, array, widen=True)
        self.quick = quick

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        general = super().kernel(operator, backend)
        if not backend.direct or self.quick is None:
            return general
        quick = self.quick(backend.xp)

        def kernel(*args: Any) -> Tensor:
            made = quick(*args)
            return general(*args) if made is None else made

        return kernel
