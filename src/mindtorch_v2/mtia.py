"""torch.mtia: devices that this library does not use."""

from ._compat.absent_device import absent_device

globals().update(absent_device("mtia", RuntimeError("No mtia device is available.")))
