"""The version as a string that compares as versions do."""

import re
from typing import Any

__all__ = ["TorchVersion"]


def _release(version: Any) -> tuple:
    """The release numbers of a version, or of a tuple of them; a development or local part does not count."""
    if isinstance(version, (tuple, list)):
        return tuple(int(part) if str(part).isdigit() else 0 for part in version)
    numbers = re.match(r"[vV]?(\d+(?:\.\d+)*)", str(version))
    if numbers is None:
        raise ValueError(f"Invalid version: '{version}'")
    return tuple(int(part) for part in numbers.group(1).split("."))


class TorchVersion(str):
    """A version. It compares with strings and tuples by its numbers; with text that is no version, as text."""

    __slots__ = ()

    def _compared(self, other: Any, method: str) -> Any:
        try:
            ours, theirs = _release(self), _release(other)
        except ValueError:
            return getattr(str, method)(self, other)
        length = max(len(ours), len(theirs))
        pad = [numbers + (0,) * (length - len(numbers)) for numbers in (ours, theirs)]
        return getattr(tuple, method)(*pad)

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compared(other, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, "__ge__")

    def __eq__(self, other: Any) -> bool:
        return str.__eq__(self, other) or self._compared(other, "__eq__") is True

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = str.__hash__
