"""The few names of PyTorch's extension module that Python programs use."""

import importlib
from typing import Any

from ._dispatch.keys import PYTHON_MASK, changed_modes, modes
from ._generator import Generator
from ._ops.linalg import _LinAlgError
from ._tensor import Tensor, _disabled_torch_function_impl


def __getattr__(name: str) -> Any:
    if name == "_functorch":
        return importlib.import_module("mindtorch_v2._functorch.wrappers")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


TensorBase = Tensor
_TensorBase = Tensor

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "TensorBase", "_LinAlgError",
           "_disabled_torch_function_impl"]


class DisableTorchFunctionSubclass(changed_modes):
    """Inside, subclasses are treated as plain tensors."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | PYTHON_MASK)


DisableTorchFunction = DisableTorchFunctionSubclass
