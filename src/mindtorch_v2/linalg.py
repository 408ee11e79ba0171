"""Functions of torch.linalg."""

from ._ops.declare import public_functions

_functions = public_functions("linalg")
globals().update(_functions)
__all__ = list(_functions)
