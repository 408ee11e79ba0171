"""Names for a backend outside of PyTorch: "npu", which is built in, or one that a program registers."""

from collections.abc import Sequence
from typing import Any

from .._compat.absent import refuse
from .._core.device import DEVICE_TYPES

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Nothing for "npu", or for a device that was registered, which have their names already."""
    if backend_name not in DEVICE_TYPES:
        refuse(f"backend named {backend_name!r}", "Register one, see mindtorch_v2/_backends/interface.py.")


def generate_methods_for_privateuse1_backend(for_tensor: bool = True, for_module: bool = True,
                                             for_packed_sequence: bool = True, for_storage: bool = False,
                                             unsupported_dtype: Sequence[Any] | None = None) -> None:
    """Nothing: tensors and modules have `is_npu` and `npu()`."""
