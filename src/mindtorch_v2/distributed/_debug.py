"""How much the collectives check: TORCH_DISTRIBUTED_DEBUG."""

import enum
import os

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.Enum):
    OFF, INFO, DETAIL = range(3)


def _from_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ValueError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    return DebugLevel[name]


_level = [_from_environment()]


def get_debug_level() -> DebugLevel:
    return _level[0]


def set_debug_level(level: DebugLevel) -> None:
    _level[0] = level


def set_debug_level_from_env() -> None:
    _level[0] = _from_environment()
