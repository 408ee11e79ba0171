"""Memory that is offered for the results of a call: that of `out=`, so that nothing has to be copied there.

What makes an array for a result asks `taken` first while there are `offers`. Who offers memory looks at what came of
the call: a kernel may have taken it for something on the way, or have made an array of its own all the same. No operand
lies in memory that is offered, but for kernels that say they overwrite it; nothing that is taken may outlive the call.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

offers: dict[int, list[np.ndarray]] = {}  # by thread, arrays in C order
_get_ident = threading.get_ident


def taken(shape: int | Sequence[int], kind: Any) -> np.ndarray | None:
    """An array of this shape and type that this thread was offered, and that nobody gets again; None without one."""
    mine = offers.get(_get_ident())
    if mine:
        if shape.__class__ is not tuple:
            shape = (shape,) if shape.__class__ is int else tuple(shape)  # type: ignore[arg-type]
        for at, array in enumerate(mine):
            if array.shape == shape and array.dtype == kind:
                return mine.pop(at)
    return None


def new_or_taken(shape: int | Sequence[int], kind: Any) -> np.ndarray:
    """An array for a result: what was offered, or a new one."""
    made = taken(shape, kind) if offers else None
    return np.empty(shape, kind) if made is None else made


def offered() -> list[np.ndarray]:
    """What this thread is offered still; who takes something removes it from there."""
    return offers.get(_get_ident(), [])


def withdraw() -> None:
    """Takes back what this thread was offered: the call may fail after a kernel has written."""
    mine = offers.get(_get_ident())
    if mine:
        mine.clear()


def offering(array: np.ndarray, function: Callable, *args: Any, **options: Any) -> Any:
    """Calls a function for whose result an array in C order may be taken."""
    thread = _get_ident()
    before = offers.get(thread)
    offers[thread] = [array]
    try:
        return function(*args, **options)
    finally:
        if before is None:
            del offers[thread]
        else:
            offers[thread] = before


def is_taken(array: Any, offered: np.ndarray) -> bool:
    """Whether an array that came of a call is what was offered for it, whatever it is seen through."""
    if array is offered:
        return True
    owner = offered if offered.base is None else offered.base
    return (array.base is owner and array.shape == offered.shape and array.strides == offered.strides
            and array.dtype == offered.dtype and array.ctypes.data == offered.ctypes.data)
