"""torch.quantization: torch.ao.quantization under its older name."""

from ..ao.quantization import *  # noqa: F403
from ..ao.quantization import __all__ as __all__
