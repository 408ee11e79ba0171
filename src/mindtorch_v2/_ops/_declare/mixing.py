"""Calls whose tensors are on several devices."""

from collections.abc import Callable, Sequence
from typing import Any

from ..._backends.interface import accelerator_among
from ..._core.elements import on_host
from ..._dispatch.callers import call_bound
from ..._dispatch.registry import Operator, refuse_mixed


def mixed_devices(operator: Operator, mask: int) -> Callable:
    """The kernel of a call whose tensors are on several devices: a CPU tensor without dimensions joins the others."""
    refuse, backend = refuse_mixed(operator, mask), accelerator_among(mask)
    if backend is None:
        return refuse

    def kernel(*args: Any) -> Any:
        moved = with_numbers_moved(args, backend.type)
        return refuse(*args) if moved is None else call_bound(operator, moved)

    return kernel


def with_numbers_moved(args: Sequence[Any], kind: str) -> Sequence[Any] | None:
    """The arguments of a call that mixes devices, with CPU tensors without dimensions brought to the device.

    They are as good as numbers, as in PyTorch; None if any other CPU tensor is among them.
    """
    tensors = [v for v in args if hasattr(v, "_array")]
    target = next((v._device for v in tensors if v._device.type == kind), None)
    strays = [v for v in tensors if v._device.type != kind]
    if target is None or any(v._array.shape or not on_host(v) for v in strays):
        return None
    return [v.to(target) if any(v is stray for stray in strays) else v for v in args]
