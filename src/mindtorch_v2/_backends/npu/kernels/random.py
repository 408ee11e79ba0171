"""Random numbers on an NPU: each draw takes a seed and an offset of the device's own stream of numbers.

They have the right distributions and follow `manual_seed`, but are not the numbers that a CPU draws.
"""

import math
from collections.abc import Callable
from typing import Any

from ...._core.dtype import FLOAT, OF_ARRAY, bool_, finfo, float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec, check_writable
from ...._ops.random import _end
from ..array import NpuArray
from ..families import finished, fresh, given, store, uninitialised
from ..generator import NpuGenerator
from ..launch import run
from ..seeds import seed_state
from .operators import call, infer


def _check_generator(generator: Any) -> None:
    if generator is not None and generator.__class__ is not NpuGenerator:
        raise RuntimeError(f"Expected a 'npu' device type for generator but found '{generator.device.type}'")


def _taken(array: NpuArray, generator: Any = None) -> tuple[int, int]:
    """Seed and offset for as many numbers as an array has elements."""
    _check_generator(generator)
    return (seed_state(array.device_index) if generator is None else generator.state).taken(array.size)


Fill = Callable[..., Any]


def _uniform(array: NpuArray, low: float = 0.0, high: float = 1.0, generator: Any = None) -> None:
    seed, offset = _taken(array, generator)
    run("aclnnInplaceUniform", (array, low, high, seed % (1 << 64), offset), "aten::uniform_")


def _normal(array: NpuArray, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> None:
    run("aclnnInplaceNormal", (array, mean, std, *_taken(array, generator)), "aten::normal_")


def _integers(array: NpuArray, low: int, high: int, generator: Any = None) -> None:
    run("aclnnInplaceRandom", (array, low, high, *_taken(array, generator)), "aten::random_")


def _bernoulli(array: NpuArray, p: float, generator: Any = None) -> None:
    run("aclnnInplaceBernoulli", (array, p, *_taken(array, generator)), "aten::bernoulli_")


# draws into a tensor -------------------------------------------------------------------------------------------------


def _draw(fill: Fill) -> Callable:
    """`fill(array, *arguments)` behind an operator that writes random numbers; the checks are the declaration's."""

    @given("operator")
    def kernel(operator: Operator, self: Tensor, *args: Any) -> Tensor:
        check_writable(self)
        operator.declaration.family.check(self, *args)
        if self._array.size:
            fill(self._array, *args)
        self._bump_version()
        return self

    return kernel


def _from_uniform(transform: Callable[..., Tensor]) -> Callable:
    """A distribution made of uniform numbers in (0, 1]."""

    @given("operator")
    def kernel(operator: Operator, self: Tensor, *args: Any) -> Tensor:
        check_writable(self)
        operator.declaration.family.check(self, *args)
        if self._array.size:
            drawn = uninitialised(Spec(self._array.shape, self.dtype if self.dtype.category == FLOAT else float32),
                                  self._device)
            _uniform(drawn._array, generator=args[-1])
            store(self, transform(1 - drawn, *args[:-1]))  # type: ignore[operator]
        self._bump_version()
        return self

    return kernel


uniform_ = _draw(_uniform)
normal_ = _draw(_normal)
random_from = _draw(lambda array, low, high, generator:
      _integers(array, low, min(_end(OF_ARRAY[array.dtype], high), (1 << 63) - 1), generator))
random_to = _draw(lambda array, high, generator: _integers(array, 0, high, generator))
random_ = _draw(lambda array, generator: _integers(array, 0, min(_end(OF_ARRAY[array.dtype], None), (1 << 63) - 1),
                                                     generator))
bernoulli_float = _draw(_bernoulli)
exponential_ = _from_uniform(lambda drawn, lambd: -drawn.log() / lambd)
cauchy_ = _from_uniform(lambda drawn, median, sigma: ((drawn - 0.5) * math.pi).tan() * sigma + median)
geometric_ = _from_uniform(lambda drawn, p: (drawn.log() / math.log1p(-p)).ceil().clamp_min(1))


@given("operator")
def log_normal_(operator: Operator, self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    operator.declaration.family.check(self, mean, std, generator)
    return call("normal_", self, mean, std, generator).exp_()


@given("operator")
def bernoulli_tensor(operator: Operator, self: Tensor, p: Tensor, generator: Any) -> Tensor:
    check_writable(self)
    operator.declaration.family.check(self, p, generator)
    if self._array.size:
        array = p.expand(self._array.shape)._array
        run("aclnnInplaceBernoulliTensor", (self._array, array, *_taken(self._array, generator)), "aten::bernoulli_")
    self._bump_version()
    return self


@given("operator")
def bernoulli_of(operator: Operator, self: Tensor, generator: Any) -> Tensor:
    made = uninitialised(infer(operator, self, generator), self._device)
    if made._array.size:
        run("aclnnInplaceBernoulliTensor", (made._array, self._array, *_taken(made._array, generator)),
            "aten::bernoulli")
    return made


# factories -----------------------------------------------------------------------------------------------------------


def _drawn(fill: Fill) -> Callable:
    """A factory whose elements `fill(array, *arguments)` draws."""

    @given("operator")
    def kernel(operator: Operator, *args: Any) -> Tensor:
        made = fresh(operator, args)
        if made._array.size:
            fill(made._array, *args)
        return finished(operator, made, args)

    return kernel


rand = _drawn(lambda array, size, generator, *_: _uniform(array, generator=generator))
rand_like = _drawn(lambda array, self, generator, *_: _uniform(array, generator=generator))
randn = _drawn(lambda array, size, generator, *_: _normal(array, generator=generator))
randn_like = _drawn(lambda array, self, generator, *_: _normal(array, generator=generator))
randint_low = _drawn(lambda array, low, high, size, generator, *_: _integers(array, low, high, generator))
randint = _drawn(lambda array, high, size, generator, *_: _integers(array, 0, high, generator))
randint_like_low = _drawn(lambda array, self, low, high, generator, *_: _integers(array, low, high, generator))
randint_like = _drawn(lambda array, self, high, generator, *_: _integers(array, 0, high, generator))
normal_floats = _drawn(lambda array, mean, std, size, generator, *_: _normal(array, mean, std, generator))
randperm = _drawn(lambda array, n, generator, *_:
       run("aclnnRandperm", (n, *_taken(array, generator), array), "aten::randperm"))


# distributions given by tensors --------------------------------------------------------------------------------------


@given("operator")
def normal_of(operator: Operator, mean: Any, std: Any, generator: Any) -> Tensor:
    """ACLNN has draws around means and deviations of their own on a 950 only."""
    spec = infer(operator, mean, std, generator)
    made = uninitialised(spec, next(v._device for v in (mean, std) if hasattr(v, "_array")))
    if made._array.size:
        _normal(made._array, generator=generator)
        store(made, made * std + mean)
    return made


@given("operator")
def multinomial(operator: Operator, self: Tensor, num_samples: int, replacement: bool, generator: Any) -> Tensor:
    made = uninitialised(infer(operator, self, num_samples, replacement, generator), self._device)
    if made._array.size:
        run("aclnnMultinomial", (self._array, num_samples, replacement, *_taken(self._array, generator), made._array),
            "aten::multinomial")
    return made


_ROUNDS = 8  # each leaves at most one number in twenty to the next


@given("operator")
def standard_gamma(operator: Operator, self: Any, generator: Any) -> Any:
    """The method of Marsaglia and Tsang, with rounds enough that of a billion numbers none is left to be drawn."""
    infer(operator, self, generator)

    def drawn(fill: Fill) -> Any:
        made = uninitialised(Spec(self._array.shape, self.dtype), self._device)
        if made._array.size:
            fill(made._array, generator=generator)
        return made

    small = self < 1
    d = self + small - 1 / 3
    c, made, missing = (d * 9).rsqrt(), d, self == self
    for _ in range(_ROUNDS):
        x, u = drawn(_normal), 1 - drawn(_uniform)
        v = (1 + c * x) ** 3
        taken = missing & (v > 0) & (u.log() < x * x * 0.5 + d * (1 - v + v.clamp_min(1e-30).log()))
        made, missing = call("where.self", taken, d * v, made), missing & ~taken
    u = 1 - drawn(_uniform)
    made = call("where.self", small, made * u ** self.reciprocal(), made)
    return made.clamp_min(finfo(self.dtype).tiny)


@given("operator")
def sample_dirichlet(operator: Operator, self: Any, generator: Any) -> Any:
    infer(operator, self, generator)
    gammas = call("_standard_gamma", self, generator)
    limits = finfo(self.dtype)
    return (gammas / gammas.sum(-1, True)).clamp(limits.tiny, 1 - limits.eps / 2)


# dropout -------------------------------------------------------------------------------------------------------------


@given("operator")
def dropout_noise(operator: Operator, self: Tensor, p: float, features: bool, scaled: bool) -> Tensor:
    made = uninitialised(infer(operator, self, p, features, scaled), self._device)
    if made._array.size:
        _bernoulli(made._array, 1 - p)
    return made * (1 / (1 - p)) if scaled else made  # type: ignore[operator]


@given("operator")
def dropout_bits(operator: Operator, like: Tensor, count: int, p: float) -> Tensor:
    made = uninitialised(infer(operator, like, count, p), like._device)
    if count:
        seed, offset = seed_state(made._array.device_index).taken(count)
        run("aclnnDropoutGenMaskV2", ((count,), p, seed, offset, like._array.dtype, made._array), "aten::dropout")
    return made


@given("operator")
def rrelu_slopes(operator: Operator, self: Tensor, lower: float, upper: float, generator: Any) -> Tensor:
    made = uninitialised(infer(operator, self, lower, upper, generator), self._device)
    if made._array.size:
        _uniform(made._array, lower, upper, generator)
    return made.masked_fill(self > 0, 1)


@given("operator")
def native_dropout(operator: Operator, input: Tensor, p: float, train: bool | None) -> Any:
    mask = uninitialised(Spec(input._array.shape, bool_), input._device)
    if train is False or p == 0:
        return result_of(operator, (input.clone(), mask.fill_(True)))
    kept = uninitialised(Spec(input._array.shape, input.dtype), input._device)
    if kept._array.size:
        _bernoulli(kept._array, 1 - p)
        store(mask, kept)
    return result_of(operator, (input * kept * (0.0 if p == 1 else 1 / (1 - p)), mask))  # type: ignore[operator]
