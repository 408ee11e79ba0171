"""Whether mixed precision can be used at all."""

import importlib.util

from .. import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    return not (is_available() or importlib.util.find_spec("torch_xla"))
