"""`out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)`: an operator that computes in a wider type."""

import functools
from typing import Any

import mindtorch_v2 as torch

from .._core.dtype import dtype
from .._core.tensor import Tensor

__all__ = ["out_dtype"]

_ALLOWED = ("linear.default", "mm.default", "conv2d.default", "convolution.default", "mul.Tensor", "mul.Scalar",
            "div.Tensor", "div.Scalar")  # fmt: skip


def out_dtype(op: Any, output_dtype: dtype, *args: Any) -> Tensor:
    """The operator's result in a type, computed in the type that it and the arguments promote to."""
    if not isinstance(op, torch._ops.OpOverload):
        raise ValueError("out_dtype's first argument must be an OpOverload")
    if op._schema.is_mutable:
        raise ValueError("out_dtype's first argument needs to be a functional operator")
    allowed = [_overload(name) for name in _ALLOWED]
    if op not in allowed:
        raise ValueError(f"out_dtype only allows the following operators: {allowed}.")
    wide = functools.reduce(torch.promote_types, [a.dtype for a in args if isinstance(a, Tensor)], output_dtype)
    return op(*[a.to(wide) if isinstance(a, Tensor) else a for a in args]).to(output_dtype)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)
