"""What code around modes and subclasses shares."""

from collections.abc import Sequence
from typing import Any, TypeVar

from .._dispatch.keys import TORCH_DISPATCH_MASK, changed_modes, modes

T = TypeVar("T")


class no_dispatch(changed_modes):
    """Context in which no `__torch_dispatch__` is asked."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | TORCH_DISPATCH_MASK)


def all_same_mode(modes: Sequence[Any]) -> bool:
    return all(mode == modes[0] for mode in modes)
