"""torch.distributed.distributed_c10d: the collectives' own module."""

from . import *  # noqa: F403
from . import __all__ as __all__
