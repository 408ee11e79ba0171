"""torch._subclasses: tensors without data that keep their device. No tensor here is one."""

from .fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
