"""NPU kernels of special functions, of numbers taken apart, and of order: series of ordinary operators."""

import math
from collections.abc import Callable
from typing import Any

from ...._dispatch.schema import NUMBERS
from ...._dtype import COMPUTE, int16, int32, int64
from ...._ops.special import POLYNOMIALS, ROOT_HALF, ROOT_PI
from ...._tensor import Tensor, wrapped_dim
from ..families import cast, number_tensor
from .composed import call, composed, floating_, infer, laid_out, promoted_to_one, results


def _where(condition: Any, chosen: Any, other: Any) -> Any:
    """Elementwise one or the other, of which one may be a number."""
    if other.__class__ in NUMBERS:
        return chosen.masked_fill(~condition, other)
    return other.masked_fill(condition, chosen) if chosen.__class__ in NUMBERS else call(
        "where.self", condition, chosen, other)


def _counting(count: int, like: Tensor, dim: int = -1) -> Any:
    """0, 1, ... along the dimension of a tensor that `like` may be combined with."""
    numbers = call("arange.start_step", 0, count, 1, int64, None, like._device, None, False)
    return numbers.reshape((-1,) + (1,) * (like.dim() - 1 - wrapped_dim(dim, like.dim())))


# series --------------------------------------------------------------------------------------------------------------

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # B2, B4, ...
_SUMMED = 10  # terms of zeta before the Euler-Maclaurin formula stands for the rest


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz zeta for s > 1; q may be negative where s is whole."""
    total = sum((q + k) ** -s for k in range(_SUMMED))
    q = q + _SUMMED
    total = total + q ** (1 - s) / (s - 1) + q**-s * 0.5
    factor, power = s, q ** (-s - 1)
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + factor * power * (number / math.factorial(2 * k))
        factor, power = factor * (s + 2 * k - 1) * (s + 2 * k), power / (q * q)
    return total


@composed("special_zeta")
def _special_zeta(self: Any, other: Any) -> Tensor:
    like = self if hasattr(self, "_array") else other
    s, q = (floating_(v) if hasattr(v, "_array") else number_tensor(v, floating_(like).dtype, like._device)
            for v in (self, other))
    made = _zeta(s, q)
    made = made.masked_fill((s == 1) | (q <= 0) & (q == q.floor()), math.inf)
    return made.masked_fill((s < 1) | (q < 0) & (q != q.floor()) & (s != s.floor()), math.nan)


@composed("polygamma")
def _polygamma(n: int, self: Any) -> Any:
    x = floating_(self)
    if n == 0:
        return x.digamma()
    if n > 1:
        factor = math.factorial(n) if n <= 170 else math.inf
        return _zeta(float(n + 1), x) * (factor if n % 2 else -factor)
    left = x < 0.5
    value = _zeta(2.0, _where(left, 1 - x, x))
    turned = (x * math.pi).sin().reciprocal() * math.pi
    return _where(left, turned * turned - value, value)


_NODES = 32  # of the trapezoidal rule over half a turn, exact to float32 up to _LARGE
_LARGE = 50.0


def _bessel(order: int, x: Any) -> Any:
    """I_0 or I_1 times exp(-|x|): the mean of exp(|x| (cos a - 1)) cos(order a) over all angles a."""
    size, angles = x.abs(), [math.pi * (k + 0.5) / _NODES for k in range(_NODES)]
    near = size.clamp_max(_LARGE)
    made = sum((near * (math.cos(a) - 1)).exp() * (math.cos(order * a) / _NODES) for a in angles)
    term, far, square = 1.0, 1.0, 4 * order * order
    inverse = size.clamp_min(_LARGE).reciprocal()
    for k in range(1, 7):  # what the integral tends to
        term = term * inverse * (((2 * k - 1) ** 2 - square) / (8 * k))
        far = far + term
    far = far * (inverse * (0.5 / math.pi)).sqrt()
    made = _where(size > _LARGE, far, made)
    return made * x.sign() if order else made


def _declare_bessel(name: str, order: int, scaled: bool) -> None:
    @composed(name)
    def kernel(self: Any) -> Any:
        x = floating_(self)
        wide = cast(x, COMPUTE.get(x.dtype, x.dtype))
        made = _bessel(order, wide)
        return made if scaled else made * wide.abs().exp()


for _name, _order, _scaled in (("i0", 0, False), ("special_i0e", 0, True), ("special_i1", 1, False),
                               ("special_i1e", 1, True), ("special_modified_bessel_i0", 0, False),
                               ("special_modified_bessel_i1", 1, False)):
    _declare_bessel(_name, _order, _scaled)


@composed("special_erfcx")
def _erfcx(self: Any) -> Any:
    """exp(x^2) erfc(x): as it stands below 2, a continued fraction from there on."""
    x = floating_(self)
    far = x.clamp_min(2)
    below = far
    for k in range(40, 0, -1):
        below = far + below.reciprocal() * (k / 2)
    near = x.clamp_max(2)
    return _where(x > 2, below.reciprocal() * (1 / ROOT_PI), (near * near).exp() * near.erfc())


@composed("special_log_ndtr")
def _log_ndtr(self: Any) -> Any:
    x = floating_(self)
    scaled = x * -ROOT_HALF
    below = (_erfcx(scaled.clamp_min(0)) * 0.5).log() - scaled * scaled
    return _where(x < 0, below, ((-scaled).erfc() * -0.5).log1p())


def _declare_polynomial(name: str, first: Callable, step: Callable, limit: Callable) -> None:
    """The recursion of the CPU's kernel. Only degrees given as a number are known without asking the device."""

    @composed(f"special_{name}")
    def kernel(x: Any, n: Any) -> Any:
        like = x if hasattr(x, "_array") else n
        kind = floating_(like).dtype
        x, n = (cast(v, kind) if hasattr(v, "_array") else number_tensor(v, kind, like._device) for v in (x, n))
        shape = (x + n).shape
        x, degree = x.expand(shape), cast(n, int64).expand(shape)
        highest = limit(x)
        before, now = x * 0 + 1, first(x)
        made = _where(degree < 0, 0.0, _where(degree == 0, before, now))
        last = max(int(degree.max().item()), 0) if degree.numel() else 0
        for k in range(1, last if highest is None else min(last, highest)):
            before, now = now, step(x, k, before, now)
            made = _where(degree == k + 1, now, made)
        return made if highest is None else made.masked_fill(degree > highest, math.nan)


for _name, _first, _step, _limit in POLYNOMIALS:
    _declare_polynomial(_name, _first, _step, _limit)


# numbers taken apart -------------------------------------------------------------------------------------------------


@composed("frexp")
def _frexp(self: Any) -> Any:
    specs = infer("frexp", self)
    x = cast(self, COMPUTE.get(self.dtype, self.dtype))
    plain = x.isfinite() & (x != 0)
    exponent = _where(plain, x, 1.0).abs().log2().floor() + 1
    half = (exponent * 0.5).floor()  # in two steps: a factor of its own may be too large or small for the type
    mantissa = _where(plain, x * (-half).exp2() * (half - exponent).exp2(), x)
    for far, factor in ((mantissa.abs() >= 1, 0.5), (mantissa.abs() < 0.5, 2.0)):  # log2 was rounded
        mantissa = _where(far & plain, mantissa * factor, mantissa)
        exponent = exponent - cast(far, exponent.dtype) * math.log2(factor)
    made = cast(mantissa, self.dtype), cast(exponent.masked_fill(~plain, 0), int32)
    return results("frexp", *(laid_out(m, s) for m, s in zip(made, specs, strict=True)))


@composed("nextafter")
def _nextafter(self: Any, other: Any) -> Any:
    """As whole numbers, neighbours of one sign differ by one."""
    self, other = promoted_to_one(self, other)
    bits = {2: int16, 4: int32, 8: int64}[self.dtype.itemsize]
    self, other = self.expand((self + other).shape).contiguous(), other.expand((self + other).shape)
    away = cast((other > self) == (self > 0), bits) * 2 - 1
    stepped = (self.view(bits) + away).view(self.dtype)
    least = number_tensor(1, bits, self._device).view(self.dtype)
    stepped = _where(self == 0, other.sign() * least, stepped)
    made = _where(self == other, other, stepped)
    return made.masked_fill(self.isnan() | other.isnan(), math.nan)


# order ---------------------------------------------------------------------------------------------------------------


def _of_sorted(name: str, pick: Callable[[Any, int], Any]) -> None:
    """A value and its index along a dimension; `pick(sorted values, dim)` says where they are, when sorted."""

    @composed(name)
    def kernel(self: Any, dim: int, keepdim: bool) -> Any:
        specs = infer(name, self, dim, keepdim)
        if not self.dim() or not self.numel():
            made = self.clone(), self.new_zeros(self.shape, dtype=int64)
        else:
            values, indices = self.sort(dim=dim, stable=True)
            at = pick(values, dim)
            made = values.gather(dim, at), indices.gather(dim, at)
        return results(name, *(m.reshape(s.shape) for m, s in zip(made, specs, strict=True)))


def _most_frequent(values: Any, dim: int) -> Any:
    """The end of the longest run of equal values, the first of such."""
    count = values.shape[dim]
    begins = call("ones_like", values, int64, None, None, None, False, None)
    if count > 1:
        begins.narrow(dim, 1, count - 1).copy_(values.narrow(dim, 1, count - 1) != values.narrow(dim, 0, count - 1))
    number = _counting(count, values, dim)
    length = number - (begins * number).cummax(dim)[0]
    return length.argmax(dim, True)


def _median_of_numbers(values: Any, dim: int) -> Any:
    """NaN is sorted to the end; without any number the first is taken."""
    count = (values == values).sum(dim, True)
    return (count - 1).clamp_min(0).div(2, rounding_mode="floor")


_of_sorted("mode", _most_frequent)
_of_sorted("nanmedian.dim", _median_of_numbers)
