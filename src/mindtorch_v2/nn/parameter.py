"""Parameter and Buffer: tensors that a Module registers by itself when they are assigned to it."""

from collections import OrderedDict
from typing import Any, SupportsIndex

import mindtorch_v2 as torch

from .._tensor import _disabled_torch_function_impl

__all__ = ["Buffer", "Parameter"]


class _MarkedTensorType(type):
    """Makes isinstance() true also for tensors of another class that carry the class's mark."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return isinstance(instance, torch.Tensor) and getattr(instance, cls._mark, False)


class Parameter(torch.Tensor, metaclass=_MarkedTensorType):
    """A tensor that is a Module's parameter: it shares its data with `data` and requires grad by default."""

    _mark = "_is_param"
    __torch_function__ = staticmethod(_disabled_torch_function_impl)  # results of operations on it are plain tensors

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = torch.empty(0)
        if type(data) is torch.Tensor or type(data) is Parameter:
            return torch.Tensor._make_subclass(cls, data, requires_grad)
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(tensor).__name__} was found instead. To use the "
                "type as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        if id(self) not in memo:
            copied = self.data.clone(memory_format=torch.preserve_format)
            memo[id(self)] = type(self)(copied, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        # Hooks are not pickled; the empty dict keeps the arguments those of PyTorch's own checkpoints.
        arguments: tuple = (self.data, self.requires_grad, OrderedDict())
        state = _attributes_set_by_users(self)
        if state:
            return _rebuild_parameter_with_state, (*arguments, state)
        return _rebuild_parameter, arguments


class Buffer(torch.Tensor, metaclass=_MarkedTensorType):
    """A tensor that is a Module's buffer; what comes back is a plain tensor that carries the mark of one."""

    _mark = "_is_buffer"
    persistent: bool
    __torch_function__ = staticmethod(_disabled_torch_function_impl)

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = torch.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


def _attributes_set_by_users(parameter: Parameter) -> dict[str, Any]:
    """The instance's attributes that are neither the class's nor those of every new parameter."""
    own = vars(Parameter())
    return {name: value for name, value in vars(parameter).items() if name not in own and not hasattr(Parameter, name)}


def _rebuild_parameter(data: torch.Tensor, requires_grad: bool, backward_hooks: OrderedDict) -> Parameter:
    """The Parameter a pickle describes."""
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: torch.Tensor, requires_grad: bool, backward_hooks: OrderedDict, state: dict[str, Any]
) -> Parameter:
    """The Parameter a pickle describes, with the attributes its user had set."""
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter
