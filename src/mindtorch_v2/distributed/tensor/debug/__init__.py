"""What distributed tensors make processes send each other."""

from ._comm_mode import CommDebugMode

__all__ = ["CommDebugMode"]
