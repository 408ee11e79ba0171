"""Compiled kernels for what lies below the backends: the CPU's puts in what runs them, when it is loaded."""

from collections.abc import Callable
from typing import Any


def _not_yet(name: str, *args: Any, **constants: Any) -> bool:
    return False


class Machine:
    """`launched(name, *arrays_and_numbers, **constants)`: whether a kernel of _kernels/library ran as machine code.

    "random.below" is `below` of random.py there.
    """

    launched: Callable[..., bool] = staticmethod(_not_yet)


machine = Machine()
