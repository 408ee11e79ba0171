"""Functions of torch.linalg."""

from ._ops._declare.op import public_functions
from ._ops.linalg.common import LinAlgError

_functions = public_functions("linalg")
globals().update(_functions)
__all__ = ["LinAlgError", *_functions]
