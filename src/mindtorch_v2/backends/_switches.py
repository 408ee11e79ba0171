"""What the switch modules share: `flags(...)`, a context in which some of a module's switches differ."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


def flags_of(module: str, **names: str) -> Callable[..., Any]:
    """A `flags` function: keyword -> name of the module's attribute it sets for the duration of a with block."""

    @contextlib.contextmanager
    def flags(**changes: Any) -> Iterator[None]:
        """Sets the switches inside a with block, and puts them back."""
        unknown = changes.keys() - names.keys()
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{sorted(unknown)[0]}'")
        place = sys.modules[module]
        before = {names[name]: getattr(place, names[name]) for name in changes}
        for name, value in changes.items():
            setattr(place, names[name], value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(place, name, value)

    return flags
