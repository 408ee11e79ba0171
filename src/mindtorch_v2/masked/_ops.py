"""Functions of torch.masked: each puts what changes nothing in the place of masked-out elements, then computes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.device import sparse_coo, sparse_csr, strided
from .._core.dtype import FLOAT, INT, bool_, dtype, float32, iinfo, int64
from .._core.geometry import wrapped_dim
from .._core.sparse import is_sparse
from .._core.tensor import Tensor
from .._ops._declare.op import public_functions
from .._ops.sparse.layouts import indices_of, rebuilt, values_at

_torch, _linalg = public_functions("torch"), public_functions("linalg")
INF = float("inf")
Dims = int | Sequence[int] | None
_LAYOUTS = (strided, sparse_coo, sparse_csr)


# masks ---------------------------------------------------------------------------------------------------------------


def _lowest(kind: dtype, name: str) -> float:
    if kind.category == INT:
        return iinfo(kind).min
    if kind.category == FLOAT or name == "logsumexp":
        return -INF
    raise NotImplementedError(f"identity of {name} on {kind} input")


def _highest(kind: dtype, name: str) -> float:
    return -_lowest(kind, name) if kind.category != INT else iinfo(kind).max


def _canonical_dim(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions that are meant, counted from the front, in order: all for None and for ()."""
    if dim is None or dim == ():  # a NumPy number, compared so, has no truth value; PyTorch refuses it here as well
        return tuple(range(ndim))
    found: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        at = wrapped_dim(d, ndim)
        if at in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(int(at) if isinstance(d, bool) else at)
    return tuple(sorted(found))


def _one_dim(dim: Any, ndim: int) -> int:
    """The dimension that is meant, of several the first."""
    return _canonical_dim(dim, ndim)[0]


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **options: Any) -> Tensor:
    """The mask as booleans of the input's shape and layout."""
    if input.layout not in _LAYOUTS:
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.shape != input.shape:
        mask = mask.to_dense().expand(input.shape)
    if mask.layout is not input.layout:
        mask = mask.to_dense() if input.layout is strided else mask.to_sparse(layout=input.layout)
    return mask if mask.dtype.name == "bool" else mask.to(bool_) if is_sparse(mask) else mask != 0


_REDUCTIONS = frozenset("sum prod amax amin argmax argmin mean median norm var std logsumexp".split())


def _output_mask(op: Callable, input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Which elements of a function's result came of elements that are not masked out."""
    mask = _input_mask(input, *args, **options)
    if op.__name__ not in _REDUCTIONS:
        return mask
    before = 1 if op.__name__ == "norm" else 0  # arguments in front of the dimensions
    dim = args[before] if len(args) > before else options.get("dim", -1 if op.__name__ == "median" else None)
    return _any_over(mask, _canonical_dim(dim, input.ndim), bool(options.get("keepdim", False)))


def _any_over(mask: Any, dims: Sequence[int], keepdim: bool) -> Any:
    for d in sorted(dims, reverse=True):
        mask = mask.any(d, keepdim)
    return mask


def _where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """The input where the mask is True; a sparse one has just these elements, zero where the input has none."""
    if mask.layout is strided:
        return _torch["where"](mask, input, fill_value)
    if mask.layout not in _LAYOUTS:
        raise ValueError(f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}")
    chosen: Any = mask.to_dense()
    filled = _torch["where"](chosen, input.to_dense(), fill_value.to(input.dtype))
    if not mask.dense_dim():
        return filled.sparse_mask(chosen.to_sparse(layout=mask.layout))
    lines = chosen.flatten(-mask.dense_dim()).any(-1).to_sparse()
    return rebuilt(lines, values_at(filled, indices_of(lines)))


def _strided_only(input: Tensor, name: str) -> None:
    if input.layout is not strided:
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")


def _specified(input: Any) -> Tensor:
    """The mask of the elements that a sparse tensor has."""
    input = input.detach()
    values = input._values() if input.layout is sparse_coo else input.values()
    ones: Any = rebuilt(input, values.new_ones(values.shape, dtype=int64))
    return ones.to_dense() != 0


def _of_sparse(function: Callable, input: Any, dim: Dims, keepdim: bool | None, kind: dtype | None,
               mask: Tensor | None) -> Tensor:
    """A reduction of the elements that a sparse tensor has, or of those that a mask says; as sparse as the input."""
    name, layout_name = function.__name__, str(input.layout).rpartition(".")[2]
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {layout_name} tensor input")
    chosen: Any = _specified(input) if mask is None else _input_mask(input, mask=mask).to_dense()
    if input.layout is sparse_csr and not keepdim:
        kind_of_error = RuntimeError if name in ("sum", "prod") else AssertionError
        raise kind_of_error("reduction operations on CSR tensors with keepdim=False is unsupported")
    made: Any = function(input.to_dense(), dim, keepdim=keepdim, dtype=kind, mask=chosen)
    dims = _canonical_dim(dim, input.ndim)
    if input.layout is sparse_coo and len(dims) == input.ndim and name != "sum":
        return made.to_sparse()
    left = _any_over(chosen, dims, bool(keepdim))
    return made.sparse_mask(left.to_sparse(layout=input.layout))


def _filled(input: Any, mask: Tensor | None, value: float | Callable, name: str = "") -> Any:
    """The input with `value` (for the extremes, one of the input's type) wherever the mask is False."""
    if mask is None:
        return input
    if callable(value):
        value = value(input.dtype, name)
    return _torch["where"](_input_mask(input, mask=mask), input, input.new_tensor(value))


# What a reduction takes in the place of elements that are masked out.
_NEUTRAL: dict[str, Any] = {"sum": 0, "cumsum": 0, "prod": 1, "cumprod": 1, "norm": 0, "all": True, "amax": _lowest,
                            "argmax": _lowest, "logsumexp": _lowest, "amin": _highest, "argmin": _highest}


def _combine_input_and_mask(op: Callable, input: Any, mask: Any, *args: Any) -> Any:
    """The input with elements that do not count wherever it is masked out."""
    from .maskedtensor import is_masked_tensor

    if is_masked_tensor(input):
        input, mask = input.get_data(), input.get_mask()
    return _filled(input, mask, _NEUTRAL[op.__name__], op.__name__)


def _counted(input: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool = False) -> Any:
    """How many elements fall together into one."""
    if mask is not None:
        return _input_mask(input, mask=mask).sum(dim, keepdim)  # type: ignore[arg-type]
    folded = _canonical_dim(dim, input.ndim)
    left = [1 if d in folded else n for d, n in enumerate(input.shape) if keepdim or d not in folded]
    count = math.prod([input.shape[d] for d in folded]) if input.ndim else 1  # a number has a dimension 0 to fold
    return input.new_full(left, count, dtype=int64)


# reductions ----------------------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,  # noqa: A001
        mask: Tensor | None = None) -> Tensor:
    """The sum of unmasked elements over dimensions."""
    if is_sparse(input):
        return _of_sparse(sum, input, dim, keepdim, dtype, mask)
    filled = _filled(input, mask, 0)
    return filled.sum(_canonical_dim(dim, input.ndim) or None, bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The product of unmasked elements over dimensions."""
    if is_sparse(input):
        return _of_sparse(prod, input, dim, keepdim, dtype, mask)
    made = _filled(input, mask, 1)
    for d in reversed(_canonical_dim(dim, input.ndim)):
        made = made.prod(d, bool(keepdim), dtype=dtype)
    return made if input.ndim else made.prod(dtype=dtype)


def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums along a dimension, to which masked-out elements add nothing."""
    _strided_only(input, "cumsum")
    at = _one_dim(dim, input.ndim)
    return _filled(input, mask, 0).cumsum(at, dtype=dtype or input.dtype).to(dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products along a dimension, which masked-out elements leave as they are."""
    _strided_only(input, "cumprod")
    at = _one_dim(dim, input.ndim)
    return _filled(input, mask, 1).cumprod(at, dtype=dtype or input.dtype).to(dtype or input.dtype)


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The largest unmasked element over dimensions."""
    if is_sparse(input):
        return _of_sparse(amax, input, dim, keepdim, dtype, mask)
    filled = _filled(input, mask, _lowest, "amax")
    return filled.amax(_canonical_dim(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The smallest unmasked element over dimensions."""
    if is_sparse(input):
        return _of_sparse(amin, input, dim, keepdim, dtype, mask)
    filled = _filled(input, mask, _highest, "amin")
    return filled.amin(_canonical_dim(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the largest unmasked element is; as in PyTorch the result has the input's type."""
    _strided_only(input, "argmax")
    filled = _filled(input, mask, _lowest, "argmax")
    return filled.argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the smallest unmasked element is; as in PyTorch the result has the input's type."""
    _strided_only(input, "argmin")
    filled = _filled(input, mask, _highest, "argmin")
    return filled.argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The mean of unmasked elements over dimensions, NaN where there is none."""
    if is_sparse(input):
        if input.layout is not sparse_csr:
            raise ValueError(f"masked mean expects strided or sparse_csr tensor (got {input.layout} tensor)")
        return _of_sparse(mean, input, dim, keepdim, dtype, mask)
    kind = dtype or input.dtype
    if kind.category < FLOAT:
        word = "Input" if dtype is None else "Optional"
        raise ValueError(f"mean(): Could not infer output dtype. {word} dtype must be either a floating point or "
                         f"complex dtype. Got: {kind}")
    count = _counted(input, mask, dim, bool(keepdim))
    total: Any = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / count


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """The median of unmasked elements along a dimension, NaN where there is none."""
    _strided_only(input, "median")
    kind, at = dtype or input.dtype, _one_dim(dim, input.ndim)
    is_floating = input.dtype.is_floating_point
    filled = _filled(input if is_floating else input.to(float32), mask, float("nan"))
    made = filled.nanmedian(at, bool(keepdim)).values
    if not is_floating and bool(made.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return made.to(kind)


def norm(input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool | None = False,
         dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The vector norm of unmasked elements over dimensions."""
    _strided_only(input, "norm")
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, INF if order == -INF else 0)
    return _linalg["vector_norm"](filled, order, _canonical_dim(dim, input.ndim), bool(keepdim), dtype=dtype)


def logsumexp(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None,
              mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of exponentials of unmasked elements."""
    _strided_only(input, "logsumexp")
    filled = _filled(input, mask, _lowest, "logsumexp")
    return filled.logsumexp(_canonical_dim(dim, input.ndim), keepdim).to(dtype or input.dtype)


def _variance(input: Any, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool | None,
              kind: dtype | None, mask: Tensor | None) -> Any:
    _strided_only(input, "std/var")
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    kind = kind or (input.dtype if input.dtype.category >= FLOAT else float32)
    values = input.to(kind)
    count = _counted(input, mask, dim, True)
    centred = values - sum(values, dim, keepdim=True, mask=mask) / count  # type: ignore[operator]
    total: Any = sum(centred * centred.conj(), dim, keepdim=keepdim, mask=mask)
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
    _strided_only(input, "softmax")
    at = _one_dim(dim, input.ndim)
    return _filled(input, mask, _lowest, "softmax").softmax(at, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    _strided_only(input, "log_softmax")
    at = _one_dim(dim, input.ndim)
    return _filled(input, mask, _lowest, "log_softmax").log_softmax(at, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negated input."""
    _strided_only(input, "softmin")
    at = _one_dim(dim, input.ndim)
    return (-_filled(input, mask, _highest, "softmin")).softmax(at, dtype=dtype)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None,
              mask: Tensor | None = None) -> Tensor:
    """The input divided by its norm along a dimension; masked-out elements become zero."""
    _strided_only(input, "normalize")
    size: Any = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input.to(dtype or input.dtype), mask, 0) / size.maximum(size.new_full((), eps))


def logaddexp(input: Tensor, other: Tensor, *, dtype: dtype | None = None, input_mask: Tensor | None = None,
              other_mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of two exponentials, of which masked-out ones are zero."""
    _strided_only(input, "logaddexp")
    one, two = _filled(input, input_mask, -INF), _filled(other, other_mask, -INF)
    return one.logaddexp(two).to(dtype or input.dtype)
