"""Array functions over parts of arrays, written down once and run by OpenBLAS's threads in one round.

A function that works on each sample alone, such as the steps of a recurrent layer, makes many short calls one after
another. It is run once on arrays that write down what NumPy would call (`_Written`), for the part of each thread; from
then on one round of threads (blas_team.py) makes all these calls, where the arrays lie then.
"""

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

__all__ = ["deal"]

_CALLS = 3  # of one geometry before it is written down, which takes as long as some hundred calls
_MOST_CALLS = 1 << 16  # of a program
_PLANS = 32
_NUMBERS = (float, int)
_UNUSED = 3  # references to memory that no array shows: the list's, the loop's, and the question's own
_programs: dict[tuple, Any] = {}  # how often there was a geometry, then its _Program, or None if it cannot be one
planning.plans.append(_programs)


class _Unwritable(Exception):
    """What is called cannot be written down."""


class _Written(np.ndarray):
    """An array whose elements are computed later: calls on it are written down."""

    recorder: "_Recorder"

    def __array_finalize__(self, source: Any) -> None:
        self.recorder = getattr(source, "recorder", None)  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
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

    def _refused(self, *given: Any, **options: Any) -> Any:
        raise _Unwritable

    __bool__ = __int__ = __index__ = __float__ = __complex__ = __iter__ = _refused  # type: ignore[assignment]
    astype = copy = dot = fill = item = repeat = take = tolist = _refused  # type: ignore[assignment]


class _Recorder:
    """The calls of a function for one part after another."""

    def __init__(self, kind: np.dtype) -> None:
        self.kind = kind
        self.calls: list[tuple] = []  # loop, data, lengths, steps, where each array begins
        self.kept: list[Any] = []
        self.room: list[np.ndarray] = []

    def written(self, array: np.ndarray) -> _Written:
        made = array.view(_Written)
        made.recorder = self
        return made

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
        if target.shape != shape or target.dtype != self.kind:
            raise _Unwritable
        if any((address(x), x.strides) != (address(target), target.strides)
               and np.shares_memory(x.view(np.ndarray), target.view(np.ndarray)) for x in arrays):
            raise _Unwritable
        operands = [*arrays, target]
        steps = [(0,) * (len(shape) - x.ndim) + tuple([s if n != 1 else 0 for n, s in zip(x.shape, x.strides)])
                 for x in operands]
        order = sorted(range(len(shape)), key=lambda d: (abs(steps[-1][d]), -d))
        sizes, strides = collapsed(order, shape, steps)
        begins = places(sizes[1:], [s[1:] for s in strides]) + [address(x) for x in operands]
        inside = [s[0] for s in strides]
        self.calls += [(loop[0], loop[1], (sizes[0],), inside, row) for row in begins.tolist()]
        return target

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
        return len(self.calls)

    def _multiplied(self, a: Any, b: Any, out: Any) -> Any:
        target = self._fresh((*a.shape[:-1], b.shape[-1])) if out is None else out
        call = matrix_call(a, b, target)
        if call is None:
            raise _Unwritable
        self.calls.append((*call, [address(x) for x in (a, b, target)]))
        return target

    def _products_of_rows(self, a: Any, b: Any, out: Any) -> Any:
        loop = inner_loop(np.vecdot, self.kind.char * 2)
        alike = a.ndim == 2 and a.shape == b.shape and out.shape == (len(a),)
        if loop is None or not alike or not a.dtype == b.dtype == out.dtype == self.kind:
            raise _Unwritable
        steps = (a.strides[0], b.strides[0], out.strides[0], a.strides[1], b.strides[1])
        self.calls.append((*loop[:2], a.shape, steps, [address(x) for x in (a, b, out)]))
        return out


class _Program:
    """What was written down, for arrays that may lie elsewhere each time."""

    def __init__(self, calls: Sequence[tuple], bounds: Sequence[int], arrays: Sequence[np.ndarray], kept: Any) -> None:
        def padded(column: int) -> np.ndarray:
            most = max(len(call[column]) for call in calls)
            return np.array([[*call[column], *[0] * (most - len(call[column]))] for call in calls], np.int64)

        begins = padded(4)
        starts = np.array([address(array) for array in arrays])
        order = np.argsort(starts)
        ends = np.array([_end(array) for array in arrays])[order]
        at = np.searchsorted(starts[order], begins, "right") - 1
        inside = (at >= 0) & (begins < ends[at])
        self.of = np.where(inside, order[at], len(arrays))  # the last is memory that stays where it is
        offsets = begins - np.append(starts, 0)[self.of]
        loops, data = (np.array([call[column] for call in calls]) for column in (0, 1))
        self.work = Work(loops, data, padded(2), padded(3), offsets, bounds, True)
        self.kept = kept

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        begins = np.array([*[address(array) for array in arrays], 0])
        with self.work.library.lock:
            self.work.execute(begins[self.of])


def _end(array: np.ndarray) -> int:
    return address(array) + array.itemsize + sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides))


def deal(xp: Any, function: Callable, given: tuple, samples: int, arrays: Sequence[Any], made: Any = None) -> None:
    """`function(xp, slice(0, samples), *given, *arrays)`, by threads that take some of the samples each.

    Arrays, of one type, do not share memory, or one is part of another. If `made`, the one that is written, is named,
    the namespace is the function's own when it is written down, and its calls are made only if they give the same bits.
    """
    own, arrays = arrays, [plain(array) for array in arrays]
    held = [array for array in arrays if array is not None]
    key = (function, given, samples, *[None if a is None else (a.shape, a.strides, a.dtype) for a in arrays])
    found = _programs.get(key, 0)
    if found.__class__ is int and found < _CALLS:
        _programs[key] = found + 1
        found = None
    elif found.__class__ is int:
        if len(_programs) >= _PLANS:
            _programs.clear()
        found = _written(np if made is None else xp, function, given, samples, arrays, held)
        if found is not None and made is not None:
            function(xp, slice(0, samples), *given, *arrays)
            wanted = made.tobytes()
            found.run(held)
            found = found if made.tobytes() == wanted else None
        _programs[key] = found
    if found is None or not blas_team.is_used():
        function(xp, slice(0, samples), *given, *own)
    else:
        found.run(held)


def _written(xp: Any, function: Callable, given: tuple, samples: int, arrays: Sequence[Any],
             held: Sequence[np.ndarray]) -> _Program | None:
    kind = held[0].dtype
    if kind.char not in "fd" or any(a.__class__ is not np.ndarray or a.dtype != kind or min(a.strides, default=0) < 0
                                    or not a.flags.aligned for a in held):
        return None
    recorder, bounds = _Recorder(kind), []
    count = min(samples, parts_for(max(a.size for a in held)))
    try:
        for k in range(count):
            bounds.append(recorder.begin())
            part = slice(samples * k // count, samples * (k + 1) // count)
            function(xp, part, *given, *[None if a is None else recorder.written(a) for a in arrays])
            if len(recorder.calls) * count > _MOST_CALLS * (k + 1):
                return None
    except _Unwritable:
        return None
    return _Program(recorder.calls, bounds, held, [*recorder.kept, *recorder.room])
