"""torch.quantization: the names of torch.ao.quantization, where they were before."""

from ..ao import quantization as _home
from ..ao.quantization import *  # noqa: F403 - all of it

__all__ = _home.__all__
