"""Copies of state dicts in the memory of the host, which training does not change while they are saved."""

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import mindtorch_v2 as torch

from ..tensor import DTensor
from .metadata import STATE_DICT_TYPE

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy that `async_save` saves."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` has to be called before training may go on."""
        return self._synchronize_after_execute

    def stage(self, state_dict: STATE_DICT_TYPE) -> Any: ...

    def synchronize_staging(self) -> None: ...

    def close(self) -> None: ...


def copy_on_host(value: Any) -> Any:
    """The same tree with copies of its tensors on the CPU; other objects are copied too."""
    if isinstance(value, DTensor):
        local = value.to_local().detach().to("cpu", copy=True)
        return DTensor.from_local(local, value.device_mesh, value.placements, shape=value.size(),
                                  stride=value.stride())
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copy_on_host(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(copy_on_host, value))
    return copy.deepcopy(value)


class BlockingAsyncStager(AsyncStager):
    """Copies before it returns."""

    _synchronize_after_execute: bool = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        with torch.no_grad():
            return copy_on_host(state_dict)

    def synchronize_staging(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class StagingOptions:
    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies on a thread; `stage` gives a future then."""

    _synchronize_after_execute: bool = False

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config if config is not None else StagingOptions()
        self._thread = ThreadPoolExecutor(max_workers=1) if self._config.use_async_staging else None
        self._future: Future | None = None

    def stage(self, state_dict: STATE_DICT_TYPE, **kwargs: Any) -> Any:
        if self._thread is None:
            return BlockingAsyncStager().stage(state_dict)
        self._future = self._thread.submit(BlockingAsyncStager().stage, state_dict)
        return self._future

    def synchronize_staging(self) -> None:
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True)
