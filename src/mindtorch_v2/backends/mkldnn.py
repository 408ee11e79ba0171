"""torch.backends.mkldnn: whether oneDNN is there, and the switches of its use on the CPU."""

import contextlib
from collections.abc import Iterator
from typing import Any

_SWITCHES = ("enabled", "deterministic", "allow_tf32", "fp32_precision")
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = range(3)

enabled = True  # whether operators use the library where it is found
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"


def is_available() -> bool:
    """Whether the library is found."""
    from .._backends.cpu.onednn import library

    return library() is not None


def is_acl_available() -> bool:
    return False


def set_flags(_enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None,
              _fp32_precision: str = "none") -> tuple[bool, bool, bool | None, str]:
    """Sets the switches that are given; returns what they were."""
    global enabled, deterministic, allow_tf32, fp32_precision
    before = enabled, deterministic, allow_tf32, fp32_precision
    enabled = enabled if _enabled is None else _enabled
    deterministic = deterministic if _deterministic is None else _deterministic
    allow_tf32 = allow_tf32 if _allow_tf32 is None else _allow_tf32
    fp32_precision = _fp32_precision
    return before


@contextlib.contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True,
          fp32_precision: str = "none") -> Iterator[None]:
    """Sets the switches inside a with block, and puts them back."""
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        globals().update(zip(_SWITCHES, before))


class verbose:
    """Lets oneDNN print each primitive that it runs inside a with block."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> "verbose":
        if self.level != VERBOSE_OFF:
            self._set(self.level)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.level != VERBOSE_OFF:
            self._set(VERBOSE_OFF)

    @staticmethod
    def _set(level: int) -> None:
        from .._backends.cpu.onednn import library

        found = library()
        if found is None or found.slow.dnnl_set_verbose(level):
            raise RuntimeError("oneDNN cannot be made to print what it runs: the library was not found")
