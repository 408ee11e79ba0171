"""Products of many small matrices, or of two of medium size, by OpenBLAS's threads: each multiplies a part alone.

OpenBLAS shares out one product at a time, with a copy of both matrices. Products of at most 10^6 multiplications it
takes as they lie; so where one such piece for each thread is enough, that takes less time. Larger products it shares
out itself.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import planning
from ..._core.geometry import collapsed, contiguous_strides
from . import blas_team
from .blas_team import Work, address, dealt

__all__ = ["multiplied"]

LEAST = 1 << 16  # multiplications from which on a product is shared out
_SHARE = 1 << 14  # multiplications that a thread gets at least
_SMALL = 10**6  # up to which OpenBLAS takes matrices as they lie
_ROWS, _COLUMNS = 4, 16  # multiples of which a piece has
_MOST_CALLS = 1 << 13
_PLANS = 1024
_plans: dict[tuple, Any] = {}
planning.plans.append(_plans)


class _Product:
    """A product of arrays of one geometry."""

    def __init__(self, work: Work, shape: tuple[int, ...], unaligned: int) -> None:
        self.work, self.shape, self.unaligned = work, shape, unaligned


def multiplied(ufunc: Any, inputs: Sequence[Any], out: Any = None, made_by: Any = np.empty) -> Any:
    """`ufunc(*inputs, out=out, order="C")` of np.matmul or np.vecdot, of arrays that share no memory with `out`.

    None where it is not of use.
    """
    a, b = inputs
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.dtype.char not in "fd":
        return None
    key = (ufunc, a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, None if out is None else (
        out.shape, out.strides, out.dtype))
    plan = _plans.get(key, 0)
    if plan == 0:
        if len(_plans) >= _PLANS:
            _plans.clear()
        plan = _plans[key] = _plan(ufunc, a, b, out)
    if plan is None:
        return None
    made = made_by(plan.shape, a.dtype) if out is None else out
    places = address(a), address(b), address(made)
    if (places[0] | places[1] | places[2]) & plan.unaligned:
        return None
    return made if plan.work.run(*places) else None


def _plan(ufunc: Any, a: Any, b: Any, out: Any) -> _Product | None:
    kind = a.dtype
    if ufunc not in (np.matmul, np.vecdot) or b.dtype != kind or not kind.isnative:
        return None
    if ufunc is np.vecdot:
        core = _vector_core(a, b)
    else:
        core = _matrix_core(a, b)
    if core is None:
        return None
    (lead_a, lead_b), sizes, steps, result = core
    try:
        lead = np.broadcast_shapes(lead_a[0], lead_b[0])
    except ValueError:
        return None
    shape = (*lead, *result)
    if out is None:
        strides = contiguous_strides(shape, kind.itemsize)
    elif out.shape == shape and out.dtype == kind and out.flags.writeable:
        strides = out.strides
    else:
        return None
    own = strides[len(lead) :]
    if ufunc is np.matmul:
        own = _whole(own if len(own) == 2 else (*own, 0), (sizes[0], sizes[2]), kind.itemsize)
        if not _is_blas(own, (sizes[0], sizes[2]), kind.itemsize) or own[1] != kind.itemsize:
            return None
        steps = (*steps, *own)
    work = math.prod(lead) * math.prod(sizes)
    if work < LEAST:
        return None
    parts = blas_team.parts_for(work // _SHARE * blas_team.SHARE)
    outer_strides = [_over(lead_a, lead), _over(lead_b, lead), strides[: len(lead)]]
    calls = _calls(lead, outer_strides, sizes, steps, parts)
    if calls is None:
        return None
    lengths, outer, places = calls
    loop = _loop(ufunc, kind.char)
    if loop is None:
        return None
    return _Product(Work(*loop, lengths, outer, places, dealt(len(places), parts), True), shape, kind.alignment - 1)


def matrix_call(a: Any, b: Any, out: Any) -> tuple[int, int, tuple[int, ...], tuple[int, ...]] | None:
    """The loop of `np.matmul(a, b, out)` of matrices, or of a row of them, its data, lengths and steps.

    None if BLAS takes them not as they lie.
    """
    core = _matrix_core(a, b) if min(a.ndim, b.ndim) >= 2 and max(a.ndim, b.ndim) <= out.ndim <= 3 else None
    loop = _loop(np.matmul, a.dtype.char)
    if core is None or loop is None or not a.dtype == b.dtype == out.dtype:
        return None
    leads, sizes, steps, result = core
    lead, own = out.shape[:-2], _whole(out.strides[-2:], out.shape[-2:], out.itemsize)
    if out.shape[-2:] != result or any(shape not in ((), lead, (1,)) for shape, _ in leads):
        return None
    if not _is_blas(own, out.shape[-2:], out.itemsize) or own[1] != out.itemsize:
        return None
    outer = [(_over(each, lead) or (0,))[0] for each in (*leads, (lead, out.strides[:-2]))]
    return *loop, (*(lead or (1,)), *sizes), (*outer, *steps, *own)


def _loop(ufunc: Any, char: str) -> tuple[int, int] | None:
    found = blas_team.inner_loop(ufunc, char * 2)
    return None if found is None else found[:2]


def _over(own: tuple[tuple[int, ...], tuple[int, ...]], lead: Sequence[int]) -> tuple[int, ...]:
    """Strides of leading dimensions, of a shape and strides, over what they are broadcast to."""
    shape, strides = own
    return (0,) * (len(lead) - len(shape)) + tuple([s if n != 1 else 0 for n, s in zip(shape, strides, strict=True)])


def _whole(strides: Sequence[int], sizes: Sequence[int], item: int) -> tuple[int, int]:
    """Strides of a matrix, with what they would be in order where there is one row, or one column."""
    down, right = strides
    if sizes[1] == 1:
        right = item
        if sizes[0] == 1:
            down = item
    elif sizes[0] == 1:
        down = right * sizes[1]
    return down, right


def _is_blas(strides: Sequence[int], sizes: Sequence[int], item: int) -> bool:
    """Whether BLAS takes a matrix as it lies."""
    (down, right), (rows, columns) = strides, sizes
    if down % item or right % item:
        return False
    return right == item and down >= columns * item or down == item and right >= rows * item


def _matrix_core(a: Any, b: Any) -> Any:
    """Leading shapes and strides, rows, inner size and columns, strides of both matrices, the end of the shape."""
    if a.ndim < 2 or not b.ndim or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        return None
    item, vector = a.itemsize, b.ndim == 1
    rows, inner = a.shape[-2:]
    columns = 1 if vector else b.shape[-1]
    if not rows * inner * columns:
        return None
    of_a = _whole(a.strides[-2:], (rows, inner), item)
    of_b = _whole((b.strides[-1], item) if vector else b.strides[-2:], (inner, columns), item)
    if not _is_blas(of_a, (rows, inner), item) or not _is_blas(of_b, (inner, columns), item):
        return None
    lead_b = ((), ()) if vector else (b.shape[:-2], b.strides[:-2])
    return ((a.shape[:-2], a.strides[:-2]), lead_b), (rows, inner, columns), (*of_a, *of_b), (
        (rows,) if vector else (rows, columns))


def _vector_core(a: Any, b: Any) -> Any:
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-1] or not a.shape[-1]:
        return None
    return ((a.shape[:-1], a.strides[:-1]), (b.shape[:-1], b.strides[:-1])), (a.shape[-1],), (
        a.strides[-1], b.strides[-1]), ()


def _calls(lead: Sequence[int], outer: Sequence[Sequence[int]], sizes: tuple[int, ...], steps: tuple[int, ...],
           parts: int) -> tuple[np.ndarray, list[int], np.ndarray] | None:
    """Lengths, steps and places of the calls: of some of the matrices each, or of pieces of them."""
    from .shared import places

    order = sorted(range(len(lead)), key=lambda d: (outer[2][d], -d))
    counts, strides = collapsed(order, lead, outer)
    rows = places(counts[1:], [s[1:] for s in strides])
    matrices = math.prod(counts)
    if len(rows) > _MOST_CALLS:
        return None
    inside = [s[0] for s in strides]
    each = math.prod(sizes)
    if matrices >= parts or len(sizes) == 1:  # some matrices at a time
        pieces = min(counts[0], -(-parts // len(rows)) if len(rows) < 4 * parts else 1)
        starts = np.array([counts[0] * k // pieces for k in range(pieces + 1)])
        places_ = (rows[:, None] + np.multiply.outer(starts[:-1], inside)).reshape(-1, 3)
        lengths = np.empty((len(places_), 1 + len(sizes)), np.int64)
        lengths[:, 0], lengths[:, 1:] = np.tile(np.diff(starts), len(rows)), sizes
        return lengths, [*inside, *steps], places_
    # pieces of one matrix at a time
    all_rows = places(counts, strides)
    pieces = max(parts // matrices, -(-each // _SMALL))
    if matrices * pieces > parts:
        return None
    by_columns = sizes[2] > sizes[0]
    length, grain = (sizes[2], _COLUMNS) if by_columns else (sizes[0], _ROWS)
    pieces = min(pieces, max(1, length // grain))
    starts = np.array([length * k // pieces // grain * grain for k in range(pieces)] + [length])
    step = (0, steps[3], steps[5]) if by_columns else (steps[0], 0, steps[4])
    places_ = (all_rows[:, None] + np.multiply.outer(starts[:-1], step)).reshape(-1, 3)
    lengths = np.empty((len(places_), 4), np.int64)
    lengths[:, 0], lengths[:, 1:] = 1, sizes
    lengths[:, 3 if by_columns else 1] = np.tile(np.diff(starts), len(all_rows))
    return lengths, [0, 0, 0, *steps], places_
