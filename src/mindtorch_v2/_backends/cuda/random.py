"""Random numbers on the device: Philox 4x32-10, counted by a seed and an offset.

They have the right distributions and follow `manual_seed`, but are not the numbers that a CPU draws. While a graph is
captured, the kernels read seed and offset from memory that each replay sets anew.
"""

import ctypes
import functools
import secrets
import threading
from typing import Any

import numpy as np

from ..._generator import Generator
from ..._generator import default_generator as cpu_generator
from ..._random import DEFAULT_SEED
from ..._tensor import Tensor, wrap
from .array import CudaArray
from .launch import Launch, c_type, compiled, kernel
from .reduce import HEAD
from .runtime import current_device, device_count, device_of, index_of

_PHILOX = r"""
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
DISTRIBUTIONS = {
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
"""


@functools.cache
def _source(kind: np.dtype, distribution: str) -> str:
    name = c_type(kind)
    real = "double" if name == "double" else "float"
    fine = _UNIFORM["double"] if real == "double" else _FINE
    value = DISTRIBUTIONS[distribution]
    if real == "double" or distribution not in ("uniform",):
        uniform = fine
    else:
        uniform = _UNIFORM.get(name, _FINE)
    if distribution == "integer" and name in ("half_t", "bfloat_t"):
        value = f"(float){value}"
    return _PHILOX + _DRAW.format(type=name, real=real, fine=fine, uniform=uniform, value=value)


def fill(array: CudaArray, distribution: str, generator: "CudaGenerator", a: float = 0.0, b: float = 1.0,
         low: int = 0, span: int = 1) -> None:
    """Draws into a contiguous array."""
    count = array.size
    if count:
        seed, offset, base = generator.taken()
        launch = kernel(_source(array.dtype, distribution), "draw", "qqqqqddqq")
        threads = (count + 1) // 2
        launch.over(((threads + 255) // 256,), (256,), array.pointer, count, _signed(seed), offset, base, a, b, low,
                    _signed(span))


# Four elements for each draw, V for each thread.
_DROPOUT = """
typedef pack<T, V> values;
typedef pack<bool, V> flags;
extern "C" __global__ void drop(const T* in, T* out, bool* mask, unsigned long long seed, unsigned long long offset,
                                const unsigned long long* base, unsigned long long limit, double scale, int64 count) {
    int64 at = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * V;
    if (at >= count) return;
    bool whole = at + V <= count;
    values x;
    flags kept;
    if (whole) x = *(const values*)(in + at);
    else for (int k = 0; k < V; ++k) if (at + k < count) x.v[k] = in[at + k];
    if (base) { seed = base[0]; offset += base[1]; }
    #pragma unroll
    for (int k = 0; k < V; k += 4) {
        uint4 w = philox(seed, offset, (at + k) / 4);
        kept.v[k] = w.x < limit; kept.v[k + 1] = w.y < limit; kept.v[k + 2] = w.z < limit; kept.v[k + 3] = w.w < limit;
    }
    #pragma unroll
    for (int k = 0; k < V; ++k)
        if (whole || at + k < count)
            x.v[k] = narrow<T>::of((A)widened(x.v[k]) * (kept.v[k] ? (A)scale : (A)0));
    if (whole) { *(values*)(out + at) = x; *(flags*)(mask + at) = kept; }
    else for (int k = 0; k < V; ++k) if (at + k < count) { out[at + k] = x.v[k]; mask[at + k] = kept.v[k]; }
}
"""


@functools.lru_cache(1024)
def _dropping(kind: np.dtype, count: int) -> Launch:
    vector = 8 if kind.itemsize == 2 else 4
    text = (f"{HEAD}{_PHILOX}typedef {c_type(kind)} T;\ntypedef {'double' if kind.itemsize == 8 else 'float'} A;\n"
            f"#define V {vector}\n{_DROPOUT}")
    blocks = -(-count // (vector * 256))
    return Launch(compiled(text, "drop"), "qqqqqqqd", (blocks,), (256,), [ctypes.c_longlong(count)])


def drop(source: CudaArray, made: CudaArray, mask: CudaArray, p: float) -> None:
    """Draws which elements are kept, and writes them scaled and which they are; all three are equally laid out."""
    seed, offset, base = default_generator(source.device.index).taken()
    limit = round((1 - p) * (1 << 32))
    _dropping(source.dtype, source.size)(source.pointer, made.pointer, mask.pointer, _signed(seed), offset, base, limit,
                                         1 / (1 - p))


def _signed(number: int) -> int:
    number %= 1 << 64
    return number if number < 1 << 63 else number - (1 << 64)


class CudaGenerator(Generator):
    """Where a stream of random numbers of a device stands: a seed, and how many draws were made."""

    def __init__(self, device: Any = "cuda") -> None:
        self.device = device_of(index_of(device))
        self._seed, self._offset = DEFAULT_SEED, 0
        self._lock = threading.Lock()
        self.capture: Any = None  # the graph that is being captured with draws of this generator

    @property
    def _bits(self) -> Any:  # type: ignore[override]
        """What a CPU would draw from."""
        raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")

    def taken(self) -> tuple[int, int, int]:
        """Seed, offset and, in a capture, the address of what each replay adds to it, for one draw."""
        with self._lock:
            if self.capture is not None:
                return 0, self.capture.next_draw(self), self.capture.random_state(self)
            self._offset += 1
            return self._seed, self._offset - 1, 0

    def manual_seed(self, seed: int) -> "CudaGenerator":
        """This generator, started anew."""
        self._seed, self._offset = int(seed) % (1 << 64), 0
        return self

    def seed(self) -> int:
        """A fresh seed from the operating system, now in use."""
        self.manual_seed(secrets.randbits(64))
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int) -> "CudaGenerator":  # type: ignore[override]
        self._offset = int(offset)
        return self

    def get_state(self) -> Tensor:  # type: ignore[override]
        """Seed and offset as a ByteTensor of 16 bytes, on the CPU."""
        return wrap(np.array([self._seed, self._offset], np.uint64).view(np.uint8))

    def set_state(self, new_state: Any) -> "CudaGenerator":
        words = np.ascontiguousarray(new_state.numpy() if isinstance(new_state, Tensor) else new_state)
        if words.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if words.size != 16:
            raise RuntimeError("RNG state is wrong size")
        self._seed, self._offset = map(int, words.view(np.uint64))
        return self

    def clone_state(self) -> "CudaGenerator":
        return CudaGenerator(self.device).set_state(self.get_state())

    def __reduce__(self) -> tuple:
        return _restored, (str(self.device), self._seed, self._offset)


def _restored(where: str, seed: int, offset: int) -> CudaGenerator:
    return CudaGenerator(where).manual_seed(seed).set_offset(offset)


@functools.cache
def _default_generators() -> tuple[CudaGenerator, ...]:
    made = tuple(CudaGenerator(index) for index in range(device_count()))
    for generator in made:
        generator.manual_seed(_initial[-1] if _initial else cpu_generator.initial_seed())
    return made


_initial: list[int] = []  # the seed of the last manual_seed, for devices first used later


def default_generator(index: int | None = None) -> CudaGenerator:
    return _default_generators()[current_device() if index is None else index]


def seed_all(seed: int) -> None:
    """Starts all devices anew."""
    _initial[:] = [seed]
    if _default_generators.cache_info().currsize:
        for generator in _default_generators():
            generator.manual_seed(seed)


def generator_for(given: Any, index: int) -> CudaGenerator:
    """The generator that an operator was given, or the device's own; RuntimeError for one of another device."""
    if given is None:
        return default_generator(index)
    if not isinstance(given, CudaGenerator):
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{given.device.type}'")
    return given
