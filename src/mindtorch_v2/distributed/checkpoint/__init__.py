"""Checkpoints of several processes: not here."""

from ..._compat.absent import absent_class, absent_function

__all__ = ["FileSystemReader", "FileSystemWriter", "load", "save"]

_WHY = "Use torch.save and torch.load."
load = absent_function("torch.distributed.checkpoint.load", _WHY)
save = absent_function("torch.distributed.checkpoint.save", _WHY)
FileSystemReader = absent_class("torch.distributed.checkpoint.FileSystemReader", _WHY)
FileSystemWriter = absent_class("torch.distributed.checkpoint.FileSystemWriter", _WHY)
