"""Functions of one masked tensor, which keep its mask."""

from typing import Any

import mindtorch_v2 as torch

UNARY_NAMES = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil
    clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10
    log1p log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn
    signbit sin sinc sinh sqrt square tan tanh trunc""".split()
INPLACE_UNARY_NAMES = [f"{name}_" for name in UNARY_NAMES if name not in ("angle", "isnan", "positive", "signbit")]

NATIVE_UNARY_FNS = [getattr(torch.ops.aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS = [getattr(torch.ops.aten, name) for name in INPLACE_UNARY_NAMES]


def apply_unary(func: Any, args: tuple, kwargs: dict) -> Any:
    """The function of the elements, with the same mask."""
    from .core import _quietly
    from .operators import on_values

    (masked, *rest) = args
    return _quietly(on_values(lambda x: func(x, *rest, **kwargs), masked._masked_data), masked._masked_mask)


def apply_inplace_unary(func: Any, args: tuple, kwargs: dict) -> Any:
    (masked, *rest) = args
    data = masked._masked_data
    func(data if data.layout is torch.strided else data.values(), *rest, **kwargs)
    return masked
