"""torch.distributed.fsdp.fully_shard under its older name."""

from ..fsdp import *  # noqa: F403
from ..fsdp import __all__ as __all__
