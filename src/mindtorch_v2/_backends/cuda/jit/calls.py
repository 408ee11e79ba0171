"""What _backends/cpu/jit/calls.py offers to those who prepare calls: kernels of the language are noted as steps."""

import ast
import functools
from collections.abc import Callable
from typing import Any

from ...._kernels.language import kernel
from ..recorded_arrays import Array
from ..recording import Buffer, Place, Ran, current_program


def launched(written: kernel, *args: Any, **constants: Any) -> bool:
    """Notes that a kernel runs on arrays and then numbers. Arrays of the program's own may be written to."""
    program, places, numbers = current_program(), [], []
    names = written.function.__code__.co_varnames
    for name, value in zip(names, args, strict=False):
        if not isinstance(value, Array):
            numbers.append(value)
            continue
        if value.size and not _is_note(value):
            if name in _changed(written):
                value._leave_host()
            place = value._place()
            if place.buffer.is_own:
                program.before_write(place, None)
        else:
            place = Place(Buffer(8 * max(value.size, 1)), value.dtype, value.shape, value.strides)
        places.append(place)
    program.add(Ran(written, tuple(constants.items()), tuple(places), tuple(numbers), places[0]))
    return True


@functools.cache
def _changed(written: kernel) -> frozenset[str]:
    """The parameters that a kernel may write to: stored into, or handed on."""
    found = set()
    for part in ast.walk(written.tree):
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name):
            found.add(part.value.id)
        elif isinstance(part, ast.Call):
            found |= {a.id for a in part.args if isinstance(a, ast.Name)}
    return frozenset(found)


def _is_note(array: Array) -> bool:
    """Whether an array is where kernels note that data is wrong, which is not looked at here."""
    data = array.value.host
    return data is not None and array.shape == (1,) and array.dtype.kind in "ib" and not data[0]


def prepared(written: kernel, **constants: Any) -> Callable[..., bool]:
    return functools.partial(launched, written, **constants)


def prepared_over_lists(written: kernel, *numbers: float, **constants: Any) -> Callable[..., bool]:
    def launch(*lists: list) -> bool:
        places = zip(*lists, strict=True)
        return all([launched(written, *own, own[0].size, *numbers, **constants) for own in places])

    return launch


note = launched


def hurry(*kernels: kernel) -> None:
    """Nothing: there is no slower way that goes on for a while."""


def finishing(elements: int) -> None:
    """Nothing: every launch is made at once."""
