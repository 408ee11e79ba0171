"""DLPack: memory shared with other array libraries of the same process."""

from .._core.dlpack import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
