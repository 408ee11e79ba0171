"""The few names of PyTorch's extension module that Python programs use."""

from ._dispatch.keys import PYTHON_MASK, changed_modes, modes
from ._generator import Generator
from ._tensor import Tensor, _disabled_torch_function_impl

TensorBase = Tensor
_TensorBase = Tensor

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "TensorBase",
           "_disabled_torch_function_impl"]


class DisableTorchFunctionSubclass(changed_modes):
    """Inside, subclasses are treated as plain tensors."""

    def __init__(self) -> None:
        super().__init__(exclude=modes.exclude | PYTHON_MASK)


DisableTorchFunction = DisableTorchFunctionSubclass
