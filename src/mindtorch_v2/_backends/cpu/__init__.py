"""The CPU's array namespace: NumPy, with SciPy's special functions loaded when first used."""

import functools
import sys
from typing import Any

import numpy as np

from ..._core.computed import computed_once
from ..._core.dtype import row_major
from ..._core.geometry import strided_array
from . import blas_team, complex_numbers, convolution, lapack, matrices, programs, shared
from .blocks import in_blocks
from .bound import at_least, at_most
from .choose import where, zero_where
from .memory import keep_freed_memory
from .row_sums import bag_sums, by_rows, summed_rows

# atanh(erf(x)) / x as a polynomial in x squared: relative error of erf below 3e-7 for all x. Arrays without dimensions
# are taken in a quarter of the time of numbers, in which other threads wait for the interpreter.
_ERF_COEFFICIENTS = [np.array(c, np.float32) for c in (
    1.1283792, 0.10276905, -1.9183078e-4, -6.197847e-4, 8.763733e-5, -5.6684762e-6, 1.4185227e-7)]


def _erf32(xp: Any, x: Any) -> Any:
    square = x * x
    inner = square * _ERF_COEFFICIENTS[-1]
    for coefficient in _ERF_COEFFICIENTS[-2:0:-1]:
        inner += coefficient
        inner *= square
    inner += _ERF_COEFFICIENTS[0]
    inner *= x
    return np.tanh(inner)


_ONEDNN_SWITCHES = __package__.partition(".")[0] + ".backends.mkldnn"  # is loaded when a program asks for it


@functools.cache
def _onednn_kernels() -> Any:
    from .onednn import library

    if library() is None:
        return None
    from .kernels import onednn

    return onednn


def onednn_kernels() -> Any:
    """The kernels that are oneDNN's; None where it is not installed, or was switched off."""
    switches = sys.modules.get(_ONEDNN_SWITCHES)
    return _onednn_kernels() if switches is None or switches.enabled else None


class Namespace:
    """What array kernels call `xp`. A name NumPy lacks is looked up in scipy.special."""

    ndarray = np.ndarray
    where = staticmethod(where)
    zero_where = staticmethod(zero_where)
    at_least = staticmethod(at_least)
    at_most = staticmethod(at_most)
    summed_rows = staticmethod(summed_rows)
    bag_sums = staticmethod(bag_sums)
    by_rows = staticmethod(by_rows)
    uninitialised = staticmethod(strided_array)
    ascontiguousarray = staticmethod(row_major)
    lapack = lapack
    dot = staticmethod(matrices.dot)
    matmul = staticmethod(matrices.matmul)
    linear = staticmethod(matrices.linear)
    product = staticmethod(matrices.product)
    negative = staticmethod(complex_numbers.negative)
    reciprocal = staticmethod(complex_numbers.reciprocal)
    true_divide = staticmethod(complex_numbers.true_divide)

    @computed_once
    def map_along(self) -> Any:
        """Linear maps along one dimension, as `_ops/interpolation.py` has them, by compiled kernels."""
        from .kernels.resample import map_along

        return map_along

    @computed_once
    def places_by_looking(self) -> Any:
        """Where the elements of sorted rows are, for rows that are sorted already and for whole numbers."""
        from .kernels.sort import places_by_looking

        return places_by_looking

    @computed_once
    def spaced(self) -> Any:
        """Numbers from one to another in equal steps, by a compiled kernel."""
        from .kernels.fill import spaced

        return spaced

    @computed_once
    def fft(self) -> Any:
        """Fourier transforms, SciPy's: NumPy's, but many of one length at a time."""
        from . import fourier

        return fourier

    @property
    def convolution(self) -> Any:
        """What convolves: oneDNN, or products of matrices."""
        return onednn_kernels() or convolution

    def in_blocks(self, compute: Any, *arguments: Any) -> Any:
        """`compute(xp, *arguments)`, which works on each element alone, a part at a time that stays in cache."""
        return in_blocks(self, compute, *arguments)

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name, None)
        if value is None:
            import scipy.special

            value = getattr(scipy.special, name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return "<array namespace numpy>"

    def erf(self, x: Any, out: Any = None) -> Any:
        """The error function. SciPy's is slow on float32, for which a tanh of a polynomial is as exact."""
        if x.dtype != np.float32:
            import scipy.special

            return scipy.special.erf(x, out=out)
        value = in_blocks(self, _erf32, x)
        if out is None:
            return value
        np.copyto(out, value)
        return out


keep_freed_memory()
xp = Namespace()


@functools.cache
def shared_xp() -> Namespace:
    """The namespace for functions whose arrays several threads compute (shared.py): it makes such arrays, too."""
    if not blas_team.is_available():
        return xp
    made: Any = Namespace()
    made.empty, made.zeros, made.deal = shared.empty, shared.zeros, programs.deal
    for name in ("ones", "full", "empty_like", "zeros_like", "ones_like", "full_like"):
        setattr(made, name, shared.sharing(getattr(np, name)))
    for name in ("matmul", "dot", "linear"):
        setattr(made, name, shared.sharing(getattr(matrices, name)))
    return made
