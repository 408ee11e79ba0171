"""Functions of torch.linalg."""

from ._ops.declare import public_functions
from ._ops.linalg import LinAlgError

_functions = public_functions("linalg")
globals().update(_functions)
__all__ = ["LinAlgError", *_functions]
