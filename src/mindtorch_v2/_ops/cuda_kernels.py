"""The CUDA kernels that are not made from a declaration's `array` function, by operator name."""

from collections.abc import Callable

from . import (
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
from .cuda import COPIES

KERNELS: dict[str, Callable] = {**COPIES, **cuda_random.KERNELS, **cuda_reduce.KERNELS, **cuda_rows.KERNELS,
                                **cuda_matmul.KERNELS, **cuda_pool.KERNELS, **cuda_steps.KERNELS,
                                **cuda_attention.KERNELS, **cuda_cells.KERNELS, **cuda_channel_norm.KERNELS,
                                **cuda_conv.KERNELS, **cuda_joins.KERNELS, **cuda_index.KERNELS, **cuda_along.KERNELS}
