"""torch._custom_ops: an older name of what torch.library has."""

from .library import custom_op, register_fake

__all__ = ["custom_op", "impl_abstract"]

impl_abstract = register_fake
