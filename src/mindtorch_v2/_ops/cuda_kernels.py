"""The CUDA kernels that are not made from a declaration's `array` function, by operator name."""

from collections.abc import Callable

from . import cuda_random
from .cuda import COPIES, picked_elements

KERNELS: dict[str, Callable] = {**COPIES, **cuda_random.KERNELS, "index.Tensor": picked_elements}
