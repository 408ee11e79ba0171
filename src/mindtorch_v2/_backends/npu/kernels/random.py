"""Random numbers on an NPU: each draw takes a seed and an offset of the device's own stream of numbers.

They have the right distributions and follow `manual_seed`, but are not the numbers that a CPU draws.
"""

import math
from collections.abc import Callable
from typing import Any

from ...._dispatch.registry import registry
from ...._dtype import FLOAT, OF_ARRAY, bool_, finfo, float32
from ...._ops.random import _end
from ...._ops.rules import Spec, check_writable
from ...._tensor import Tensor
from ..array import NpuArray
from ..families import finished, fresh, store, uninitialised
from ..launch import run
from ..seeds import seed_state
from .composed import call, composed, infer, results


def _refuse_generator(generator: Any) -> None:
    if generator is not None:
        raise RuntimeError("Expected a 'npu' device type for generator but found 'cpu'")


def _taken(array: NpuArray, generator: Any = None) -> tuple[int, int]:
    """Seed and offset for as many numbers as an array has elements."""
    _refuse_generator(generator)
    return seed_state(array.device_index).taken(array.size)


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


def _draw(name: str, fill: Fill) -> None:
    """`fill(array, *arguments)` behind an operator that writes random numbers; the checks are the declaration's."""

    @composed(name)
    def kernel(self: Tensor, *args: Any) -> Tensor:
        check_writable(self)
        registry.get(f"aten::{name}").declaration.family.check(self, *args)
        if self._array.size:
            fill(self._array, *args)
        self._bump_version()
        return self


def _from_uniform(name: str, transform: Callable[..., Tensor]) -> None:
    """A distribution made of uniform numbers in (0, 1]."""

    @composed(name)
    def kernel(self: Tensor, *args: Any) -> Tensor:
        check_writable(self)
        registry.get(f"aten::{name}").declaration.family.check(self, *args)
        if self._array.size:
            drawn = uninitialised(Spec(self._array.shape, self.dtype if self.dtype.category == FLOAT else float32),
                                  self._device)
            _uniform(drawn._array, generator=args[-1])
            store(self, transform(1 - drawn, *args[:-1]))  # type: ignore[operator]
        self._bump_version()
        return self


_draw("uniform_", _uniform)
_draw("normal_", _normal)
_draw("random_.from", lambda array, low, high, generator:
      _integers(array, low, min(_end(OF_ARRAY[array.dtype], high), (1 << 63) - 1), generator))
_draw("random_.to", lambda array, high, generator: _integers(array, 0, high, generator))
_draw("random_", lambda array, generator: _integers(array, 0, min(_end(OF_ARRAY[array.dtype], None), (1 << 63) - 1),
                                                     generator))
_draw("bernoulli_.float", _bernoulli)
_from_uniform("exponential_", lambda drawn, lambd: -drawn.log() / lambd)
_from_uniform("cauchy_", lambda drawn, median, sigma: ((drawn - 0.5) * math.pi).tan() * sigma + median)
_from_uniform("geometric_", lambda drawn, p: (drawn.log() / math.log1p(-p)).ceil().clamp_min(1))


@composed("log_normal_")
def _log_normal(self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    registry.get("aten::log_normal_").declaration.family.check(self, mean, std, generator)
    return call("normal_", self, mean, std, generator).exp_()


@composed("bernoulli_.Tensor")
def _bernoulli_tensor_(self: Tensor, p: Tensor, generator: Any) -> Tensor:
    check_writable(self)
    registry.get("aten::bernoulli_.Tensor").declaration.family.check(self, p, generator)
    if self._array.size:
        array = p.expand(self._array.shape)._array
        run("aclnnInplaceBernoulliTensor", (self._array, array, *_taken(self._array, generator)), "aten::bernoulli_")
    self._bump_version()
    return self


@composed("bernoulli")
def _bernoulli_of(self: Tensor, generator: Any) -> Tensor:
    made = uninitialised(infer("bernoulli", self, generator), self._device)
    if made._array.size:
        run("aclnnInplaceBernoulliTensor", (made._array, self._array, *_taken(made._array, generator)),
            "aten::bernoulli")
    return made


# factories -----------------------------------------------------------------------------------------------------------


def _drawn(name: str, fill: Fill) -> None:
    """A factory whose elements `fill(array, *arguments)` draws."""

    @composed(name)
    def kernel(*args: Any) -> Tensor:
        operator = registry.get(f"aten::{name}")
        made = fresh(operator, args)
        if made._array.size:
            fill(made._array, *args)
        return finished(operator, made, args)


_drawn("rand", lambda array, size, generator, *_: _uniform(array, generator=generator))
_drawn("rand_like", lambda array, self, generator, *_: _uniform(array, generator=generator))
_drawn("randn", lambda array, size, generator, *_: _normal(array, generator=generator))
_drawn("randn_like", lambda array, self, generator, *_: _normal(array, generator=generator))
_drawn("randint.low", lambda array, low, high, size, generator, *_: _integers(array, low, high, generator))
_drawn("randint", lambda array, high, size, generator, *_: _integers(array, 0, high, generator))
_drawn("randint_like.low", lambda array, self, low, high, generator, *_: _integers(array, low, high, generator))
_drawn("randint_like", lambda array, self, high, generator, *_: _integers(array, 0, high, generator))
_drawn("normal.float_float", lambda array, mean, std, size, generator, *_: _normal(array, mean, std, generator))
_drawn("randperm", lambda array, n, generator, *_:
       run("aclnnRandperm", (n, *_taken(array, generator), array), "aten::randperm"))


# distributions given by tensors --------------------------------------------------------------------------------------


def _normal_of(name: str, symbol: str) -> None:
    @composed(name)
    def kernel(mean: Any, std: Any, generator: Any) -> Tensor:
        spec = infer(name, mean, std, generator)
        where = next(v._device for v in (mean, std) if hasattr(v, "_array"))
        made = uninitialised(spec, where)
        if made._array.size:
            values = [v.expand(spec.shape)._array if hasattr(v, "_array") else v for v in (mean, std)]
            run(symbol, (*values, *_taken(made._array, generator), made._array), f"aten::{name}")
        return made


_normal_of("normal.Tensor_float", "aclnnNormalTensorFloat")
_normal_of("normal.float_Tensor", "aclnnNormalFloatTensor")
_normal_of("normal.Tensor_Tensor", "aclnnNormalTensorTensor")


@composed("multinomial")
def _multinomial(self: Tensor, num_samples: int, replacement: bool, generator: Any) -> Tensor:
    made = uninitialised(infer("multinomial", self, num_samples, replacement, generator), self._device)
    if made._array.size:
        run("aclnnMultinomial", (self._array, num_samples, replacement, *_taken(self._array, generator), made._array),
            "aten::multinomial")
    return made


_ROUNDS = 8  # each leaves at most one number in twenty to the next


@composed("_standard_gamma")
def _standard_gamma(self: Any, generator: Any) -> Any:
    """The method of Marsaglia and Tsang, with rounds enough that of a billion numbers none is left to be drawn."""
    infer("_standard_gamma", self, generator)

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


@composed("_sample_dirichlet")
def _sample_dirichlet(self: Any, generator: Any) -> Any:
    infer("_sample_dirichlet", self, generator)
    gammas = call("_standard_gamma", self, generator)
    limits = finfo(self.dtype)
    return (gammas / gammas.sum(-1, True)).clamp(limits.tiny, 1 - limits.eps / 2)


# dropout -------------------------------------------------------------------------------------------------------------


@composed("_dropout_noise")
def _dropout_noise(self: Tensor, p: float, features: bool, scaled: bool) -> Tensor:
    made = uninitialised(infer("_dropout_noise", self, p, features, scaled), self._device)
    if made._array.size:
        _bernoulli(made._array, 1 - p)
    return made * (1 / (1 - p)) if scaled else made  # type: ignore[operator]


@composed("_rrelu_slopes")
def _rrelu_slopes(self: Tensor, lower: float, upper: float, generator: Any) -> Tensor:
    made = uninitialised(infer("_rrelu_slopes", self, lower, upper, generator), self._device)
    if made._array.size:
        _uniform(made._array, lower, upper, generator)
    return made.masked_fill(self > 0, 1)


@composed("native_dropout")
def _native_dropout(input: Tensor, p: float, train: bool | None) -> Any:
    mask = uninitialised(Spec(input._array.shape, bool_), input._device)
    if train is False or p == 0:
        return results("native_dropout", input.clone(), mask.fill_(True))
    kept = uninitialised(Spec(input._array.shape, input.dtype), input._device)
    if kept._array.size:
        _bernoulli(kept._array, 1 - p)
        store(mask, kept)
    return results("native_dropout", input * kept * (0.0 if p == 1 else 1 / (1 - p)), mask)  # type: ignore[operator]
