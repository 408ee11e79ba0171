"""Running an optimizer on other parameters and other state for a while."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import mindtorch_v2 as torch

from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


_NAME = "swap_in_optimizer_params_and_state"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, torch.Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside the context the optimizer holds these parameters, in its order, and this state; then its own again."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    own_state, own_groups = optimizer.state, optimizer.param_groups
    packed, states = swapin_optim_state.get("param_groups"), swapin_optim_state.get("state")
    _check(packed, states, own_groups)
    numbers = [number for group in packed for number in group["params"]]  # type: ignore[union-attr]
    if len(swapin_parameters) < len(numbers):
        raise RuntimeError(f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering.")
    parameters = dict(zip(numbers, swapin_parameters.values(), strict=False))
    state: defaultdict[Any, Any] = defaultdict(dict)
    state.update({parameters[number]: dict(states[number]) for number in numbers})  # type: ignore[index]
    optimizer.state = state
    optimizer.param_groups = [
        {**group, "params": [parameters[number] for number in group["params"]]}
        for group in packed  # type: ignore[union-attr]
    ]
    try:
        yield
    finally:
        optimizer.state, optimizer.param_groups = own_state, own_groups


def _check(packed: Any, states: Any, own_groups: list[dict[str, Any]]) -> None:
    """Raises unless groups and states have the form of the optimizer's own state_dict()."""
    if not isinstance(packed, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(packed).__name__}."
        )
    if not isinstance(states, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(states).__name__}."
        )
    if len(packed) != len(own_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    for position, (group, own) in enumerate(zip(packed, own_groups, strict=True)):
        if len(group["params"]) != len(own["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {position} has a different number of params than the live optimizer "
                "param group."
            )
        if set(group) != set(own):
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the live optimizer "
                f"group keys for group {position}. Keys only in swap-in: {sorted(set(group) - set(own))}. Keys only in "
                f"live: {sorted(set(own) - set(group))}."
            )
    extra = set(states) - {number for group in packed for number in group["params"]}
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids from "
            f"param_groups[*]['params']; got extra keys {sorted(extra)}."
        )
