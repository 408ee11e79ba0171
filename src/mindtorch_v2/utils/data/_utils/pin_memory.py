"""Puts batches where an accelerator copies them from without the host waiting."""

import collections.abc
from typing import Any

import mindtorch_v2 as torch

from .collate import _is_named_tuple, _rebuilt_mapping, _rebuilt_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """The data with its tensors in page-locked memory; an object with a `pin_memory` method is asked itself."""
    if isinstance(data, torch.Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt_mapping(data, {key: pin_memory(value) for key, value in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, tuple):
        return [pin_memory(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuilt_sequence(data, [pin_memory(value) for value in data])
    return data
