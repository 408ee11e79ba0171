"""Functions of torch.special."""

from ._ops._declare.op import public_functions

_functions = public_functions("special")
globals().update(_functions)
__all__ = list(_functions)
