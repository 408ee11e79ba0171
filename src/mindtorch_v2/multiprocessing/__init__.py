"""Python's multiprocessing, with tensors that share their memory between processes instead of being copied."""

import multiprocessing
from multiprocessing import *  # noqa: F403

from .._core import shared_memory as _shared_memory
from . import reductions
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", *multiprocessing.__all__]


def get_all_sharing_strategies() -> set[str]:
    """The ways in which memory can be sent on this system."""
    return set(_shared_memory.STRATEGIES)


def get_sharing_strategy() -> str:
    return _shared_memory.strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Says how memory is shared from now on: `file_descriptor` needs one open file for each storage, `file_system` a
    name in the file system, which stays behind if the process is killed."""
    if new_strategy not in _shared_memory.STRATEGIES:
        known = get_all_sharing_strategies()
        raise AssertionError(f"invalid sharing strategy '{new_strategy}', expected one of {known}")
    _shared_memory.strategy[0] = new_strategy


reductions.init_reductions()
