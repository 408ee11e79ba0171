"""Windows as gather maps: an element of a result out of those of a window, for the kernels of what reads it.

Windows may reach beyond the elements. In the dimension along which loops run, the places at the borders are told from
those between them, which look at nothing but their elements; in the others, where a window lies is found once for a
row of results.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

MOST_TAPS = 32  # elements of a window: sums of more have kernels of their own


class Window(NamedTuple):
    """The windows along one dimension."""

    size: int
    stride: int
    padding: int
    dilation: int
    results: int

    def starts(self) -> range:
        return range(-self.padding, self.results * self.stride - self.padding, self.stride)

    def whole(self, n: int) -> tuple[int, int]:
        """The first window without padding before it, and the one behind the last without padding after it."""
        first = min(-(-self.padding // self.stride), self.results)
        end = (n - 1 + self.padding - (self.size - 1) * self.dilation) // self.stride + 1
        return first, max(first, min(end, self.results))


class Tap(NamedTuple):
    """An element of a window along one dimension: where it is, and whether there is one (True where there must be)."""

    place: Any
    inside: Any


def _tap(g: Any, place: Any, window: Window, n: int, k: int, whole: bool) -> Tap:
    """The k-th element of the window of a place; one that is not there is the nearest that is."""
    shift = k * window.dilation - window.padding
    at = place * window.stride + shift
    if whole:
        return Tap(at, True)
    inside: Any = True
    if shift < 0:
        inside, at = at >= 0, g.most(at, 0)
    if (window.results - 1) * window.stride + shift >= n:
        inside, at = (at < n) & inside, g.least(at, n - 1)
    return Tap(at, inside)


def windowed(g: Any, ndim: int, sizes: Sequence[int], windows: Sequence[Window],
             value: Callable[[list[list[Tap]], list[bool]], Any]) -> Any:  # fmt: skip
    """What `value` gives for a place: it is told the elements along each dimension, and whether all must be there."""
    before = ndim - len(windows)
    limits = [window.whole(n) for window, n in zip(windows, sizes, strict=True)]
    always = [limit == (0, window.results) for limit, window in zip(limits, windows, strict=True)]

    def of(own: int | None) -> Any:
        known = [is_whole or d == own for d, is_whole in enumerate(always)]
        taps = [[_tap(g, g.at[before + d], window, n, k, known[d]) for k in range(window.size)]
                for d, (window, n) in enumerate(zip(windows, sizes, strict=True))]  # fmt: skip
        return value(taps, known)

    def border() -> Any:
        return of(None)

    inner = g.inner - before
    if inner < 0 or always[inner] or limits[inner][0] == limits[inner][1]:
        return border()
    (first, end), place = limits[inner], g.at[g.inner]

    def between() -> Any:
        if end == windows[inner].results:
            return of(inner)
        return g.chosen(place < end, lambda: of(inner), border)

    return g.chosen(place < first, border, between) if first else between()


def check_taps(count: int) -> None:
    """Raises for windows of too many elements."""
    if count > MOST_TAPS:
        raise NotImplementedError("windows of many elements")


def element_of(g: Any, self: Any, taps: Sequence[Tap], outside: Any) -> Any:
    """The element at one tap of each dimension; `outside` where one of them is not there."""
    lead = self.ndim - len(taps)
    value = self[(*g.at[:lead], *[tap.place for tap in taps])]
    inside: Any = True
    for tap in taps:
        inside = tap.inside if inside is True else inside if tap.inside is True else inside & tap.inside
    return value if inside is True else g.where(inside, value, outside)


def largest_at(g: Any, self: Any, windows: Sequence[Window]) -> Any:
    """The largest element of a window; NaN if there is one."""
    sizes = self.shape[-len(windows) :]
    places = list(itertools.product(*[range(window.size) for window in windows]))
    check_taps(len(places))
    if self.dtype.kind == "b":
        raise NotImplementedError("truths")
    lowest = self.number(np.iinfo(self.dtype).min if self.dtype.kind in "iu" else -np.inf)
    # Without gaps between them, the nearest element that is there is of the window.
    gaps = any(window.dilation > 1 for window in windows)

    def value(taps: list[list[Tap]], whole: list[bool]) -> Any:
        best = lowest
        for place in places:
            chosen = [own[k] for own, k in zip(taps, place, strict=True)]
            chosen = chosen if gaps else [tap._replace(inside=True) for tap in chosen]
            best = g.most(best, element_of(g, self, chosen, lowest))
        return best

    return windowed(g, self.ndim, sizes, windows, value)


def _elements(g: Any, place: Any, window: Window, n: int, padded: bool, whole: bool) -> Any:
    """How many elements a window has along a dimension; with padding, or without."""
    start, end = place * window.stride - window.padding, n + window.padding if padded else n
    last = (window.results - 1) * window.stride - window.padding
    if whole or padded and last + window.size <= end:
        return window.size
    return g.least(start + window.size, end) - (start if padded else g.most(start, 0))


def mean_at(g: Any, self: Any, windows: Sequence[Window], padded: bool, divisor: int | None) -> Any:
    """The sum of a window over a divisor, or over the number of its elements, with those of the padding or without."""
    if self.dtype.kind in "biu":
        raise NotImplementedError("means of whole numbers")
    rank = len(windows)
    sizes = self.shape[-rank:]
    check_taps(math.prod([window.size for window in windows]))
    # In the order of the kernel of its own: along the last dimension, then along the first.
    places = [(*rest, k) for k in range(windows[-1].size)
              for rest in itertools.product(*[range(window.size) for window in windows[:-1]])]  # fmt: skip

    def value(taps: list[list[Tap]], whole: list[bool]) -> Any:
        total = self.number(0)
        for place in places:
            total = total + element_of(g, self, [own[k] for own, k in zip(taps, place, strict=True)], self.number(0))
        count: Any = divisor
        if divisor is None:
            count = 1
            for d, (window, n) in enumerate(zip(windows, sizes, strict=True)):
                count = count * _elements(g, g.at[self.ndim - rank + d], window, n, padded, whole[d])
        return total / (float(count) if isinstance(count, int) else count.cast(total.np))

    return windowed(g, self.ndim, sizes, windows, value)
