"""torch.xpu: devices that this library does not use."""

from ._compat.absent_device import absent_device

globals().update(absent_device("xpu", RuntimeError("No xpu device is available.")))
