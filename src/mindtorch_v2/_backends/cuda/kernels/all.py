"""All CUDA kernels that are not made from a declaration's `array` function: importing their modules fills the table."""

from . import (  # noqa: F401 - for what they register
    along,
    attention,
    cells,
    channel_norm,
    conv,
    index,
    joins,
    matmul,
    pool,
    random,
    reduce,
    rows,
    steps,
)
from .plans import KERNELS

__all__ = ["KERNELS"]
