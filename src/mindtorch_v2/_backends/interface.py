"""How the operators' declarations find what a device has for them."""

import importlib
from typing import Any


def named_kernel(device_type: str, name: str) -> Any:
    """What a declaration names for a device: `rows.softmax` is `softmax` in rows.py of the device's `kernels`."""
    module, _, function = name.partition(".")
    return getattr(importlib.import_module(f".{device_type}.kernels.{module}", __package__), function)
