"""Linear maps along one dimension in which each result is a weighted sum of few elements."""

from typing import Any, NamedTuple

import numpy as np

from .._core.elements import at_hand
from .._core.tensor import wrap


class Taps(NamedTuple):
    """For each result along a dimension the elements that it sums, and their weights; a place of -1 is none."""

    places: np.ndarray  # (most elements of a result, results)
    weights: np.ndarray | None  # the same shape; None where all are 1
    size: int  # how many elements the dimension has

    def transposed(self) -> "Taps":
        """The map from gradients of the results to those of the elements."""
        taken, result = np.nonzero(self.places >= 0)
        place = self.places[taken, result]
        order = np.argsort(place, kind="stable")
        place, result, taken = place[order], result[order], taken[order]
        uses = np.bincount(place, minlength=self.size)
        at = np.arange(place.size) - (np.cumsum(uses) - uses)[place]  # which of the uses of its place this is
        places = np.full((max(1, uses.max(initial=0)), self.size), -1)
        places[at, place] = result
        weights = None
        if self.weights is not None:
            weights = np.zeros(places.shape, self.weights.dtype)
            weights[at, place] = self.weights[taken, result]
        return Taps(places, weights, self.places.shape[1])


def mapped(xp: Any, array: Any, taps: Taps, dim: int) -> Any:
    """The array with one dimension mapped."""
    compiled = getattr(xp, "map_along", None)
    total = None if compiled is None else compiled(array, taps, dim)
    if total is not None:
        return total
    if not at_hand(array):
        return _mapped_at_once(xp, array, taps, dim)
    for nr, places in enumerate(taps.places):
        part = xp.take(array, xp.asarray(places), dim, mode="wrap")
        absent = places < 0
        if taps.weights is not None:
            weights = xp.asarray(taps.weights[nr].astype(array.dtype))
            part *= weights.reshape((-1,) + (1,) * (array.ndim - 1 - dim))
        if absent.any():  # not by its weight: 0 times infinity is no zero
            part[(*(slice(None),) * dim, xp.asarray(absent))] = 0
        total = part if total is None else xp.add(total, part, out=total)
    return total


def _mapped_at_once(xp: Any, array: Any, taps: Taps, dim: int) -> Any:
    """The same on a device, where a few large steps cost less than many."""
    count, results = taps.places.shape
    picked = xp.take(array, xp.asarray(np.maximum(taps.places, 0).reshape(-1)), dim, mode="wrap")
    picked = picked.reshape(*array.shape[:dim], count, results, *array.shape[dim + 1 :])
    shape = (count, results) + (1,) * (array.ndim - 1 - dim)
    if taps.weights is not None:
        picked = picked * xp.asarray(taps.weights.astype(array.dtype)).reshape(shape)
    if taps.places.min() < 0:  # not by its weight: 0 times infinity is no zero
        picked = xp.where(xp.asarray(taps.places < 0).reshape(shape), array.dtype.type(0), picked)
    return picked.sum(dim) if count > 1 else picked.reshape(*array.shape[:dim], results, *array.shape[dim + 1 :])


def table_for(x: Any, array: np.ndarray) -> Any:
    """A table that was made on the host as a tensor where another is."""
    return wrap(np.ascontiguousarray(array)).to(x.device)


def mapped_by_parts(x: Any, taps: Taps, dim: int) -> Any:
    """The tensor with one dimension mapped."""
    count, results = taps.places.shape
    if count == 1 and taps.weights is None and taps.places.min() >= 0:
        return x.index_select(dim, table_for(x, taps.places[0]))
    picked = x.index_select(dim, table_for(x, np.maximum(taps.places, 0).reshape(-1)))
    picked = picked.reshape(*x.shape[:dim], count, results, *x.shape[dim + 1 :])
    shape = (count, results) + (1,) * (x.dim() - 1 - dim)
    if taps.weights is not None:
        picked = picked * table_for(x, taps.weights).to(x.dtype).reshape(shape)
    if taps.places.min() < 0:  # not by its weight: 0 times infinity is no zero
        picked = picked.masked_fill(table_for(x, taps.places < 0).reshape(shape), 0)
    return picked.sum(dim, dtype=x.dtype)
