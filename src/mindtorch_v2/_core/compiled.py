"""Compiled kernels for what lies below the backends: the CPU's puts in what runs them, when it is loaded."""

from collections.abc import Callable
from typing import Any


def _not_yet(kernel: Any, *args: Any, **constants: Any) -> bool:
    return False


class Machine:
    """`launched(kernel, *arrays_and_numbers, **constants)`: whether a kernel of the language ran as machine code."""

    launched: Callable[..., bool] = staticmethod(_not_yet)


machine = Machine()
