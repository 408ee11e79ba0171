"""What a Tensor becomes outside the operators: other types and devices, text, copies, pickles, DLPack."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _dtype, _printing
from ._device import CPU, device, memory_format, preserve_format
from ._dispatch.callers import call_torch_function
from ._dispatch.keys import PYTHON_MASK, changed_modes, modes
from ._dtype import COMPLEX, FLOAT, dtype, get_default_dtype
from ._from_data import new_tensor
from ._ops.copy import converted, to
from ._tensor import Tensor

# types and devices ---------------------------------------------------------------------------------------------------

_TYPE_METHODS = {"half": _dtype.float16, "bfloat16": _dtype.bfloat16, "float": _dtype.float32, "double": _dtype.float64,
                 "char": _dtype.int8, "byte": _dtype.uint8, "short": _dtype.int16, "int": _dtype.int32, "long": _dtype.int64,
                 "bool": _dtype.bool_, "cfloat": _dtype.complex64, "cdouble": _dtype.complex128}  # fmt: skip


def _type_method(name: str, kind: dtype) -> Callable:
    def method(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
            return call_torch_function(method, [self], (self,), {"memory_format": memory_format})
        return converted(self, kind, None, False, memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor with elements of type {kind}; itself if they are."
    return method


# text ----------------------------------------------------------------------------------------------------------------


def _elements(tensor: Tensor) -> np.ndarray:
    """A tensor's elements in a type that NumPy itself has."""
    array = tensor._host_array("repr()")
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    with changed_modes(exclude=modes.exclude | PYTHON_MASK):
        return _printing.tensor_repr(self, array_of=_elements, get_default_dtype=get_default_dtype)


def attach() -> None:
    """Gives Tensor the methods of this module."""
    for name, kind in _TYPE_METHODS.items():
        setattr(Tensor, name, _type_method(name, kind))
    for name, method in {"to": to, "new_tensor": new_tensor, "__repr__": _repr}.items():
        setattr(Tensor, name, method)
