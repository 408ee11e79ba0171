"""Distances between vectors, vectors cut to a length, and how variables vary together."""

import math
from typing import Any

from .._core.dtype import BOOL, COMPUTE, FLOAT, bool_
from .._core.elements import has_elements
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from .._core.warn import warn_once
from .._dispatch.keys import modes
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.batch import matrices
from ._declare.families import computes
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite, function_of, op
from ._declare.recorded import once, recorded_gradients
from ._declare.rules import Spec, anywhere, broadcast_shape, common_dtype, records
from ._declare.samples import case, cases, error, ints, t
from .matrices import check_same_scalar
from .reduce import contiguous

complex_of, triu_indices = function_of(registry.get("complex")), function_of(registry.get("triu_indices"))

# distances -----------------------------------------------------------------------------------------------------------


def refuse_halves(name: str, *tensors: Any) -> None:
    for tensor in tensors:
        if tensor.dtype in COMPUTE:
            raise NotImplementedError(f"\"{name}\" not implemented for '{tensor.dtype.scalar_name}'")


def _lengths(xp: Any, apart: Any, p: float) -> Any:
    """The norms of differences along the last dimension."""
    if p == 1 or not apart.shape[-1]:
        return xp.abs(apart).sum(-1)
    if p == 2:
        return xp.sqrt((apart * apart).sum(-1))
    if p == 0:
        return xp.minimum(xp.ceil(xp.abs(apart)), 1).sum(-1)
    return xp.abs(apart).max(-1) if p == math.inf else (xp.abs(apart) ** p).sum(-1) ** (1 / p)


def _slopes(xp: Any, apart: Any, distance: Any, grad: Any, p: float) -> Any:
    """The gradients of differences along the last dimension, given those of their norms."""
    distance, grad, sign = distance[..., None], grad[..., None], xp.sign(apart)
    if p == 0:
        return grad * xp.zeros_like(apart)
    if p == 1:
        return grad * sign
    if p == math.inf:
        return grad * sign * (xp.abs(apart) == distance)
    ratio = apart / xp.where(distance == 0, distance.dtype.type(1), distance)
    if p == 2:
        return grad * ratio
    return grad * sign * xp.where(apart == 0, ratio.dtype.type(0), xp.abs(ratio) ** (p - 1))


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
_MANY = 25  # rows from which the first mode multiplies matrices


def _cdist_spec(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Spec:
    a, b = x1._array.shape, x2._array.shape
    return Spec((*broadcast_shape([a[:-2], b[:-2]]), a[-2], b[-2]), x1.dtype)


def _cdist_array(xp: Any, x1: Any, x2: Any, p: float, compute_mode: int | None) -> Any:
    return contiguous(_lengths(xp, x1[..., :, None, :] - x2[..., None, :, :], p))


def _cdist_by_parts(x1: Any, x2: Any, p: float, compute_mode: int | None) -> Any:
    return _norms(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _norms(apart: Any, p: float) -> Any:
    if p == 0:  # a number of elements, with a gradient of zeros
        return apart.norm(p, -1) + apart.masked_fill(apart.new_ones((), dtype=bool_), 0).sum(-1)
    return apart.norm(p, -1) if apart.size(-1) else apart.sum(-1)


_cdist_backward = function_of(op(
    "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
    kernel=computes(lambda grad, x1, x2, p, cdist: Spec((*grad._array.shape[:-2], *x1._array.shape[-2:]), x1.dtype),
                    lambda xp, grad, x1, x2, p, cdist:
                    contiguous(_slopes(xp, x1[..., :, None, :] - x2[..., None, :, :], cdist, grad, p).sum(-2))),
    kernels={"cpu": "distance.cdist_backward"}, public=""))


@once
def _cdist_grads(grad: Any, x1: Any, x2: Any, p: float, result: Any, needs: tuple) -> Any:
    if modes.grad_enabled:
        return recorded_gradients(lambda a, b: (_cdist_by_parts(a, b, p, None),), (x1, x2), (grad,), needs)
    return (_cdist_backward(grad, x1, x2, p, result) if needs[0] else None,
            _cdist_backward(grad.mT, x2, x1, p, result.mT) if needs[1] else None)


_cdist_forward = function_of(op(
    "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    kernel=computes(_cdist_spec, _cdist_array), kernels={"cpu": "distance.cdist"}, grad={"x1, x2": _cdist_grads},
    decomposition=_cdist_by_parts, node="CdistBackward0", public=""))


def _euclidean_array(xp: Any, x1: Any, x2: Any) -> Any:
    squares = (x1 * x1).sum(-1)[..., :, None] + (x2 * x2).sum(-1)[..., None, :]
    squares = squares - 2 * xp.matmul(x1, x2.swapaxes(-1, -2))
    return contiguous(xp.sqrt(xp.maximum(squares, 0)))


def _euclidean_grads(grad: Any, x1: Any, x2: Any, result: Any) -> tuple:
    ratio = (grad / result).masked_fill(result == 0, 0)
    return (x1 * ratio.sum(-1, keepdim=True) - ratio @ x2, x2 * ratio.sum(-2).unsqueeze(-1) - ratio.mT @ x1)


_euclidean_dist = function_of(op(
    "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", node={"ViewBackward0": "x1.dim() > 2"},
    kernel=computes(lambda x1, x2: _cdist_spec(x1, x2, 2.0, None), _euclidean_array),
    grad={"x1, x2": _euclidean_grads}, batch=matrices, public=""))


@composite(f"cdist(Tensor x1, Tensor x2, float p=2.0, Any compute_mode='{_MODES[0]}') -> Tensor",
           samples=cases(*[case(t(3, 2), t(4, 2), p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))],
                         case(t(2, 1, 3, 2), t(5, 4, 2)), case(t(3, 0), t(2, 0)), case(t(0, 2), t(3, 2)),
                         error(RuntimeError, "cdist only supports at least 2D tensors, X1 got: 1D", t(3), t(3)),
                         error(RuntimeError, "X1 and X2 must have the same number of columns. X1: 2 X2: 3", t(3, 2),
                               t(3, 3)),
                         error(RuntimeError, "cdist only supports non-negative p values", t(3, 2), t(3, 2), -1.0)),
           out=None, autocast="float32")
def _cdist(x1, x2, p, compute_mode):
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    a, b = x1._array.shape, x2._array.shape
    for name, shape in (("X1", a), ("X2", b)):
        if len(shape) < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {len(shape)}D")
    if a[-1] != b[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a[-1]} X2: {b[-1]}")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype.scalar_name}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    mode = _MODES.index(compute_mode)
    multiplied = p == 2 and mode < 2 and (mode or max(a[-2], b[-2]) > _MANY) and math.prod(a) and math.prod(b)
    if not multiplied:
        refuse_halves("cdist", x1)
    check_same_scalar(x1.dtype, x2.dtype)
    return _euclidean_dist(x1, x2) if multiplied else _cdist_forward(x1, x2, p, mode)


def _pdist_spec(self: Tensor, p: float = 2.0) -> Spec:
    rows = self._array.shape[0]
    return Spec((rows * (rows - 1) // 2,), self.dtype)


def _pdist_array(xp: Any, self: Any, p: float) -> Any:
    first, second = xp.triu_indices(len(self), 1)
    return _lengths(xp, self[first] - self[second], p)


def _pdist_by_parts(self: Any, p: float) -> Any:
    rows = self.size(0)
    first, second = triu_indices(rows, rows, 1, device=self.device).unbind()
    return _norms(self.index_select(0, first) - self.index_select(0, second), p)


def _pdist_slopes(xp: Any, grad: Any, self: Any, p: float, pdist: Any) -> Any:
    first, second = xp.triu_indices(len(self), 1)
    slopes, made = _slopes(xp, self[first] - self[second], pdist, grad, p), xp.zeros_like(self)
    xp.add.at(made, first, slopes)
    xp.subtract.at(made, second, slopes)
    return made


_pdist_backward = function_of(op(
    "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
    kernel=computes(lambda grad, self, p, pdist: Spec(self._array.shape, self.dtype), _pdist_slopes),
    kernels={"cpu": "distance.pdist_backward"}, public=""))


@once
def _pdist_grad(grad: Any, self: Any, p: float, result: Any) -> Any:
    if modes.grad_enabled:
        return recorded_gradients(lambda x: (_pdist_by_parts(x, p),), (self,), (grad,), (True,))[0]
    return _pdist_backward(grad, self, p, result)


_pdist_forward = function_of(op(
    "_pdist_forward(Tensor self, float p=2.0) -> Tensor", kernel=computes(_pdist_spec, _pdist_array),
    kernels={"cpu": "distance.pdist"}, grad=dict(self=_pdist_grad), decomposition=_pdist_by_parts,
    node="PdistBackward0", public=""))


@composite("pdist(Tensor self, float p=2.0) -> Tensor", public="torch nn.functional",
           samples=cases(*[case(t(4, 3), p) for p in (0.0, 1.0, 2.0, float("inf"))],
                         error(RuntimeError, "pdist only supports 2D tensors, got: 1D", t(3)),
                         error(RuntimeError, "pdist only supports non-negative p values", t(3, 2), -1.0)), out=None,
           autocast=dict(accelerators="float32"), refuses_coo=NO_CONTIGUOUS)
def _pdist(self, p):
    if self.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.dim()}D")
    if not self.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    refuse_halves("pdist", self)
    return _pdist_forward(self, p)


@composite("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", node="RenormBackward0",
           aligned="self",
           samples=cases(case(t(3, 4), 2, 0, 1.0), case(t(2, 3, 2), 1, 1, 0.5), case(t(3, 4), 2, -1, 100.0),
                         error(RuntimeError, "renorm: input needs at least 2 dimensions, got 1 dimensions", t(3), 2, 0,
                               1),
                         error(RuntimeError, "renorm: non-positive-norm not supported", t(3, 3), -2, 0, 1),
                         error(RuntimeError, "renorm: expected maxnorm to be >= 0 but got -1", t(3, 3), 2, 0, -1)),
           aten=LEAF,
           autocast=dict(accelerators="float32"), sharded="along")
def _renorm(self, p, dim, maxnorm):
    self = self.contiguous() if self.dim() > 1 else self
    return self * _factors_to_norms(self, p, dim, maxnorm)


def _factors_to_norms(self, p, dim, maxnorm):
    """What each part along a dimension is multiplied with, so that its norm is at most `maxnorm`."""
    if p.__class__ is complex:
        raise RuntimeError("renorm: p must be real-valued")
    if maxnorm.__class__ is complex:
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if self.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.dim()} dimensions")
    dim = wrapped_dim(dim, self.dim())
    length = self.norm(p, [d for d in range(self.dim()) if d != dim], keepdim=True)
    return (maxnorm / (length + 1e-7)).masked_fill(length <= maxnorm, 1).to(self.dtype)


@composite("renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)", public="Tensor", aten=LEAF,
           sharded="along")
def _renorm_in_place(self, p, dim, maxnorm):
    if records(self):  # the formulas save the old value
        return self.copy_(self.clone().renorm(p, dim, maxnorm))
    return self.mul_(_factors_to_norms(self, p, dim, maxnorm))


# variables that vary together ----------------------------------------------------------------------------------------


def _check_weights(name, weights, observations, category_name, right):
    """Raises unless there is one weight of the right kind for each observation."""
    if weights.dim() > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                           f"{weights.dim()} dimensions")
    if not right:
        raise RuntimeError(f"cov(): expected {name} to have {category_name} dtype but got {name} with "
                           f"{weights.dtype.scalar_name} dtype")
    if weights.numel() != observations:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but "
                           f"got {weights.numel()} != {observations}")
    if observations and has_elements(weights) and anywhere(weights < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
           samples=cases(case(t(3, 5)), case(t(5)), case(t(3, 5), correction=0),
                         case(t(2, 4), fweights=ints(4, low=1)), case(t(2, 4), aweights=t(4, low=0.1, grad=False)),
                         error(RuntimeError, "cov(): expected input to have two or fewer dimensions but got an input "
                                             "with 3 dimensions", t(2, 2, 2))), out=None)
def _cov(self, correction, fweights, aweights):
    if self.dim() > 2:
        raise RuntimeError("cov(): expected input to have two or fewer dimensions but got an input with "
                           f"{self.dim()} dimensions")
    if self.dtype.category == BOOL:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = self.reshape(1, -1) if self.dim() < 2 else self
    observations = rows.size(1)
    weights = fweights
    if fweights is not None:
        _check_weights("fweights", fweights, observations, "integral", fweights.dtype.category < FLOAT)
    if aweights is not None:
        _check_weights("aweights", aweights, observations, "floating point", aweights.dtype.is_floating_point)
        weights = aweights if fweights is None else fweights * aweights
    total = observations if weights is None else weights.sum()
    if not observations:
        mean = rows.new_full((rows.size(0), 1), float("nan"), dtype=common_dtype((rows, 1.0)))
    else:
        mean = (rows if weights is None else rows * weights).sum(1, keepdim=True) / total
    if aweights is None:
        freedom = total - correction
    else:
        freedom = total - correction * (weights * aweights).sum() / total
    freedom = max(freedom, 0) if weights is None else freedom.clamp_min(0)
    if has_elements(rows) and freedom <= 0:
        warn_once("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                  "observations.")
    apart = rows - mean
    weighted = apart if weights is None else apart * weights
    return (weighted @ apart.mH.to(weighted.dtype)).true_divide(freedom).squeeze()


@composite("corrcoef(Tensor self) -> Tensor",
           samples=cases(case(t(3, 5)), case(t(5)),
                         error(RuntimeError, "corrcoef(): expected input to have two or fewer dimensions but got an "
                                             "input with 3 dimensions", t(2, 2, 2))), out=None)
def _corrcoef(self):
    if self.dim() > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{self.dim()} dimensions")
    together = self.cov()
    if not together.dim():
        return together / together
    deviation = together.diagonal().sqrt()
    ratio = together / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if not ratio.dtype.is_complex:
        return ratio.clip(-1, 1)
    return complex_of(ratio.real.clip(-1, 1), ratio.imag.clip(-1, 1))
