"""Functions of complex numbers that compiled kernels, or NumPy's loops for real ones, compute in less time than it."""

from typing import Any

import numpy as np

from .jit import machine

_PARTS: dict[Any, Any] = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}
_LEAST = 64  # elements from which on looking at arrays pays


def _parts(array: np.ndarray) -> np.ndarray | None:
    """Real and imaginary parts of complex numbers that lie in order; None for others."""
    if array.__class__ is not np.ndarray or not array.flags.c_contiguous:
        return None
    return array.reshape(-1).view(_PARTS[array.dtype])


def negative(x: Any, out: Any = None) -> Any:
    """`np.negative`."""
    if out is None and getattr(x, "size", 0) >= _LEAST and x.dtype in _PARTS:
        parts = _parts(x)
        if parts is not None:
            return np.negative(parts).view(x.dtype).reshape(x.shape)
    return np.negative(x, out=out)


def reciprocal(x: Any, out: Any = None) -> Any:
    """`np.reciprocal`."""
    if out is None and getattr(x, "size", 0) >= _LEAST and x.dtype in _PARTS and machine.available():
        from ..._kernels.library import complex as library
        from .jit.calls import launched

        made, given = np.empty(x.shape, x.dtype), _parts(x)
        if given is not None and launched(library.reciprocals, _parts(made), given, x.size):
            return made
    return np.reciprocal(x, out=out)


def true_divide(a: Any, b: Any, out: Any = None) -> Any:
    """`np.true_divide`."""
    kind = getattr(a, "dtype", None)
    if out is None and kind in _PARTS and getattr(b, "dtype", None) == kind and max(a.size, b.size) >= _LEAST:
        made = _quotients(a, b)
        if made is not None:
            return made
    return np.true_divide(a, b, out=out)


def _quotients(a: Any, b: Any) -> Any:
    """Quotients of arrays of one shape, or of one and a number; None where no kernel computes them."""
    one_a, one_b = a.ndim == 0, b.ndim == 0
    if not (one_a or one_b or a.shape == b.shape) or not machine.available():
        return None
    from ..._kernels.library import complex as library
    from .jit.calls import launched

    shape = b.shape if one_a else a.shape
    made, given = np.empty(shape, a.dtype), [_parts(np.asarray(x)) for x in (a, b)]
    if any(x is None for x in given):
        return None
    return made if launched(library.quotients, _parts(made), *given, made.size, one_a=one_a, one_b=one_b) else None
