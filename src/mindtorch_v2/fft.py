"""Functions of torch.fft."""

from ._ops._declare.op import public_functions

_functions = public_functions("fft")
globals().update(_functions)
__all__ = list(_functions)
