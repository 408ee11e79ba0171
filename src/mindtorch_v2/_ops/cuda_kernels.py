"""The CUDA kernels that are not made from a declaration's `array` function, by operator name."""

from collections.abc import Callable

from . import cuda_attention, cuda_conv, cuda_joins, cuda_matmul, cuda_random, cuda_reduce, cuda_rows, cuda_steps
from .cuda import COPIES, picked_elements

KERNELS: dict[str, Callable] = {**COPIES, **cuda_random.KERNELS, **cuda_reduce.KERNELS, **cuda_rows.KERNELS,
                                **cuda_matmul.KERNELS, **cuda_steps.KERNELS, **cuda_attention.KERNELS,
                                **cuda_conv.KERNELS, **cuda_joins.KERNELS,
                                "index.Tensor": picked_elements}
