"""Activations and normalisation: signatures of torch.nn.functional that differ from the operators'."""

from typing import Any

from ..._ops.declare import public_functions
from ..._tensor import Tensor

__all__ = ["normalize", "relu"]

_torch = public_functions("torch")

_relu, _relu_in_place = _torch["relu"], _torch["relu_"]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0)"""
    return _relu_in_place(input) if inplace else _relu(input)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along `dim` divided by their p-norm, at least `eps`."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand(input.shape)
    return input / length if out is None else _torch["div"](input, length, out=out)
