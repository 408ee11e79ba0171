"""Distances between vectors, vectors cut to a length, and how variables vary together."""

from typing import Any

from .._core.dtype import BOOL, COMPUTE, FLOAT, bool_
from .._core.tensor import wrapped_dim
from .._core.warn import warn_once
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.op import composite, function_of
from ._declare.rules import anywhere, common_dtype
from ._declare.samples import case, cases, error, ints, t
from .matmul import check_same_scalar

complex_of, triu_indices = function_of(registry.get("complex")), function_of(registry.get("triu_indices"))

# distances -----------------------------------------------------------------------------------------------------------


def refuse_halves(name: str, *tensors: Any) -> None:
    for tensor in tensors:
        if tensor.dtype in COMPUTE:
            raise NotImplementedError(f"\"{name}\" not implemented for '{tensor.dtype.scalar_name}'")


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


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
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
    if x1.size(-1) != x2.size(-1):
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.size(-1)} X2: {x2.size(-1)}")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype.scalar_name}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    refuse_halves("cdist", x1)
    check_same_scalar(x1.dtype, x2.dtype)
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 0:  # a number of elements, with a gradient of zeros
        return apart.norm(p, -1) + apart.masked_fill(apart.new_ones((), dtype=bool_), 0).sum(-1)
    return apart.norm(p, -1) if x1.size(-1) else apart.sum(-1)


@composite("pdist(Tensor self, float p=2.0) -> Tensor", public="torch nn.functional",
           samples=cases(*[case(t(4, 3), p) for p in (0.0, 1.0, 2.0, float("inf"))],
                         error(RuntimeError, "pdist only supports 2D tensors, got: 1D", t(3)),
                         error(RuntimeError, "pdist only supports non-negative p values", t(3, 2), -1.0)), out=None,
           autocast=dict(accelerators="float32"))
def _pdist(self, p):
    if self.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.dim()}D")
    if not self.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    refuse_halves("pdist", self)
    rows = self.size(0)
    first, second = triu_indices(rows, rows, 1, device=self.device).unbind()
    apart = self.index_select(0, first) - self.index_select(0, second)
    return apart.norm(p, 1) if self.size(1) else apart.sum(1)


@composite("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
           aligned="self",
           samples=cases(case(t(3, 4), 2, 0, 1.0), case(t(2, 3, 2), 1, 1, 0.5), case(t(3, 4), 2, -1, 100.0),
                         error(RuntimeError, "renorm: input needs at least 2 dimensions, got 1 dimensions", t(3), 2, 0,
                               1),
                         error(RuntimeError, "renorm: non-positive-norm not supported", t(3, 3), -2, 0, 1),
                         error(RuntimeError, "renorm: expected maxnorm to be >= 0 but got -1", t(3, 3), 2, 0, -1)),
           aten=LEAF,
           autocast=dict(accelerators="float32"))
def _renorm(self, p, dim, maxnorm):
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
    self = self.contiguous()
    length = self.norm(p, [d for d in range(self.dim()) if d != dim], keepdim=True)
    factor = (maxnorm / (length + 1e-7)).masked_fill(length <= maxnorm, 1)
    return self * factor.to(self.dtype)


@composite("renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)", public="Tensor", aten=LEAF)
def _renorm_in_place(self, p, dim, maxnorm):
    return self.copy_(self.clone().renorm(p, dim, maxnorm))


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
    if observations and not weights.is_meta and anywhere(weights < 0):
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
    if not rows.is_meta and freedom <= 0:
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
