"""Matrices packed into panels for the kernels that multiply with them."""

from typing import Any

import numpy as np

from ...._kernels.library import panels
from ...._kernels.panels import Tile
from .calls import hurry, launched

hurry(panels.packed)


def packed(matrix: Any, turned: bool, tile: Tile) -> tuple[Any, bool]:
    """The panels of a matrix whose rows come first, or of its transpose; False while no machine code fills them."""
    inner, columns = matrix.shape[::-1] if turned else matrix.shape
    width = tile.width(matrix.itemsize)
    made = np.empty((-(-columns // width), inner, width), matrix.dtype)
    return made, launched(panels.packed, made, matrix, turned=turned, tile=tile.name)
