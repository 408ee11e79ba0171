"""Modules sharded over processes: not here. No module is an instance of these classes."""

from ..._compat.absent import absent_class, absent_function
from ...nn import Module

_NAMES = (
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
)
__all__ = [*_NAMES, "fully_shard", "register_fsdp_forward_method"]

globals().update({name: absent_class(f"torch.distributed.fsdp.{name}", "It runs one process.",
                                     Module if name in ("FSDPModule", "FullyShardedDataParallel") else object)
                  for name in _NAMES})
fully_shard = absent_function("torch.distributed.fsdp.fully_shard", "It runs one process.")
register_fsdp_forward_method = absent_function("torch.distributed.fsdp.register_fsdp_forward_method")
