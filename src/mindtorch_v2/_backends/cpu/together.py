"""Lists of arrays computed as one: an optimizer's parameters, most of which are too small to be shared out alone.

A `Together` stands for a list of arrays of one type, each of which lies row by row. A ufunc of such lists is one round
of OpenBLAS's threads (blas_team.py) over the elements of all arrays.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import planning
from . import blas_team
from .blas_team import GRAIN, Work, address, inner_loop, parts_for
from .shared import LEAST, empty

__all__ = ["together"]

_NUMBERS = (float, int)
_MOST = 64  # lists of sizes that are remembered
_layouts: dict[tuple, "_Layout"] = {}
planning.plans.append(_layouts)


class _Layout:
    """How the elements of arrays of these sizes are dealt out: a call is for a stretch of one array."""

    def __init__(self, sizes: Sequence[int], kind: np.dtype) -> None:
        self.kind, self.total = kind, sum(sizes)
        self.starts = np.array([0, *itertools.accumulate(sizes)][:-1]) * kind.itemsize
        self.sizes = np.array(sizes) * kind.itemsize
        count = parts_for(self.total)
        share = -(-self.total // (count * GRAIN)) * GRAIN
        of: list[int] = []
        begins: list[int] = []
        lengths: list[int] = []
        self.bounds: list[int] = []
        room = 0
        for which, size in enumerate(sizes):
            done = 0
            while done < size:
                if not room:
                    self.bounds.append(len(of))
                    room = share
                length = min(room, size - done)
                of.append(which)
                begins.append(done)
                lengths.append(length)
                done += length
                room -= length
        self.of, self.lengths = np.array(of), np.array(lengths)[:, None]
        self.begins = np.array(begins) * kind.itemsize
        self.works: dict[tuple, tuple[Work, np.ndarray] | None] = {}

    def work(self, ufunc: Any, is_list: tuple[bool, ...]) -> tuple[Work, np.ndarray] | None:
        """The calls of a ufunc whose inputs are lists or numbers, and where numbers are put."""
        key = (ufunc, is_list)
        if key not in self.works:
            self.works[key] = None
            loop = inner_loop(ufunc, self.kind.char * len(is_list))
            if loop is not None and loop[2] == self.kind.char:
                steps = [self.kind.itemsize if own else 0 for own in (*is_list, True)]
                places = np.multiply.outer(self.begins, [1 if own else 0 for own in (*is_list, True)])
                work = Work(loop[0], loop[1], self.lengths, steps, places, self.bounds)
                self.works[key] = work, np.zeros(len(is_list), self.kind)
        return self.works[key]


class Together(np.lib.mixins.NDArrayOperatorsMixin):
    """Arrays that are computed as one: where they begin, and what has to stay alive."""

    def __init__(self, layout: _Layout, places: np.ndarray, kept: Any) -> None:
        self.layout, self.places, self.kept = layout, places, kept

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None) -> Any:
        layout = self.layout
        is_list = tuple([x.__class__ is Together for x in inputs])
        if method != "__call__" or not all([own or x.__class__ in _NUMBERS for own, x in zip(is_list, inputs)]):
            return NotImplemented
        found = layout.work(ufunc, is_list)
        if found is None:
            return NotImplemented
        work, cells = found
        if out is None:
            memory = empty(layout.total, layout.kind)
            made = Together(layout, layout.starts + address(memory), memory)
        else:
            made = out[0]
        bases = np.empty(work.pointers.shape, np.int64)
        with work.library.lock:
            for i, (x, own) in enumerate(zip((*inputs, made), (*is_list, True), strict=True)):
                if own:
                    np.take(x.places, layout.of, out=bases[:, i])
                else:
                    cells[i] = x
                    bases[:, i] = address(cells) + i * cells.itemsize
            work.execute(bases)
        return made

    def __setitem__(self, index: Any, value: "Together") -> None:
        assert index is ...
        self.__array_ufunc__(np.positive, "__call__", value, out=(self,))


def together(lists: Sequence[Sequence[np.ndarray]]) -> list[Together] | None:
    """Lists of arrays, those at one place of one size; None where they are not computed as one.

    The second list is only read; arrays of the others must not share memory.
    """
    first = lists[0]
    kind, sizes = first[0].dtype, tuple([array.size for array in first])
    if not blas_team.is_used() or kind.char not in "fd" or not kind.isnative or sum(sizes) < LEAST or 0 in sizes:
        return None
    for arrays in lists:
        for array, size in zip(arrays, sizes, strict=True):
            flags = array.flags
            if array.dtype is not kind or array.size != size or not flags.c_contiguous or not flags.aligned:
                return None
            if not flags.writeable and arrays is not lists[1]:
                return None
    layout = _layouts.get(key := (sizes, kind))
    if layout is None:
        if len(_layouts) >= _MOST:
            _layouts.clear()
        layout = _layouts[key] = _Layout(sizes, kind)
    places = [np.array([address(array) for array in arrays]) for arrays in lists]
    begins = np.concatenate(places)
    ends = begins + np.tile(layout.sizes, len(lists))
    order = np.argsort(begins, kind="stable")
    if (begins[order][1:] < ends[order][:-1]).any():
        return None
    return [Together(layout, where, arrays) for where, arrays in zip(places, lists, strict=True)]
