"""Arrays whose elements the threads of blas_team.py compute: what large arrays are while an operator computes.

Declarations compute with operators (`a * b + 1`), with functions of `xp` and with methods, on one core. Where nothing
is compiled and there are threads enough, they are given large arrays as `Shared`, ndarrays that NumPy asks
(`__array_ufunc__`) before it computes: loops over many elements are then run in parts, all else is NumPy's. What comes
out is `Shared`, too, if it is large, and a plain ndarray again before a tensor holds it (`finished` of the backend).

A loop is the one that NumPy would run, for operands that have its types already, and gives the same bits: sums of whole
arrays and over leading dimensions are added in parts, so that they may differ in the last digits.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import planning
from ..._core.geometry import collapsed, contiguous_strides
from ..._core.threads import get_num_threads
from . import blas_team
from .blas_team import Work, address, cut, dealt, inner_loop, parts_for
from .openblas import alone
from .shared_products import multiplied

__all__ = ["Shared", "as_numbers", "copied", "empty", "plain", "shared", "zeros"]

_ndarray, _new = np.ndarray, np.ndarray.__new__
_CHEAP = frozenset((np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute, np.maximum,
                    np.minimum, np.square, np.sqrt, np.greater, np.greater_equal, np.less, np.less_equal, np.equal,
                    np.not_equal, np.logical_and, np.logical_or, np.logical_not, np.bitwise_and, np.bitwise_or,
                    np.bitwise_xor, np.invert, np.isnan, np.isfinite, np.isinf, np.sign, np.reciprocal, np.fmax,
                    np.fmin, np.conjugate, np.copysign, np.signbit, np.left_shift, np.right_shift))
LEAST = 1 << 15  # elements from which on loops are shared out
_PAGE, _LARGE = 4096, 1 << 16  # bytes: large arrays begin at a page, see jit/pages.py
_MOST_LOOPS = 1 << 16  # of one call; more are too short to be worth it
_SHORT = 8  # elements that are too few for a loop
_LINE = 256  # elements of which each part of a long row has at least as many
_PLANS, _KEPT_LOOPS = 1024, 1 << 18  # geometries that are remembered, and loops of all of them
_NUMBERS = (float, int)
_EXACT = 2**53
_plans: dict[tuple, Any] = {}  # _Elementwise, _Reduction, or None where NumPy computes
planning.plans.append(_plans)


def _remember(key: tuple, plan: Any) -> Any:
    """Keeps a plan, within limits."""
    rows = 0 if plan is None else plan.rows
    if len(_plans) >= _PLANS or rows and sum([p.rows for p in _plans.values() if p is not None]) + rows > _KEPT_LOOPS:
        _plans.clear()
    _plans[key] = plan
    return plan


class Shared(np.ndarray):
    """An ndarray whose loops are shared out; only while an operator computes."""

    __slots__ = ()
    is_shared = True  # so that it is not cut into blocks for the cache of one core

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if alone.inside or self.size < LEAST and all([getattr(x, "size", 0) < LEAST for x in inputs]):
            return _by_numpy(ufunc, method, inputs, out, options)
        if method == "__call__":
            if ufunc.signature is not None:
                if (out is None or not _may_meet(inputs, out[0])) and (not options or options == _IN_ORDER):
                    made = multiplied(ufunc, inputs, None if out is None else out[0], _new_shared)
                    if made is not None:
                        return made
            elif not options or options == _UNSAFE:
                made = _computed(ufunc, inputs, out)
                if made is not None:
                    return made
        elif method == "reduce":
            made = _reduced(ufunc, inputs[0], out, **options)
            if made is not None:
                return made
        return _by_numpy(ufunc, method, inputs, out, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = _FUNCTIONS.get(function)
        if own is not None and not alone.inside:
            made = own(*args, **kwargs)
            if made is not None:
                return None if made is _DONE else made
        return super().__array_function__(function, types, args, kwargs)

    def to_host(self) -> np.ndarray:
        """The plain array; devices' arrays have such a method."""
        return self.view(_ndarray)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self[index] if self.size >= LEAST and _is_basic(index) else None
        if target.__class__ is Shared and isinstance(value, np.ndarray) and (
                _is_same(target, value) or copied(target, value)):  # the same after `x[index] += y`
            return
        super().__setitem__(index, value)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if not args and not kwargs and np.dtype(dtype) == self.dtype:
            return self.copy("K")
        return super().astype(dtype, *args, **kwargs)

    def copy(self, order: Any = "C") -> Any:
        made = empty(self.shape, self.dtype) if order == "C" else np.empty_like(self, order=order)
        if not copied(made, self):
            _ndarray.__setitem__(made, ..., self)
        return made

    def reshape(self, *shape: Any, **options: Any) -> Any:  # type: ignore[override]
        if options or self.flags.c_contiguous or self.size < LEAST:
            return super().reshape(*shape, **options)
        if _HAS_COPY:
            try:
                return super().reshape(*shape, copy=False)
            except ValueError:  # it has to be copied, or there is no such shape
                return self.copy().reshape(*shape)
        return super().reshape(*shape)

    def dot(self, other: Any, out: Any = None) -> Any:
        if out is None and self.ndim == 2 and isinstance(other, np.ndarray) and 0 < other.ndim < 3:
            return np.matmul(self, other)
        return super().dot(other) if out is None else super().dot(other, out)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array


_HAS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # an option of `reshape`
_UNSAFE, _IN_ORDER = {"casting": "unsafe"}, {"order": "C"}


def _at_a_page(shape: Any, kind: Any, size: int, strides: Any = None) -> Any:
    """A new array of so many bytes; a large one begins at a page."""
    if size < _LARGE:
        return _new(Shared, shape, kind, None if strides is None else np.empty(size, np.uint8), 0, strides)
    memory = np.empty(size + _PAGE, np.uint8)
    return _new(Shared, shape, kind, memory, -address(memory) % _PAGE, strides)


def _new_shared(shape: tuple[int, ...], kind: np.dtype) -> Any:
    return _at_a_page(shape, kind, math.prod(shape) * kind.itemsize)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arrays are the same elements of memory."""
    return (address(one) == address(other) and one.shape == other.shape and one.strides == other.strides
            and one.dtype == other.dtype)


def _may_meet(inputs: Sequence[Any], out: Any) -> bool:
    return any(isinstance(x, np.ndarray) and np.may_share_memory(plain(x), plain(out)) for x in inputs)


def shared(array: Any) -> Any:
    """A large array as `Shared`, where that is of use now; anything else as it is."""
    if array.__class__ is _ndarray and array.size >= LEAST and blas_team.is_used():
        return array.view(Shared)
    return array


def sharing(make: Callable) -> Callable:
    """A function whose result, if it is large, is `Shared`."""
    return lambda *args, **kwargs: shared(make(*args, **kwargs))


def empty(shape: Any, kind: Any = float, **options: Any) -> Any:
    """np.empty, of a large array as `Shared`."""
    kind = np.dtype(kind)
    size = math.prod(shape) if shape.__class__ is tuple or shape.__class__ is list else shape
    if options or size.__class__ is not int or size < LEAST or kind.hasobject or not blas_team.is_used():
        return np.empty(shape, kind, **options)
    return _at_a_page(shape, kind, size * kind.itemsize)


def zeros(shape: Any, kind: Any = float, **options: Any) -> Any:
    """np.zeros; a large array is filled by several threads."""
    made = empty(shape, kind, **options)
    if made.__class__ is _ndarray:
        return np.zeros(shape, kind, **options)
    if made.__class__ is not Shared or not copied(made, np.broadcast_to(np.zeros((), made.dtype), made.shape)):
        made[...] = 0
    return made


def plain(array: Any) -> Any:
    return array.view(_ndarray) if array.__class__ is Shared else array


def _by_numpy(ufunc: Any, method: str, inputs: Sequence[Any], out: Any, options: dict[str, Any]) -> Any:
    """What NumPy computes; a large result is shared again."""
    given = [plain(x) for x in inputs]
    if out is None:
        made = getattr(ufunc, method)(*given, **options)
        if made.__class__ is _ndarray and made.size >= LEAST:
            return made.view(Shared)
        return tuple([shared(m) for m in made]) if made.__class__ is tuple else made
    made = getattr(ufunc, method)(*given, out=tuple(map(plain, out)), **options)
    return out[0] if len(out) == 1 else out


# copies --------------------------------------------------------------------------------------------------------------


_BITS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)} | {16: np.dtype(complex)}  # as which elements are copied
_INDICES = frozenset((slice, int, type(...), type(None)))


def _is_basic(index: Any) -> bool:
    """Whether an index shows a part of an array, and copies nothing."""
    return index.__class__ in _INDICES or index.__class__ is tuple and all([i.__class__ in _INDICES for i in index])


def copied(target: Any, source: Any) -> bool:
    """Whether threads wrote an array into another of its type; what is small, or cast, they leave to NumPy."""
    kind = source.dtype
    if target.size < LEAST or target.dtype != kind or kind.hasobject or alone.inside or not blas_team.is_used():
        return False
    bits = _BITS.get(kind.itemsize)
    if bits is None or not target.flags.writeable:
        return False
    return _computed(np.positive, (source.view(bits),), (target.view(bits),)) is not None


def _copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> Any:
    """np.copyto, which gives None."""
    if where is not True or not isinstance(target, np.ndarray) or not isinstance(source, np.ndarray):
        return None
    return _DONE if copied(target, source) else None


def _concatenated(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: Any = None) -> Any:
    """np.concatenate of large arrays of one type into a new one, or into `out`."""
    if dtype is not None or axis is None or not all(isinstance(a, np.ndarray) for a in arrays):
        return None
    first = arrays[0]
    rank = first.ndim
    if any(a.dtype != first.dtype or a.ndim != rank for a in arrays) or not -rank <= axis < rank:
        return None
    axis %= rank
    shapes = [(*a.shape[:axis], *a.shape[axis + 1 :]) for a in arrays]
    shape = (*first.shape[:axis], sum(a.shape[axis] for a in arrays), *first.shape[axis + 1 :])
    if shapes.count(shapes[0]) != len(shapes) or math.prod(shape) < LEAST or out is not None and out.shape != shape:
        return None
    made = _new_shared(shape, first.dtype) if out is None else shared(out)
    start, before = 0, (slice(None),) * axis
    for a in arrays:
        made[(*before, slice(start, start + a.shape[axis]))] = a
        start += a.shape[axis]
    return made


def _einsum(subscripts: Any, *operands: Any, **options: Any) -> Any:
    """Sums of products of two matrices by columns; all else NumPy computes."""
    if subscripts == "ij,ij->j" and not options:
        return np.add.reduce(operands[0] * operands[1], 0)
    return None


def as_numbers(condition: Any, kind: np.dtype) -> Any:
    """Truth values as whole numbers, 0 and 1, of a type of one to eight bytes; threads write their low bytes."""
    made = zeros(condition.shape, kind)
    if kind.itemsize == 1:
        made[...] = condition.view(kind)
    else:
        low = made.view(np.uint8).reshape(*condition.shape, kind.itemsize)[..., 0]
        low[...] = condition.view(np.uint8)
    return made


_DONE = object()
_FUNCTIONS: dict[Any, Any] = {np.copyto: _copyto, np.concatenate: _concatenated, np.einsum: _einsum}


# elementwise ---------------------------------------------------------------------------------------------------------


class _Elementwise:
    """A ufunc on operands of one geometry: what is made, and the loops that make it."""

    def __init__(self, work: Work, shape: tuple[int, ...], kind: np.dtype, strides: tuple[int, ...] | None,
                 cells: np.ndarray, reaches: Sequence[tuple[int, int]], kinds: Sequence[np.dtype],
                 before: tuple[int, ...]) -> None:
        self.before = before  # what the loops are given besides
        self.work, self.shape, self.kind, self.strides = work, shape, kind, strides
        self.cells, self.cell = cells, address(cells)  # where numbers among the operands are put
        self.step = cells.itemsize
        self.reaches = reaches
        self.unaligned, self.result_unaligned = max(d.alignment for d in kinds) - 1, kind.alignment - 1
        self.rows, self.size = work.rows, math.prod(shape) * kind.itemsize

    def fresh(self) -> Any:
        return _at_a_page(self.shape, self.kind, self.size, self.strides)


def _computed(ufunc: Any, inputs: Sequence[Any], out: Any) -> Any:
    """`ufunc(*inputs, out=out)`, by threads; None where NumPy has to."""
    key: list[Any] = [ufunc]
    for x in inputs:
        kind = x.__class__
        if kind is Shared or kind is _ndarray:
            key += (x.shape, x.strides, x.dtype)
        elif kind in _NUMBERS:
            key.append(kind)
        elif isinstance(x, np.generic):
            key.append(x.dtype)
        else:
            return None
    if out is not None:
        target = out[0]
        if len(out) != 1 or target.__class__ not in (Shared, _ndarray) or not target.flags.writeable:
            return None
        key += (target.shape, target.strides, target.dtype)
    found = tuple(key)
    plan = _plans.get(found, 0)
    if plan == 0:
        plan = _remember(found, _elementwise(ufunc, inputs, None if out is None else out[0]))
    if plan is None:
        return None
    made = plan.fresh() if out is None else out[0]
    places, at, together = [], 0, 0
    for x in inputs:
        if x.__class__ is Shared or x.__class__ is _ndarray:
            where = address(x)
        else:
            if x.__class__ is int and not -_EXACT <= x <= _EXACT:
                return None
            plan.cells[at] = x
            where = plan.cell + at * plan.step
            at += 1
        places.append(where)
        together |= where
    where = address(made)
    if together & plan.unaligned or where & plan.result_unaligned:
        return None
    if out is not None and _meets(plan, inputs, places, made, where):
        return None
    places.append(where)
    return made if plan.work.run(*plan.before, *places) else None


def _meets(plan: Any, inputs: Sequence[Any], places: Sequence[int], made: Any, where: int) -> bool:
    """Whether an element that is written may be read for another one, or after that by products, which begin with 0."""
    low, high = where + plan.reaches[-1][0], where + plan.reaches[-1][1]
    for x, place, (below, above) in zip(inputs, places, plan.reaches, strict=False):
        if place + below < high and low < place + above and (plan.before or not _is_same(x, made)):
            return True
    return False


def _elementwise(ufunc: Any, inputs: Sequence[Any], target: Any) -> _Elementwise | None:
    """The plan for such operands; None where NumPy is to compute them."""
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    if not arrays or ufunc.signature is not None or ufunc.nout != 1 or len(inputs) != ufunc.nin:
        return None
    strong = {x.dtype for x in inputs if isinstance(x, (np.ndarray, np.generic))}
    numbers = any([x.__class__ in _NUMBERS for x in inputs])
    first = arrays[0].dtype
    if any(not d.isnative or d.hasobject for d in strong) or numbers and first.char not in "fd":
        return None
    if len(strong) > 1 and len(arrays) < len(inputs):
        return None
    kinds = "".join([x.dtype.char if hasattr(x, "dtype") else first.char for x in inputs])
    loop = inner_loop(ufunc, kinds)
    if loop is None or len(loop[2]) != 1 or set(kinds + loop[2]) & set("OmMSUVT"):
        return None
    kind = np.dtype(loop[2])
    try:
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
    except ValueError:
        return None
    size = math.prod(shape)
    if size < LEAST:
        return None
    if target is None:
        strides, own = _result_strides(arrays, shape, kind)
    elif target.shape == shape and target.dtype == kind and _is_injective(target):
        strides, own = None, target.strides
    else:
        return None
    steps = [_spread(x, shape) if isinstance(x, np.ndarray) else (0,) * len(shape) for x in inputs] + [own]
    cells = np.zeros(max(1, len(inputs) - len(arrays)), first)
    work = _of_short_rows(shape, steps, kinds) if ufunc is np.positive else None
    before: tuple[int, ...] = () if work is None else (address(_ONES[kinds]),)
    work = work or _work(loop, shape, steps, size * (1 if ufunc in _CHEAP else 4))
    if work is None:
        return None
    kinds_of_all = [x.dtype if hasattr(x, "dtype") else first for x in inputs] + [kind]
    if any(s % d.alignment for own, d in zip(steps, kinds_of_all, strict=True) for s in own):
        return None
    reaches = [_reach(shape, s, d.itemsize) for s, d in zip(steps, kinds_of_all, strict=True)]
    return _Elementwise(work, shape, kind, strides, cells, reaches, kinds_of_all[:-1], before)


def _spread(x: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """An array's strides over a shape that it is broadcast to."""
    return (0,) * (len(shape) - x.ndim) + tuple([s if n != 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)])


def _reach(shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, int]:
    """From where to where an array reaches, in bytes from its first element."""
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + size


def _is_injective(array: Any) -> bool:
    """Whether no two elements share memory, as far as strides that are multiples of each other show it."""
    reach = array.itemsize
    for step, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < reach:
            return False
        reach = step * (n - 1) + reach
    return True


def _result_strides(arrays: Sequence[Any], shape: tuple[int, ...],
                    kind: np.dtype) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The strides of what NumPy would make of arrays: None and the strides if they are in order."""
    plain_strides = contiguous_strides(shape, kind.itemsize)
    if any(x.shape == shape and x.flags.c_contiguous for x in arrays) and all(
            x.flags.c_contiguous or x.shape != shape for x in arrays):
        return None, plain_strides
    made = np.nditer([*map(plain, arrays), None], ["zerosize_ok"], [["readonly"]] * len(arrays)
                     + [["writeonly", "allocate"]], [None] * len(arrays) + [kind]).operands[-1].strides  # type: ignore
    return (None if made == plain_strides else made), made


def _work(loop: tuple[int, int, str], shape: Sequence[int], steps: Sequence[Sequence[int]], effort: int) -> Work | None:
    """The loops over operands of these strides; None if they are too many, or too short."""
    own = steps[-1]
    order = sorted(range(len(shape)), key=lambda d: (abs(own[d]), -d))
    sizes, strides = collapsed(order, shape, steps)
    count = math.prod(sizes[1:])
    if count > _MOST_LOOPS or count > 1 and sizes[0] < _SHORT or any(n < 0 for n in sizes):
        return None
    rows, steps_inside, parts = places(sizes[1:], [s[1:] for s in strides]), [s[0] for s in strides], parts_for(effort)
    ends = cut(sizes[0], -(-parts // count) if count < 4 * parts else 1)
    rows = (rows[:, None] + np.multiply.outer(ends[:-1], steps_inside)).reshape(-1, len(steps))
    lengths = np.tile(np.diff(ends), count)[:, None]
    return Work(loop[0], loop[1], lengths, steps_inside, rows, dealt(len(rows), parts, math.prod(sizes)))


_ONES = {char: np.ones(1, char) for char in "BHIL"}
_SHORT_ROW = 256  # elements


def _of_short_rows(shape: Sequence[int], steps: Sequence[Sequence[int]], kinds: str) -> Work | None:
    """Copies of many short rows, as whole numbers: a product with 1 takes as many rows in a call as lie alike."""
    loop = inner_loop(np.matmul, kinds * 2) if kinds in _ONES else None
    order = sorted(range(len(shape)), key=lambda d: (abs(steps[1][d]), -d))
    sizes, (of, to) = collapsed(order, shape, steps)
    if loop is None or len(sizes) == 1 or sizes[0] > _SHORT_ROW or math.prod(sizes[1:]) <= get_num_threads():
        return None
    item = _ONES[kinds].itemsize
    parts, count = parts_for(math.prod(sizes)), math.prod(sizes[2:])
    pieces = min(sizes[1], -(-parts // count)) if count < 4 * parts else 1
    starts = np.array([sizes[1] * k // pieces for k in range(pieces + 1)])
    none = [0] * (len(sizes) - 2)
    rows = places(sizes[2:], [none, of[2:], to[2:]])
    if len(rows) > _MOST_LOOPS:
        return None
    rows = (rows[:, None] + np.multiply.outer(starts[:-1], [0, of[1], to[1]])).reshape(-1, 3)
    lengths = np.ones((len(rows), 4), np.int64)
    lengths[:, 0], lengths[:, 3] = np.tile(np.diff(starts), count), sizes[0]
    inside = [0, of[1], to[1], item, item, item, of[0], item, to[0]]
    return Work(loop[0], loop[1], lengths, inside, rows, dealt(len(rows), parts, math.prod(sizes)), True)


def places(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> np.ndarray:
    """Where each row begins in each array: sizes and strides of the other dimensions, innermost first."""
    made = np.zeros((1, len(strides)), np.int64)
    for at, n in enumerate(sizes):
        steps = np.multiply.outer(np.arange(n), [s[at] for s in strides])
        made = (steps[:, None] + made).reshape(-1, len(strides))
    return made


# reductions ----------------------------------------------------------------------------------------------------------


class _Reduction:
    """A reduction of arrays of one geometry: into one array, or one for each part, which are joined then."""

    def __init__(self, work: Work, first: tuple, kept: tuple[int, ...], shape: tuple[int, ...], parts: int) -> None:
        self.work, self.first, self.kept, self.shape, self.parts = work, first, kept, shape, parts
        self.rows = work.rows


_NOT_GIVEN = np._NoValue  # type: ignore[attr-defined]


def _reduced(ufunc: Any, array: Any, out: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False,
             initial: Any = _NOT_GIVEN, where: Any = True) -> Any:
    """`ufunc.reduce`, by threads; None where NumPy has to."""
    if (array.__class__ is not Shared or array.size < LEAST or ufunc not in _REDUCING or where is not True
            or initial is not _NOT_GIVEN and ufunc is np.add or dtype is not None and np.dtype(dtype) != array.dtype):
        return None
    key = (ufunc, array.shape, array.strides, array.dtype, axis, keepdims)
    plan = _plans.get(key, 0)
    if plan == 0:
        plan = _remember(key, _reduction(ufunc, array, axis, keepdims))
    if plan is None:
        return None
    if ufunc is np.add:
        sums = np.zeros((plan.parts, *plan.kept), array.dtype)
    else:
        sums = np.empty((plan.parts, *plan.kept), array.dtype)
        sums[...] = array.view(_ndarray)[plan.first]
    if not plan.work.run(address(sums), address(array), address(sums)):
        return None
    made = sums[0] if plan.parts == 1 else ufunc.reduce(sums, 0)
    if initial is not _NOT_GIVEN:
        made = ufunc(made, initial)
    if out is not None and out[0] is not None:
        np.copyto(plain(out[0]), made.reshape(plan.shape))
        return out[0]
    return made.reshape(plan.shape) if plan.shape else made[()]


_REDUCING = (np.add, np.maximum, np.minimum)


def _reduction(ufunc: Any, array: Any, axis: Any, keepdims: bool) -> _Reduction | None:
    """The plan for such an array; None where NumPy is to reduce it."""
    rank, shape, strides = array.ndim, array.shape, array.strides
    axes = range(rank) if axis is None else [axis] if axis.__class__ is int else axis
    reduced = {d % rank if -rank <= d < rank else rank for d in axes}
    loop = inner_loop(ufunc, array.dtype.char * 2)
    if loop is None or array.dtype.char not in "fdl" or not array.dtype.isnative or rank in reduced or not reduced:
        return None
    kept = tuple([n for d, n in enumerate(shape) if d not in reduced])
    steps = [s for d, s in enumerate(strides) if d not in reduced]
    if steps != sorted(steps, reverse=True) or min(strides) < 0 or any(s % array.itemsize for s in strides):
        return None  # NumPy's result would lie otherwise
    own = iter(contiguous_strides(kept, array.itemsize))
    sums = [0 if d in reduced else next(own) for d in range(rank)]
    order = sorted(range(rank), key=lambda d: (strides[d], -d))
    sizes, (to, of) = collapsed(order, shape, [sums, strides])
    if sizes[0] < _SHORT or math.prod(sizes[1:]) > _MOST_LOOPS:
        return None
    outer = list(zip(sizes[1:], to[1:], of[1:], strict=True))
    each = [_places_of([o for o in outer if (o[1] == 0) is inside]) for inside in (False, True)]
    parts = parts_for(array.size)
    if math.prod(sizes[1:]) > parts:
        parts = min(parts, max(blas_team.FEW, array.size // blas_team.SHARE_OF_MANY))
    found = _dealt_out(each[0], each[1], sizes[0], to[0], of[0], math.prod(kept) * array.itemsize, parts)
    if found is None:
        return None
    length, rows, bounds, arrays = found
    work = Work(loop[0], loop[1], [length], (to[0], of[0], to[0]), rows, bounds)
    first = tuple([0 if d in reduced else slice(None) for d in range(rank)])
    made = tuple([1 if d in reduced else n for d, n in enumerate(shape)]) if keepdims else kept
    return _Reduction(work, first, kept, made, arrays)


def _places_of(dimensions: Sequence[tuple[int, int, int]]) -> np.ndarray:
    to, of = [d[1] for d in dimensions], [d[2] for d in dimensions]
    return places([d[0] for d in dimensions], [to, of, to])


def _dealt_out(kept: np.ndarray, reduced: np.ndarray, length: int, to: int, of: int, size: int,
               count: int) -> tuple[int, np.ndarray, list[int], int] | None:
    """The length of loops, where they begin, where the parts begin among them, and how many arrays they sum into.

    Loops that add to the same sum are in one part, in order.
    """
    if len(kept) >= count:
        rows = (kept[:, None] + reduced).reshape(-1, 3)
        return length, rows, [len(kept) * k // count * len(reduced) for k in range(count)], 1
    if to and length % (count * _SHORT) == 0 and length >= count * _LINE:  # a stretch of the sums for each part
        length //= count
        own = np.multiply.outer(np.arange(count) * length, [to, of, to])
        rows = (own[:, None, None] + kept[:, None] + reduced).reshape(-1, 3)
        return length, rows, [len(kept) * len(reduced) * k for k in range(count)], 1
    if len(reduced) >= count:
        bounds = [len(reduced) * k // count for k in range(count)]
        part = np.repeat(np.arange(count), np.diff([*bounds, len(reduced)]))
        apart = np.multiply.outer(part * size, [1, 0, 1]) + reduced
        return length, (apart[:, None] + kept).reshape(-1, 3), [b * len(kept) for b in bounds], count
    if not to and length >= count * _LINE and length % (count * _SHORT) == 0:
        length //= count
        own = np.multiply.outer(np.arange(count), [size, length * of, size])
        rows = (own[:, None, None] + kept[:, None] + reduced).reshape(-1, 3)
        return length, rows, [len(kept) * len(reduced) * k for k in range(count)], count
    return None
