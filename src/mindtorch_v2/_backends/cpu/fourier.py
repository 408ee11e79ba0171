"""Fourier transforms by SciPy's loops, called without its front, which takes longer than a short transform."""

from typing import Any

import numpy as np

from ..._core.threads import get_num_threads
from ..fourier import Transforms

try:
    from scipy.fft._pocketfft import pypocketfft
except ImportError:  # another release may keep its loops elsewhere
    import scipy.fft

    pypocketfft = None

_LARGE = 1 << 15  # elements from which a transform is worth several threads
_COMPLEX = {np.dtype(real): np.dtype(kind) for real, kind in (("f", "F"), ("d", "D"), ("F", "F"), ("D", "D"))}
_REAL = {kind: real for real, kind in _COMPLEX.items() if real.kind == "f"}


def _room(shape: tuple[int, ...], kind: np.dtype, order: tuple[int, ...]) -> np.ndarray | None:
    """Memory for a result whose dimensions lie in that order; None for the usual one."""
    if order == tuple(range(len(shape))):
        return None
    return np.empty([shape[d] for d in order], kind).transpose([order.index(d) for d in range(len(shape))])


def _threads(array: np.ndarray) -> int:
    return 1 if array.size < _LARGE else get_num_threads()


def c2c(array: Any, dim: tuple[int, ...], forward: bool, normalization: int, order: tuple[int, ...]) -> Any:
    """All coefficients of complex or real numbers."""
    if array.dtype.kind == "f":
        return _mirrored(array, dim, forward, normalization, order)
    room = _room(array.shape, _COMPLEX[array.dtype], order)
    return pypocketfft.c2c(array, dim, forward, normalization, room, _threads(array))


def _mirrored(array: Any, dim: tuple[int, ...], forward: bool, normalization: int, order: tuple[int, ...]) -> Any:
    """All coefficients of real numbers: along the last dimension the second half mirrors the first."""
    last, size = dim[-1], array.shape[dim[-1]]
    made = _room(array.shape, _COMPLEX[array.dtype], order)
    made = np.empty(array.shape, _COMPLEX[array.dtype]) if made is None else made
    before = (slice(None),) * last
    half = made[(*before, slice(size // 2 + 1))]
    pypocketfft.r2c(array, (last,), forward, normalization, half, _threads(array))
    np.conjugate(made[(*before, slice((size - 1) // 2, 0, -1))], out=made[(*before, slice(size // 2 + 1, None))])
    if dim[:-1]:
        pypocketfft.c2c(made, dim[:-1], forward, normalization, made, _threads(array))
    return made


def r2c(array: Any, dim: tuple[int, ...], forward: bool, normalization: int, order: tuple[int, ...]) -> Any:
    """The coefficients of real numbers, half of the last dimension's."""
    shape, last = array.shape, dim[-1]
    room = _room((*shape[:last], shape[last] // 2 + 1, *shape[last + 1 :]), _COMPLEX[array.dtype], order)
    return pypocketfft.r2c(array, dim, forward, normalization, room, _threads(array))


def c2r(array: Any, dim: int, size: int, normalization: int, order: tuple[int, ...]) -> Any:
    """So many real numbers of which these are the coefficients; those that are missing are zeros."""
    shape, needed = array.shape, size // 2 + 1
    if shape[dim] != needed:
        fitting = np.zeros((*shape[:dim], needed, *shape[dim + 1 :]), array.dtype)
        common = (slice(None),) * dim + (slice(min(needed, shape[dim])),)
        fitting[common] = array[common]
        array = fitting
    room = _room((*shape[:dim], size, *shape[dim + 1 :]), _REAL[array.dtype], order)
    return pypocketfft.c2r(array, (dim,), size, False, normalization, room, _threads(array))


if pypocketfft is None:
    _public = Transforms(scipy.fft)
    c2c, r2c, c2r = _public.c2c, _public.r2c, _public.c2r
