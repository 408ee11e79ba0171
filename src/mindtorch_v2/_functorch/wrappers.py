"""Questions about tensors inside transforms, by the names of PyTorch's extension module."""

from .._core.tensor import Tensor
from .._dispatch.keys import FUNC_MASK
from .batching import BatchLevel
from .grad_level import GradLevel


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    return bool(tensor._keys & FUNC_MASK)


def is_batchedtensor(tensor: Tensor) -> bool:
    return is_functorch_wrapped_tensor(tensor) and isinstance(tensor._array.level, BatchLevel)


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    return is_functorch_wrapped_tensor(tensor) and isinstance(tensor._array.level, GradLevel)


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor of the level below."""
    return tensor._array.value


def maybe_get_level(tensor: Tensor) -> int:
    """The number of the level, from 1; -1 outside of all, -2 if the level is closed."""
    if not is_functorch_wrapped_tensor(tensor):
        return -1
    return tensor._array.level.depth if tensor._array.level.alive else -2


def maybe_get_bdim(tensor: Tensor) -> int:
    """The dimension that vmap goes over; -1 if there is none."""
    return 0 if is_batchedtensor(tensor) and tensor._array.batched else -1
