"""Fourier transforms over a module with the functions of scipy.fft, of which CuPy has one too."""

from collections.abc import Callable, Sequence
from typing import Any

# By nothing, by the root of the number of elements, by that number: as these modules say it, which scale the inverse
# unless told otherwise.
_FORWARD, _INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


class Transforms:
    """Transforms along dimensions, whose results lie in memory in a given order of dimensions, outermost first."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def c2c(self, array: Any, dim: Sequence[int], forward: bool, normalization: int, order: Sequence[int]) -> Any:
        """All coefficients of complex or real numbers."""
        transform, norms = (self._module.fftn, _FORWARD) if forward else (self._module.ifftn, _INVERSE)
        return _in_order(transform, array, dim, order, norm=norms[normalization])

    def r2c(self, array: Any, dim: Sequence[int], forward: bool, normalization: int, order: Sequence[int]) -> Any:
        """The coefficients of real numbers, half of the last dimension's, forwards."""
        return _in_order(self._module.rfftn, array, dim, order, norm=_FORWARD[normalization])

    def c2r(self, array: Any, dim: int, size: int, normalization: int, order: Sequence[int]) -> Any:
        """So many real numbers of which these are the coefficients."""
        return _in_order(self._module.irfftn, array, (dim,), order, s=(size,), norm=_INVERSE[normalization])


def _in_order(transform: Callable, array: Any, dim: Sequence[int], order: Sequence[int], **options: Any) -> Any:
    """The transform of an array whose dimensions lie in that order, so that the result is written once, in place."""
    made = transform(array.transpose(order), axes=[order.index(d) for d in dim], **options)
    return made.transpose([order.index(d) for d in range(array.ndim)])
