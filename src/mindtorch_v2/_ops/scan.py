"""Running sums, products and extrema, differences, and integrals by the trapezoid rule."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtype import BOOL, COMPLEX, FLOAT, INT, bool_, dtype, float64, int64
from .._core.elements import has_elements
from .._core.geometry import proper_dim, wrapped_dim
from .._core.tensor import Tensor
from .._dispatch.argument_checks import checked_int
from .._dispatch.keys import modes
from .._dispatch.registry import Operator
from ._declare.families import ArrayFamily, computes
from ._declare.op import composite, op
from ._declare.out import ANY, Out, type_of_first
from ._declare.rules import Spec, anywhere, warn_of_parts_lost
from ._declare.samples import bools, case, cases, error, ints, t, values
from .extreme import NAN, chosen_grad, kinks
from .join import cat
from .reduce import contiguous, joined, reduced_dims

# PyTorch's running sums keep more digits than they return.
_WIDER = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}

_CASES = (case(t(2, 3), 1), case(t(2, 3), 0), case(t(2, 3, 4), -2), case(t(), 0), case(t(0, 3), 0),
          case(t(3, 2, layout="transposed"), 1), case(t(2, 3, layout="expanded"), 0),
          error(IndexError, "Dimension out of range", t(2, 3), 2))


def _running_spec(self: Tensor, dim: int, dtype: dtype | None) -> Spec:
    wrapped_dim(dim, self._array.ndim)
    return Spec(self._array.shape, dtype or (int64 if self.dtype.category <= INT else self.dtype))


_AS_INPUT = Out("exact", "expected scalar_type {made} but found {given}", first=type_of_first)


class _Scans(ArrayFamily):
    """A running sum or product; in place, in the type of the tensor."""

    out = ANY

    def __init__(self, ufunc: str) -> None:
        super().__init__(_running_spec, _running(ufunc), widen=True)

    @staticmethod
    def inplace_arguments(functional: Operator, target: Tensor, dim: int, dtype: dtype | None) -> tuple:
        wrapped_dim(dim, target._array.ndim)
        if target.dtype is bool_ and target._array.size and target._array.ndim:
            raise NotImplementedError(f"\"{functional.schema.base_name}_out_cpu\" not implemented for 'Bool'")
        return dim, dtype or target.dtype


_NAMES = {"add": "cumsum", "multiply": "cumprod"}


def _running(ufunc: str) -> Callable:
    """The `array` of a running sum or product."""

    def array(xp: Any, self: Any, dim: int, dtype: dtype | None, spec: Spec) -> Any:
        if spec.dtype is bool_ and self.size and self.ndim:
            raise NotImplementedError(f"\"{_NAMES[ufunc]}_out_cpu\" not implemented for 'Bool'")
        kind = spec.dtype.np
        if dtype is not None and self.dtype.kind == "c" and kind.kind not in "cb":
            warn_of_parts_lost(self, dtype)
            self = self.real
        self = self.astype(kind, copy=False) if spec.dtype.itemsize >= 4 or spec.dtype.category <= INT else self
        if not self.ndim:
            return self.copy()
        if spec.dtype is bool_:
            return (xp.logical_or if ufunc == "add" else xp.logical_and).accumulate(self, dim)
        wide = self.astype(_WIDER.get(self.dtype.kind, kind), order="C")
        return getattr(xp, ufunc).accumulate(wide, dim, out=wide).astype(kind, copy=False)

    return array


def _from_the_end(tensor: Tensor, dim: int) -> Tensor:
    """The running sum that starts at the last element."""
    if tensor.numel() <= 1 or tensor.size(dim) == 1:
        return tensor
    return tensor.flip(dim).cumsum(dim).flip(dim)


op("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
   aligned="self",
   kernel=_Scans("add"),
   kernels={"cpu": "scan.cumsum", "cuda": "scan.cumulative"},
   npu="aclnnCumsum(self, dim, out.dtype, out)", inplace=True,
   grad=dict(self=lambda grad, dim: _from_the_end(grad, dim)),
   samples=cases(*_CASES, case(ints(2, 3), 0), case(bools(2, 3), 1), case(t(2, 3), 1, dtype=float64)), linear=True,
   autocast=dict(accelerators="result"), sharded="along")


def _cumprod_grad(grad: Tensor, self: Tensor, result: Tensor, dim: int, dtype: dtype | None) -> Tensor:
    """Without zeros, what follows an element divided by it. The first zero of a row is the last element that counts."""
    self = (self if dtype is None else self.to(dtype)).conj()
    if not self.dim() or not self.numel():
        return grad
    if has_elements(self) and not anywhere(self == 0):
        return _from_the_end(grad * result.conj(), dim) / self
    if modes.grad_enabled:
        return _cumprod_grad_pairwise(grad, self, dim)
    zeros = (self == 0).cumsum(dim)
    first = (zeros == 1) & (self == 0)
    at_zero = _from_the_end(grad * self.masked_fill(first, 1).cumprod(dim), dim)
    before = _from_the_end(grad * result.conj(), dim) / self.masked_fill(self == 0, 1)
    return before.masked_fill(zeros > 0, 0) + at_zero.masked_fill(~first, 0)


def _cumprod_grad_pairwise(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """As a function of every element, zero or not, so that it can be differentiated again."""
    rows, grad = self.movedim(dim, -1), grad.movedim(dim, -1)
    length = rows.size(-1)
    others = rows.unsqueeze(-2).expand(*rows.shape[:-1], length, length)
    itself = others.new_ones((length, length)).tril().triu().to(bool_)
    reached = others.masked_fill(itself, 1).cumprod(-1).triu()  # [k, j]: the product up to j without k
    return (grad.unsqueeze(-2) * reached).sum(-1).movedim(-1, dim)


op("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
   aligned="self",
   kernel=_Scans("multiply"),
   kernels={"cpu": "scan.cumprod", "cuda": "scan.cumulative"},
   npu="aclnnCumprod(self, dim:int32, out.dtype, out)",
   inplace=True, grad=dict(self=_cumprod_grad),
   samples=cases(*_CASES, case(ints(2, 3), 0), case(values([[1.0, 0.0, 2.0, 0.0], [3.0, -1.0, 4.0, 2.0]]), 1),
                 case(bools(2, 3), 1), case(t(2, 3), 1, dtype=float64)), autocast=dict(accelerators="result"),
   sharded="along")


# extrema -------------------------------------------------------------------------------------------------------------


def _extremes_spec(name: str) -> Callable:
    def infer(self: Tensor, dim: int) -> tuple[Spec, Spec]:
        if self.dtype.category == COMPLEX and self._array.ndim:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{self.dtype.scalar_name}'")
        if not self._array.ndim and dim not in (-1, 0):
            raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
        wrapped_dim(dim, self._array.ndim)
        return Spec(self._array.shape, self.dtype), Spec(self._array.shape, int64)

    return infer


def _extremes(ufunc: str) -> Callable:
    """Running extrema, and where each was last met (a NaN wherever one comes)."""

    def array(xp: Any, self: Any, dim: int) -> tuple[Any, Any]:
        if not self.ndim:
            return self.copy(), xp.zeros((), xp.int64)
        best = getattr(xp, ufunc).accumulate(self, dim)
        place = xp.arange(self.shape[dim]).reshape([-1 if d == dim % self.ndim else 1 for d in range(self.ndim)])
        met = (self == best) | (self != self)
        indices = xp.maximum.accumulate(xp.where(met, place, 0), dim)
        return contiguous(best), contiguous(indices)

    return array


for _name, _ufunc in (("cummax", "maximum"), ("cummin", "minimum")):
    op(f"{_name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
       kernel=computes(_extremes_spec(_name), _extremes(_ufunc)), kernels={"cpu": f"scan.{_name}"}, sharded="along",
       npu=f"aclnn{_name.title()}(self, dim, values, indices)",
       grad=dict(self=lambda grad, indices, self_shape, dim:
                 chosen_grad(grad, indices, self_shape, dim, True, True)),
       samples=cases(*_CASES, case(kinks([1.0, 1.0, 0.0, NAN, 2.0, NAN]), 0), case(ints(2, 3), 1),
                     case(bools(2, 3), 0)), out=_AS_INPUT)


# logarithm of a running sum ------------------------------------------------------------------------------------------


def _logcumsumexp_spec(self: Tensor, dim: int) -> Spec:
    wrapped_dim(dim, self._array.ndim)
    if self.dtype.category < FLOAT:
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{self.dtype.scalar_name}'")
    return Spec(self._array.shape, self.dtype)


def _logcumsumexp(xp: Any, self: Any, dim: int) -> Any:
    if not self.ndim or not self.size:
        return self.copy()
    if self.dtype.kind == "f":
        return contiguous(xp.logaddexp.accumulate(self.astype(xp.float64, copy=False), dim))
    rows = xp.moveaxis(self.astype(xp.complex128), dim, 0)
    made = xp.empty(rows.shape, rows.dtype)
    made[0] = rows[0]
    for i in range(1, len(rows)):  # NumPy's logaddexp has no complex loop
        made[i] = _complex_logaddexp(xp, made[i - 1], rows[i])
    return contiguous(xp.moveaxis(made, 0, dim))


def _complex_logaddexp(xp: Any, a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) whose imaginary part follows that of the operand with the larger real part."""
    low, high = xp.where(a.real < b.real, a, b), xp.where(a.real < b.real, b, a)
    made = high + xp.log1p(xp.exp(low - high))
    return xp.where(xp.isneginf(high.real), low, made)


def _logcumsumexp_grad(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """Sums of grad * exp(-result) from the end, times exp(self), in logarithms; of real numbers by sign."""
    if not self.dim() or not self.numel():
        return grad
    result = result.masked_fill(result == float("-inf"), 0)  # nothing was added yet, and nothing flows back

    def part(logarithm: Tensor) -> Tensor:
        return ((logarithm - result).flip(dim).logcumsumexp(dim).flip(dim) + self).exp()

    def positive(signed: Tensor) -> Tensor:
        absent = signed <= 0
        return part(signed.masked_fill(absent, 1).log().masked_fill(absent, float("-inf")))

    return part(grad.conj().log()).conj() if self.dtype.is_complex else positive(grad) - positive(-grad)


def _logcumsumexp_by_parts(self: Any, dim: int) -> Any:
    """Sums of 2, 4, 8, ... elements in turn, so that none is lost beside one that comes later."""
    made, count, reach = self, self.shape[dim] if self.dim() else 1, 1
    while reach < count:
        before, after = made.narrow(dim, 0, count - reach), made.narrow(dim, reach, count - reach)
        made = cat((made.narrow(dim, 0, reach), after.logaddexp(before)), dim)
        reach *= 2
    return made


op("logcumsumexp(Tensor self, int dim) -> Tensor",
   aligned="self",
   kernel=computes(_logcumsumexp_spec, _logcumsumexp), kernels={"cpu": "scan.logcumsumexp"},
   grad=dict(self=_logcumsumexp_grad),
   samples=cases(*_CASES, case(t(2, 3, low=80, high=100), 1),
                 error(NotImplementedError, '"logcumsumexp_out_cpu" not implemented', ints(2, 3), 0)),
   out=_AS_INPUT, decomposition=_logcumsumexp_by_parts, sharded="along")


# differences ---------------------------------------------------------------------------------------------------------


def _check_joinable(self: Tensor, other: Tensor | None, dim: int) -> None:
    if other is None:
        return
    if other.dim() != self.dim():
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d in range(self.dim()):
        if d != dim and other.size(d) != self.size(d):
            raise RuntimeError("diff expects the shape of tensor to prepend or append to match that of input except "
                               f"along the differencing dimension; input.size({d}) = {self.size(d)}, but got "
                               f"tensor.size({d}) = {other.size(d)}")


@composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
           aligned="self",
           samples=cases(case(t(2, 4)), case(t(2, 4), 2), case(t(3, 4), 1, 0),
                         case(t(2, 4), prepend=t(2, 1), append=t(2, 2)), case(t(2, 3), 5), case(ints(2, 4)),
                         case(bools(2, 4)), case(t(2, 3), 0),
                         error(RuntimeError, "order must be non-negative but got -1", t(3), -1),
                         error(RuntimeError, "diff expects input to be at least one-dimensional", t())),
           out=_AS_INPUT._replace(by="sub"))
def _diff(self, n, dim, prepend, append):
    if not self.dim():
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrapped_dim(dim, self.dim())
    _check_joinable(self, prepend, dim)
    _check_joinable(self, append, dim)
    if n == 0:
        return self.clone()
    made = self if prepend is None else joined(prepend, self, dim)
    made = made if append is None else joined(made, append, dim)
    length = made.size(dim)
    if not length:
        return made
    if n >= length:
        return made.narrow(dim, 0, 0).clone()
    for _ in range(n):
        length -= 1
        later, earlier = made.narrow(dim, 1, length), made.narrow(dim, 0, length)
        made = later.logical_xor(earlier) if made.dtype is bool_ else later - earlier
    return made


def _spaced(self: Tensor, f: Any, dim: int, h: Any, edge_order: int) -> tuple:
    """Derivatives at the first, the inner and the last points of a dimension with equal steps; `f(i, n)` are n points
    from the i-th on."""
    n = self.shape[dim]
    inner = (f(2, n - 2) - f(0, n - 2)) / (2 * h)
    if edge_order == 1:
        return (f(1, 1) - f(0, 1)) / h, inner, (f(n - 1, 1) - f(n - 2, 1)) / h
    return ((f(0, 1) * -3 + f(1, 1) * 4 - f(2, 1)) / (2 * h), inner,
            (f(n - 3, 1) - f(n - 2, 1) * 4 + f(n - 1, 1) * 3) / (2 * h))


def _at_coordinates(self: Tensor, f: Any, dim: int, coordinates: Any, edge_order: int) -> tuple:
    """The same for points at any coordinates."""
    n, step = self.shape[dim], coordinates.diff()
    left, right = (step.narrow(0, i, step.shape[0] - 1).reshape([-1 if d == dim else 1 for d in range(self.dim())])
                   for i in (0, 1))
    inner = (f(0, n - 2) * (-right / (left * (left + right))) + f(1, n - 2) * ((right - left) / (left * right))
             + f(2, n - 2) * (left / (right * (left + right))))
    if edge_order == 1:
        return (f(1, 1) - f(0, 1)) / step[0], inner, (f(n - 1, 1) - f(n - 2, 1)) / step[-1]
    a, b = step[0], step[1]
    first = f(0, 1) * (-(2 * a + b) / (a * (a + b))) + f(1, 1) * ((a + b) / (a * b)) + f(2, 1) * (-a / (b * (a + b)))
    a, b = step[-2], step[-1]
    last = (f(n - 3, 1) * (b / (a * (a + b))) + f(n - 2, 1) * (-(a + b) / (a * b))
            + f(n - 1, 1) * ((2 * b + a) / (b * (a + b))))
    return first, inner, last


@composite("gradient(Tensor self, *, Any spacing=None, Any dim=None, int edge_order=1) -> Tensor[]", public="torch",
           samples=cases(case(t(5)), case(t(3, 4)), case(t(3, 4), spacing=2.0, dim=1), case(t(3, 4), dim=(1, 0)),
                         case(t(3, 4), spacing=(2.0, 0.5), edge_order=2),
                         case(t(3, 4), spacing=[values([0.0, 1.0, 3.0])], dim=0, edge_order=2),
                         error(RuntimeError, "torch.gradient only supports edge_order=1 and edge_order=2.", t(5),
                               edge_order=3),
                         error(RuntimeError, "torch.gradient expected each dimension size to be at least edge_order+1",
                               t(1))))
def _gradient(self: Any, spacing: Any, dim: Any, edge_order: int) -> tuple:
    dims = tuple(range(self.dim())) if dim is None else tuple(
        checked_int("gradient", "dim", d) for d in (dim if isinstance(dim, (list, tuple)) else (dim,)))
    for d in dims:
        proper_dim(d, self.dim())
    each = isinstance(spacing, (list, tuple))
    if not (each or spacing is None or isinstance(spacing, (int, float, complex))
            or isinstance(spacing, Tensor) and not spacing.dim()):
        raise TypeError("gradient(): argument 'spacing' must be Number, tuple of Scalars or tuple of Tensors, not "
                        + type(spacing).__name__)
    if each and len(spacing) != len(dims):
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                           f"'self.dim() = {self.dim()}', since dim argument was not given, but got a list of length "
                           f"{len(spacing)}" if dim is None else
                           "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
                           f"arguments to have the same length, but got a spacing argument of length {len(spacing)} "
                           f"and a dim argument of length {len(dims)}.")
    if each and not all(isinstance(h, (int, float, complex)) for h in spacing):
        for i, h in enumerate(spacing):
            if not isinstance(h, Tensor):
                raise TypeError(f"expected Tensor as element {i} in argument 1, but got {type(h).__name__}")
            if h.dim() != 1:
                raise RuntimeError("torch.gradient expected each element of spacing to have one dimension, but got an "
                                   f"element with {h.dim()} dimensions!")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    at = reduced_dims(dims, self.dim()) if dims else ()
    if any(self.shape[d] < edge_order + 1 for d in at):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    made = []
    for i, d in enumerate(at):
        h = spacing[i] if each else 1.0 if spacing is None else spacing
        is_vector = isinstance(h, Tensor) and h.dim() > 0
        parts = (_at_coordinates if is_vector else _spaced)(self, functools.partial(self.narrow, d), d, h, edge_order)
        first, inner, last = parts
        made.append(joined(joined(first, inner, d), last, d))
    return tuple(made)


# integrals -----------------------------------------------------------------------------------------------------------


def _check_integrand(name: str, y: Tensor, x: Tensor | None) -> None:
    if y.dtype.category == BOOL:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if x is not None and x.dtype.category == BOOL:
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")


def _check_distance(name: str, dx: Any) -> None:
    if dx is not None and dx.__class__ not in (int, float):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def _strips(name: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    """Areas between neighbouring sample points."""
    length = y.size(dim)
    strips = max(length - 1, 0)
    heights = y.narrow(dim, length - strips, strips) + y.narrow(dim, 0, strips)
    if x is None:
        return heights * (dx / 2)
    if x.dim() == 1:
        if x.size(0) != length:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([length if d == dim else 1 for d in range(y.dim())])
    elif x.dim() < y.dim():
        x = x.reshape((1,) * (y.dim() - x.dim()) + tuple(x.shape))
    return heights * x.diff(1, dim - y.dim()) / 2


_DX_CASES = cases(case(t(2, 3)), case(t(2, 3), dx=0.5, dim=0), case(ints(2, 3)))
_X_CASES = cases(case(t(2, 3), values([0.0, 1.0, 3.0])), case(t(2, 3), t(2, 3)),
                 error(RuntimeError, "There must be one `x` value for each sample point", t(2, 3), t(2)))
_DX, _X = "Tensor y, *, Scalar dx=1, int dim=-1", "Tensor y, Tensor x, *, int dim=-1"


def _trapezoid(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    dim = wrapped_dim(dim, y.dim())
    if not y.dim():
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    _check_integrand("trapezoid", y, x)
    _check_distance("trapezoid", dx)
    if not y.size(dim):
        return y.new_zeros([n for d, n in enumerate(y.shape) if d != dim])
    if x is None:
        return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx
    return _strips("trapezoid", y, x, dx, dim).sum(dim)


def _cumulative_trapezoid(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    dim = wrapped_dim(dim, y.dim())
    if not y.dim():
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    _check_integrand("cumulative_trapezoid", y, x)
    _check_distance("cumulative_trapezoid", dx)
    return _strips("cumulative_trapezoid", y, x, dx, dim).cumsum(dim)


for _name, _integral, _aliases in (("trapezoid", _trapezoid, ("trapz",)),
                                   ("cumulative_trapezoid", _cumulative_trapezoid, ())):
    composite(f"{_name}.x({_X}) -> Tensor", node="DivBackward1", samples=_X_CASES, aliases=_aliases, out=None)(
        lambda y, x, dim, integral=_integral: integral(y, x, None, dim))
    composite(f"{_name}.dx({_DX}) -> Tensor", node="MulBackward1" if _name == "trapezoid" else None,
              samples=_DX_CASES, aliases=_aliases, out=None)(
        lambda y, dx, dim, integral=_integral: integral(y, None, dx, dim))
