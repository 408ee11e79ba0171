"""Activations and normalisation: signatures of torch.nn.functional that differ from the operators'."""

import warnings
from typing import Any

from ..._core.device import contiguous_format
from ..._core.tensor import Tensor
from ..._ops._declare.op import public_functions

__all__ = ["gumbel_softmax", "normalize", "relu"]

_torch = public_functions("torch")

_relu, _relu_in_place = _torch["relu"], _torch["relu_"]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0)"""
    return _relu_in_place(input) if inplace else _relu(input)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along `dim` divided by their p-norm, at least `eps`."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand(input.shape)
    return input / length if out is None else _torch["div"](input, length, out=out)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Samples of a category as a softmax; with `hard` as a one and zeros, with the gradient of the softmax."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -_torch["empty_like"](logits, memory_format=contiguous_format).exponential_().log()  # type: ignore[attr-defined]
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = _torch["zeros_like"](logits, memory_format=contiguous_format).scatter_(dim, index, 1.0)
    return chosen - soft.detach() + soft
