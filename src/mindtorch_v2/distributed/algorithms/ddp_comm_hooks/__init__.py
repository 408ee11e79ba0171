"""Communication hooks of DistributedDataParallel."""

import enum
from functools import partial
from typing import Any

from . import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _plain(hook: Any, model: Any, state: Any) -> None:
    model.register_comm_hook(state, hook)


def _power(hook: Any, model: Any, state: Any, matrix_approximation_rank: int, start_powerSGD_iter: int = 1_000) -> None:
    made = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank, start_powerSGD_iter)
    model.register_comm_hook(made, hook)


class DDPCommHookType(enum.Enum):
    """Hooks by name."""

    ALLREDUCE = enum.member(partial(_plain, default_hooks.allreduce_hook))
    FP16_COMPRESS = enum.member(partial(_plain, default_hooks.fp16_compress_hook))
    BF16_COMPRESS = enum.member(partial(_plain, default_hooks.bf16_compress_hook))
    POWER_SGD = enum.member(partial(_power, powerSGD_hook.powerSGD_hook, matrix_approximation_rank=1))
    POWER_SGD_RANK2 = enum.member(partial(_power, powerSGD_hook.powerSGD_hook, matrix_approximation_rank=2))


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Registers a hook by name; the state is the group."""
    comm_hook_type.value(model=model, state=state)
