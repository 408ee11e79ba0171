"""DistributedDataParallel under the name of its own module."""

from . import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
