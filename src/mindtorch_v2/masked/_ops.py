"""Functions of torch.masked: each puts what changes nothing in the place of masked-out elements, then computes."""

from collections.abc import Callable, Sequence
from typing import Any

from .._dtype import FLOAT, INT, dtype, float32, iinfo, int64
from .._ops.declare import public_functions
from .._ops.reduce import reduced_dims
from .._tensor import Tensor

_torch, _linalg = public_functions("torch"), public_functions("linalg")
INF = float("inf")
Dims = int | Sequence[int] | None


# masks ---------------------------------------------------------------------------------------------------------------


def _lowest(kind: dtype, name: str) -> float:
    if kind.category == INT:
        return iinfo(kind).min
    if kind.category == FLOAT or name == "logsumexp":
        return -INF
    raise NotImplementedError(f"identity of {name} on {kind} input")


def _highest(kind: dtype, name: str) -> float:
    return -_lowest(kind, name) if kind.category != INT else iinfo(kind).max


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    return reduced_dims((dim,) if isinstance(dim, int) else dim, ndim)


def _input_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as booleans of the input's shape."""
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    mask = mask.expand(input.shape) if mask.shape != input.shape else mask
    return mask if mask.dtype.name == "bool" else mask != 0


def _filled(input: Any, mask: Tensor | None, value: float | Callable, name: str = "") -> Any:
    """The input with `value` (for the extremes, one of the input's type) wherever the mask is False."""
    if mask is None:
        return input
    if callable(value):
        value = value(input.dtype, name)
    return _torch["where"](_input_mask(input, mask), input, input.new_tensor(value))


def _counted(input: Tensor, mask: Tensor | None, dims: Sequence[int], keepdim: bool = False) -> Any:
    """How many elements fall together into one."""
    ones = input.new_ones(input.shape, dtype=int64) if mask is None else _input_mask(input, mask).to(int64)
    return ones.sum(dims or None, keepdim)


# reductions ----------------------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,  # noqa: A001
        mask: Tensor | None = None) -> Tensor:
    """The sum of unmasked elements over dimensions."""
    filled = _filled(input, mask, 0)
    return filled.sum(_dims(dim, input.ndim) or None, bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The product of unmasked elements over dimensions."""
    made = _filled(input, mask, 1)
    for d in sorted(_dims(dim, input.ndim), reverse=True):
        made = made.prod(d, bool(keepdim), dtype=dtype)
    return made if input.ndim else made.prod(dtype=dtype)


def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums along a dimension, to which masked-out elements add nothing."""
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype).to(dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products along a dimension, which masked-out elements leave as they are."""
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype).to(dtype or input.dtype)


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The largest unmasked element over dimensions."""
    filled = _filled(input, mask, _lowest, "amax")
    return filled.amax(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The smallest unmasked element over dimensions."""
    filled = _filled(input, mask, _highest, "amin")
    return filled.amin(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the largest unmasked element is; as in PyTorch the result has the input's type."""
    filled = _filled(input, mask, _lowest, "argmax")
    return filled.argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the smallest unmasked element is; as in PyTorch the result has the input's type."""
    filled = _filled(input, mask, _highest, "argmin")
    return filled.argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The mean of unmasked elements over dimensions, NaN where there is none."""
    kind = dtype or input.dtype
    if kind.category < FLOAT:
        word = "Input" if dtype is None else "Optional"
        raise ValueError(f"mean(): Could not infer output dtype. {word} dtype must be either a floating point or "
                         f"complex dtype. Got: {kind}")
    total: Any = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _counted(input, mask, _dims(dim, input.ndim), bool(keepdim))


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """The median of unmasked elements along a dimension, NaN where there is none."""
    kind, at = dtype or input.dtype, _dims(dim, input.ndim)[0] if input.ndim else 0
    is_floating = input.dtype.is_floating_point
    filled = _filled(input if is_floating else input.to(float32), mask, float("nan"))
    made = filled.nanmedian(at, bool(keepdim)).values
    if not is_floating and bool(made.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return made.to(kind)


def norm(input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool | None = False,
         dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The vector norm of unmasked elements over dimensions."""
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, INF if order == -INF else 0)
    return _linalg["vector_norm"](filled, order, _dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def logsumexp(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None,
              mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of exponentials of unmasked elements."""
    filled = _filled(input, mask, _lowest, "logsumexp")
    return filled.logsumexp(_dims(dim, input.ndim), keepdim).to(dtype or input.dtype)


def _variance(input: Any, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool | None,
              kind: dtype | None, mask: Tensor | None) -> Any:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    kind = kind or (input.dtype if input.dtype.category >= FLOAT else float32)
    dims = _dims(dim, input.ndim)
    values = input.to(kind)
    count = _counted(input, mask, dims, True)
    centred = values - sum(values, dims, keepdim=True, mask=mask) / count  # type: ignore[operator]
    total: Any = sum(centred * centred.conj(), dims, keepdim=keepdim, mask=mask)
    return (total / (count.reshape(total.shape) - correction).clamp(min=0)).to(kind)


def var(input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: int | float | None = None,
        keepdim: bool | None = False, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The variance of unmasked elements over dimensions."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: int | None = None,
        keepdim: bool | None = False, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The standard deviation of unmasked elements over dimensions."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


# normalisations ------------------------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Exponentials that sum to one along a dimension; masked-out elements get zero."""
    return _filled(input, mask, _lowest, "softmax").softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _filled(input, mask, _lowest, "log_softmax").log_softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negated input."""
    return (-_filled(input, mask, _highest, "softmin")).softmax(dim, dtype=dtype)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None,
              mask: Tensor | None = None) -> Tensor:
    """The input divided by its norm along a dimension; masked-out elements become zero."""
    size: Any = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input.to(dtype or input.dtype), mask, 0) / size.maximum(size.new_full((), eps))


def logaddexp(input: Tensor, other: Tensor, *, dtype: dtype | None = None, input_mask: Tensor | None = None,
              other_mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of two exponentials, of which masked-out ones are zero."""
    one, two = _filled(input, input_mask, -INF), _filled(other, other_mask, -INF)
    return one.logaddexp(two).to(dtype or input.dtype)
