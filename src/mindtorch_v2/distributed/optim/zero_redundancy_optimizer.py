"""ZeroRedundancyOptimizer: each process keeps the optimizer's state of its share of the parameters."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ...optim.optimizer import Optimizer
from .._gradients import _broadcast_coalesced
from .._objects import all_gather_object
from .._world import get_rank, get_world_size, known
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class _JoinHook(JoinHook):
    def __init__(self, zero: "ZeroRedundancyOptimizer") -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Steps with `optimizer_class` on this process's share of the parameters, and gets the others' new values."""

    def __init__(self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
                 parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer(overlap_with_ddp=True) is not here: steps come after "
                                      "backward.")
        Joinable.__init__(self)
        self.process_group = known(process_group)
        self.rank, self.world_size = get_rank(self.process_group), get_world_size(self.process_group)
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._all_states: list[dict[str, Any]] = []
        given = list(params)
        if not given:
            raise ValueError("params argument given to the optimizer is empty")
        super().__init__(given, dict(defaults))
        self._make_optimizer()

    def _shares(self) -> list[list[list[Any]]]:
        """The parameters of each rank, by group: the largest first, each to the rank that has least."""
        shares: list[list[list[Any]]] = [[[] for _ in self.param_groups] for _ in range(self.world_size)]
        held = [0] * self.world_size
        for at, group in enumerate(self.param_groups):
            for parameter in sorted(group["params"], key=lambda each: each.numel(), reverse=True):
                rank = held.index(min(held))
                shares[rank][at].append(parameter)
                held[rank] += parameter.numel() if parameter.requires_grad else 0
        return shares

    def _make_optimizer(self) -> None:
        self._assigned = self._shares()
        mine = [{**{name: value for name, value in group.items() if name != "params"}, "params": share}
                for group, share in zip(self.param_groups, self._assigned[self.rank], strict=True)]
        self.optim = self._optim_constructor([group for group in mine if group["params"]] or [
            {"params": [torch.nn.Parameter(torch.zeros(1))]}], **self._optim_defaults)
        self._own = [at for at, group in enumerate(mine) if group["params"]]
        for group, source in zip(self.param_groups, self.optim.param_groups):
            for name, value in source.items():
                group.setdefault(name, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if hasattr(self, "optim"):
            before = self.optim.state
            self._make_optimizer()
            for parameter, state in before.items():
                if any(parameter is each for share in self._assigned[self.rank] for each in share):
                    self.optim.state[parameter] = state

    def _settings_to(self) -> None:
        """What schedulers changed here reaches the optimizer of this rank's share."""
        for at, group in zip(self._own, self.optim.param_groups):
            for name, value in self.param_groups[at].items():
                if name != "params":
                    group[name] = value

    def step(self, closure: Callable | None = None, **kwargs: Any) -> Any:  # type: ignore[override]
        Join.notify_join_context(self)
        self._settings_to()
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        self._sync_params()
        return loss

    @torch.no_grad()
    def _sync_params(self) -> None:
        for rank, share in enumerate(self._assigned):
            tensors = [parameter.detach() for group in share for parameter in group]
            if tensors:
                _broadcast_coalesced(self.process_group, tensors, src=rank)

    # state -------------------------------------------------------------------------------------------------------

    def _numbers(self) -> dict[int, int]:
        """The number of each parameter in the order of the groups."""
        everything = [p for group in self.param_groups for p in group["params"]]
        return {id(parameter): at for at, parameter in enumerate(everything)}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings all states to one rank, so that it can give the whole `state_dict()`."""
        numbers = self._numbers()
        mine = {numbers[id(parameter)]: state for parameter, state in self.optim.state.items()
                if id(parameter) in numbers}
        everyone: list[Any] = [None] * self.world_size
        all_gather_object(everyone, mine, self.process_group)
        self._all_states = everyone if self.rank == to else []

    def state_dict(self) -> dict[str, Any]:
        """What the optimizer would have without shares; only where `consolidate_state_dict` brought it."""
        if not self._all_states:
            raise RuntimeError(f"Optimizer state has not been consolidated on this rank. Please call "
                               f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save "
                               "the global state.")
        numbers = self._numbers()
        groups = [{**{name: value for name, value in group.items() if name != "params"},
                   "params": [numbers[id(parameter)] for parameter in group["params"]]} for group in self.param_groups]
        state = {number: values for each in self._all_states for number, values in each.items()}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a whole state; this rank keeps what concerns its share."""
        by_number = {number: parameter for parameter, number in (
            (p, self._numbers()[id(p)]) for group in self.param_groups for p in group["params"])}
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in saved.items() if name != "params"})
        mine = {id(parameter) for share in self._assigned[self.rank] for parameter in share}
        order = [p for group in self.optim.param_groups for p in group["params"]]
        places = {id(parameter): at for at, parameter in enumerate(order)}
        states = {places[id(parameter)]: state_dict["state"][number] for number, parameter in by_number.items()
                  if id(parameter) in mine and number in state_dict["state"]}
        self._settings_to()
        whole = self.optim.state_dict()
        self.optim.load_state_dict({"state": states, "param_groups": whole["param_groups"]})

    # joining -----------------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group
