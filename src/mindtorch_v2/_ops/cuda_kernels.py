"""The CUDA kernels that are not made from a declaration's `array` function, by operator name."""

from collections.abc import Callable

from . import cuda_matmul, cuda_random, cuda_reduce, cuda_rows, cuda_steps
from .cuda import COPIES, picked_elements

KERNELS: dict[str, Callable] = {**COPIES, **cuda_random.KERNELS, **cuda_reduce.KERNELS, **cuda_rows.KERNELS,
                                **cuda_matmul.KERNELS, **cuda_steps.KERNELS, "index.Tensor": picked_elements}
