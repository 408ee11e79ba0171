"""Linear layers of few rows by kernels of the library, which read the weight as it lies."""

from typing import Any

import numpy as np

from ...._core.offers import new_or_taken
from ...._core.threads import get_num_threads
from ...._kernels.library import panels
from .. import onednn_kernels
from ..jit.calls import hurry, launched, note
from ..jit.machine import tile
from ..jit.packing import packed

hurry(panels.linear)

_MOST, _LONG = 64, 256  # rows that it is worth it for; as many are if so much is summed over
_MOST_BESIDE_ONEDNN, _LEAST_BESIDE_ONEDNN, _FILLED = 32, 16, 0.9  # rows, and their share of the vectors' lanes
_LEAST = 8  # rows beside OpenBLAS
_TURNS = 4  # blocks of columns that each of several threads has at least, so that they end at about the same time


def is_quick(rows: int, columns: int, inner: int, itemsize: int) -> bool:
    """Whether so many rows are multiplied in less time by these kernels than by libraries, which pack the weight.

    One thread: 0.4 to 0.9 of what OpenBLAS takes, 0.8 to 0.95 of what oneDNN takes, which has float32 alone.
    """
    found = tile() if rows <= _LONG else None
    if found is None:
        return False
    if itemsize == 4 and onednn_kernels() is not None:
        lanes = found.vector // itemsize
        if not _LEAST_BESIDE_ONEDNN <= rows <= _MOST_BESIDE_ONEDNN or rows < _FILLED * lanes * -(-rows // lanes):
            return False
    elif rows < _LEAST or rows > _MOST and inner < _LONG:
        return False
    threads = get_num_threads()
    return threads == 1 or columns >= _TURNS * threads * found.width(itemsize)


def linear(rows: Any, weight: Any, bias: Any) -> Any:
    """`rows @ weight.T + bias`; None for others than a few rows, and while there is no machine code."""
    kind, (columns, inner) = rows.dtype, weight.shape
    given = (rows, weight) if bias is None else (rows, weight, bias)
    if not is_quick(len(rows), columns, inner, kind.itemsize):
        return None
    if not all(a.dtype is kind and a.flags.c_contiguous for a in given):
        return None
    found = tile()
    assert found is not None
    width = found.width(kind.itemsize)
    parts = min(get_num_threads(), -(-columns // width))
    sums, turned = np.empty((2, parts, width, width), kind)
    of_rows, is_ready = packed(rows, True, found)
    made = (new_or_taken if is_ready else np.empty)((len(rows), columns), kind)
    done = (launched if is_ready else note)(panels.linear, made, weight, weight[0] if bias is None else bias, of_rows,
                                            sums, turned, parts, biased=bias is not None, tile=found.name)
    return made if done else None
