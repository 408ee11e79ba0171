"""Copies and casts of elements in compiled loops, on all cores; NumPy's for what they do not serve."""

import math
from typing import NamedTuple

import numpy as np

from ..._core.dtype import complex32, complex64, complex128
from ..._core.geometry import collapsed
from ..._kernels import ir, llvm, pointwise
from ..._kernels.library.fill import with_zeros
from ..._kernels.trace import Expression
from .jit.calls import DUE, DUE_LATER, Code, launched
from .pointwise import inner_of

_PLANS = 4096
_LINE, _WAY, _WAYS = 64, 4096, 8  # bytes of a line of the first cache and of its ways, and how many it has at least
_PIECE = 32  # elements of which each is loaded from a line of its own
_SHORT = 8  # elements that are too few for an innermost loop
_PARTS = {d.np: d.to_real().np for d in (complex32, complex64, complex128)}
_plans: dict[tuple, "tuple[Code, np.ndarray] | _Parts | None"] = {}
_codes: dict[tuple, Code] = {}


class _Parts(NamedTuple):
    """Parts of both arrays that are copied one after the other."""

    indices: tuple[tuple, tuple]


def copied(target: np.ndarray, source: np.ndarray) -> bool:
    """Writes an array into another of any type and layout, if there is compiled code for it and they lie apart."""
    key = (target.shape, target.strides, target.dtype, source.shape, source.strides, source.dtype)
    known = _plans.get(key)
    if known is None:
        if key in _plans:
            return _copied_parts(target, source)
        if len(_plans) >= _PLANS:
            _plans.clear()
        known = _plans[key] = _plan(target, source)
        if known is None:
            return _copied_parts(target, source)
    if isinstance(known, _Parts):
        return not np.may_share_memory(target, source) and all(
            [copied(target[part], source[part]) for part in known.indices])
    code, geometry = known
    call = code.call or code.wanted(target.size)
    if call is None or np.may_share_memory(target, source):
        return False
    return call(target, source, geometry)


def _copied_parts(target: np.ndarray, source: np.ndarray) -> bool:
    """The same where complex numbers become others or are made of real ones, if both lie in C order."""
    wide, narrow = _PARTS.get(target.dtype), _PARTS.get(source.dtype)
    if wide is None or target.shape != source.shape or not target.flags.c_contiguous or not source.flags.c_contiguous:
        return False
    if narrow is not None:
        return copied(target.reshape(-1).view(wide), source.reshape(-1).view(narrow))
    if source.dtype.kind not in "fiub" or np.may_share_memory(target, source):
        return False
    return launched(with_zeros, target.reshape(-1).view(wide).reshape(-1, 2), source.reshape(-1))


def _all(array: np.ndarray, dim: int) -> tuple[slice, ...]:
    """An index of all behind a dimension."""
    return (slice(None),) * (array.ndim - 1 - dim)


def _cut(sizes: list[int], strides: list[list[int]], itemsizes: tuple[int, int]) -> int:
    """Cuts the innermost loop where it loads from more lines of memory than a core's first cache holds.

    0, or with nothing done how many elements are too many for pieces of one size.

    Within a piece, the loop over what lies in those lines comes next, so that they are used up while they are there.
    Lines that are a power of two apart share few places of the cache, and drive each other out soon.
    """
    own, given = strides
    apart = abs(given[0])
    if own[0] != itemsizes[0] or apart < _LINE:
        return 0
    held = _WAYS * (_WAY // max(math.gcd(apart, _WAY), _LINE))  # lines that find a place at once
    near = next((d for d in range(1, len(sizes)) if abs(given[d]) == itemsizes[1] and sizes[d] >= _SHORT), None)
    piece = next((n for n in range(min(held, _PIECE), _SHORT // 2 - 1, -1) if not sizes[0] % n), None)
    if sizes[0] <= held or near is None:
        return 0
    if piece is None:
        return sizes[0] % _SHORT
    for values in (sizes, own, given):
        values.insert(1, values.pop(near))
    for values in (own, given):
        values.insert(2, values[0] * piece)
    sizes.insert(2, sizes[0] // piece)
    sizes[0] = piece
    return 0


def _plan(target: np.ndarray, source: np.ndarray) -> tuple[Code, np.ndarray] | _Parts | None:
    kinds = [ir.type_of(target.dtype), ir.type_of(source.dtype)]
    shape, missing = target.shape, target.ndim - source.ndim
    if None in kinds or missing < 0 or not target.flags.aligned or not source.flags.aligned or not target.size:
        return None
    if kinds[0] in ("u32", "u64") and source.dtype.kind not in "biu":
        return None  # numbers that do not fit end up elsewhere than with NumPy
    if any(n not in (1, size) for n, size in zip(source.shape, shape[missing:], strict=True)):
        return None
    spread = (0,) * missing + tuple([s if n != 1 else 0 for n, s in zip(source.shape, source.strides, strict=True)])
    own = target.strides
    order = sorted(range(target.ndim), key=lambda d: (own[d], -d))
    sizes, strides = collapsed(order, shape, [own, spread])
    if len(sizes) > 1 and sizes[0] < _SHORT <= sizes[1]:  # the longer loop inside, though its stores lie apart
        for values in (sizes, *strides):
            values[0], values[1] = values[1], values[0]
    rest = _cut(sizes, strides, (target.itemsize, source.itemsize))
    if rest:
        dim = next(d for d in order if shape[d] != 1)
        if shape[dim] == sizes[0]:
            return _Parts(((..., slice(-rest), *_all(target, dim)), (..., slice(-rest, None), *_all(target, dim))))
    out, loaded = (kind or "" for kind in kinds)
    inner = inner_of(strides, (out, loaded))
    code = _codes.get((out, loaded, inner))
    if code is None:
        # Loaded in its own type, and stored in the other: half precision by way of float32.
        wide = np.dtype(ir.DTYPES[ir.computed_in(loaded) if loaded in ("f16", "bf16") else loaded])
        expression = Expression(lambda xp, x: x, [source.dtype], [0], wide)

        def make() -> str:
            return llvm.module_of(pointwise.strided_kernel(expression, [loaded], out, inner), exact=True)

        slow = not {out, loaded}.isdisjoint(("f16", "bf16"))  # in NumPy
        code = _codes[out, loaded, inner] = Code(make, due=DUE if slow else DUE_LATER)
    return code, pointwise.geometry_of(sizes, strides)
