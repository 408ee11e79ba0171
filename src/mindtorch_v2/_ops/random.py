"""Random numbers: factories and in-place draws. The same seed gives PyTorch's numbers."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import random as _random
from .._core.device import contiguous_format
from .._core.dtype import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    OF_ARRAY,
    dtype,
    finfo,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int64,
)
from .._core.elements import at_hand
from .._core.few_draws import few_drawn
from .._core.generator import Generator, default_generator
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound
from .._dispatch.schema import NUMBERS
from ._declare.aten import LEAF, Aten, if_given
from ._declare.batch import Call, Draws, Result, drawn_once, one_by_one
from ._declare.families import moves, writes
from ._declare.layouts import NO_FORMAT
from ._declare.op import composite, op
from ._declare.out import ANY, CASTABLE, FILLED, Out
from ._declare.rules import Spec, broadcast_shape
from ._declare.samples import case, cases, error, ints, t
from .copy import fits, preserved_strides, stored_number, uninitialised
from .create import LIKE, OPTIONS, Factory, checked_size
from .implicit import STANDARD_GAMMA_GRAD
from .special import not_differentiable

_C_NAMES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long",
            "bool": "bool", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float",
            "float64": "double", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long"}
_MANTISSA_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}

Draw = Callable[..., np.ndarray]  # of a generator, a shape, a type, and numbers: those of _core/random.py
DRAWN = f"*, Generator? generator=None, {OPTIONS}"


def refuse(name: str, kind: dtype) -> None:
    raise NotImplementedError(f"\"{name}\" not implemented for '{kind.scalar_name}'")


def _zero_grad(grad: Tensor) -> Tensor:
    return grad.new_zeros(grad.shape)


def fill_drawn(target: np.ndarray, generator: Generator | None, draw: Draw, *numbers: Any) -> None:
    """Draws into an array in the order of its memory: PyTorch fills the outermost stride first."""
    source = default_generator if generator is None else generator
    if not target.flags.c_contiguous:
        target = target.transpose(sorted(range(target.ndim), key=lambda d: -target.strides[d]))
    if not few_drawn(source, target, draw, *numbers):
        np.copyto(target, draw(source, target.shape, target.dtype, *numbers), casting="unsafe")


def new_drawn(spec: Spec, generator: Generator | None, draw: Draw, *numbers: Any) -> np.ndarray:
    """A new array of drawn numbers, which lies as the spec says."""
    source, kind = default_generator if generator is None else generator, spec.dtype.np
    made = uninitialised(spec) if spec.strides is not None else None
    if made is None and math.prod(spec.shape) <= draw.most:  # type: ignore[attr-defined]
        made = np.empty(spec.shape, kind)
    if made is not None:
        fill_drawn(made, source, draw, *numbers)
        return made
    drawn = draw(source, spec.shape, kind, *numbers)
    return drawn if drawn.dtype is kind else drawn.astype(kind, copy=False)


# uniform and normal --------------------------------------------------------------------------------------------------


@functools.lru_cache(256, typed=True)
def _check_uniform(kind: dtype, low: float = 0.0, high: float = 1.0) -> None:
    if kind.category < FLOAT:
        refuse("check_uniform_bounds", kind)
    real = kind.to_real()
    for name, bound in (("from", low), ("to", high)):
        if not math.isfinite(bound) or not fits(bound, real):
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[real.name]}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > finfo(real).max:
        raise RuntimeError(f"uniform_ expects to-from <= std::numeric_limits<{real.scalar_name}>::max(), but found "
                           f"to={high:g} and from={low:g} which result in to-from to exceed the limit")


def _check_normal(kind: dtype, mean: float = 0.0, std: float = 1.0) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if kind.category < FLOAT:
        refuse("normal_kernel_cpu", kind)


def _normals_of(array: np.ndarray) -> Draw:
    """What draws normals for an array."""
    return _random.normal if array.flags.c_contiguous else _random.strided_normal


def _write_normal(xp: Any, self: Any, mean: float, std: float, generator: Any) -> None:
    fill_drawn(self, generator, _normals_of(self), mean, std)


op("uniform_(Tensor(a!) self, float from_=0, float to=1, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(lambda self, from_, to, generator: _check_uniform(self.dtype, from_, to),
                 lambda xp, self, from_, to, generator:
                 fill_drawn(self, generator, _random.uniform, from_, to)),
   kernels={"cuda": "random.uniform_", "npu": "random.uniform_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(lambda self, mean, std, generator: _check_normal(self.dtype, mean, std), _write_normal),
   kernels={"cuda": "random.normal_", "npu": "random.normal_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")


def _drawn_factory(draw: Draw, check: Callable) -> Factory:
    """A factory of a size whose elements are drawn."""

    def infer(size: tuple[int, ...], generator: Any, dtype: dtype | None, *rest: Any) -> Spec:
        spec = Spec(checked_size(size, "rand"), dtype or get_default_dtype())
        check(spec.dtype)
        return spec

    return Factory(
        infer, lambda xp, size, generator, *rest, spec: new_drawn(spec, generator, draw), by_parts=True)


def _drawn_like(draw: Draw, check: Callable) -> Factory:
    """A factory with another tensor's geometry whose elements are drawn."""

    def infer(self: Tensor, generator: Any, dtype: dtype | None, *rest: Any) -> Spec:
        spec = Spec(self._array.shape, dtype or self.dtype, preserved_strides(self, rest[-1]))
        check(spec.dtype)
        return spec

    def array(xp: Any, self: Any, generator: Any, *rest: Any, spec: Spec) -> Any:
        if spec.strides is None or draw is not _random.normal:
            return new_drawn(spec, generator, draw)
        made = uninitialised(spec)
        fill_drawn(made, generator, _normals_of(made))
        return made

    return Factory(infer, array, by_parts=True)


_LIKE = LIKE.replace("*, ", "*, Generator? generator=None, ", 1)


_GENERATOR_GIVEN = Aten(if_given("generator", "generator"))

op(f"rand(int[] size, {DRAWN}) -> Tensor", kernel=_drawn_factory(_random.uniform, _check_uniform),
   kernels={"cuda": "random.rand", "npu": "random.rand"}, out=FILLED, aten=_GENERATOR_GIVEN)
op(f"randn(int[] size, {DRAWN}) -> Tensor", kernel=_drawn_factory(_random.normal, _check_normal),
   kernels={"cuda": "random.randn", "npu": "random.randn"}, aten=_GENERATOR_GIVEN)
op(f"rand_like(Tensor self, {_LIKE}) -> Tensor", kernel=_drawn_like(_random.uniform, _check_uniform), public="torch",
   batch=Draws(same=drawn_once),
   out=None, kernels={"cuda": "random.rand", "npu": "random.rand_like"}, aten=_GENERATOR_GIVEN)
op(f"randn_like(Tensor self, {_LIKE}) -> Tensor", kernel=_drawn_like(_random.normal, _check_normal), public="torch",
   batch=Draws(same=drawn_once),
   out=None, aten=_GENERATOR_GIVEN,
   kernels={"cuda": "random.randn", "npu": "random.randn_like", "sparse_compressed": "layouts.randn_like"})


def _check_std(std: Any) -> None:
    if hasattr(std, "_array"):
        if std.dtype.category == COMPLEX:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if at_hand(std._array) and not (std._array >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def _normal_spec(mean: Any, std: Any, generator: Any) -> Spec:
    _check_std(std)
    kind = (mean if hasattr(mean, "_array") else std).dtype
    _check_normal(kind)
    return Spec(broadcast_shape([v._array.shape for v in (mean, std) if hasattr(v, "_array")]), kind)


def _normal_array(xp: Any, mean: Any, std: Any, generator: Any, spec: Spec) -> Any:
    source, kind = generator or default_generator, spec.dtype.np
    if mean.__class__ not in NUMBERS:
        mean = mean.astype(kind, copy=False)
    if std.__class__ not in NUMBERS and kind.kind != "c":
        std = std.astype(kind, copy=False)
    drawn = _random.normal_tensor(source, mean, std, spec.shape, kind)
    return drawn if drawn.shape == spec.shape else xp.broadcast_to(drawn, spec.shape).copy()


_NORMAL_OUT = CASTABLE._replace(check=lambda target, *given: _check_normal(target.dtype))
_NORMAL_GRAD = {
    "mean": lambda grad, mean_shape: grad.new_zeros(mean_shape),
    "std": lambda grad, std_shape: grad.new_zeros(std_shape),
}

op("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
   aligned="mean", resizes_expanded=False,
   kernel=moves(_normal_spec, _normal_array), grad={"mean": _NORMAL_GRAD["mean"]},
   kernels={"cuda": "random.normal_by", "npu": "random.normal_of"},
   out=_NORMAL_OUT._replace(joins="mean"))
op("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
   aligned="std",
   kernel=moves(_normal_spec, _normal_array), grad={"std": _NORMAL_GRAD["std"]},
   kernels={"cuda": "random.normal_by", "npu": "random.normal_of"},
   out=_NORMAL_OUT)
op("normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
   aligned="mean std",
   kernel=moves(_normal_spec, _normal_array), grad=_NORMAL_GRAD,
   kernels={"cuda": "random.normal_by", "npu": "random.normal_of"},
   out=_NORMAL_OUT)
def _sized_normal(mean: float, std: float, size: tuple[int, ...], generator: Any, dtype: dtype | None,
                  *rest: Any) -> Spec:
    spec = Spec(checked_size(size, "normal"), dtype or get_default_dtype())
    _check_normal(spec.dtype, mean, std)
    return spec


op(f"normal.float_float(float mean, float std, int[] size, {DRAWN}) -> Tensor",
   kernel=Factory(_sized_normal,
                  lambda xp, mean, std, size, generator, *rest, spec:
                  new_drawn(spec, generator, _random.normal, mean, std)),
   kernels={"cuda": "random.normal", "npu": "random.normal_floats"})


# integers ------------------------------------------------------------------------------------------------------------


@functools.lru_cache(256)
def _holds(kind: dtype, low: int, high: int) -> bool:
    """Whether a type has all integers in [low, high), of which there are some."""
    if kind.category == FLOAT:
        return low < high and max(abs(low), abs(high - 1)) <= 1 << _MANTISSA_BITS[kind.name]
    return kind.category == INT and low < high and iinfo(kind).min <= low and high - 1 <= iinfo(kind).max


def _check_range(kind: dtype, low: int, high: int) -> None:
    """Raises unless integers in [low, high) can be drawn for a type."""
    if _holds(kind, low, high):
        return
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind.category == COMPLEX:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if kind.category == FLOAT:
            bits = _MANTISSA_BITS[kind.name]
            if abs(bound) > 1 << bits:
                warn(f"{name} is out of bounds [-(2^{bits}), 2^{bits}]. Due to precision limitations "
                     f"{_C_NAMES[kind.name]} can support discrete uniform distribution only within this "
                     "range. This warning will become an error in version 1.7 release, please fix the code "
                     "in advance")
            continue
        smallest, largest = (0, 1) if kind.category == BOOL else (iinfo(kind).min, iinfo(kind).max)
        if not smallest <= bound <= largest:
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[kind.name]}")


@functools.lru_cache(256)
def _exact_range(kind: dtype, low: int, high: int) -> tuple[int, int]:
    """The range within [low, high) whose ends a floating type does not round out of it."""
    if kind.category == FLOAT:
        bits = _MANTISSA_BITS[kind.name]
        first, last = (
            int(np.asarray(n, np.float64).astype(kind.np)) if abs(n) < 1 << 63 else n for n in (low + 1, high - 1)
        )
        if first < low:
            low = first + (1 << (abs(low + 1).bit_length() - bits))
        if last >= high:
            high = last - (1 << (abs(high - 1).bit_length() - bits))
    return low, high


def _fill_integers(target: np.ndarray, generator: Generator | None, low: int, high: int) -> None:
    fill_drawn(target, generator, _random.randint, *_exact_range(OF_ARRAY[target.dtype], low, high))


def _end(kind: dtype, to: int | None) -> int:
    """The first number that is not drawn; without `to` the range goes to the type's largest."""
    return _random.largest_random(kind.np) + 1 if to is None else to


def _check_full(kind: dtype) -> None:
    if kind.category == COMPLEX:
        refuse("random_kernel_cpu", kind)


op("random_.from(Tensor(a!) self, int from_, int? to, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(lambda self, from_, to, generator: _check_range(self.dtype, from_, _end(self.dtype, to)),
                 lambda xp, self, from_, to, generator:
                 _fill_integers(self, generator, from_, _end(OF_ARRAY[self.dtype], to))),
   kernels={"cuda": "random.random_", "npu": "random.random_from"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(lambda self, to, generator: _check_range(self.dtype, 0, to),
                 lambda xp, self, to, generator: _fill_integers(self, generator, 0, to)),
   kernels={"cuda": "random.random_", "npu": "random.random_to"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(lambda self, generator: _check_full(self.dtype),
                 lambda xp, self, generator: fill_drawn(self, generator, _random.random_full)),
   kernels={"cuda": "random.random_", "npu": "random.random_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")


def _randint_spec(low: int, high: int, size: tuple[int, ...], generator: Any, dtype: dtype | None, *rest: Any) -> Spec:
    kind = dtype or int64
    checked_size(size, "randint")
    _check_range(kind, low, high)
    return Spec(size, kind)


def _randint(xp: Any, low: int, high: int, size: tuple[int, ...], generator: Any, *rest: Any, spec: Spec) -> Any:
    return new_drawn(spec, generator, _random.randint, *_exact_range(spec.dtype, low, high))


op(f"randint.low(int low, int high, int[] size, {DRAWN}) -> Tensor", kernel=Factory(_randint_spec, _randint),
   kernels={"cuda": "random.randint_between", "npu": "random.randint_low"})
op(f"randint(int high, int[] size, {DRAWN}) -> Tensor",
   kernel=Factory(lambda high, *rest: _randint_spec(0, high, *rest),
                  lambda xp, high, *rest, spec: _randint(xp, 0, high, *rest, spec=spec)),
   kernels={"cuda": "random.randint", "npu": "random.randint"})


def _randint_like_spec(self: Tensor, low: int, high: int, generator: Any, dtype: dtype | None, *rest: Any) -> Spec:
    kind = dtype or self.dtype
    _check_range(kind, low, high)
    return Spec(self._array.shape, kind, preserved_strides(self, rest[-1]))


def _randint_like(xp: Any, self: Any, low: int, high: int, generator: Any, *rest: Any, spec: Spec) -> Any:
    return new_drawn(spec, generator, _random.randint, *_exact_range(spec.dtype, low, high))


op(f"randint_like.low(Tensor self, int low, int high, {_LIKE}) -> Tensor",
   kernel=Factory(_randint_like_spec, _randint_like), public="torch", batch=Draws(same=drawn_once),
   kernels={"cuda": "random.randint_like_between", "npu": "random.randint_like_low"}, out=None)
op(f"randint_like(Tensor self, int high, {_LIKE}) -> Tensor",
   kernel=Factory(lambda self, high, *rest: _randint_like_spec(self, 0, high, *rest),
                  lambda xp, self, high, *rest, spec: _randint_like(xp, self, 0, high, *rest, spec=spec)),
   public="torch", batch=Draws(same=drawn_once), out=None,
   kernels={"cuda": "random.randint_like", "npu": "random.randint_like"})


def _randperm_spec(n: int, generator: Any, dtype: dtype | None, *rest: Any) -> Spec:
    kind = dtype or int64
    checked_size((n,), "randperm")
    if kind.category not in (INT, FLOAT):
        refuse("randperm", kind)
    if kind.category == FLOAT and n > (1 << _MANTISSA_BITS[kind.name]) + 1:
        raise RuntimeError(
            f"n cannot be greater than {(1 << _MANTISSA_BITS[kind.name]) + 1} for {kind.scalar_name} type."
        )
    stored_number(n, kind)
    return Spec((n,), kind)


op(f"randperm(int n, {DRAWN}) -> Tensor",
   kernel=Factory(_randperm_spec, lambda xp, n, generator, *rest, spec:
                  _random.randperm(generator or default_generator, n).astype(spec.dtype.np, copy=False)),
   kernels={"cuda": "random.randperm", "npu": "random.randperm"}, out=FILLED, aten=_GENERATOR_GIVEN)


# other distributions -------------------------------------------------------------------------------------------------


def _continuous(name: str) -> Callable[..., None]:
    def check(self: Tensor, *args: Any) -> None:
        if self.dtype.category != FLOAT:
            shown = (
                {"int64": "long int"}.get(self.dtype.name, self.dtype.name)
                if name == "Cauchy"
                else self.dtype.scalar_name
            )
            raise RuntimeError(f"{name} distribution is a continuous probability distribution. dtype must be a "
                               f"floating point but you specified {shown}")

    return check


def _check_log_normal(self: Tensor, mean: float, std: float, generator: Any) -> None:
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if self.dtype.category != FLOAT:
        refuse("log_normal_cpu", self.dtype)


def _check_geometric(self: Tensor, p: float, generator: Any) -> None:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if self.dtype.category not in (INT, FLOAT):
        refuse("geometric_cpu", self.dtype)


def _write_geometric(xp: Any, self: Any, p: float, generator: Any) -> None:
    fill_drawn(self, generator, _random.geometric, p)


op("exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(_continuous("Exponential"), lambda xp, self, lambd, generator:
                 fill_drawn(self, generator, _random.exponential, lambd)),
   kernels={"cuda": "random.exponential_", "npu": "random.exponential_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("cauchy_(Tensor(a!) self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(_continuous("Cauchy"), lambda xp, self, median, sigma, generator:
                 fill_drawn(self, generator, _random.cauchy, median, sigma)),
   kernels={"cuda": "random.cauchy_", "npu": "random.cauchy_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("log_normal_(Tensor(a!) self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(_check_log_normal, lambda xp, self, mean, std, generator:
                 fill_drawn(self, generator, _random.log_normal, mean, std)),
   kernels={"cuda": "random.log_normal_", "npu": "random.log_normal_"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
   kernel=writes(_check_geometric, _write_geometric), grad=dict(self=_zero_grad), public="Tensor",
   kernels={"cuda": "random.geometric_", "npu": "random.geometric_"}, sharded="drawn")


# bernoulli -----------------------------------------------------------------------------------------------------------


def _check_bernoulli(self: Tensor, p: float, generator: Any) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if self.dtype.category == COMPLEX:
        refuse("bernoulli_scalar_cpu_", self.dtype)


def _check_probabilities(self: Tensor, p: Tensor, generator: Any = None) -> None:
    if p.dtype.category != FLOAT:
        refuse("bernoulli_tensor_cpu_p_", p.dtype)
    shape, target = p._array.shape, self._array.shape
    for at in range(1, min(len(shape), len(target)) + 1):
        if shape[-at] not in (1, target[-at]):
            raise RuntimeError(f"The expanded size of the tensor ({target[-at]}) must match the existing size "
                               f"({shape[-at]}) at non-singleton dimension {len(target) - at}.  Target sizes: "
                               f"{list(target)}.  Tensor sizes: {list(shape)}")
    if len(shape) > len(target):
        raise RuntimeError(f"expand(torch.FloatTensor{{{list(shape)}}}, size={list(target)}): the number of sizes "
                           f"provided ({len(target)}) must be greater or equal to the number of dimensions in the "
                           f"tensor ({len(shape)})")


def _write_by_probabilities(xp: Any, self: Any, p: Any, generator: Any) -> None:
    if p.shape != self.shape:
        p = xp.broadcast_to(p, self.shape)
    if not self.flags.c_contiguous:
        order = sorted(range(self.ndim), key=lambda d: -self.strides[d])
        self, p = self.transpose(order), p.transpose(order)
    np.copyto(self, _random.bernoulli_tensor(generator or default_generator, p), casting="unsafe")


def _bernoulli_array(xp: Any, self: Any, generator: Any, spec: Spec) -> Any:
    made = uninitialised(spec)
    _write_by_probabilities(xp, made, self, generator)
    return made


def _bernoulli_spec(self: Tensor, generator: Any) -> Spec:
    _check_probabilities(self, self)
    return Spec(self._array.shape, self.dtype)


op("bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
   node="BernoulliBackward1",
   kernel=writes(_check_probabilities, _write_by_probabilities),
   kernels={"cuda": "random.bernoulli_by_", "npu": "random.bernoulli_tensor"},
   grad={"self": _zero_grad, "p": lambda grad, p_shape: grad.new_zeros(p_shape)}, public="Tensor", sharded="drawn")
op("bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
   node="BernoulliBackward2",
   kernel=writes(_check_bernoulli, lambda xp, self, p, generator:
                 fill_drawn(self, generator, _random.bernoulli_scalar, p)),
   kernels={"cuda": "random.bernoulli_", "npu": "random.bernoulli_float"},
   grad=dict(self=_zero_grad), public="Tensor", sharded="drawn")
op("bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
   aligned="self",
   kernel=moves(_bernoulli_spec, _bernoulli_array), grad=dict(self=_zero_grad),
   kernels={"cuda": "random.bernoulli", "npu": "random.bernoulli_of"}, out=ANY, sharded="whole", refuses_coo=NO_FORMAT)


@composite("bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", out=Out(refused=True),
    aten=LEAF, sharded="whole", refuses_coo=NO_FORMAT)
def _bernoulli_p(self: Tensor, p: float, generator: Any) -> Tensor:
    return self.clone(memory_format=contiguous_format).bernoulli_(p, generator=generator)


# samples of distributions given by tensors ---------------------------------------------------------------------------


def _multinomial_spec(self: Tensor, num_samples: int, replacement: bool, generator: Any) -> Spec:
    shape = self._array.shape
    if len(shape) not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if self.dtype.category != FLOAT:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {self.dtype.scalar_name}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    return Spec((*shape[:-1], num_samples), int64)


def _multinomial_each(call: Call) -> Result:
    return one_by_one(call) if call.ndim(0) > 1 else (call.run(*call.values), True)


op("multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
   kernel=moves(_multinomial_spec, lambda xp, self, num_samples, replacement, generator:
                _random.multinomial(generator or default_generator, self, num_samples, replacement)),
   samples=cases(error(RuntimeError, "prob_dist must be 1 or 2 dim", t(), 1)),
   out=Out("exact", "multinomial expects Long tensor out, got: {given}", grad="ignored"),
   batch=Draws(different=_multinomial_each),
   kernels={"cuda": "random.multinomial", "npu": "random.multinomial"}, sharded="whole")


def _poisson_spec(self: Tensor, generator: Any) -> Spec:
    if self.dtype.category != FLOAT:
        refuse("poisson_cpu", self.dtype)
    return Spec(self._array.shape, self.dtype)


op("poisson(Tensor self, Generator? generator=None) -> Tensor",
   kernel=moves(_poisson_spec, lambda xp, self, generator: _random.poisson(generator or default_generator, self)),
   kernels={"cuda": "random.poisson"},
   grad=dict(self=_zero_grad), public="torch", out=None)


def _binomial_spec(count: Tensor, prob: Tensor, generator: Any) -> Spec:
    for name, operand in (("count", count), ("prob", prob)):
        if operand.dtype.category != FLOAT:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: "
                             f"{operand.dtype.scalar_name}")
    if prob.dtype is not count.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.scalar_name} but expected {count.dtype.scalar_name}")
    return Spec(broadcast_shape([count._array.shape, prob._array.shape]), count.dtype)


def _binomial(xp: Any, count: Any, prob: Any, generator: Any, spec: Spec) -> Any:
    if spec.dtype.itemsize == 2:
        refuse("binomial_cpu", spec.dtype)
    return _random.binomial(generator or default_generator, *xp.broadcast_arrays(count, prob))


op("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
   kernel=moves(_binomial_spec, _binomial),
   kernels={"cuda": "random.binomial"},
   grad=dict(count=_zero_grad, prob=lambda grad: grad * 0), public="torch",
   samples=cases(case(t(2, values=[3.0, 5.0], grad=False), t(2, values=[1.0, 0.0], grad=False)),
                 error(ValueError, "binomial only supports floating-point dtypes for count, got: Long", ints(2), t(2))),
   out=None)


def _gamma_spec(name: str) -> Callable[[Tensor, Any], Spec]:
    def infer(self: Tensor, generator: Any) -> Spec:
        if self.dtype not in (float32, float64):
            refuse(name, self.dtype)
        return Spec(self._array.shape, self.dtype)

    return infer


def _gamma_array(xp: Any, self: Any, generator: Any) -> Any:
    drawn, least = _random.standard_gamma(generator or default_generator, self), xp.finfo(self.dtype).tiny
    return xp.where(drawn > least, drawn, least)


def _dirichlet_array(xp: Any, self: Any, generator: Any) -> Any:
    least, below_one = xp.finfo(self.dtype).tiny, xp.nextafter(self.dtype.type(1), self.dtype.type(0))
    gammas = _gamma_array(xp, self.astype(xp.float64), generator)
    shares = gammas / gammas.sum(-1, keepdims=True) if gammas.ndim else xp.ones_like(gammas)
    return xp.clip(shares.astype(self.dtype), least, below_one)


op("_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
   kernel=moves(_gamma_spec("gamma_cpu"), _gamma_array), public="torch",
   grad=dict(self=lambda grad, self, result: grad * call_bound(STANDARD_GAMMA_GRAD, (self, result))),
   samples=cases(error(NotImplementedError, "\"gamma_cpu\" not implemented for 'Long'", ints(2))), out=None,
   kernels={"npu": "random.standard_gamma"})
op("_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
   kernel=moves(_gamma_spec("dirichlet"), _dirichlet_array), grad=dict(self=not_differentiable("_sample_dirichlet")),
   public="torch", samples=cases(error(NotImplementedError, "\"dirichlet\" not implemented for 'Long'", ints(2))),
   out=None, kernels={"npu": "random.sample_dirichlet"})
