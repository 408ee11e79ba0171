"""Steps in the making, and where the values lie that they read and write."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._core.geometry import contiguous_strides
from .fuse import Body
from .trace import Layout, layout_of

_BYTE = np.dtype(np.int8)


class Place(NamedTuple):
    """Where a value lies: memory, how far into it, and how."""

    memory: int
    offset: int
    layout: Layout


class Look(NamedTuple):
    """How maps look at a source: a value of it, where that begins, and how it lies along the dimensions of a step."""

    memory: int
    root: int
    start: int  # in bytes, in the array of the root
    layout: Layout
    number: int


class Draft:
    """A step in the making. A pointwise one has the shape that it runs over, and what it has loaded and computed."""

    def __init__(self, index: int, shape: tuple[int, ...] | None) -> None:
        self.index, self.shape = index, shape
        self.entries: list[int] = []
        self.body = Body()
        self.loaded: dict[Place, tuple[str, int]] = {}  # name and a value of each place
        self.content: dict[int, tuple[Place, str, int]] = {}  # by memory: what the step has put there
        self.writes: dict[int, int] = {}  # memory that was there before: the value that is written through
        self.sources: dict[Look, str] = {}  # what gather maps load from, by name
        self.words: list[int] = []  # numbers that they are told
        self.gathered: dict[Place, str] = {}  # names of what they load that is no value of the step's shape
        self.sums: list[tuple[str, int, bool]] = []  # of which value, into which, and whether it is a mean
        self.stay = 0  # the dimensions beside those of which sums are taken at once
        self.rows: dict[int, Place] = {}  # by memory: values that rows have one of, which later entries may read
        self.frees: list[int] = []  # positions of the numbers that a run brings, `f0` ... in the body
        self.product: Any = None  # of a step that multiplies matrices: see products.py
        self.together: Any = None  # of a step that adds, and calls something of the sum: see sums.py

    def next_name(self) -> str:
        """That of the next entry's value, which is the same in all steps that compute the same."""
        return f"w{len(self.entries)}"

    def name_of_free(self, position: int) -> str:
        """That of a number that a run brings."""
        if position not in self.frees:
            self.frees.append(position)
        return f"f{self.frees.index(position)}"


def looked_at(shape: tuple[int, ...], looks: Iterable[Look], dimensions: Iterable[int]) -> list[Layout]:
    """How the gather maps of a step look at their sources, and at places, which are as arrays of bytes (fetches.py)."""
    seen = [look.layout for look in looks]
    steps = [tuple([int(d == own) for d in range(len(shape))]) for own in dimensions]
    return seen + [layout_of(shape, own, _BYTE, seen[0].device) for own in steps]


def is_contiguous(layout: Layout) -> bool:
    return layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize)


def is_flat(places: list[Place]) -> bool:
    """Whether elements lie in the order of their indices, as many in each place, or one."""
    size = places[0].layout.size
    return all(is_contiguous(p.layout) and p.layout.size in (1, size) for p in places)


def reshaped(place: Place, shape: tuple[int, ...]) -> Place:
    """A place of elements in order, seen in another shape."""
    layout = place.layout
    if layout.size == 1:
        return place._replace(layout=layout_of((), (), layout.dtype, layout.device))
    strides = contiguous_strides(shape, layout.dtype.itemsize)
    return place._replace(layout=layout_of(shape, strides, layout.dtype, layout.device))


def alike(one: Place, other: Place) -> bool:
    """Whether two places are the same elements in the same order."""
    if one == other:
        return True
    a, b = one.layout, other.layout
    same = one.memory == other.memory and one.offset == other.offset and a.dtype == b.dtype and a.size == b.size
    return same and is_contiguous(a) and is_contiguous(b)


def overlaps(layout: Layout) -> bool:
    """Whether elements share memory."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(layout.strides, layout.shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False
