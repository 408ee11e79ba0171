"""Fake tensors: not here; the meta device answers the same questions of shapes and types."""

from .._compat.absent import absent_class
from .._core.tensor import Tensor

FakeTensor = absent_class("torch._subclasses.FakeTensor", "Use device='meta'.", Tensor)
FakeTensorMode = absent_class("torch._subclasses.FakeTensorMode", "Use device='meta'.")


def is_fake(x: object) -> bool:
    return isinstance(x, FakeTensor)
