"""torch.distributed.fsdp under its longer name."""

from . import *  # noqa: F403
from . import __all__ as __all__
