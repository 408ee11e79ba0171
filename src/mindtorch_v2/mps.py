"""torch.mps: devices that this library does not use."""

from ._compat.absent_device import absent_device

globals().update(absent_device("mps", RuntimeError("No mps device is available.")))
