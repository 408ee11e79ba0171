"""All CUDA kernels that are not made from a declaration's `array` function: importing their modules fills the table."""

from . import (  # noqa: F401 - for what they register
    cuda_along,
    cuda_attention,
    cuda_cells,
    cuda_channel_norm,
    cuda_conv,
    cuda_index,
    cuda_joins,
    cuda_matmul,
    cuda_pool,
    cuda_random,
    cuda_reduce,
    cuda_rows,
    cuda_steps,
)
from .cuda_plans import KERNELS

__all__ = ["KERNELS"]
