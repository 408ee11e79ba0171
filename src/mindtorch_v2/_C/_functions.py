"""Nodes of PyTorch's extension that no operator stands for."""

from typing import Any

from .._autograd.engine import edge_for
from .._autograd.function import DelayedError as _Delayed
from .._autograd.function import Function as _Function
from .._autograd.node import AccumulateGrad, NotDerived
from .._autograd.views import CopySlices

__all__ = ["AccumulateGrad", "CopySlices", "DelayedError", "NotImplemented", "UndefinedGrad"]

NotImplemented = NotDerived


class DelayedError:
    """A function that gives its inputs back, and whose backward raises with the given text."""

    def __init__(self, text: str, count: int) -> None:
        self.text = text

    def __call__(self, *tensors: Any) -> Any:
        node = _Delayed(self.text)
        made = tuple(node.attach(t.detach(), edge_for(t)) for t in tensors)
        return made[0] if len(made) == 1 else made


class _Undefined(_Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.count = len(tensors)
        made = tuple(t.view_as(t) for t in tensors)
        return made[0] if len(made) == 1 else made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None,) * ctx.count


_Undefined._backward_cls.__name__ = "UndefinedGradBackward"


class UndefinedGrad:
    """A function that gives its inputs back, and passes no gradient on."""

    def __call__(self, *tensors: Any) -> Any:
        return _Undefined.apply(*tensors)
