"""Parameter and Buffer: tensors that a Module registers by itself when they are assigned to it."""

from collections import OrderedDict
from typing import Any, SupportsIndex

import mindtorch_v2 as torch

from .._core.tensor import _disabled_torch_function_impl
from .._dispatch.callers import is_of_pytorch, mixed_libraries
from .._dispatch.keys import PYTHON_MASK
from .._utils import _rebuild_parameter, _rebuild_parameter_with_state

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin",
           "is_lazy"]


class _MarkedTensorType(type):
    """Makes isinstance() true also for tensors of another class that carry the class's mark."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return "_mark" in cls.__dict__ and isinstance(instance, torch.Tensor) and getattr(instance, cls._mark, False)


class Parameter(torch.Tensor, metaclass=_MarkedTensorType):
    """A tensor that is a Module's parameter: it shares its data with `data` and requires grad by default."""

    _mark = "_is_param"
    __torch_function__ = staticmethod(_disabled_torch_function_impl)  # results of operations on it are plain tensors

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = torch.empty(0)
        if type(data) is torch.Tensor or type(data) is Parameter:
            return torch.Tensor._make_subclass(cls, data, requires_grad)
        if is_of_pytorch(type(data)):
            raise TypeError(mixed_libraries(cls))
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


# without a shape yet --------------------------------------------------------------------------------------------------


class UninitializedTensorMixin:
    """A tensor that has a type and a device, and gets its shape from `materialize`; till then it can only be moved."""

    cls_to_become: type
    data: Any
    _keys: int
    _allowed = frozenset(("__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double",
                          "char", "short", "int", "long", "cuda", "cpu", "to", "get_device", "detach", "requires_grad_",
                          "__get__", "__set__", "__repr__"))

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Becomes a parameter or buffer of that shape, in place; its elements are arbitrary."""
        data = self.data
        self.data = torch.empty(shape, device=data.device if device is None else device, dtype=dtype or data.dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self._keys &= ~PYTHON_MASK

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize "
                           "the parameters before calling `module.share_memory()`.")

    def numel(self) -> int:
        return self.__torch_function__(torch.Tensor.numel, ())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            data = self.data
            memo[id(self)] = type(self)(self.requires_grad, data.device, data.dtype)  # type: ignore
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__name__", "") not in cls._allowed:
            raise ValueError(
                f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
                "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. When "
                "using LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch "
                "functions"
            )
        return _disabled_torch_function_impl(func, types, args, kwargs or {})


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A Parameter without a shape."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return torch.Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, torch.Tensor):  # type: ignore[misc]
    """A buffer without a shape."""

    cls_to_become = torch.Tensor
    persistent: bool

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
                ) -> Any:
        made = torch.Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent, made._is_buffer = persistent, True
        return made


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer that has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


def _attributes_set_by_users(parameter: Parameter) -> dict[str, Any]:
    """The instance's attributes that are neither the class's nor those of every new parameter."""
    own = vars(Parameter())
    return {name: value for name, value in vars(parameter).items() if name not in own and not hasattr(Parameter, name)}
