"""Autocast for the CPU."""

from ..._core.dtype import bfloat16
from ...amp._old_names import autocast_of

__all__ = ["autocast"]

autocast = autocast_of("cpu", bfloat16)
