"""What operators may ask of a tensor's memory. Which device has it, they do not ask."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._backends.meta import MetaArray
from .._dispatch.argument_checks import expected
from .device import CPU, META, channels_last, contiguous_format, memory_format, preserve_format
from .planning import refuse_in_plans

_ndarray = np.ndarray


def has_elements(tensor: Any) -> bool:
    """Whether there are elements to compute: Meta knows shapes and types alone."""
    return tensor._device is not META


def is_recorded(tensor: Any) -> bool:
    """Whether what computes its elements is being recorded: only their geometry is known."""
    return tensor._array.__class__ is MetaArray and has_elements(tensor)


def on_host(tensor: Any) -> bool:
    """Whether the host computes it, where PyTorch lays some results out, or looks at some values, as nowhere else."""
    return tensor._device is CPU


def is_host_array(array: Any) -> bool:
    """Whether the elements are in the host's memory by now."""
    return array.__class__ is _ndarray


def at_hand(array: Any) -> bool:
    """Whether the elements can be looked at before a kernel runs: a device is not waited for."""
    if isinstance(array, _ndarray):
        return True
    refuse_in_plans()
    return False


def lies_densely(array: Any, order: Iterable[int]) -> bool:
    """Whether the dimensions, innermost first, lie in each other without gaps."""
    step = array.itemsize
    for d in order:
        n = array.shape[d]
        if n != 1:
            if array.strides[d] != step:
                return False
            step *= n
    return True


def is_c_contiguous(array: Any) -> bool:
    """Whether the elements lie in row-major order without gaps."""
    if array.__class__ is _ndarray:
        return array.flags.c_contiguous
    known = getattr(getattr(array, "layout", None), "contiguous", None)  # on devices that keep it
    return known if known is not None else not array.size or lies_densely(array, range(array.ndim - 1, -1, -1))


def is_contiguous(self: Any, *, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie densely in the order of a memory format."""
    array = self._array
    if memory_format.__class__ is not contiguous_format.__class__:
        raise TypeError(expected("is_contiguous", "memory_format", "torch.memory_format", memory_format))
    if memory_format is contiguous_format or memory_format is preserve_format:
        return array.flags.c_contiguous if array.__class__ is _ndarray else is_c_contiguous(array)
    spatial = 2 if memory_format is channels_last else 3
    if array.ndim != spatial + 2:
        return False
    return lies_densely(array, (1, *range(spatial + 1, 1, -1), 0))


_WITH_TENSOR_TYPE = frozenset(("Half", "Float", "Double", "Char", "Byte", "Short", "Int", "Long"))


def type_text(tensor: Any) -> str:
    """How errors call a tensor's device and type: `torch.FloatTensor`, but `CPUBoolType`."""
    kind, where = tensor.dtype.scalar_name, tensor._device.type
    if where in ("cpu", "cuda") and kind in _WITH_TENSOR_TYPE:
        return f"torch.{'cuda.' if where == 'cuda' else ''}{kind}Tensor"
    return f"{where.upper() if where != 'meta' else 'Meta'}{kind}Type"
