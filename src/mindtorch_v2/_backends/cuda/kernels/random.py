"""Random numbers on a GPU: Philox 4x32-10, counted by a seed and an offset, for factories, draws and distributions."""

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ...._core.dtype import FLOAT, OF_ARRAY, float32, float64
from ...._core.random import largest_random
from ...._core.tensor import Tensor
from ...._dispatch.keys import CUDA_MASK
from ...._dispatch.registry import Operator, registry
from ...._ops._declare.rules import Spec, check_writable
from ..array import CudaArray, empty, layout_of
from ..families import (
    Maker,
    copy_array,
    finished_array,
    layout_for,
    leaf,
    planning,
    store,
    view_of,
    wrap_cuda,
)
from ..generator import CudaGenerator, generator_for
from ..launch import C_TYPES, c_type, kernel
from ..plans import attempt

PHILOX = r"""
__device__ inline uint4 philox(unsigned long long seed, unsigned long long offset, unsigned long long index) {
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    uint4 c;
    c.x = (unsigned int)index; c.y = (unsigned int)(index >> 32);
    c.z = (unsigned int)offset; c.w = (unsigned int)(offset >> 32);
    for (int round = 0; round < 10; ++round) {
        unsigned int h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned int h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        uint4 n;
        n.x = h1 ^ c.y ^ k0; n.y = l1; n.z = h0 ^ c.w ^ k1; n.w = l0;
        c = n;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    return c;
}
"""

# In (0, 1], of two words: as many bits as the type keeps, so that nothing rounds up to more than 1.
_UNIFORM = {"half_t": "((w0 >> 21) + 1) * 4.8828125e-4f", "bfloat_t": "((w0 >> 24) + 1) * 3.90625e-3f",
            "double": "(((double)(w0 >> 5) * 67108864.0 + (double)(w1 >> 6)) + 1.0) * 1.1102230246251565e-16"}
_FINE = "((w0 >> 8) + 1) * 5.9604644775390625e-8f"

# What an element is, of the words w0 and w1, the uniform number u in (0, 1] and the parameters a and b.
_DISTRIBUTIONS = {
    "uniform": "(1 - u) * ((real)b - (real)a) + (real)a",
    "normal": "sqrt(-2 * log(u)) * cos((real)6.283185307179586 * fine(w1, w0)) * (real)b + (real)a",
    "log_normal": "exp(sqrt(-2 * log(u)) * cos((real)6.283185307179586 * fine(w1, w0)) * (real)b + (real)a)",
    "exponential": "-log(u) / (real)a",
    "cauchy": "(real)a + (real)b * tan((real)3.141592653589793 * (u - (real)0.5))",
    "geometric": "max((real)1, ceil(log(u) / (real)log1p(-a)))",
    "bernoulli": "(fine(w0, w1) <= (real)a ? (real)b : (real)0)",
    "integer": "(low + (int64)((((unsigned long long)w0 << 32) | w1) % (unsigned long long)range))",
    "bits": "(int64)(((unsigned long long)w0 << 32) | w1)",
}

_DRAW = """
typedef {type} T;
typedef {real} real;
__device__ inline real fine(unsigned int w0, unsigned int w1) {{ return {fine}; }}
__device__ inline T drawn(unsigned int w0, unsigned int w1, double a, double b, int64 low, int64 range) {{
    real u = {uniform};
    (void)u;
    return narrow<T>::of({value});
}}
extern "C" __global__ void draw(T* out, int64 count, unsigned long long seed, unsigned long long offset,
                                const unsigned long long* base, double a, double b, int64 low, int64 range) {{
    int64 pair = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (2 * pair >= count) return;
    if (base) {{ seed = base[0]; offset += base[1]; }}
    uint4 w = philox(seed, offset, pair);
    out[2 * pair] = drawn(w.x, w.y, a, b, low, range);
    if (2 * pair + 1 < count) out[2 * pair + 1] = drawn(w.z, w.w, a, b, low, range);
}}
extern "C" __global__ void draw_by(T* out, int64 count, unsigned long long seed, unsigned long long offset,
                                   const unsigned long long* base, const T* as, const T* bs, double a, double b) {{
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    if (base) {{ seed = base[0]; offset += base[1]; }}
    uint4 w = philox(seed, offset, i);
    out[i] = drawn(w.x, w.y, as ? (double)widened(as[i]) : a, bs ? (double)widened(bs[i]) : b, 0, 1);
}}
"""


@functools.cache
def _source(kind: np.dtype, distribution: str) -> str:
    name = c_type(kind)
    real = "double" if name == "double" else "float"
    fine = _UNIFORM["double"] if real == "double" else _FINE
    value = _DISTRIBUTIONS[distribution]
    if real == "double" or distribution not in ("uniform",):
        uniform = fine
    else:
        uniform = _UNIFORM.get(name, _FINE)
    if distribution == "integer" and name in ("half_t", "bfloat_t"):
        value = f"(float){value}"
    return PHILOX + _DRAW.format(type=name, real=real, fine=fine, uniform=uniform, value=value)


def _fill(array: CudaArray, distribution: str, generator: CudaGenerator, a: float = 0.0, b: float = 1.0,
          low: int = 0, span: int = 1) -> None:
    """Draws into a contiguous array."""
    count = array.size
    if count:
        seed, offset, base = generator.taken()
        launch = kernel(_source(array.dtype, distribution), "draw", "qqqqqddqq")
        threads = (count + 1) // 2
        launch.over(((threads + 255) // 256,), (256,), array.pointer, count, signed(seed), offset, base, a, b, low,
                    signed(span))


def signed(number: int) -> int:
    number %= 1 << 64
    return number if number < 1 << 63 else number - (1 << 64)


_DRAWN_IN = {np.dtype(kind): np.dtype(real) for kind, real in (("F", "f"), ("D", "d"))}


def draw(array: CudaArray, generator: Any, distribution: str, a: float = 0.0, b: float = 1.0, low: int = 0,
         span: int = 1) -> None:
    """Draws into an array of any layout; complex numbers get both parts."""
    if not array.size:
        return
    source = generator_for(generator, array.device.index or 0)
    real = _DRAWN_IN.get(array.dtype)
    if real is None and array.layout.contiguous:
        _fill(array, distribution, source, a, b, low, span)
        return
    shape, kind = (array.shape, array.dtype) if real is None else ((*array.shape, 2), real)
    drawn = empty(layout_of(shape, kind), array.device)
    _fill(drawn, distribution, source, a, b, low, span)
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


# draws into a tensor -------------------------------------------------------------------------------------------------


def drawn(into: Callable) -> Maker:
    """The kernel of an operator that writes what `into(array, *arguments)` draws; the checks are the declaration's."""

    def make(operator: Operator) -> Callable:
        check = operator.declaration.family.check

        def kernel(self: Tensor, *args: Any) -> Tensor:
            check_writable(self)
            check(self, *args)
            into(self._array, *args)
            self._bump_version()
            return self

        return kernel

    return Maker(make)


@drawn
def uniform_(array: CudaArray, low: float, high: float, generator: Any) -> None:
    _uniform(array, low, high, generator)


@drawn
def normal_(array: CudaArray, mean: float, std: float, generator: Any) -> None:
    _normal(array, mean, std, generator)


@drawn
def random_(array: CudaArray, *bounds: Any) -> None:
    """Without bounds, up to one, or between two; the generator comes last."""
    *given, generator = bounds
    low, to = (0, None) if not given else (0, *given) if len(given) == 1 else given
    _integers(array, low, largest_random(array.dtype) + 1 if to is None else to, generator)


@drawn
def exponential_(array: CudaArray, lambd: float, generator: Any) -> None:
    draw(array, generator, "exponential", lambd)


@drawn
def cauchy_(array: CudaArray, median: float, sigma: float, generator: Any) -> None:
    draw(array, generator, "cauchy", median, sigma)


@drawn
def log_normal_(array: CudaArray, mean: float, std: float, generator: Any) -> None:
    draw(array, generator, "log_normal", mean, std)


@drawn
def bernoulli_(array: CudaArray, p: float, generator: Any) -> None:
    draw(array, generator, "bernoulli", p, 1.0)


@drawn
def geometric_(array: CudaArray, p: float, generator: Any) -> None:
    if OF_ARRAY[array.dtype].category == FLOAT:
        draw(array, generator, "geometric", p)
    else:
        drawn = empty(layout_of(array.shape, float64.np), array.device)
        draw(drawn, generator, "geometric", p)
        store(array.view, drawn.view)


@drawn
def bernoulli_by_(array: CudaArray, p: Tensor, generator: Any) -> None:
    """With a probability for each element."""
    if array.size:
        drawn = _uniforms(array.shape, float64.np if p.dtype is float64 else float32.np, array.device, generator)
        store(array.view, drawn < view_of(p, array.device))


# factories -----------------------------------------------------------------------------------------------------------


def making(into: Callable) -> Maker:
    """The kernel of a factory whose elements `into(array, generator, *arguments)` draws."""

    def make(operator: Operator) -> Callable:
        at, plan = operator.schema.index["generator"], planning(operator)

        def kernel(*args: Any) -> Tensor:
            layout, where, _ = plan((*args[:at], None, *args[at + 1 :]))
            made = wrap_cuda(empty(layout, where))
            into(made._array, args[at], *args)
            return leaf(operator, made, args)

        return kernel

    return Maker(make)


@making
def rand(array: CudaArray, generator: Any, *args: Any) -> None:
    """`rand` and `rand_like`."""
    _uniform(array, 0.0, 1.0, generator)


@making
def randn(array: CudaArray, generator: Any, *args: Any) -> None:
    """`randn` and `randn_like`."""
    _normal(array, 0.0, 1.0, generator)


@making
def randint(array: CudaArray, generator: Any, high: int, *args: Any) -> None:
    _integers(array, 0, high, generator)


@making
def randint_between(array: CudaArray, generator: Any, low: int, high: int, *args: Any) -> None:
    _integers(array, low, high, generator)


@making
def randint_like(array: CudaArray, generator: Any, self: Tensor, high: int, *args: Any) -> None:
    _integers(array, 0, high, generator)


@making
def randint_like_between(array: CudaArray, generator: Any, self: Tensor, low: int, high: int, *args: Any) -> None:
    _integers(array, low, high, generator)


@making
def normal(array: CudaArray, generator: Any, mean: float, std: float, *args: Any) -> None:
    _normal(array, mean, std, generator)


@making
def randperm(array: CudaArray, generator: Any, n: int, *args: Any) -> None:
    keys = empty(layout_of((n,), np.dtype(np.int64)), array.device)
    draw(keys, generator, "bits")
    if n:
        store(array.view, cupy.argsort(keys.view))


# distributions given by tensors --------------------------------------------------------------------------------------


def _uniforms(shape: tuple[int, ...], kind: np.dtype, where: Any, generator: Any) -> Any:
    """Numbers in [0, 1) as a `cupy.ndarray`."""
    made = empty(layout_of(tuple(shape), kind), where)
    _uniform(made, 0.0, 1.0, generator)
    return made.view


def _drawn_by(spec: Spec, distribution: str, a: Any, b: Any, generator: Any) -> CudaArray | None:
    """Draws with parameters that are numbers, or arrays in C order of the result's type and shape; None for others."""
    made, arrays = layout_for(spec), [v for v in (a, b) if v.__class__ is CudaArray]
    if not made.contiguous or any(v.layout is not made for v in arrays) or made.dtype.name not in C_TYPES:
        return None
    drawn, count = empty(made, arrays[0].device), made.size
    if count:
        seed, offset, base = generator_for(generator, drawn.device.index or 0).taken()
        launch = kernel(_source(made.dtype, distribution), "draw_by", "qqqqqqqdd")
        pointers = [v.pointer if v.__class__ is CudaArray else 0 for v in (a, b)]
        numbers = [0.0 if v.__class__ is CudaArray else float(v) for v in (a, b)]
        launch.over(((count + 255) // 256,), (256,), drawn.pointer, count, signed(seed), offset, base, *pointers,
                    *numbers)
    return drawn


@attempt
def normal_by(spec: Spec, mean: Any, std: Any, generator: Any) -> CudaArray:
    """With a mean or a deviation for each element."""
    made = _drawn_by(spec, "normal", mean, std, generator)
    if made is not None:
        return made
    where = (std if mean.__class__ is float else mean).device
    drawn = empty(layout_of(tuple(spec.shape), spec.dtype.np), where)
    _normal(drawn, 0.0, 1.0, generator)
    mean, std = (v.view if v.__class__ is CudaArray else v for v in (mean, std))
    return finished_array(drawn.view * std + mean, spec, where)


@attempt
def bernoulli(spec: Spec, self: CudaArray, generator: Any) -> CudaArray:
    quick = _drawn_by(spec, "bernoulli", self, 1.0, generator)
    if quick is not None:
        return quick
    kind = float64.np if self.dtype == float64.np else float32.np
    drawn, made = empty(layout_of(self.shape, kind), self.device), empty(layout_for(spec), self.device)
    _uniform(drawn, 0.0, 1.0, generator)
    if made.size:
        copy_array(made, registry.get("lt").lookup(CUDA_MASK)(wrap_cuda(drawn), wrap_cuda(self))._array)
    return made


@attempt
def multinomial(spec: Spec, self: CudaArray, num_samples: int, replacement: bool, generator: Any) -> CudaArray:
    """With replacement a search in the cumulative sums; else the order of p / q, q exponential per category."""
    weights = self.view.astype(np.float64)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement:
        sums = rows.cumsum(-1)
        drawn = _uniforms((len(rows), num_samples), float64.np, self.device, generator) * sums[:, -1:]
        found = (drawn[..., None] >= sums[:, None, :]).sum(-1)
    else:
        noise = empty(layout_of(rows.shape, float64.np), self.device)
        draw(noise, generator, "exponential", 1.0)
        found = cupy.argsort(-(rows / noise.view), -1)[:, :num_samples]
    return finished_array(found.reshape(spec.shape), spec, self.device)


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


def _by_element(source: str, operands: list[Any], spec: Spec, generator: Any, where: Any) -> CudaArray:
    """A kernel that draws each element of its own, with parameters from arrays."""
    kind = spec.dtype.np
    arrays = [cupy.ascontiguousarray(cupy.broadcast_to(t.view, spec.shape)) for t in operands]
    made = empty(layout_of(tuple(spec.shape), kind), where)
    if made.size:
        text = PHILOX + source.format(type=c_type(kind), real="double" if kind.itemsize == 8 else "float")
        seed, offset, _ = generator_for(generator, where.index or 0).taken()
        kernel(text, "draw", "q" * (len(arrays) + 4)).over(
            ((made.size + 255) // 256,), (256,), *(a.data.ptr for a in arrays), made.pointer, made.size, signed(seed),
            offset)
    return finished_array(made.view, spec, where)


@attempt
def poisson(spec: Spec, self: CudaArray, generator: Any) -> CudaArray:
    return _by_element(_POISSON, [self], spec, generator, self.device)


@attempt
def binomial(spec: Spec, count: CudaArray, prob: CudaArray, generator: Any) -> CudaArray:
    return _by_element(_BINOMIAL, [count, prob], spec, generator, count.device)


@attempt
def rrelu_slopes(spec: Spec, self: CudaArray, lower: Any, upper: Any, generator: Any) -> CudaArray:
    kind = float64.np if self.dtype == float64.np else float32.np
    made = empty(layout_of(self.shape, kind), self.device)
    _uniform(made, float(lower), float(upper), generator)
    return finished_array(cupy.where(self.view > 0, kind.type(1), made.view), spec, self.device)
