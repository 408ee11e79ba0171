"""Modules that run at the same time, each on its device."""

import threading
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._utils import ExceptionWrapper, _get_device_index
from ..modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> torch.Tensor | None:
    """The first tensor in lists, tuples and dictionaries."""
    if isinstance(obj, torch.Tensor):
        return obj
    values = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((found for found in map(get_a_var, values) if found is not None), None)


def _check_lengths(modules: Sequence[Module], **given: Sequence[Any] | None) -> None:
    for name, values in given.items():
        if values is not None and len(values) != len(modules):
            raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of {name} "
                                 f"{len(values)}")


def parallel_apply(modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
                   devices: Sequence[Any] | None = None) -> list[Any]:
    """What each module makes of its inputs: a tuple of arguments, or the only one. Each runs in a thread."""
    _check_lengths(modules, inputs=inputs, kwargs_tup=kwargs_tup, devices=devices)
    keywords = kwargs_tup or [{} for _ in modules]
    numbers = [_get_device_index(device, True) for device in devices or [None] * len(modules)]
    streams = [torch.accelerator.current_stream(number) for number in numbers]
    kind = torch.accelerator.current_accelerator().type  # type: ignore[union-attr]
    with_grad, with_autocast = torch.is_grad_enabled(), torch.is_autocast_enabled(kind)
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            with (torch.set_grad_enabled(with_grad), torch.accelerator.device_index(numbers[i]), streams[i],
                  torch.autocast(kind, enabled=with_autocast)):
                results[i] = modules[i](*given, **keywords[i])
        except Exception:  # whatever a module raises is raised by the caller's thread
            results[i] = ExceptionWrapper(where=f"in replica {i} on device {numbers[i]}")

    if len(modules) > 1:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        work(0)
    for i in range(len(modules)):
        if isinstance(results[i], ExceptionWrapper):
            results[i].reraise()
    return [results[i] for i in range(len(modules))]
