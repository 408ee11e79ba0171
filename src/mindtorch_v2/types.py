"""Types of arguments, for annotations."""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from ._core.device import device, layout, memory_format
from ._core.dtype import dtype
from ._core.storage import TypedStorage, UntypedStorage
from ._core.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _complex, _device, _dtype, _float, _int, _layout = bool, complex, device, dtype, float, int, layout
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | Any
Storage: TypeAlias = UntypedStorage | TypedStorage
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Sequence[int]
_qscheme: TypeAlias = Any
_symint, PySymType, IntLikeType, FloatLikeType, BoolLikeType = int, int, int, float, bool
memory_format = memory_format
