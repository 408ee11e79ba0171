"""torch._prims: the operators that PyTorch's references are written in. Here they are functions of tensors.

Most are the function of the same name; those that promote no types and broadcast nothing there are as lenient here as
that function is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import _prims_common as utils

__all__ = """
    RETURN_TYPE abs acos acosh asin asinh atan atanh cos cosh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0
    bessel_j1 bitwise_not cbrt ceil conj_physical digamma erf erf_inv erfc erfcx exp expm1 exp2 fill floor imag isfinite
    lgamma log log1p log2 log10 ndtri neg real reciprocal round sign signbit sin sinh spherical_bessel_j0 sqrt tan tanh
    trunc add atan2 bitwise_and bitwise_or bitwise_xor div eq fmax fmin fmod frexp gcd ge gt hypot igamma igammac le lt
    maximum minimum mul ne nextafter pow remainder rsqrt shift_left shift_right_arithmetic sub zeta as_strided
    broadcast_in_dim collapse_view conj expand_dims split_dim squeeze transpose view_of view_element_type
    as_strided_scatter collapse cat reshape rev where clone convert_element_type device_put item maximum_value
    minimum_value copy_to resize amax amin prod sum var empty_strided empty_permuted scalar_tensor iota svd""".split()

_SPECIAL = {"bessel_i0": "i0", "bessel_i0e": "i0e", "bessel_i1": "i1", "bessel_i1e": "i1e", "erf_inv": "erfinv",
            **{name: name for name in ("bessel_j0", "bessel_j1", "erfcx", "ndtri", "spherical_bessel_j0", "zeta")}}


def broadcast_in_dim(a: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """A view of a shape in which the dimensions of `a` are those named."""
    for i in range(len(shape)):
        if i not in broadcast_dimensions:
            a = a.unsqueeze(i)
    return a.expand(shape)


def collapse_view(a: Any, start: int, end: int) -> Any:
    return a.view((*a.shape[:start], -1, *a.shape[end + 1:]))


def expand_dims(a: Any, dimensions: Sequence[int], ndim: int | None = None) -> Any:
    for i in sorted(utils.canonicalize_dims(a.ndim + len(dimensions) if ndim is None else ndim, dimensions)):
        a = a.unsqueeze(i)
    return a


def split_dim(a: Any, dim: int, outer_length: int) -> Any:
    return a.view((*a.shape[:dim], outer_length, a.shape[dim] // outer_length, *a.shape[dim + 1:]))


def squeeze(a: Any, dimensions: Sequence[int]) -> Any:
    return a.squeeze(tuple(dimensions))


def _limit(name: str) -> Callable:
    def limit(dtype: Any) -> Any:
        if dtype is torch.bool:
            return name == "max"
        return getattr(torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype), name)

    return limit


def iota(length: int, *, start: int, step: int, dtype: Any, device: Any, requires_grad: bool) -> Any:
    made = torch.arange(start, start + length * step, step, dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


_FUNCTIONS: dict[str, Callable] = {
    "cbrt": lambda a: torch.copysign(a.abs().pow(1 / 3), a),
    "fill": torch.fill, "transpose": torch.permute, "cat": torch.cat, "rev": torch.flip, "conj": torch.conj,
    "shift_left": torch.bitwise_left_shift, "shift_right_arithmetic": torch.bitwise_right_shift,
    "view_of": lambda a: a.view_as(a), "view_element_type": lambda a, dtype: a.view(dtype),
    "collapse": lambda a, start, end: torch.flatten(a, start, end),
    "convert_element_type": lambda a, dtype: a.to(dtype),
    "device_put": lambda a, device, non_blocking=False: a.to(device, non_blocking=non_blocking),
    "item": lambda a: a.item(), "copy_to": lambda a, b: a.copy_(b), "resize": lambda a, shape: a.resize_(shape),
    "maximum_value": _limit("max"), "minimum_value": _limit("min"),
    "var": lambda a, dims, correction=1, *, output_dtype=None: torch.var(a, dims, correction=correction),
    "amax": lambda a, dims, *, output_dtype=None: torch.amax(a, dims),
    "amin": lambda a, dims, *, output_dtype=None: torch.amin(a, dims),
    "sum": lambda a, dims, *, output_dtype=None: torch.sum(a, dims, dtype=output_dtype),
    "prod": lambda a, dims, *, output_dtype=None: _over(torch.prod, a, dims),
    "svd": lambda a, *, full_matrices: torch.linalg.svd(a, full_matrices=full_matrices),
}


def _over(function: Callable, a: Any, dims: Sequence[int]) -> Any:
    for i in sorted(dims, reverse=True):
        a = function(a, i)
    return a


def __getattr__(name: str) -> Any:
    if name == "RETURN_TYPE":
        return utils.RETURN_TYPE
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _SPECIAL:
        return getattr(torch.special, _SPECIAL[name])
    if name in __all__:
        return getattr(torch, name)
    raise AttributeError(f"module 'torch._prims' has no attribute '{name}'")

