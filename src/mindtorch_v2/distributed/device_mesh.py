"""Meshes of devices: not here, since there is one process."""

from .._compat.absent import absent_class, absent_function

__all__ = ["DeviceMesh", "init_device_mesh"]

_WHY = "It runs one process."
DeviceMesh = absent_class("torch.distributed.device_mesh.DeviceMesh", _WHY)
init_device_mesh = absent_function("torch.distributed.device_mesh.init_device_mesh", _WHY)
