"""Running the operators' samples on a device beside the CPU, copies, files: what the tests of every backend share."""

import io
import warnings
from collections.abc import Callable
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


def check_copies(x: Any, y: Any) -> None:
    """Copies between a CPU tensor of two rows and three columns and the same on a device, whose elements change."""
    assert y.t().cpu().equal(x.t()) and y.tolist() == x.tolist()
    target = torch.zeros(3, 2)
    target.t().copy_(y)
    assert target.t().equal(x)
    y.t().copy_(torch.ones(3, 2, dtype=torch.int64))
    assert y.sum().item() == 6
    y.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert y.tolist() == [[1, 2, 3]] * 2


def loader_of_saved(device: str) -> Callable[..., dict[str, Any]]:
    """`loaded(map_location)` of a file with a tensor on the device, a view of it, and one of the host."""
    base, file = torch.arange(6.0).to(device), io.BytesIO()
    torch.save({"base": base, "turned": base.view(2, 3).t(), "host": torch.ones(2)}, file)

    def loaded(where: Any = None) -> dict[str, Any]:
        file.seek(0)
        return torch.load(file, map_location=where)

    return loaded
