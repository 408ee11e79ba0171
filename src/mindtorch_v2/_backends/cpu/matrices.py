"""Products of matrices: machine code around BLAS once it is there, NumPy where it is not or cannot."""

from typing import Any

import numpy as np

from ..._core.offers import new_or_taken, offered, offers
from ..._core.settled import is_settled
from ..._core.threads import get_num_threads
from . import blas_team
from .factors import factor_of
from .openblas import plus_row
from .shared_products import multiplied
from .team import SHARE, alone, in_parts, is_used, multiplies_itself
from .whole_products import multiplied as multiplied_as_floats

__all__ = ["dot", "linear", "matmul", "product"]


class _Later:
    """Stands for the machine code until the first product: loading what makes it takes time."""

    call = None

    def wanted(self, elements: int) -> None:
        global _product, _least
        from .jit.products import PRODUCT, VECTOR

        _product, _least = PRODUCT, VECTOR
        PRODUCT.wanted(elements)


_product: Any = _Later()
_least = 0  # elements of a matrix from which on kernels multiply it with a vector


_LARGE = 1 << 18  # multiplications from which on OpenBLAS would use its own threads
SMALL = 10**6  # multiplications up to which it takes matrices as they lie, and does not copy them first
LANES = 16  # numbers that a processor multiplies at once
_FEW = 48  # rows up to which that copy, of a matrix that is used so little, takes as long as the product
_SEVERAL = 32  # rows from which on that copy is worth it where many threads make it, a part each
_PIECE = 64  # columns that are multiplied at once then; of a matrix that lies by rows, fewer are not worth it
_SMALL_BY_COLUMNS = 1 << 10  # elements of a result up to which a second matrix that lies by columns is not copied


def _piece(a: Any, b: Any) -> int:
    """Columns of a product of few rows that OpenBLAS computes without copying the second matrix; 0 for all at once."""
    rows, columns = len(a), b.shape[1]
    if not 1 < rows <= _FEW or not a.shape[1]:
        return 0
    most, least = min(_PIECE, SMALL // a.size), _PIECE
    if b.strides[0] == b.itemsize:
        most, least = min(most, _SMALL_BY_COLUMNS // rows) // LANES * LANES, LANES
    return most if least <= most < columns else 0


def _in_pieces(a: Any, b: Any, made: Any, piece: int) -> None:
    """Writes the product of two matrices, so many columns at a time."""
    whole = b.shape[1] // piece * piece
    parts = b[:, :whole].reshape(len(b), -1, piece).swapaxes(0, 1)
    np.matmul(a[None], parts, out=made[:, :whole].reshape(len(a), -1, piece).swapaxes(0, 1))
    if whole < b.shape[1]:
        np.matmul(a, b[:, whole:], out=made[:, whole:])


def _shared_out(a: Any, b: Any, out: Any = None, row: Any = None) -> Any:
    """`np.matmul(a, b, out)` of large arrays on several threads, see team.py, plus a row; None for others."""
    work = a.size * b.shape[-1] if a.ndim == b.ndim > 1 else 0
    if a.dtype.kind in "iu":
        made = _of_integers(a, b, out)
        return made if made is None or row is None else np.add(made, row, out=made)
    if work < _LARGE or not is_used() or a.dtype is not b.dtype or a.shape[-1] != b.shape[-2]:
        return None
    if blas_team.is_used():
        return _by_blas_team(a, b, out, row)
    if a.ndim > 2 and len(a) == len(b) == 1:
        return _shared_out(a[0], b[0], None if out is None else out[0])[None]
    rows, columns = a.shape[-2], b.shape[-1]
    piece = _piece(a, b) if a.ndim == 2 else 0
    if a.ndim == 2 and work >= (2 * SHARE if piece and rows < _SEVERAL else SHARE // 2) and multiplies_itself():
        made = np.matmul(a, b, out=out, order="C")
        return made if row is None else plus_row(made, row)
    if not piece and (work < 2 * SHARE or a.shape[:-2] != b.shape[:-2]):
        with alone:
            made = np.matmul(a, b, out=out, order="C")
        return made if row is None else np.add(made, row, out=made)
    made = new_or_taken((*a.shape[:-1], columns), a.dtype) if out is None else out

    def some(part: slice) -> None:
        if a.ndim > 2:
            np.matmul(a[part], b[part], out=made[part])
            return
        where = slice(part.start * piece, part.stop * piece) if piece else part
        target = made[:, where] if by_columns else made[part]
        if piece:
            _in_pieces(a, b[:, where], target, piece)
        else:
            np.matmul(a if by_columns else a[part], b[:, part] if by_columns else b, out=target)
        if row is not None:
            np.add(target, row[where] if by_columns else row, out=target)

    by_columns = bool(piece) or rows < columns
    in_parts(some, len(a) if a.ndim > 2 else -(-columns // piece) if piece else max(rows, columns), work)
    return made


def _by_blas_team(a: Any, b: Any, out: Any, row: Any) -> Any:
    """The same by OpenBLAS's threads: pieces of medium products, or all of a large one."""
    from .shared import plain

    a, b, target = plain(a), plain(b), plain(out)
    made = multiplied(np.matmul, (a, b), target)
    multiplies_itself()
    if made is None:
        made = np.matmul(a, b, out=target, order="C")
    if row is not None:
        plus_row(made, row)
    return made if out is None else out


def _of_integers(a: Any, b: Any, out: Any = None) -> Any:
    """The product of integers, if it is one of matrices that BLAS makes in less time than NumPy; None else."""
    if a.ndim < 2 or b.ndim < 2:
        return None
    made = multiplied_as_floats(matmul, a, b)
    if made is None or out is None:
        return made
    out[...] = made
    return out


def _times_vector(matrix: Any, vector: Any) -> Any:
    """`matrix @ vector` by kernels for several threads; None where they are not there, or not meant for it.

    Integers, which BLAS does not multiply, they take on one thread, too.
    """
    if matrix.size < _least or matrix.dtype.kind not in "iu" and (
            get_num_threads() == 1 or matrix.dtype.char not in "fd"):
        return None
    from ..._kernels.library import vector as library
    from .jit.calls import launched

    made = new_or_taken(len(matrix), matrix.dtype)
    if matrix.flags.c_contiguous:
        return made if launched(library.rows, made, matrix, vector) else None
    return made if matrix.flags.f_contiguous and launched(library.columns, made, matrix.T, vector) else None


def _refused(a: Any, b: Any) -> Any:
    """`a.dot(b)` of what machine code around BLAS did not take."""
    if b.ndim == 1 and a.ndim == 2 and a.dtype is b.dtype:
        made = _times_vector(a, b)
    elif b.ndim == 2 and len(a) == 1 and a.ndim == 2 and a.dtype is b.dtype and a.shape[1] == len(b):
        made = _times_vector(b.T, a[0])
        made = None if made is None else made[None]
    elif b.ndim == 2 and b.shape[1] == 1 and a.ndim == 2 and a.dtype is b.dtype:
        made = _times_vector(a, b[:, 0])
        made = None if made is None else made[:, None]
    else:
        made = _of_integers(a, b) if a.dtype.kind in "iu" and a.ndim == b.ndim == 2 else None
    return a.dot(b) if made is None else made


_PER_ELEMENT = 64  # multiplications by BLAS in the time that an element takes elsewhere


def _machine_code(a: Any, columns: int) -> Any:
    """What multiplies, if this product is the one that it takes over with; None else.

    A large one it does: while OpenBLAS uses threads of its own, these and those of kernels both wait for work by
    spinning, and on 16 cores products took 4 to 24 ms that alone take 0.3.
    """
    _product.wanted(max(a.size, a.size * columns // _PER_ELEMENT))
    return _product.call


def dot(a: Any, b: Any) -> Any:
    """`a.dot(b)`."""
    call = _product.call or _machine_code(a, b.shape[-1] if b.ndim > 1 else 1)
    if call is None:
        made = _shared_out(a, b)
        return a.dot(b) if made is None else made
    if b.ndim == 2 and a.ndim == 2 and a.size * b.shape[1] >= _PREPARED:
        made = _by_factor(a, b)
        if made is not None:
            return made
    made = _as_offered(call, a, b) if offers else call(a, b)
    return _refused(a, b) if made is None else made


def _as_offered(call: Any, a: Any, b: Any, *more: Any) -> Any:
    """What machine code makes of `a @ b`: in memory that was offered, which it compares itself, or a new array."""
    room = offered()
    for at, array in enumerate(room):
        if call(a, b, array, *more) is not None:
            return room.pop(at)
    return call(a, b, None, *more)


def product(a: Any, b: Any) -> Any:
    """`np.matmul(a, b)` of arrays of as many dimensions by machine code; None where that is not there or cannot."""
    call = _product.call or _machine_code(a, b.shape[-1])
    if call is None:
        return None
    return _as_offered(call, a, b) if offers else call(a, b)


_PREPARED = 1 << 20  # multiplications from which on a primitive of oneDNN for one size takes less time
_FEW_ROWS = 256  # which kernels of the library may multiply with a weight as it lies
_DUE, _MOST = 8, 512  # products of a size before one is made, which takes half a millisecond; sizes that are known
_primitives: dict[tuple, Any] = {}  # by shapes: how many products there were, or what multiplies, or None


def _by_primitive(rows: Any, weight: Any, bias: Any) -> Any:
    """The product of a size that comes often; None for others, and where oneDNN lacks or does not multiply now."""
    known = _primitives.get(key := (rows.shape, weight.shape, bias is None), 0)
    if known.__class__ is int:
        if known >= _DUE and not is_settled():
            from . import onednn_kernels

            kernels = onednn_kernels()
            if kernels is None:
                return None  # switched off, perhaps for now
            known = kernels.linear(rows.shape, weight.shape, bias is not None)
        elif known < _DUE:
            known += 1
        if len(_primitives) >= _MOST:
            _primitives.clear()
        _primitives[key] = known
        if known.__class__ is int:
            return None
    if known is None or not (rows.flags.c_contiguous and weight.flags.c_contiguous and weight.dtype is rows.dtype):
        return None
    if bias is None:
        return known((len(rows), len(weight)), rows, weight)
    if bias.dtype is not rows.dtype or not bias.flags.c_contiguous:
        return None
    return known((len(rows), len(weight)), rows, weight, bias)


def _by_factor(rows: Any, right: Any, bias: Any = None) -> Any:
    """`rows @ right`, and a vector for each row, of a factor that is kept packed; None for others."""
    factor = factor_of(right)
    if factor is None or rows.dtype.char != "f" or not rows.flags.c_contiguous:
        return None
    given = (rows, right) if bias is None else (rows, right, bias)
    if not all(a.dtype is rows.dtype for a in given) or bias is not None and not bias.flags.c_contiguous:
        return None
    from . import onednn_kernels

    kernels = onednn_kernels()
    multiplied = kernels and factor.form(
        ("multiplied", rows.shape, right.shape, right.strides, len(given)),
        lambda: kernels.matrix_product(rows.shape, right.shape, right.strides, bias is not None))  # fmt: skip
    return multiplied and multiplied((len(rows), right.shape[1]), *given)


def _of_few_rows(rows: Any, weight: Any, bias: Any) -> Any:
    """`linear` of few rows; None where it is not quicker. What computes it is loaded with the first of them."""
    global _of_few_rows
    from .kernels.linear import linear as _of_few_rows

    return _of_few_rows(rows, weight, bias)


def linear(rows: Any, weight: Any, bias: Any) -> Any:
    """`rows @ weight.T + bias`, of matrices, and a vector or None."""
    call = _product.call or _machine_code(rows, len(weight))
    if call is None:
        made = _shared_out(rows, weight.T, row=bias)
        if made is not None:
            return made
        made = rows.dot(weight.T)
    else:
        if rows.size * len(weight) >= _PREPARED and rows.dtype.char in "fd":
            if len(rows) <= _FEW_ROWS:
                made = _of_few_rows(rows, weight, bias)
                if made is not None:
                    return made
            made = _by_primitive(rows, weight, bias) if rows.dtype.char == "f" else None
            if made is None:
                made = _by_factor(rows, weight.T, bias)
            if made is not None:
                return made
        made = (_as_offered(call, rows, weight, bias, True) if offers else
                call(rows, weight, None, bias, True))
        if made is not None:
            return made
        made = _refused(rows, weight.T)
    if bias is not None:
        made += bias
    return made


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """`np.matmul(a, b, out)`, of arrays that share no memory with `out`, in C order."""
    call = _product.call or _machine_code(a, b.shape[-1] if b.ndim > 1 else 1)
    if call is None:
        made = _shared_out(a, b, out)
        if made is not None:
            return made
    else:
        made = _as_offered(call, a, b) if out is None and offers else call(a, b, out)
        if made is not None:
            return made
        if a.ndim == b.ndim == 2:
            made = _refused(a, b)
            if out is None:
                return made
            out[...] = made
            return out
        made = _of_integers(a, b, out) if a.dtype.kind in "iu" else None
        if made is not None:
            return made
    return np.matmul(a, b, out=out, order="C")
