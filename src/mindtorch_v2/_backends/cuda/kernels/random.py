"""Random numbers on a GPU: factories, in-place draws and distributions given by tensors."""

import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ...._dispatch.registry import registry
from ...._dtype import FLOAT, OF_ARRAY, float32, float64
from ...._ops.families import result_of
from ...._ops.rules import Spec, check_writable
from ...._random import largest_random
from ...._tensor import Tensor
from ..array import CudaArray, empty, layout_of
from ..families import (
    copy_array,
    device_among,
    finished,
    fresh,
    infer_of,
    layout_for,
    leaf,
    store,
    uninitialised,
    view_of,
    wrap_cuda,
)
from ..families import fill as fill_all
from ..random import drop, fill, generator_for
from .plans import KERNELS

_DRAWN_IN = {np.dtype(kind): np.dtype(real) for kind, real in (("F", "f"), ("D", "d"))}


def draw(array: CudaArray, generator: Any, distribution: str, a: float = 0.0, b: float = 1.0, low: int = 0,
         span: int = 1) -> None:
    """Draws into an array of any layout; complex numbers get both parts."""
    if not array.size:
        return
    source = generator_for(generator, array.device.index or 0)
    real = _DRAWN_IN.get(array.dtype)
    if real is None and array.layout.contiguous:
        fill(array, distribution, source, a, b, low, span)
        return
    shape, kind = (array.shape, array.dtype) if real is None else ((*array.shape, 2), real)
    drawn = empty(layout_of(shape, kind), array.device)
    fill(drawn, distribution, source, a, b, low, span)
    if real is not None:
        store(array.view, drawn.view.view(array.dtype).reshape(array.shape))
    else:
        store(array.view, drawn.view)


def _uniform(array: CudaArray, low: float, high: float, generator: Any) -> None:
    draw(array, generator, "uniform", low, high)


def _normal(array: CudaArray, mean: Any, std: float, generator: Any) -> None:
    if array.dtype in _DRAWN_IN:  # the variance is shared by both parts
        draw(array, generator, "normal", 0.0, std / math.sqrt(2))
        if mean:
            array.view.__iadd__(mean)
    else:
        draw(array, generator, "normal", mean, std)


def _integers(array: CudaArray, low: int, high: int, generator: Any) -> None:
    draw(array, generator, "integer", low=low, span=high - low)


def _up_to(array: CudaArray, low: int, to: int | None, generator: Any) -> None:
    _integers(array, low, largest_random(array.dtype) + 1 if to is None else to, generator)


# draws into a tensor -------------------------------------------------------------------------------------------------


def _write(name: str, into: Callable) -> None:
    """`into(array, *arguments)` behind an operator that writes random numbers; the checks are the declaration's."""
    check = registry.get(name).declaration.family.check

    def kernel(self: Tensor, *args: Any) -> Tensor:
        check_writable(self)
        check(self, *args)
        into(self._array, *args)
        self._bump_version()
        return self

    KERNELS[name] = kernel


def _geometric(array: CudaArray, p: float, generator: Any) -> None:
    if OF_ARRAY[array.dtype].category == FLOAT:
        draw(array, generator, "geometric", p)
    else:
        drawn = empty(layout_of(array.shape, float64.np), array.device)
        draw(drawn, generator, "geometric", p)
        store(array.view, drawn.view)


_write("uniform_", _uniform)
_write("normal_", _normal)
_write("random_.from", _up_to)
_write("random_.to", lambda array, to, generator: _integers(array, 0, to, generator))
_write("random_", lambda array, generator: _up_to(array, 0, None, generator))
_write("exponential_", lambda array, lambd, generator: draw(array, generator, "exponential", lambd))
_write("cauchy_", lambda array, median, sigma, generator: draw(array, generator, "cauchy", median, sigma))
_write("log_normal_", lambda array, mean, std, generator: draw(array, generator, "log_normal", mean, std))
_write("geometric_", _geometric)
_write("bernoulli_.float", lambda array, p, generator: draw(array, generator, "bernoulli", p, 1.0))


# factories -----------------------------------------------------------------------------------------------------------


def _make(name: str, into: Callable) -> None:
    """A factory whose elements `into(array, *arguments)` draws."""
    operator = registry.get(name)

    def kernel(*args: Any) -> Tensor:
        made = fresh(operator, args)
        into(made._array, *args)
        return leaf(operator, made, args)

    KERNELS[name] = kernel


def _permuted(array: CudaArray, n: int, generator: Any, *rest: Any) -> None:
    keys = empty(layout_of((n,), np.dtype(np.int64)), array.device)
    draw(keys, generator, "bits")
    if n:
        store(array.view, cupy.argsort(keys.view))


_make("rand", lambda array, size, generator, *_: _uniform(array, 0.0, 1.0, generator))
_make("rand_like", lambda array, self, generator, *_: _uniform(array, 0.0, 1.0, generator))
_make("randn", lambda array, size, generator, *_: _normal(array, 0.0, 1.0, generator))
_make("randn_like", lambda array, self, generator, *_: _normal(array, 0.0, 1.0, generator))
_make("randint.low", lambda array, low, high, size, generator, *_: _integers(array, low, high, generator))
_make("randint", lambda array, high, size, generator, *_: _integers(array, 0, high, generator))
_make("randint_like.low", lambda array, self, low, high, generator, *_: _integers(array, low, high, generator))
_make("randint_like", lambda array, self, high, generator, *_: _integers(array, 0, high, generator))
_make("normal.float_float", lambda array, mean, std, size, generator, *_: _normal(array, mean, std, generator))
_make("randperm", _permuted)


# distributions given by tensors --------------------------------------------------------------------------------------


def _uniforms(shape: tuple[int, ...], kind: np.dtype, where: Any, generator: Any) -> Any:
    """Numbers in [0, 1) as a `cupy.ndarray`."""
    made = empty(layout_of(tuple(shape), kind), where)
    _uniform(made, 0.0, 1.0, generator)
    return made.view


def _normal_of(name: str) -> None:
    infer = infer_of(registry.get(name))

    def kernel(mean: Any, std: Any, generator: Any) -> Tensor:
        spec, where = infer(mean, std, generator), device_among((mean, std))
        drawn = empty(layout_of(tuple(spec.shape), spec.dtype.np), where)
        _normal(drawn, 0.0, 1.0, generator)
        mean, std = (view_of(v) if hasattr(v, "_array") else v for v in (mean, std))
        return finished(drawn.view * std + mean, spec, where)

    KERNELS[name] = kernel


for _name in ("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"):
    _normal_of(_name)


def _bernoulli_write(self: Tensor, p: Tensor, generator: Any) -> Tensor:
    check_writable(self)
    registry.get("bernoulli_.Tensor").declaration.family.check(self, p, generator)
    if self._array.size:
        kind = float64.np if p.dtype is float64 else float32.np
        store(self._array.view, _uniforms(self._array.shape, kind, self._device, generator) < view_of(p, self._device))
    self._bump_version()
    return self


def _bernoulli(self: Tensor, generator: Any) -> Tensor:
    spec = infer_of(registry.get("bernoulli"))(self, generator)
    kind = float64.np if self.dtype is float64 else float32.np
    return finished(_uniforms(spec.shape, kind, self._device, generator) < view_of(self), spec, self._device)


def _multinomial(self: Tensor, num_samples: int, replacement: bool, generator: Any) -> Tensor:
    """With replacement a search in the cumulative sums; else the order of p / q, q exponential per category."""
    spec = infer_of(registry.get("multinomial"))(self, num_samples, replacement, generator)
    weights = view_of(self).astype(np.float64)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement:
        sums = rows.cumsum(-1)
        drawn = _uniforms((len(rows), num_samples), float64.np, self._device, generator) * sums[:, -1:]
        found = (drawn[..., None] >= sums[:, None, :]).sum(-1)
    else:
        noise = empty(layout_of(rows.shape, float64.np), self._device)
        draw(noise, generator, "exponential", 1.0)
        found = cupy.argsort(-(rows / noise.view), -1)[:, :num_samples]
    return finished(found.reshape(spec.shape), spec, self._device)


_POISSON = """
typedef {type} T;
__device__ inline double next(unsigned long long seed, unsigned long long offset, int64 at, unsigned int& turn) {{
    uint4 w = philox(seed, offset, (unsigned long long)at * 4294967296ull + turn++);
    return ((double)(w.x >> 5) * 67108864.0 + (double)(w.y >> 6) + 0.5) * 1.1102230246251565e-16;
}}
extern "C" __global__ void draw(const T* rates, T* out, int64 count, unsigned long long seed,
                                unsigned long long offset) {{
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    double rate = (double)widened(rates[i]), made = 0;
    unsigned int turn = 0;
    if (rate >= 10) {{  // transformed rejection (Hormann 1993)
        double root = sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
        double inverse = 1.1239 + 1.1328 / (b - 3.4), bound = 0.9277 - 3.6224 / (b - 2);
        while (true) {{
            double u = next(seed, offset, i, turn) - 0.5, v = next(seed, offset, i, turn), s = 0.5 - fabs(u);
            made = floor((2 * a / s + b) * u + rate + 0.43);
            if (s >= 0.07 && v <= bound) break;
            if (made < 0 || (s < 0.013 && v > s)) continue;
            if (log(v) + log(inverse) - log(a / (s * s) + b) <= -rate + made * log(rate) - lgamma(made + 1)) break;
        }}
    }} else if (rate > 0) {{
        double product = next(seed, offset, i, turn), limit = exp(-rate);
        while (product > limit) {{ product *= next(seed, offset, i, turn); made += 1; }}
    }}
    out[i] = narrow<T>::of(({real})made);
}}
"""

_BINOMIAL = """
typedef {type} T;
extern "C" __global__ void draw(const T* counts, const T* chances, T* out, int64 count, unsigned long long seed,
                                unsigned long long offset) {{
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 trials = (int64)widened(counts[i]), made = 0;
    double chance = (double)widened(chances[i]);
    for (int64 turn = 0; turn < trials; ++turn) {{
        uint4 w = philox(seed, offset, (unsigned long long)i * 4294967296ull + turn);
        made += ((double)w.x + 0.5) * 2.3283064365386963e-10 < chance;
    }}
    out[i] = narrow<T>::of(({real})made);
}}
"""


def _by_element(source: str, operands: list[Any], spec: Spec, generator: Any, where: Any) -> Tensor:
    """A kernel that draws each element of its own, with parameters from arrays."""
    from ..launch import c_type, kernel
    from ..random import _PHILOX, _signed

    kind = spec.dtype.np
    arrays = [cupy.ascontiguousarray(cupy.broadcast_to(view_of(t), spec.shape)) for t in operands]
    made = empty(layout_of(tuple(spec.shape), kind), where)
    if made.size:
        text = _PHILOX + source.format(type=c_type(kind), real="double" if kind.itemsize == 8 else "float")
        seed, offset, _ = generator_for(generator, where.index or 0).taken()
        kernel(text, "draw", "q" * (len(arrays) + 4)).over(
            ((made.size + 255) // 256,), (256,), *(a.data.ptr for a in arrays), made.pointer, made.size, _signed(seed),
            offset)
    return finished(made.view, spec, where)


def _poisson(self: Tensor, generator: Any) -> Tensor:
    spec = infer_of(registry.get("poisson"))(self, generator)
    return _by_element(_POISSON, [self], spec, generator, self._device)


def _binomial(count: Tensor, prob: Tensor, generator: Any) -> Tensor:
    spec = infer_of(registry.get("binomial"))(count, prob, generator)
    return _by_element(_BINOMIAL, [count, prob], spec, generator, count._device)


# dropout -------------------------------------------------------------------------------------------------------------


def _noise(self: Tensor, p: float, features: bool, scaled: bool) -> Tensor:
    made = uninitialised(infer_of(registry.get("_dropout_noise"))(self, p, features, scaled), self._device)
    array = made._array
    if array.size:
        flat = array if array.layout.contiguous else array.storage.array((array.size,), array.dtype, 0,
                                                                          (array.itemsize,))
        draw(flat, None, "bernoulli", 1 - p, 1 / (1 - p) if scaled else 1.0)
    return made


_dropouts: dict[Any, tuple] = {}


def _native_dropout(input: Tensor, p: float, train: bool | None) -> Any:
    array = input._array
    layouts = _dropouts.get(array.layout)
    if layouts is None:
        if len(_dropouts) > 4096:
            _dropouts.clear()
        operator = registry.get("native_dropout")
        layouts = _dropouts[array.layout] = tuple(map(layout_for, infer_of(operator)(input, p, train)))
    made, mask = (empty(layout, array.device) for layout in layouts)
    if not array.size:
        pass
    elif train is False or p == 0:
        fill_all(mask, True)
        copy_array(made, array)
    elif p < 1 and OF_ARRAY[array.dtype].category == FLOAT:
        source = array
        if array.layout is not made.layout or array.pointer & 15:
            source = empty(made.layout, array.device)
            copy_array(source, array)
        drop(source, made, mask, p)
    else:
        draw(mask, None, "bernoulli", 1 - p, 1.0)
        store(made.view, array.view * mask.view * array.dtype.type(0.0 if p == 1 else 1 / (1 - p)))
    return result_of(registry.get("native_dropout"), [wrap_cuda(made), wrap_cuda(mask)])


def _rrelu_slopes(self: Tensor, lower: Any, upper: Any, generator: Any) -> Tensor:
    spec = infer_of(registry.get("_rrelu_slopes"))(self, lower, upper, generator)
    kind = float64.np if self.dtype is float64 else float32.np
    made = empty(layout_of(self._array.shape, kind), self._device)
    _uniform(made, float(lower), float(upper), generator)
    return finished(cupy.where(view_of(self) > 0, kind.type(1), made.view), spec, self._device)


KERNELS.update({
    "bernoulli_.Tensor": _bernoulli_write, "bernoulli": _bernoulli, "multinomial": _multinomial, "poisson": _poisson,
    "binomial": _binomial, "_dropout_noise": _noise, "native_dropout": _native_dropout,
    "_rrelu_slopes": _rrelu_slopes,
})
