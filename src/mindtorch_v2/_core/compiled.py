"""Compiled kernels for what lies below the backends: the CPU's puts in what runs them, when it is loaded."""

from collections.abc import Callable
from typing import Any


class Machine:
    """`prepare(name, hurried, **constants)` gives the launch of a kernel of the library; None without machine code."""

    prepare: Callable[..., Callable[..., bool]] | None = None


machine = Machine()


def launching(name: str, *, hurried: bool = False, **constants: Any) -> Callable[..., bool]:
    """The launch of a kernel on arrays and numbers, which says whether it ran as machine code.

    "random.below" is `below` of random.py in _kernels/library; a hurried one takes over soon, from what takes long.
    """
    known: Callable[..., bool] | None = None

    def launch(*args: Any) -> bool:
        nonlocal known
        if known is None:
            if machine.prepare is None:
                return False
            known = machine.prepare(name, hurried, **constants)
        return known(*args)

    return launch
