"""Which devices the optimizers' list and fused kernels run on, and tensors grouped for them."""

from collections.abc import Sequence
from typing import Any

from .._core.device import device
from .._core.tensor import Tensor

Indices = list[int]
TensorListList = list[list[Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda", "xpu", "mtia", "npu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "npu"]


def _group_tensors_by_device_and_dtype(tensorlistlist: TensorListList, with_indices: bool = False) -> dict[Any, Any]:
    """Lists of the same length, split by the device and type of the first list's tensors."""
    groups: dict[Any, tuple[TensorListList, Indices]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            continue
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for made, given in zip(lists, tensorlistlist, strict=True):
            if given:
                made.append(given[i])
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device: device) -> bool:
    return device.type in ("cpu", *_get_foreach_kernels_supported_devices())


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    known = all(t is None or type(t) in _foreach_supported_types for t in tensors)
    return known and _device_has_foreach_support(device)


_foreach_supported_types = [Tensor]
