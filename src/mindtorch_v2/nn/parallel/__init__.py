"""Modules over several devices: one device is used here."""

from ..._absent import absent_class
from ..modules.module import Module
from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

DistributedDataParallel = absent_class("torch.nn.parallel.DistributedDataParallel",
                                       "It runs one process: train the module itself.", Module)
