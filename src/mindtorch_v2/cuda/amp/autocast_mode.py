"""Autocast for CUDA."""

from ... import amp
from ..._core.dtype import float16
from ...amp._old_names import autocast_of, decorator_of

__all__ = ["autocast", "custom_bwd", "custom_fwd"]

autocast = autocast_of("cuda", float16)
custom_fwd = decorator_of("cuda", amp.custom_fwd)
custom_bwd = decorator_of("cuda", amp.custom_bwd)
