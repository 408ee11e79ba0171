"""Training with uneven inputs over processes: not here. No object is Joinable."""

from ..._compat.absent import absent_class

__all__ = ["Join", "JoinHook", "Joinable"]

Join = absent_class("torch.distributed.algorithms.join.Join", "It runs one process.")


class Joinable:
    """Made to be subclassed."""


class JoinHook:
    """Made to be subclassed."""
