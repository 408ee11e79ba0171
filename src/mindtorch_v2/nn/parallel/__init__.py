"""Modules over several devices: one device is used here."""

from typing import Any

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def __getattr__(name: str) -> Any:
    """DistributedDataParallel comes with torch.distributed, which is loaded when it is asked for."""
    if name == "DistributedDataParallel":
        from .distributed import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
