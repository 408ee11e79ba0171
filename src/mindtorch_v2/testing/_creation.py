"""`make_tensor`: random values that suit a type."""

import math
import warnings
from typing import Any

import mindtorch_v2 as torch

__all__ = ["make_tensor"]


def _supported(kind: Any) -> tuple[Any, Any, tuple[Any, Any]]:
    """The half-open interval that a type holds, and the usual one to draw from."""
    if kind is torch.bool:
        return 0, 2, (0, 2)
    if kind.is_floating_point or kind.is_complex:
        return torch.finfo(kind).min, torch.finfo(kind).max, (-9, 9)
    limits = torch.iinfo(kind)
    # The bounds themselves are int64: its largest number is never drawn.
    beyond = limits.max if kind is torch.int64 else limits.max + 1
    return limits.min, beyond, (0, 10) if kind is torch.uint8 else (-9, 10)


def _interval(kind: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The interval to draw from, inside what the type holds."""
    lowest, beyond, usual = _supported(kind)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if low == high and (kind.is_floating_point or kind.is_complex):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated "
            "since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= beyond:
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), but {kind} only "
                         f"supports [{lowest}, {beyond})")
    low, high = max(low, lowest), min(high, beyond)
    if kind.is_floating_point or kind.is_complex:
        return low, high
    return math.ceil(low), math.ceil(high)


def _draw_uniform(parts: Any, low: float, high: float) -> None:
    """Fills real numbers; an interval wider than the largest number is drawn at half its size."""
    if high - low > torch.finfo(parts.dtype).max:
        parts.uniform_(low / 2, high / 2).mul_(2)
    else:
        parts.uniform_(low, high)


def make_tensor(*shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: Any = None) -> Any:
    """A tensor of values uniform in [low, high); with `exclude_zero`, zeros become the smallest other value."""
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}")
    if not hasattr(dtype, "is_floating_point"):
        raise TypeError(f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor()")
    whole = not (dtype.is_floating_point or dtype.is_complex)
    if requires_grad and whole:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype!r}"
        )
    drawn = (*size[:-1], 2 * size[-1]) if noncontiguous and size and math.prod(size) >= 2 else size
    least, most = _interval(dtype, low, high)
    if whole:
        result = torch.randint(least, most, drawn, device=device, dtype=dtype)
    else:
        result = torch.empty(drawn, device=device, dtype=dtype)
        _draw_uniform(torch.view_as_real(result) if dtype.is_complex else result, least, most)
    if drawn != size:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = 1 if whole else torch.finfo(dtype).tiny
        result[result == 0] = smallest
    return result.requires_grad_() if requires_grad else result
