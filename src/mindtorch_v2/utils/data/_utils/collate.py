"""Makes one batch of many samples."""

import collections.abc
import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mindtorch_v2 as torch

FnMap = dict[type | tuple[type, ...], Callable]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}")
np_str_obj_array_pattern = re.compile("[SaUO]")  # NumPy's types that no tensor can hold


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _rebuilt_mapping(model: Any, values: dict) -> Any:
    """A mapping of the model's type with the values; a dict if that type cannot be made so."""
    try:
        if isinstance(model, collections.abc.MutableMapping):
            made = copy.copy(model)
            made.update(values)
            return made
        return type(model)(values)
    except TypeError:
        return values


def _rebuilt_sequence(model: Any, values: list) -> Any:
    """A sequence of the model's type with the values; a list if that type cannot be made so."""
    try:
        if isinstance(model, collections.abc.MutableSequence):
            made = copy.copy(model)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return values if isinstance(model, range) else type(model)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """The data with its NumPy arrays and numbers as tensors, in containers of the same kinds."""
    if isinstance(data, torch.Tensor):
        return data
    if type(data).__module__ == "numpy" and type(data).__name__ not in ("str_", "string_", "bytes_"):
        if type(data).__name__ in ("ndarray", "memmap") and np_str_obj_array_pattern.search(data.dtype.kind):
            return data
        return torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    """One batch of many samples. `collate_fn_map` says how for which types; containers are gone into."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        chosen = collate_fn_map.get(kind)
        if chosen is None:
            chosen = next((f for types, f in collate_fn_map.items() if isinstance(first, types)), None)
        if chosen is not None:
            return chosen(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        return _rebuilt_mapping(first, {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
                                        for key in first})
    if _is_named_tuple(first):
        return kind(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        values = [collate(samples, collate_fn_map=collate_fn_map) for samples in _columns(batch)]
        return values if isinstance(first, tuple) else _rebuilt_sequence(first, values)
    raise TypeError(default_collate_err_msg_format.format(kind))


def _columns(batch: Any) -> Iterator[tuple]:
    size = len(batch[0])
    if not all(len(sample) == size for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    return zip(*batch)


def collate_tensor_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> torch.Tensor:
    return torch.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    if np_str_obj_array_pattern.search(batch[0].dtype.kind):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> torch.Tensor:
    return torch.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> torch.Tensor:
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> torch.Tensor:
    return torch.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    return batch


default_collate_fn_map: FnMap = {
    torch.Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn, float: collate_float_fn, int: collate_int_fn,
    str: collate_str_fn, bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """One batch of many samples: tensors, arrays and numbers become tensors with one more dimension in front."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
