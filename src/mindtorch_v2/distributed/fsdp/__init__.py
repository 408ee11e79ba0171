"""Models larger than one process's memory: parameters, gradients and optimizer states in pieces."""

from ._fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .api import *  # noqa: F403
from .api import __all__ as _names
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = ["CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy",  # noqa: PLE0604
           "OffloadPolicy", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx", *_names]
