"""Running the operators' samples on a device beside the CPU: what the tests of every backend share."""

import warnings
from typing import Any

import numpy as np
import operator_cases as samples
from operator_cases import Call

import mindtorch_v2 as torch

# Errors that the CPU finds in the data; a device is not waited for to look at it.
FOUND_IN_DATA = ("out of bounds", "out of range", "ZeroDivisionError", "bincount only supports", "is not finite",
                 "should be between 0 and 1", "Number of elements of source", "Class values must")  # fmt: skip
# PyTorch's CPU gives the places of nonzero elements column by column, a device row by row.
OTHER_STRIDES = frozenset(("aten::nonzero", "aten::nonzero_numpy", "aten::argwhere", "aten::where"))


def tensors_on(call: Call, device: str, dtype: str = "float32") -> list[Any]:
    """The tensors of a call, made on the CPU and brought to the device."""
    made = samples.bases(call, torch, dtype)
    return [t.to(device) for t in made] if device != "cpu" else made


def run(call: Call, tensors: list[Any], device: str) -> Any:
    """What the operator gives for a call; its warnings are other tests' matter."""
    args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors), device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return samples.function_of(call.declaration)(*args, **kwargs)


def plain(value: Any) -> np.ndarray:
    """The elements on the host, half types as float32, which NumPy knows."""
    value = value.detach().cpu()
    if value.dtype is torch.complex32:
        value = value.to(torch.complex64)
    return (value.float() if value.dtype.itemsize == 2 and value.is_floating_point() else value).numpy()
