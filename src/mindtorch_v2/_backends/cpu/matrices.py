"""Products of matrices: machine code around BLAS once it is there, NumPy where it is not or cannot."""

from typing import Any

import numpy as np

__all__ = ["dot", "linear", "matmul"]


class _Later:
    """Stands for the machine code until the first product: loading what makes it takes time."""

    call = None

    def wanted(self, elements: int) -> None:
        global _product
        from .jit.products import PRODUCT

        _product = PRODUCT
        PRODUCT.wanted(elements)


_product: Any = _Later()
_LONG = 1 << 15  # elements of a matrix, whose product with a vector is worth a call of several threads


def dot(a: Any, b: Any) -> Any:
    """`a.dot(b)`."""
    call = _product.call
    if call is None:
        _product.wanted(a.size)
        return a.dot(b)
    made = call(a, b)
    if made is not None:
        return made
    if b.ndim == 1 and a.ndim == 2 and a.size >= _LONG:
        made = np.empty(len(a), a.dtype)
        if call(a, b[:, None], made[:, None]) is not None:
            return made
    return a.dot(b)


def linear(rows: Any, weight: Any, bias: Any) -> Any:
    """`rows @ weight.T + bias`, of matrices, and a vector or None."""
    call = _product.call
    if call is not None:
        made = call(rows, weight, None, bias, True)
        if made is not None:
            return made
    else:
        _product.wanted(rows.size)
    made = rows.dot(weight.T)
    if bias is not None:
        made += bias
    return made


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """`np.matmul(a, b, out)`, of arrays that share no memory with `out`, in C order."""
    call = _product.call
    if call is None:
        _product.wanted(a.size)
    else:
        made = call(a, b, out)
        if made is not None:
            return made
    return np.matmul(a, b, out=out, order="C")
