"""Compiled kernels for what lies below the backends: the CPU's puts in what runs them, when it is loaded."""

from collections.abc import Callable
from typing import Any


class Machine:
    """`prepare(name, **constants)` gives the launch of a kernel of _kernels/library; None without machine code."""

    prepare: Callable[..., Callable[..., bool]] | None = None


machine = Machine()


def launching(name: str, **constants: Any) -> Callable[..., bool]:
    """The launch of a kernel on arrays and numbers, which says whether it ran as machine code.

    "random.below" is `below` of random.py in _kernels/library.
    """
    known: Callable[..., bool] | None = None

    def launch(*args: Any) -> bool:
        nonlocal known
        if known is None:
            if machine.prepare is None:
                return False
            known = machine.prepare(name, **constants)
        return known(*args)

    return launch
