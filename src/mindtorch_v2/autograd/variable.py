"""Variables: tensors under their name of old."""

from typing import Any

from .._autograd.engine import queue_callback
from .._core.dtype import FLOAT
from .._core.tensor import Tensor
from .._core.warn import warn_once

__all__ = ["Variable", "VariableMeta"]

_NAMES = ("data", "requires_grad", "volatile", "_grad_fn", "name")


class _Engine:
    """What DistributedDataParallel and its like ask to call them after a backward pass."""

    queue_callback = staticmethod(queue_callback)


class VariableMeta(type):
    """Lets isinstance(tensor, Variable) hold, and makes calls of Variable give tensors."""

    _execution_engine = _Engine()

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """A leaf on the memory of `data`."""
        for name in kwargs:
            if name not in _NAMES:
                raise TypeError(f"'{name}' is an invalid keyword argument for this function")
        given = dict(zip(_NAMES, args, strict=False)) | kwargs
        data, requires_grad, volatile = (given.get(name) for name in _NAMES[:3])
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        for flag in (requires_grad, volatile):
            if flag is not None and not hasattr(flag, "__index__"):
                raise TypeError(f"'{type(flag).__name__}' object cannot be interpreted as an integer")
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if volatile:
            warn_once("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", 1)
        if given.get("_grad_fn") is not None:
            raise ValueError("_grad_fn has to be a Function object or None: its outputs are made by the engine")
        made = Tensor() if data is None else data.detach()
        if requires_grad and made.dtype.category < FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return made._track() if requires_grad else made


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad=False)`: a tensor."""
