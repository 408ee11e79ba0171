"""Reductions of the kernel language on arrays: what is folded, seen as [outer, n, inner], and launched."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...._core.dtype import REDUCED, float32, float64
from ...._core.geometry import collapsed, contiguous_strides
from ...._core.offers import new_or_taken, offers
from ...._core.threads import get_num_threads
from ...._kernels.library import reduce as library
from ...._ops._declare.rules import Spec
from ..jit.calls import finishing, launched, prepared
from ..jit.repeats import empty, repeats
from .arrays import takes_halves

_PLAIN = frozenset((float32.np, float64.np))
SHARED = 1 << 15  # elements from which on several threads may work
_SHORT = 1024  # elements of a row up to which several are folded together
_MOST = 1024  # shapes that a reduction remembers
_FEW = 16  # columns next to each other that are too few for the lanes of a vector
INF = float("inf")


def contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class Step(NamedTuple):
    """One launch: [outer, n, inner] folded over n."""

    outer: int
    n: int
    inner: int


@functools.lru_cache(4096)
def steps_of(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[Step, ...]:
    """The launches that fold dimensions of a contiguous array, the innermost first; none where it has no elements."""
    if 0 in shape:
        return ()
    ndim = len(shape)
    folded = set(range(ndim) if axes is None else (d % ndim for d in axes if ndim))
    groups: list[list[int]] = []  # sizes of neighbouring dimensions that are folded (1) or kept (0)
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if groups and groups[-1][0] == (d in folded):
            groups[-1][1] *= n
        else:
            groups.append([d in folded, n])
    made, inner, outer = [], 1, math.prod(shape)
    for is_folded, n in reversed(groups):
        outer //= n
        if is_folded:
            made.append(Step(outer, n, inner))
        else:
            inner *= n
    return tuple(made) or (Step(math.prod(shape), 1, 1),)


def divisor_near(n: int, wanted: int) -> int:
    """The largest divisor of n up to a number."""
    return next(d for d in range(min(wanted, n), 0, -1) if n % d == 0)


LEAST_WIDTH = 32  # columns of a turn that leave enough side by side


def shared_width(outer: int, inner: int, threads: int, most: int) -> int:
    """How many columns a turn takes: all, or so many that there is a turn for each thread."""
    if threads > 1 and outer < threads:
        share = -(-inner * outer // threads)
        return min(max(-(-share // 16) * 16, LEAST_WIDTH), most)
    return min(inner, most)


def width_of(step: Step, threads: int) -> int:
    return shared_width(step.outer, step.inner, threads, library.COLUMNS)


@functools.lru_cache(4096)
def order_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The order of the dimensions in which an array is contiguous; None where there is none."""
    order = tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))
    sizes, (steps,) = collapsed(reversed(order), shape, (strides,))
    return order if len(sizes) == 1 and steps[0] == itemsize else None


def in_order(x: Any, axes: tuple[int, ...] | None,
             order: tuple[int, ...] | None) -> tuple[Any, tuple[int, ...] | None, tuple[int, ...]] | None:
    """The array with its dimensions as they lie in memory, the folded ones there, and how it was turned.

    A copy where they cannot be put so; None for repeated elements, of which a copy would be larger than the array.
    """
    if x.flags.c_contiguous:
        return x, axes, ()
    if order is not None:
        return x.transpose(order), None if axes is None else tuple([order.index(d % x.ndim) for d in axes]), order
    if 0 in x.strides and any(n > 1 and not s for n, s in zip(x.shape, x.strides, strict=True)):
        return None
    return np.ascontiguousarray(x), axes, ()


class Apart(NamedTuple):
    """How an array is folded where it lies: its innermost folded level first, by rows or by columns."""

    order: tuple[int, ...]  # of the dimensions
    shape: tuple[int, ...]  # [a, b, n], or [a, b, n, inner]: at most two levels are around these
    width: int  # columns of a turn
    elements: int  # of which a result is made
    rest: tuple[tuple[Step, int], ...]  # launches that fold what is left, as any contiguous array


@functools.lru_cache(4096)
def apart_of(shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...] | None, itemsize: int,
             threads: int) -> Apart | None:
    """None where an array has to be turned or copied, so that it is contiguous."""
    ndim = len(shape)
    folded = set(range(ndim) if axes is None else (d % ndim for d in axes))
    order = tuple(sorted(range(ndim), key=lambda d: (strides[d] != 0, -abs(strides[d]))))  # repeated elements first
    kept = [d for d in order if shape[d] != 1 and d not in folded]
    results = contiguous_strides(tuple([1 if d in folded else shape[d] for d in order]))
    results = tuple([0 if d in folded else results[order.index(d)] for d in range(ndim)])
    # Neighbours are one level if they are for the array and for its results, where folded dimensions take no step.
    levels, (steps, kept_steps) = collapsed(reversed(order), shape, (strides, results))  # the innermost first
    is_folded = [not step for step in kept_steps]
    if kept != sorted(kept) or not any(is_folded[:2]):
        return None
    inner, outer = (1, levels[1:]) if is_folded[0] else (levels[0], levels[2:])
    rows = math.prod(outer)
    if len(outer) > 2 or inner == 1 and (rows < threads or steps[0] != itemsize):
        return None  # a turn takes a row at least, of elements that are loaded together
    around = reversed(is_folded[len(levels) - len(outer) :])
    again = tuple([i for i, is_one in enumerate(around) if is_one])
    launches = steps_of((*reversed(outer), inner), again)
    return Apart(
        order,
        (*[1] * (2 - len(outer)), *reversed(levels)),
        shared_width(rows, inner, threads, library.COLUMNS),
        math.prod(n for n, is_one in zip(levels, is_folded, strict=True) if is_one),
        tuple([part for step in launches for part in _divided(step, threads)]) if again else (),
    )


class Fold:
    """A reduction: how elements are mapped and combined, for arrays of one kind."""

    def __init__(self, element: Any, combine: Any, start: Any, finish: Any = library.total_itself, *,
                 wide: bool = False, extreme: Any = None) -> None:
        """`extreme`: what combines the floating elements of a row where none is NaN."""
        self.wide, self.extreme = wide, extreme
        again = library.itself if combine is not library.sum_of or wide else library.whole

        def launches(mapped: Any, ended: Any) -> tuple[Callable, Callable]:
            constants = dict(element=mapped, combine=combine, start=start, finish=ended, wide=wide)
            rows = self._rows(constants) if extreme is None else self._extreme_rows(mapped, start)
            return rows, prepared(library.fold_columns, **constants)

        def apart(ended: Any) -> tuple[Callable, Callable]:
            constants = dict(element=element, combine=combine, start=start, finish=ended, wide=wide)
            return prepared(library.fold_apart_rows, **constants), prepared(library.fold_apart_columns, **constants)

        self.apart = apart(library.total_itself), apart(finish)  # of arrays in any order: the first step, the only one
        self.whole = launches(element, finish)  # maps, combines, finishes
        self.first = launches(element, library.total_itself)
        self.middle = launches(again, library.total_itself)
        self.last = launches(again, finish)

    def partial(self, kind: Any) -> Any:
        """The type of results on the way to one of a type."""
        return np.float64 if self.wide else np.float32 if kind in REDUCED else kind

    def _rows(self, constants: dict[str, Any]) -> Callable:
        """The launch that folds rows: several together where they are short and many."""
        each, together = prepared(library.fold_rows, **constants), prepared(library.fold_short_rows, **constants)

        def launch(made: Any, x: Any, rows: int, n: int, parts: int, width: int, count: int, p: float) -> bool:
            if rows >= 8 and n <= _SHORT and parts == 1:
                return together(made, x, rows, n, count, p)
            return each(made, x, rows, n, parts, width, count, p)

        return launch

    def _extreme_rows(self, mapped: Any, start: Any) -> Callable:
        launch = prepared(library.extreme_rows, element=mapped, combine=self.extreme, start=start)
        return lambda made, x, rows, n, parts, width, count, p: launch(made, x, rows, n, parts, width)

    def alone(self, steps: Sequence[Step], size: int) -> tuple[Callable, tuple[int, ...]] | None:
        """The one launch that folds a small array, and what it takes after the arrays; None if there are several."""
        if len(steps) == 1 and size < SHARED:
            outer, n, inner = steps[0]
            if inner == 1:
                return self.whole[0], (outer, n, 1, n, n)
            if inner >= _FEW or n <= 4 * _FEW:
                return self.whole[1], (outer, n, inner, min(inner, library.COLUMNS), n)
        return None

    def __call__(self, made: Any, x: Any, steps: Sequence[Step], partial: Any, p: float = 0.0) -> bool:
        """Folds a contiguous array into `made`; `partial` is the type of results on the way."""
        launch = self.alone(steps, x.size)
        if launch is not None:
            return launch[0](made, x, *launch[1], p)
        return self._in_steps(made, x, steps, partial, p)

    def strided(self, made: Any, x: Any, apart: Apart, partial: Any, threads: int, p: float) -> bool:
        """Folds an array where it lies into `made`, whose dimensions have the same order."""
        seen = x.transpose(apart.order).reshape(apart.shape)
        a, b, _, *inner = apart.shape
        into = empty((a * b, *inner), partial) if apart.rest else made
        rows, columns = self.apart[not apart.rest]
        finishing(x.size)
        try:
            given = (apart.width, apart.elements, p) if inner else (apart.elements, p)
            return (columns if inner else rows)(into, seen, *given) and (not apart.rest or self._launched(
                made, into, apart.rest, partial, p, threads, apart.elements, begun=True))
        finally:
            finishing(0)

    def _in_steps(self, made: Any, x: Any, steps: Sequence[Step], partial: Any, p: float) -> bool:
        threads = get_num_threads() if x.size >= SHARED else 1
        count = math.prod(step.n for step in steps)
        rest = [part for step in steps for part in _divided(step, threads)]
        finishing(x.size)
        try:
            return self._launched(made, x, rest, partial, p, threads, count)
        finally:
            finishing(0)

    def _launched(self, made: Any, x: Any, rest: Sequence[tuple[Step, int]], partial: Any, p: float, threads: int,
                  count: int, *, begun: bool = False) -> bool:
        for i, (step, parts) in enumerate(rest, int(begun)):
            last = i == len(rest) - 1 + begun
            rows, columns = (self.whole if last else self.first) if not i else self.last if last else self.middle
            into = made if last else empty((step.outer * parts, step.inner), partial)
            if step.inner == 1:
                done = rows(into, x, step.outer, step.n, parts, -(-step.n // parts), count, p)
            else:
                done = columns(into, x, *step, width_of(step, threads), count, p)
            if not done:
                return False
            x = into
        return True


def parts_of(rows: int, n: int, threads: int) -> int:
    """How many parts each of a few long rows of n elements is divided into, of ceil(n / parts) elements."""
    if threads == 1 or rows >= threads or n < SHARED:
        return 1
    return -(-n // max(-(-n // (4 * threads)), library.BLOCK))


def _divided(step: Step, threads: int) -> list[tuple[Step, int]]:
    """A launch as one, or as one of parts and one that folds these; each with the parts of a row that it makes."""
    outer, n, inner = step
    if inner == 1:
        parts = parts_of(outer, n, threads)
        return [(step, parts)] if parts == 1 else [(step, parts), (Step(outer, parts, 1), 1)]
    if inner < _FEW and n > 4 * _FEW:
        some = divisor_near(n, 64 // inner)
        if some > 1:
            return [(Step(outer, n // some, inner * some), 1), (Step(outer, some, inner), 1)]
    if threads > 1 and outer * inner < 32 * threads and n >= 2 * library.ROWS:
        some = divisor_near(n, 4 * threads)
        if some > 1:
            return [(Step(outer * some, n // some, inner), 1), (Step(outer, some, inner), 1)]
    return [(step, 1)]


# operators -----------------------------------------------------------------------------------------------------------


@functools.cache
def _kind_of(dtype: np.dtype) -> str:
    """The kind of numbers that is computed with: "u" for uint64 alone, smaller ones become int64."""
    kind = "f" if dtype in REDUCED else dtype.kind
    return "i" if kind == "u" and dtype.itemsize < 8 else kind


class Folding:
    """The kernel of an operator: a fold for each kind of array ("f", "i", "u", "b"), of which some may be missing."""

    def __init__(self, **folds: Fold) -> None:
        self.folds = folds
        self._known: dict[Any, Fold | None] = {}  # by type of element
        self._quick: dict[tuple, tuple] = {}  # by shape, dimension and whether that is kept

    def fold_of(self, kind: np.dtype) -> Fold | None:
        try:
            return self._known[kind]
        except KeyError:
            self._known[kind] = self.folds.get(_kind_of(kind))
            return self._known[kind]

    def __call__(self, x: Any, axes: tuple[int, ...] | None, spec: Spec, p: float = 0.0) -> Any:
        fold, kind = self.fold_of(x.dtype), spec.dtype.np
        if fold is None:
            return None
        if not x.flags.c_contiguous:
            return self._of_strided(fold, x, axes, spec, p)
        steps = steps_of(x.shape, axes)
        made = empty(spec.shape, kind)
        return made if steps and fold(made, x, steps, fold.partial(kind), p) else None

    def _of_strided(self, fold: Fold, x: Any, axes: tuple[int, ...] | None, spec: Spec, p: float) -> Any:
        if not x.size:
            return None
        kind, order = spec.dtype.np, order_of(x.shape, x.strides, x.itemsize)
        if order is None:
            threads = get_num_threads() if x.size >= SHARED else 1
            apart = apart_of(x.shape, x.strides, axes, x.itemsize, threads)
            if apart is not None:
                made = empty(spec.shape, kind)
                return made if fold.strided(made, x, apart, fold.partial(kind), threads, p) else None
        found = in_order(x, axes, order)
        if found is None:
            return None
        x, axes, order = found
        steps = steps_of(x.shape, axes)
        if not order or axes is None or len(spec.shape) < 2:
            made = empty(spec.shape, kind)
            return made if fold(made, x, steps, fold.partial(kind), p) else None
        kept = [d for i, d in enumerate(order) if i not in axes]
        made = np.empty([x.shape[order.index(d)] for d in kept], kind)  # not yet the result
        if not fold(made, x, steps, fold.partial(kind), p):
            return None
        return np.ascontiguousarray(made.transpose([kept.index(d) for d in sorted(kept)])).reshape(spec.shape)

    def quick(self, x: Any, dim: Any, keepdim: bool) -> Any:
        """The fold of a contiguous array of a plain type over all or one dimension; None for others."""
        key = (x.shape, dim, keepdim)
        shape, steps, launch = self._quick.get(key) or self._remembered(key)
        if not steps:
            return None
        made = new_or_taken(shape, x.dtype) if offers else np.empty(shape, x.dtype)
        if launch is not None:
            return made if launch[0](made, x, *launch[1], 0.0) else None
        fold = self.folds["f"]
        return made if fold(made, x, steps, fold.partial(x.dtype)) else None

    def _remembered(self, key: tuple) -> tuple:
        shape, dim, keepdim = key
        folded = {dim[0] % len(shape)} if dim else set(range(len(shape)))
        made = tuple([1 if d in folded else n for d, n in enumerate(shape) if keepdim or d not in folded])
        steps = steps_of(shape, tuple(folded) if dim else None)
        if len(self._quick) >= _MOST:
            self._quick.clear()
        known = self._quick[key] = made, steps, self.folds["f"].alone(steps, math.prod(shape))
        return known


def _of_dims(folding: Folding, by_parts: bool = False) -> Callable:
    """The kernel of an operator that takes `dim`, `keepdim`, and perhaps `dtype`.

    `by_parts`: it does with real and imaginary parts, each by itself, what it does with numbers.
    """

    @repeats
    @takes_halves
    def kernel(x: Any, dim: Any, keepdim: bool, dtype: Any = None, *, spec: Spec) -> Any:
        if dtype is not None and dtype.np != x.dtype or dim == () and x.shape == spec.shape:
            return None  # of no dimensions, `any` and `all` fold nothing
        if by_parts and x.dtype.kind == "c":
            return _fold_parts(folding, x, _axes(dim), spec)
        return folding(x, _axes(dim), spec)

    kernel.quick = folding.quick  # type: ignore[attr-defined]
    return kernel


def _fold_parts(folding: Folding, x: Any, axes: tuple[int, ...] | None, spec: Spec) -> Any:
    if not (x.ndim and x.size and x.flags.c_contiguous) or x.dtype != spec.dtype.np:
        return None
    kind = spec.dtype.to_real()
    numbered = tuple([d % x.ndim for d in (range(x.ndim) if axes is None else axes)])
    made = folding(x.reshape(-1).view(kind.np).reshape(*x.shape, 2), numbered, Spec((*spec.shape, 2), kind))
    return None if made is None else made.reshape(-1).view(x.dtype).reshape(spec.shape)


def _axes(dim: Any) -> tuple[int, ...] | None:
    return dim or None if dim.__class__ is tuple else (dim,) if dim.__class__ is int else tuple(dim) if dim else None


_ADDED = Fold(library.itself, library.sum_of, 0, wide=True)
_WHOLE = Fold(library.whole, library.sum_of, 0)
_PRODUCT = Fold(library.itself, library.product_of, 1)
_WHOLE_PRODUCT = Fold(library.whole, library.product_of, 1)
_TRUTH = {"any": Fold(library.truth, library.either, False), "all": Fold(library.truth, library.both, True)}

total = _of_dims(Folding(f=_ADDED, i=_WHOLE, u=_WHOLE, b=_WHOLE), by_parts=True)
mean = _of_dims(Folding(f=Fold(library.itself, library.sum_of, 0, library.mean_of, wide=True)), by_parts=True)
nansum = _of_dims(Folding(f=Fold(library.number, library.sum_of, 0, wide=True)))
_product = _of_dims(Folding(f=_PRODUCT, i=_WHOLE_PRODUCT, u=_WHOLE_PRODUCT, b=_WHOLE_PRODUCT))


@repeats
@takes_halves
def prod(x: Any, dim: Any, keepdim: bool, dtype: Any = None, *, spec: Spec) -> Any:
    if x.dtype.kind != "c":
        return _product(x, dim, keepdim, dtype, spec=spec)
    steps = steps_of(x.shape, _axes(dim)) if x.flags.c_contiguous and x.size and x.dtype == spec.dtype.np else ()
    if len(steps) != 1:
        return None
    made, kind = empty(spec.shape, x.dtype), spec.dtype.to_real().np
    parts = [array.reshape(-1).view(kind) for array in (made, x)]
    return made if launched(library.complex_product, *parts, *steps[0]) else None


prod.quick = _product.quick  # type: ignore[attr-defined]
any_true = _of_dims(Folding(**dict.fromkeys("fiub", _TRUTH["any"])))
all_true = _of_dims(Folding(**dict.fromkeys("fiub", _TRUTH["all"])))


@repeats
@takes_halves
def count_nonzero(x: Any, dim: Any, *, spec: Spec) -> Any:
    return _COUNTED(x, _axes(dim), spec) if x.ndim else None


_COUNTED = Folding(**dict.fromkeys("fiub", Fold(library.counted, library.sum_of, 0)))


@repeats
@takes_halves
def hashed(x: Any, dim: Any, keepdim: bool, mode: int, *, spec: Spec) -> Any:
    return _HASHED(x, _axes(dim), spec)


_WHOLE_HASHED = Fold(library.whole, library.differing, 0)
_HASHED = Folding(f=Fold(library.bits, library.differing, 0), **dict.fromkeys("iub", _WHOLE_HASHED))


# extremes ------------------------------------------------------------------------------------------------------------

_LARGEST = {"f": -INF, "i": -(1 << 63), "u": 0, "b": False}
_SMALLEST = {"f": INF, "i": (1 << 63) - 1, "u": (1 << 64) - 1, "b": True}


def _extremes(largest: bool, element: Any = library.itself) -> Folding:
    """The fold to the largest or smallest element; where there is a NaN, that."""
    plain = library.larger_of if largest else library.smaller_of
    careful = library.maximum_of if largest else library.minimum_of
    starts = _LARGEST if largest else _SMALLEST
    return Folding(f=Fold(element, careful, starts["f"], extreme=plain),
                   **{kind: Fold(element, plain, starts[kind]) for kind in "iub"})


amax, amin = _of_dims(_extremes(True)), _of_dims(_extremes(False))


def _of_all(folding: Folding) -> Callable:
    @repeats
    @takes_halves
    def kernel(x: Any, *, spec: Spec) -> Any:
        return folding(x, None, spec)

    kernel.quick = folding.quick  # type: ignore[attr-defined]
    return kernel


max_all, min_all = _of_all(_extremes(True)), _of_all(_extremes(False))


@repeats
@takes_halves
def aminmax(x: Any, dim: int | None, keepdim: bool, *, spec: tuple[Spec, Spec]) -> Any:
    least, most = amin(x, one_axis(dim), keepdim, spec=spec[0]), amax(x, one_axis(dim), keepdim, spec=spec[1])
    return None if least is None or most is None else (least, most)  # machine code of one may come before the other's


def one_axis(dim: int | None) -> tuple[int, ...] | None:
    return None if dim is None else (dim,)


class _Places:
    """Largest or smallest elements and their places; a start for each kind of array."""

    def __init__(self, largest: bool) -> None:
        starts = _LARGEST if largest else _SMALLEST
        self.rows = {kind: prepared(library.place_rows, largest=largest, start=start)
                     for kind, start in starts.items()}
        self.columns = prepared(library.place_columns, largest=largest)

    def __call__(self, x: Any, dim: int | None, shape: tuple[int, ...]) -> tuple[Any, Any] | None:
        if not x.size or not x.ndim:
            return None
        x = contiguous(x)
        steps = steps_of(x.shape, one_axis(dim))
        outer, n, inner = step = steps[0]
        values, places = empty(shape, x.dtype), empty(shape, np.int64)
        threads = get_num_threads() if x.size >= SHARED else 1
        if inner > 1:
            return (values, places) if self.columns(values, places, x, *step, width_of(step, threads)) else None
        rows = self.rows[_kind_of(x.dtype)]
        if outer > 1 or threads == 1:
            return (values, places) if rows(values, places, x, outer, n, 1, n) else None
        width = -(-n // (4 * threads))
        parts = -(-n // width)
        # Not repeats.empty: which element is looked up differs from call to call.
        some, where = np.empty(parts, x.dtype), np.empty(parts, np.int64)
        if not rows(some, where, x, 1, n, parts, width) or not rows(values, places, some, 1, parts, 1, parts):
            return None
        places[...] = where[places.item()]
        return values, places


_PLACES = {"max": _Places(True), "min": _Places(False)}


def _with_places(word: str) -> tuple[Callable, Callable]:
    """The kernels of `max.dim` and `argmax`, or of the smallest."""
    places = _PLACES[word]

    @repeats
    @takes_halves
    def dim_kernel(x: Any, dim: int, keepdim: bool, *, spec: tuple[Spec, Spec]) -> Any:
        return places(x, dim, spec[0].shape)

    @repeats
    @takes_halves
    def place_kernel(x: Any, dim: int | None, keepdim: bool, *, spec: Spec) -> Any:
        found = places(x, dim, spec.shape)
        return None if found is None else found[1]

    return dim_kernel, place_kernel


max_dim, argmax = _with_places("max")
min_dim, argmin = _with_places("min")


# norms ---------------------------------------------------------------------------------------------------------------

_NORMS = {0: Folding(f=Fold(library.present, library.sum_of, 0, wide=True)),
          1: Folding(f=Fold(library.size, library.sum_of, 0, wide=True)),
          2: Folding(f=Fold(library.square, library.sum_of, 0, library.root, wide=True)),
          INF: _extremes(True, library.size), -INF: _extremes(False, library.size)}
_POWER_NORM = Folding(f=Fold(library.powered, library.sum_of, 0, library.root_of_power, wide=True))


@repeats
@takes_halves
def vector_norm(x: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any, *, spec: Spec) -> Any:
    if dtype is not None and dtype.np != x.dtype or _kind_of(x.dtype) != "f":
        return None
    return _NORMS.get(ord, _POWER_NORM)(x, _axes(dim), spec, float(ord))


# moments -------------------------------------------------------------------------------------------------------------


class _Moments:
    """Variances or deviations, and means."""

    def __init__(self, deviation: bool) -> None:
        self.rows = prepared(library.moment_rows, deviation=deviation)
        self.columns = prepared(library.moment_columns, deviation=deviation)
        self.merge = prepared(library.merge_moments, deviation=deviation)

    def __call__(self, x: Any, dim: Any, correction: Any, shape: tuple[int, ...]) -> tuple[Any, Any] | None:
        kept, axes = x, _axes(dim)
        if _kind_of(x.dtype) != "f":
            return None
        if not x.flags.c_contiguous:
            found = in_order(x, axes, order_of(x.shape, x.strides, x.itemsize))
            if found is None:
                return None
            kept = np.ascontiguousarray(x) if found[2] and axes is not None else found[0]
        steps = steps_of(kept.shape, axes)
        if len(steps) > 1:  # the folded dimensions behind the others
            last = {d % x.ndim for d in axes or ()}
            kept = np.ascontiguousarray(x.transpose([*(d for d in range(x.ndim) if d not in last), *last]))
            steps = steps_of(kept.shape, tuple(range(x.ndim - len(last), x.ndim)))
        if not steps:
            return None
        outer, n, inner = step = steps[0]
        made, means = empty(shape, x.dtype), empty(shape, x.dtype)
        free = float(n - (1 if correction is None else correction))
        free = free if free > 0 else 0.0
        threads = get_num_threads() if x.size >= SHARED else 1
        if inner > 1:
            return (made, means) if self.columns(made, means, kept, *step, width_of(step, threads), free) else None
        if outer > 1 or threads == 1:
            return (made, means) if self.rows(made, means, kept, outer, n, 1, n, free) else None
        width = -(-n // (4 * threads))
        parts = -(-n // width)
        squares, own = np.empty(parts), np.empty(parts)
        if not _SQUARES(squares, own, kept, 1, n, parts, width, 1.0):
            return None
        finishing(n)
        try:
            return (made, means) if self.merge(made, means, squares, own, n, width, parts, free) else None
        finally:
            finishing(0)


_SQUARES = prepared(library.moment_rows, deviation=False)
_VARIANCE, _DEVIATION = _Moments(False), _Moments(True)


def _moment(moments: _Moments) -> tuple[Callable, Callable]:
    """The kernels of `var` and `var_mean`, or of the deviation."""

    @repeats
    @takes_halves
    def alone(x: Any, dim: Any, correction: Any, keepdim: bool, *, spec: Spec) -> Any:
        found = moments(x, dim, correction, spec.shape)
        return None if found is None else found[0]

    @repeats
    @takes_halves
    def with_mean(x: Any, dim: Any, correction: Any, keepdim: bool, *, spec: tuple[Spec, Spec]) -> Any:
        return moments(x, dim, correction, spec[0].shape)

    return alone, with_mean


var, var_mean = _moment(_VARIANCE)
std, std_mean = _moment(_DEVIATION)
