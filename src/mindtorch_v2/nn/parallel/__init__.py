"""Modules over several devices."""

from typing import Any

from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate",
           "scatter"]


def __getattr__(name: str) -> Any:
    """DistributedDataParallel comes with torch.distributed, which is loaded when it is asked for."""
    if name == "DistributedDataParallel":
        from .distributed import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
