"""Join: processes with different numbers of inputs. Those that have none left do what keeps the others going."""

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from .. import _collectives as collectives
from .._world import get_rank

__all__ = ["Join", "JoinHook", "Joinable"]

_WARN_AFTER = 1000


class JoinHook:
    """What a process does once it has no inputs left."""

    def main_hook(self) -> None:
        """Called again and again while another process has inputs: does the collectives that it does."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when no process has inputs any more."""


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """An object with collectives in its iterations that can be joined."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook: ...

    @property
    @abstractmethod
    def join_device(self) -> Any: ...

    @property
    @abstractmethod
    def join_process_group(self) -> Any: ...


class Join:
    """A context in which the given objects may be used a different number of times by different processes."""

    def __init__(self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False,
                 **kwargs: Any) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        for at, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, at == 0)
        groups, devices = {j.join_process_group for j in joinables}, {j.join_device for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        if len(devices) > 1:
            raise ValueError("Using join context manager with multiple devices")
        self._group, self._device = groups.pop(), devices.pop()
        self._rank = get_rank(self._group)

    def __enter__(self) -> None:
        """Nothing is done before the first process runs out of inputs."""

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if not self._enable or kind is not None:
            self._forget()
            return
        for joinable in self._joinables:
            joinable._has_joined = True  # type: ignore[attr-defined]
        is_last, rounds = True, 0
        try:
            while self._left():
                is_last = False
                if self._throws:
                    self._say_whether_to_throw(True)
                    self._throw()
                for hook in self._hooks:
                    hook.main_hook()
                rounds += 1
                if rounds == _WARN_AFTER:
                    warnings.warn(f"Rank {self._rank} has shadowed {rounds} iterations of other ranks, which have more "
                                  "inputs.", stacklevel=2)
            if self._throws:
                return
            for hook in self._hooks:
                hook.post_hook(is_last)
        finally:
            self._forget()

    def _forget(self) -> None:
        for joinable in self._joinables:
            joinable._join_config = _JoinConfig()
            joinable._has_joined = False  # type: ignore[attr-defined]

    def _left(self) -> int:
        """How many processes still have inputs."""
        number = torch.zeros(1, device=self._device)
        collectives.all_reduce(number, group=self._group)
        return int(number.item())

    def _say_whether_to_throw(self, throw: bool) -> bool:
        flag = torch.ones(1, device=self._device) if throw else torch.zeros(1, device=self._device)
        collectives.all_reduce(flag, group=self._group)
        return bool(flag.item())

    def _throw(self) -> None:
        raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tells those without inputs that this process has another one; the work of that, or None."""
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        here = torch.ones(1, device=device)
        work = collectives.all_reduce(here, group=group, async_op=True)
        if config.throw_on_early_termination:
            anyone = torch.zeros(1, device=device)
            if work is not None:
                work.wait()
            if int(here.item()) < group.size():
                collectives.all_reduce(anyone, group=group)
                if anyone.item():
                    raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
