"""Array functions over parts of arrays, written down once and run by OpenBLAS's threads in one round.

A function that works on each sample alone, such as the steps of a recurrent layer, makes many short calls one after
another. It is run once on arrays that write down what NumPy would call (`_Written`), for the part of each thread; from
then on one round of threads (blas_team.py) makes all these calls, where the arrays lie then. What lies between two
calls, such as the columns of a convolution, is in memory of the part, which stays in the cache of its thread.
"""

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import planning
from ..._core.geometry import collapsed
from . import blas_team
from .blas_team import Work, address, inner_loop, parts_for
from .shared import places, plain
from .shared_products import matrix_call

__all__ = ["MOST_CALLS", "deal", "room"]

_CALLS = 3  # of one geometry before it is written down, which takes as long as some hundred calls
MOST_CALLS = 1 << 16  # of a program
_PLANS, _KEPT_CALLS = 256, 1 << 19  # geometries that are remembered, and calls of all programs
_IDLE = 1 << 12  # functions that are dealt out until a program that is not run makes room for others
_NUMBERS = (float, int)
_UNUSED = 3  # references to memory that no array shows: the list's, the loop's, and the question's own
_programs: dict[tuple, Any] = {}  # how often there was a geometry, then its _Program, or None if it cannot be one
planning.plans.append(_programs)
_dealt = itertools.count()


class _Unwritable(Exception):
    """What is called cannot be written down."""


class _Written(np.ndarray):
    """An array whose elements are computed later: calls on it are written down."""

    recorder: "_Recorder"

    def __array_finalize__(self, source: Any) -> None:
        self.recorder = getattr(source, "recorder", None)  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method == "reduce" and options.keys() <= {"axis"} and out is not None:
            return self.recorder.reduced(ufunc, inputs[0], options.get("axis", 0), out[0])
        if method != "__call__" or options:
            raise _Unwritable
        return self.recorder.called(ufunc, inputs, None if out is None else out[0])

    def __array_function__(self, *given: Any) -> Any:
        raise _Unwritable

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self[index]
        if target.__class__ is not _Written or target.base is None:
            raise _Unwritable
        same = value.__class__ is _Written and address(value) == address(target) and value.strides == target.strides
        if not same:
            self.recorder.called(np.positive, (value,), target)

    def reshape(self, *shape: Any) -> Any:  # type: ignore[override]
        made = super().reshape(*shape)
        if address(made) != address(self):  # a copy, of what is not there yet
            raise _Unwritable
        return made

    def _refused(self, *given: Any, **options: Any) -> Any:
        raise _Unwritable

    __bool__ = __int__ = __index__ = __float__ = __complex__ = __iter__ = _refused  # type: ignore[assignment]
    astype = copy = dot = fill = item = repeat = take = tolist = _refused  # type: ignore[assignment]


class _Recorder:
    """The calls of a function for one part after another."""

    def __init__(self, kind: np.dtype) -> None:
        self.kind = kind
        self.count = 0
        self.calls: list[tuple] = []  # loop, data, which lengths, which steps, where each array begins in each call
        self.lengths: dict[tuple, int] = {}
        self.steps: dict[tuple, int] = {}
        self.kept: list[Any] = []
        self.room: list[np.ndarray] = []

    def written(self, array: np.ndarray) -> _Written:
        made = array.view(_Written)
        made.recorder = self
        return made

    def write(self, loop: Sequence[Any], lengths: Sequence[int], steps: Sequence[int], begins: Any) -> None:
        begins = np.array(begins, np.int64)
        which = [known.setdefault(tuple(own), len(known)) for known, own in ((self.lengths, lengths),
                                                                             (self.steps, steps))]
        self.calls.append((loop[0], loop[1], *which, begins))
        self.count += len(begins)

    def called(self, ufunc: Any, inputs: Sequence[Any], out: Any) -> Any:
        if ufunc is np.matmul:
            return self._multiplied(inputs[0], inputs[1], out)
        if ufunc is np.vecdot and out is not None:
            return self._products_of_rows(inputs[0], inputs[1], out)
        arrays = [self._operand(x) for x in inputs]
        loop = inner_loop(ufunc, self.kind.char * len(arrays)) if ufunc.signature is None and ufunc.nout == 1 else None
        if loop is None or loop[2] != self.kind.char:
            raise _Unwritable
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        target = self._fresh(shape) if out is None else out
        if np.broadcast_shapes(shape, target.shape) != target.shape or target.dtype != self.kind:
            raise _Unwritable
        shape = target.shape
        if any((address(x), x.strides) != (address(target), target.strides) and _meet(x, target) for x in arrays):
            raise _Unwritable
        operands = [*arrays, target]
        steps = [_spread(x, shape) for x in operands]
        order = sorted(range(len(shape)), key=lambda d: (abs(steps[-1][d]), -d))
        sizes, strides = collapsed(order, shape, steps)
        begins = places(sizes[1:], [s[1:] for s in strides]) + [address(x) for x in operands]
        if 0 not in sizes:
            self.write(loop, sizes[:1], [s[0] for s in strides], begins)
        return target

    def reduced(self, ufunc: Any, array: Any, axis: int, out: Any) -> Any:
        """`ufunc.reduce(array, axis, out=out)` of two inputs of one type: what is first, and then a call for a row."""
        loop, array = inner_loop(ufunc, self.kind.char * 2), self._operand(array)
        axis %= array.ndim
        rows = np.moveaxis(array.view(np.ndarray), axis, -1)
        if loop is None or loop[2] != self.kind.char or not rows.shape[-1] or _meet(array, out):
            raise _Unwritable
        self.called(np.positive, (self.written(rows[..., 0]),), out)
        if rows.shape[-1] > 1:
            steps = [out.strides, rows.strides[:-1], out.strides]
            sizes, strides = collapsed(range(out.ndim - 1, -1, -1), out.shape, steps)
            begins = places(sizes, strides) + [address(out), address(rows) + rows.strides[-1], address(out)]
            self.write(loop, (rows.shape[-1] - 1,), (0, rows.strides[-1], 0), begins)
        return out

    def _operand(self, x: Any) -> Any:
        if x.__class__ in _NUMBERS:
            x = np.array(x, self.kind)
        elif isinstance(x, np.generic):
            x = np.asarray(x)
        if not isinstance(x, np.ndarray) or x.dtype != self.kind:
            raise _Unwritable
        if x.__class__ is not _Written:
            self.kept.append(x)
        return x

    def _fresh(self, shape: tuple[int, ...]) -> _Written:
        """Memory for what lies between two calls: what nobody refers to any more is used again, and stays in cache."""
        memory = next((m for m in self.room if m.shape == shape and sys.getrefcount(m) == _UNUSED), None)
        if memory is None:
            memory = np.empty(shape, self.kind)
            self.room.append(memory)
        return self.written(memory)

    def begin(self) -> int:
        """The number of the first call of a part, which has memory of its own."""
        self.kept += self.room
        self.room = []
        return self.count

    def _multiplied(self, a: Any, b: Any, out: Any) -> Any:
        a, b = self._operand(a), self._operand(b)
        target = self._fresh((*a.shape[:-1], b.shape[-1])) if out is None else out
        call = matrix_call(a, b, target)
        if call is None:
            raise _Unwritable
        self.write(call[:2], *call[2:], [[address(x) for x in (a, b, target)]])
        return target

    def _products_of_rows(self, a: Any, b: Any, out: Any) -> Any:
        loop, a, b = inner_loop(np.vecdot, self.kind.char * 2), self._operand(a), self._operand(b)
        alike = a.ndim == 2 and a.shape == b.shape and out.shape == (len(a),)
        if loop is None or not alike or not a.dtype == b.dtype == out.dtype == self.kind:
            raise _Unwritable
        steps = (a.strides[0], b.strides[0], out.strides[0], a.strides[1], b.strides[1])
        self.write(loop, a.shape, steps, [[address(x) for x in (a, b, out)]])
        return out


def _meet(x: np.ndarray, other: np.ndarray) -> bool:
    return np.shares_memory(x.view(np.ndarray), other.view(np.ndarray))


def _spread(x: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * (len(shape) - x.ndim) + tuple([s if n != 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)])


def room(like: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros for what lies between calls on such arrays: of the part of a program, so that what is not written stays."""
    memory = np.zeros(shape, like.dtype)
    if like.__class__ is not _Written:
        return memory
    like.recorder.kept.append(memory)  # type: ignore[attr-defined]
    return like.recorder.written(memory)  # type: ignore[attr-defined]


def _rows(values: dict[tuple, int]) -> np.ndarray:
    """The keys, numbered, as rows of one length."""
    most = max(map(len, values))
    return np.array([[*own, *[0] * (most - len(own))] for own in values], np.int64)


class _Stretch:
    """Calls of one loop over the same arrays: where these begin is told to all of them at once, array by array."""

    def __init__(self, offsets: np.ndarray, pointers: np.ndarray, of: Sequence[int]) -> None:
        self.columns = [(np.ascontiguousarray(offsets[:, i]), pointers[:, i], which) for i, which in enumerate(of)]
        self.changes: bool | None = None  # whether the loop changes what tells it where arrays begin

    def tell(self, begins: Sequence[int], last: Sequence[int] | None) -> None:
        """Tells calls where arrays begin that did not begin there the last time."""
        for offsets, pointers, which in self.columns:
            if last is None or self.changes or begins[which] != last[which]:
                np.add(offsets, begins[which], pointers)

    def was_changed(self, begins: Sequence[int]) -> bool:
        return any([(offsets + begins[which] != pointers).any() for offsets, pointers, which in self.columns])


class _Program:
    """What was written down, for arrays that may lie elsewhere each time."""

    def __init__(self, recorder: _Recorder, bounds: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
        width = max(call[4].shape[1] for call in recorder.calls)
        begins = np.zeros((recorder.count, width), np.int64)
        loops, data, lengths, steps = (np.repeat([call[i] for call in recorder.calls],
                                                 [len(call[4]) for call in recorder.calls]) for i in range(4))
        at = 0
        for call in recorder.calls:
            begins[at : at + len(call[4]), : call[4].shape[1]] = call[4]
            at += len(call[4])
        of = _arrays_of(begins, arrays)
        offsets = begins - np.append([address(array) for array in arrays], 0)[of]
        _, kinds = np.unique(np.column_stack([loops, of]), axis=0, return_inverse=True)
        order = np.argsort(kinds.reshape(-1), kind="stable")
        places_of = np.empty_like(order)
        places_of[order] = np.arange(len(order))
        chosen = (lengths, steps, places_of)
        self.work = Work(loops, data, _rows(recorder.lengths), _rows(recorder.steps), offsets[order], bounds, True,
                         chosen)
        ends = [0, *(np.flatnonzero(np.diff(kinds.reshape(-1)[order])) + 1).tolist(), len(order)]
        work = self.work
        self.stretches = [_Stretch(work.offsets[start:end], work.pointers[start:end], of[order[start]].tolist())
                          for start, end in zip(ends, ends[1:])]
        self.last: list[int] | None = None  # where arrays began
        self.used = next(_dealt)
        self.kept = [*recorder.kept, *recorder.room]

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        begins, self.used = [*[address(array) for array in arrays], 0], next(_dealt)
        with self.work.library.lock:
            last, self.last = self.last, None
            for stretch in self.stretches:
                if stretch.changes or begins != last:
                    stretch.tell(begins, last)
            self.work.execute_as_told()
            for stretch in self.stretches:
                if stretch.changes is None:
                    stretch.changes = stretch.was_changed(begins)
            self.last = begins


def _arrays_of(begins: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """In which array each place lies; their number for memory that stays where it is."""
    starts = np.array([address(array) for array in arrays])
    order = np.argsort(starts)
    ends = np.array([_end(array) for array in arrays])[order]
    at = np.searchsorted(starts[order], begins, "right") - 1
    return np.where((at >= 0) & (begins < ends[at]), order[at], len(arrays))


def _end(array: np.ndarray) -> int:
    return address(array) + array.itemsize + sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides))


def deal(xp: Any, function: Callable, given: tuple, samples: int, arrays: Sequence[Any], made: Any = None,
         effort: int = 0, otherwise: Callable[[], None] | None = None) -> None:
    """`function(xp, slice(0, samples), *given, *arrays)`, by threads that take some of the samples each.

    Arrays, of one type, do not share memory, or one is part of another. If `made`, the one that is written, is named,
    the namespace is the function's own when it is written down, and its calls are made only if they give the same bits.
    `effort` is how many elements of a cheap loop would take as long, `otherwise` what does it while it is not written
    down, if not the function itself.
    """
    own, arrays = arrays, [plain(array) for array in arrays]
    held = [array for array in arrays if array is not None]
    key = (function, given, samples, *[None if a is None else (a.shape, a.strides, a.dtype) for a in arrays])
    found = _programs.get(key, 0)
    if found.__class__ is int:
        if found < _CALLS:
            program = None
            found += 1
        else:
            program = found = None
            if _has_room():
                program = found = _written(np if made is None else xp, function, given, samples, arrays, held, effort)
            if found is not None and made is not None:
                function(xp, slice(0, samples), *given, *arrays)
                wanted = made.tobytes()
                found.run(held)
                program = found = found if made.tobytes() == wanted else None
        _remember(key, found)
        found = program
    if found is not None and blas_team.is_used():
        found.run(held)
    elif otherwise is not None:
        otherwise()
    else:
        function(xp, slice(0, samples), *given, *own)


def _has_room() -> bool:
    """Whether one more program may be kept; those that were not run for long make room."""
    programs = [(key, program) for key, program in list(_programs.items()) if program.__class__ is _Program]
    now, kept = next(_dealt), sum([program.work.rows for _, program in programs])
    for key, program in programs:
        if kept >= _KEPT_CALLS and now - program.used > _IDLE:
            _programs.pop(key, None)
            kept -= program.work.rows
    return kept < _KEPT_CALLS


def _remember(key: tuple, found: Any) -> None:
    """Keeps a count, a program or None. Where there are too many, counts of what did not come often are forgotten."""
    if len(_programs) >= _PLANS:
        for other, program in list(_programs.items()):
            if program.__class__ is not _Program:
                _programs.pop(other, None)
        if len(_programs) >= _PLANS:
            _programs.clear()
    _programs[key] = found


def _written(xp: Any, function: Callable, given: tuple, samples: int, arrays: Sequence[Any],
             held: Sequence[np.ndarray], effort: int) -> _Program | None:
    kind = held[0].dtype
    if kind.char not in "fd" or any(a.__class__ is not np.ndarray or a.dtype != kind or min(a.strides, default=0) < 0
                                    or not a.flags.aligned for a in held):
        return None
    recorder, bounds = _Recorder(kind), []
    count = min(samples, parts_for(effort or max(a.size for a in held)))
    try:
        for k in range(count):
            bounds.append(recorder.begin())
            part = slice(samples * k // count, samples * (k + 1) // count)
            function(xp, part, *given, *[None if a is None else recorder.written(a) for a in arrays])
            if recorder.count * count > MOST_CALLS * (k + 1):
                return None
    except _Unwritable:
        return None
    return _Program(recorder, bounds, held)
