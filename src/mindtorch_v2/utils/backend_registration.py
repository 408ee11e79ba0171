"""Names for a backend outside of PyTorch: here the only one is "npu", which is built in."""

from collections.abc import Sequence
from typing import Any

from .._absent import refuse

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Nothing for "npu", which has its name already."""
    if backend_name != "npu":
        refuse(f"way to add a backend ({backend_name!r})", "The devices are cpu, meta, cuda and npu.")


def generate_methods_for_privateuse1_backend(for_tensor: bool = True, for_module: bool = True,
                                             for_packed_sequence: bool = True, for_storage: bool = False,
                                             unsupported_dtype: Sequence[Any] | None = None) -> None:
    """Nothing: tensors and modules have `is_npu` and `npu()`."""
