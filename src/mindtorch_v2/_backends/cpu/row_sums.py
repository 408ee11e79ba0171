"""Sums of rows by index. NumPy takes one step a row, a product with a sparse matrix does not.

The product needs SciPy, whose import takes as long as many thousands of such steps. Both add in the same order.

And rows shared out over threads, for NumPy's functions that let other threads run meanwhile, as its sorts do.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.threads import get_num_threads
from .shared import plain

_SHARE = 1 << 16  # elements that are worth a thread
_WORTH_SCIPY = 1 << 15  # rows in all that are added one by one before SciPy is imported
_added = 0


def _check_inside(name: str, numbers: Any, end: int) -> None:
    """Raises unless 0 <= number < end for all: SciPy's products do not look where they read and write."""
    if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise IndexError(f"{name} out of range: expected to be in range of [0, {end - 1}], but got "
                         f"{numbers.min() if numbers.min() < 0 else numbers.max()}")


def summed_rows(indices: Any, rows: Any, count: int) -> Any:
    """`count` rows, the i-th of which is the sum of those `rows` whose index is i."""
    if not rows.size:
        return np.zeros((count, rows.shape[1]), rows.dtype)
    rows, indices = plain(rows), plain(indices)
    _check_inside("index", indices, count)
    global _added
    _added += len(indices)
    if "scipy.sparse" not in sys.modules and _added <= _WORTH_SCIPY:
        made = np.zeros((count, rows.shape[1]), rows.dtype)
        for index, row in zip(indices.tolist(), rows):
            made[index] += row
        return made
    import scipy.sparse

    # Column j has its one in row indices[j].
    columns = np.arange(len(indices) + 1, dtype=indices.dtype)
    chosen = scipy.sparse.csc_array((np.ones(len(indices), rows.dtype), indices, columns), shape=(count, len(indices)))
    return chosen @ np.ascontiguousarray(rows)


def bag_sums(table: Any, indices: Any, starts: Any, factors: Any) -> Any:
    """For each bag, `indices[starts[i]:starts[i + 1]]`, the sum of the table's rows it names, times their factors."""
    _check_inside("index", indices, len(table))
    _check_inside("offset", starts, len(indices) + 1)
    import scipy.sparse

    factors = np.ones(len(indices), table.dtype) if factors is None else factors
    return scipy.sparse.csr_array((factors, indices, starts), shape=(len(starts) - 1, len(table))) @ table


def by_rows(function: Callable[[Any], Any], rows: Any) -> Any:
    """`function(rows)`, which works on each row alone, by as many threads as there is work for."""
    team = min(rows.size // _SHARE, len(rows), get_num_threads())
    if team < 2:
        return function(rows)
    parts = np.array_split(rows, team)
    made: list[Any] = [None] * team
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            made[i] = function(parts[i])
        except BaseException as failure:  # raised below, in the thread that asked
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(1, team)]
    began = 0
    try:
        for thread in threads:
            thread.start()
            began += 1
    except RuntimeError:  # the system gives no more threads: this one does the rest
        del threads[began:]
    for i in (0, *range(began + 1, team)):
        run(i)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return np.concatenate(made)
