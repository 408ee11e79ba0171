"""Reductions on a GPU: a call finds its launches by the layout of its tensor and what is to be folded."""

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...._core.device import device
from ...._core.dtype import REDUCED
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops.reduce import folded_count, reduced_dims
from ..array import CudaArray, Layout, empty, layout_of
from ..families import Maker, copy_array, generic_kernel, infer_of, wrap_cuda
from ..launch import C_TYPES, PACKS, Launch, c_type, compiled

_BLOCKS = 1056  # enough to fill any device: eight for each of 132 multiprocessors


class _Fold(NamedTuple):
    """How to fold: `a` and `b` are combined, `x` is an element, and `start` changes nothing. C expressions.

    `end` is made of all, `a`; with a `divisor` it is called so.
    """

    combine: str
    start: str
    load: str = "(A)x"
    end: str = "a"


_FOLDS = {
    "sum": _Fold("a + b", "(A)0"), "prod": _Fold("a * b", "(A)1"),
    "mean": _Fold("a + b", "(A)0", end="a / (A)divisor"),
    "max": _Fold("(a != a || a > b) ? a : b", "LOWEST"), "min": _Fold("(a != a || a < b) ? a : b", "HIGHEST"),
    "xor": _Fold("a ^ b", "(A)0"),
    "any": _Fold("a | b", "(A)0", "(A)(x != 0)"), "all": _Fold("a & b", "(A)1", "(A)(x != 0)"),
    "nansum": _Fold("a + b", "(A)0", "x != x ? (A)0 : (A)x"),
    "norm": _Fold("a + b", "(A)0", "(A)x * (A)x", "sqrt(a)"),
    "hash": _Fold("a ^ b", "(A)0", "(A)__double_as_longlong((double)x)"),
    "hash whole": _Fold("a ^ b", "(A)0", "(A)(int64)x"),
    "var": _Fold("merged(a, b)", "A()", "A(x)", "a.spread / (W)divisor"),
    "std": _Fold("merged(a, b)", "A()", "A(x)", "sqrt(a.spread / (W)divisor)"),
}

_SPREADS = ("var", "std")

# The mean of some numbers, the sum of the squares of what they are apart from it, and how many they are.
_MOMENTS = r"""
typedef {W} W;
__device__ inline float quotient(float a, float b) {{ return __fdividef(a, b); }}
__device__ inline double quotient(double a, double b) {{ return a / b; }}
struct moments {{
    W mean, spread, count;
    __device__ moments() : mean(0), spread(0), count(0) {{}}
    template <typename X> __device__ explicit moments(X x) : mean((W)x), spread(0), count(1) {{}}
}};
__device__ inline moments merged(moments a, moments b) {{
    W count = a.count + b.count, apart = b.mean - a.mean, share = count > 0 ? quotient(b.count, count) : (W)0;
    a.mean += apart * share;
    a.spread += b.spread + apart * apart * a.count * share;
    a.count = count;
    return a;
}}
__device__ inline moments __shfl_xor_sync(unsigned int mask, moments a, int lanes) {{
    a.mean = __shfl_xor_sync(mask, a.mean, lanes);
    a.spread = __shfl_xor_sync(mask, a.spread, lanes);
    a.count = __shfl_xor_sync(mask, a.count, lanes);
    return a;
}}
"""

_COMMON = r"""
{moments}typedef {T} T; typedef {A} A; typedef {R} R;
#define LOWEST {lowest}
#define HIGHEST {highest}
__device__ inline A combine(A a, A b) {{ return {combine}; }}
template <typename X> __device__ inline A loaded(X x) {{ return {load}; }}
__device__ inline R finished(A a, double divisor) {{ return narrow<R>::of({finish}); }}
"""

# One warp a row (several in a block), or one block for a part of a row.
_ROWS = _COMMON + r"""
extern "C" __global__ void fold(const T* in, R* out, double divisor, int64 rows, int64 length, int64 chunk,
                                int64 parts) {{
    __shared__ __align__(16) char room[32 * sizeof(A)];
    A* shared = (A*)room;
    int64 row = blockIdx.x, start = 0;
    if (blockDim.x == 32) row = row * blockDim.y + threadIdx.y;
    else {{ start = row % parts * chunk; row /= parts; }}
    if (row >= rows) return;
    const T* p = in + row * length + start;
    int64 count = length - start < chunk ? length - start : chunk;
    A lane[4];
    for (int k = 0; k < 4; ++k) lane[k] = {start};
    int64 done = 0;
    if (((size_t)p & (sizeof(pack<T, 4>) - 1 > 15 ? 15 : sizeof(pack<T, 4>) - 1)) == 0) {{
        #pragma unroll 4
        for (int64 i = threadIdx.x; i < count / 4; i += blockDim.x) {{
            pack<T, 4> w = ((const pack<T, 4>*)p)[i];
            for (int k = 0; k < 4; ++k) lane[k] = combine(lane[k], loaded(widened(w.v[k])));
        }}
        done = count / 4 * 4;
    }}
    for (int64 i = done + threadIdx.x; i < count; i += blockDim.x) lane[0] = combine(lane[0], loaded(widened(p[i])));
    A total = combine(combine(lane[0], lane[1]), combine(lane[2], lane[3]));
    for (int s = 16; s; s >>= 1) total = combine(total, __shfl_xor_sync(0xffffffff, total, s));
    if (blockDim.x > 32) {{
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = total;
        __syncthreads();
        if (threadIdx.x < 32) {{
            total = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : {start};
            for (int s = 16; s; s >>= 1) total = combine(total, __shfl_xor_sync(0xffffffff, total, s));
        }}
        if (threadIdx.x == 0) out[blockIdx.x] = finished(total, divisor);
    }} else if (threadIdx.x == 0) out[row] = finished(total, divisor);
}}
"""

# 32 times WIDTH columns a block; eight rows at a time.
_COLUMNS = _COMMON + r"""
#define WIDTH {columns}
extern "C" __global__ void fold(const T* in, R* out, double divisor, int64 length, int64 inner, int64 chunk) {{
    __shared__ __align__(16) char room[8 * 32 * WIDTH * sizeof(A)];
    A (*shared)[32 * WIDTH] = (A (*)[32 * WIDTH])room;
    int64 column = (blockIdx.x * 32 + threadIdx.x) * (int64)WIDTH, start = blockIdx.y * chunk;
    int64 end = start + chunk < length ? start + chunk : length;
    A total[WIDTH];
    for (int k = 0; k < WIDTH; ++k) total[k] = {start};
    if (column < inner) {{
        const T* p = in + blockIdx.z * length * inner + column;
        #pragma unroll 4
        for (int64 r = start + threadIdx.y; r < end; r += 8) {{
            pack<T, WIDTH> w = *(const pack<T, WIDTH>*)(p + r * inner);
            for (int k = 0; k < WIDTH; ++k) total[k] = combine(total[k], loaded(widened(w.v[k])));
        }}
    }}
    for (int k = 0; k < WIDTH; ++k) shared[threadIdx.y][threadIdx.x * WIDTH + k] = total[k];
    __syncthreads();
    if (threadIdx.y == 0 && column < inner) {{
        for (int k = 0; k < WIDTH; ++k) {{
            A made = shared[0][threadIdx.x * WIDTH + k];
            for (int y = 1; y < 8; ++y) made = combine(made, shared[y][threadIdx.x * WIDTH + k]);
            out[((int64)blockIdx.z * gridDim.y + blockIdx.y) * inner + column + k] = finished(made, divisor);
        }}
    }}
}}
"""

_LIMITS = {
    "float": ("(-__int_as_float(0x7f800000))", "__int_as_float(0x7f800000)"),
    "double": ("(-__longlong_as_double(0x7ff0000000000000LL))", "__longlong_as_double(0x7ff0000000000000LL)"),
}


def _limits(kind: np.dtype) -> tuple[str, str]:
    if kind.kind == "f":
        return _LIMITS[c_type(kind)]
    if kind.kind == "b":
        return "0", "1"
    info = np.iinfo(kind)
    suffix = "ULL" if kind.kind == "u" else "LL"
    return f"({info.min + (kind.kind == 'i')}{suffix}{' - 1' * (kind.kind == 'i')})", f"({info.max}{suffix})"


@functools.cache
def _kernel(template: str, name: str, element: np.dtype | None, wide: np.dtype, made: np.dtype | None,
            columns: int = 1) -> Any:
    """Of elements, or, without a type of these, of what was folded before; to results, or what is folded again."""
    fold = _FOLDS[name]
    lowest, highest = _limits(wide)
    moments = name in _SPREADS
    partial = "moments" if moments else c_type(wide)
    text = template.format(T=partial if element is None else c_type(element), A=partial,
                           R=partial if made is None else c_type(made), lowest=lowest, highest=highest,
                           combine=fold.combine, load="(A)x" if element is None else fold.load, start=fold.start,
                           columns=columns, finish="a" if made is None else fold.end,
                           moments=_MOMENTS.format(W=c_type(wide)) if moments else "")
    return compiled(PACKS + text, "fold")


class Folding:
    """The launches that fold a contiguous (outer, length, inner) array along its middle dimension."""

    def __init__(self, name: str, element: np.dtype, wide: np.dtype, made: Layout, outer: int, length: int, inner: int,
                 divisor: float = 1.0) -> None:
        self.made, self.divisor, kind = made, divisor, made.dtype
        self.parts = self._parts_of(outer, length, inner)
        chunk = -(-length // self.parts)
        chunk += -chunk % 4
        self.parts = max(-(-length // chunk), 1)
        self.second: Launch | None = None
        self.partial: Layout | None = None
        columns, first = 4 if inner % 4 == 0 else 1, kind if self.parts == 1 else None
        if self.parts > 1:
            numbers = (3,) if name in _SPREADS else ()
            self.partial = layout_of((outer * self.parts * inner, *numbers), wide)
        if inner == 1:
            self.launch = self._rows(_kernel(_ROWS, name, element, wide, first), outer, length, chunk, self.parts)
            if self.parts > 1:
                self.second = self._rows(_kernel(_ROWS, name, None, wide, kind), outer, self.parts, self.parts, 1)
        else:
            self.launch = self._columns(_kernel(_COLUMNS, name, element, wide, first, columns), outer, length, inner,
                                        chunk, self.parts, columns)
            if self.parts > 1:
                self.second = self._columns(_kernel(_COLUMNS, name, None, wide, kind, columns), outer, self.parts,
                                            inner, self.parts, 1, columns)

    @staticmethod
    def _parts_of(outer: int, length: int, inner: int) -> int:
        if inner == 1:
            return 1 if outer >= _BLOCKS // 4 or length <= 8192 else min(-(-length // 4096), -(-_BLOCKS // outer))
        blocks = outer * -(-inner // (128 if inner % 4 == 0 else 32))
        return max(1, min(-(-_BLOCKS // blocks), length // 64))

    def _rows(self, kernel: Any, outer: int, length: int, chunk: int, parts: int) -> Launch:
        fixed = [ctypes.c_double(self.divisor), *map(ctypes.c_longlong, (outer, length, chunk, parts))]
        if parts == 1 and length <= 1024 and outer > 1:
            return Launch(kernel, "qq", (-(-outer // 8),), (32, 8), fixed)
        threads = min(max(-(-chunk // 8) + 31 & ~31, 64), 512 if outer * parts > 1 else 1024)
        return Launch(kernel, "qq", (outer * parts,), (threads,), fixed)

    def _columns(self, kernel: Any, outer: int, length: int, inner: int, chunk: int, parts: int,
                 columns: int) -> Launch:
        fixed = [ctypes.c_double(self.divisor), *map(ctypes.c_longlong, (length, inner, chunk))]
        return Launch(kernel, "qq", (-(-inner // (32 * columns)), parts, outer), (32, 8), fixed)

    def __call__(self, array: CudaArray) -> CudaArray:
        """The folded array."""
        return self.of(array.pointer, array.device)

    def of(self, pointer: int, where: device) -> CudaArray:
        """The folded array of what lies at an address."""
        made = empty(self.made, where)
        if self.second is None:
            self.launch(pointer, made.pointer)
            return made
        partial = empty(self.partial, where)  # type: ignore[arg-type]
        self.launch(pointer, partial.pointer)
        self.second(partial.pointer, made.pointer)
        return made


_FLOAT32, _LIMIT = np.dtype(np.float32), 4096
# operators that fold in a way of another name
_FOLDED = {"amax": "max", "amin": "min", "linalg_vector_norm": "norm", "hash_tensor": "hash"}


def grouped(layout: Layout, dims: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(outer, length, inner) of a contiguous layout whose folded dimensions lie together; None if they do not."""
    if not layout.contiguous:
        return None
    kept = [d for d, n in enumerate(layout.shape) if n != 1]
    folded = [d for d in kept if d in dims]
    if not folded:
        return None
    first, last = folded[0], folded[-1]
    if [d for d in kept if first <= d <= last] != folded:
        return None
    shape = layout.shape
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _freedom(shape: tuple[int, ...], dim: Any, correction: Any) -> float:
    """What sums of squared deviations are divided by."""
    return float(folded_count(shape, dim) - (1 if correction is None else correction))


def _folding(name: str, args: dict[str, Any], layout: Layout, spec: Any) -> Folding | None:
    """The launches of a call, on an array of that layout; None where CuPy does it."""
    how, dim = _FOLDED.get(name, name), args.get("dim")
    dims = reduced_dims((dim,) if dim.__class__ is int else dim, len(layout.shape))
    groups = None if dim == () and name in ("any", "all") else grouped(layout, dims)
    made = spec.dtype.np
    wide = _FLOAT32 if made in REDUCED else np.dtype(np.uint8) if made.kind == "b" else made
    if groups is None or layout.dtype.name not in C_TYPES or made.name not in C_TYPES or not layout.size:
        return None
    if how in ("sum", "nansum") and made.kind == "b" or groups[0] > 65535 and groups[2] > 1:
        return None
    if layout.dtype != made and made in REDUCED and layout.dtype not in REDUCED and layout.dtype != _FLOAT32:
        return None  # an explicit type that elements are rounded to first
    if how == "norm" and args["ord"] != 2:
        return None
    if how == "hash" and layout.dtype.kind in "biu":
        how = "hash whole"
    divisor = float(folded_count(layout.shape, dim)) if how == "mean" else 1.0
    if how in _SPREADS:
        divisor = _freedom(layout.shape, dim, args["correction"])
    return Folding(how, layout.dtype, wide, layout_of(tuple(spec.shape), made), *groups, divisor)


@Maker
def folded(operator: Operator) -> Callable:
    """The kernel of a reduction that `_FOLDS` has, maybe by another name."""
    name, infer, slow = operator.schema.base_name, infer_of(operator), generic_kernel(operator)
    plans: dict[tuple, Callable[[CudaArray], CudaArray] | None] = {}  # None for calls that are CuPy's

    def kernel(self: Tensor, *options: Any) -> Tensor:
        array = self._array
        try:
            folding = plans[array.layout, options]
        except (KeyError, AttributeError):
            return general(self, *options)
        return slow(self, *options) if folding is None else wrap_cuda(folding(array))

    def general(self: Tensor, *options: Any) -> Tensor:
        array, args = self._array, dict(zip(operator.schema.names, (self, *options), strict=True))
        if array.__class__ is not CudaArray or not array.size or self.dtype.is_complex:
            return slow(self, *options)
        folding: Callable[[CudaArray], CudaArray] | None = None
        # Of too few degrees of freedom `infer` warns, which the other way calls too.
        if name not in _SPREADS or _freedom(array.shape, args["dim"], args["correction"]) > 0:
            layout = layout_of(array.shape, array.dtype)
            folding = _folding(name, args, layout, infer(self, *options))
            if folding is not None and not array.layout.contiguous:
                folding = functools.partial(_folded_copy, folding, layout)
        if len(plans) > _LIMIT:
            plans.clear()
        plans[array.layout, options] = folding
        return slow(self, *options) if folding is None else wrap_cuda(folding(array))

    return kernel


def _folded_copy(folding: Callable, layout: Layout, array: CudaArray) -> CudaArray:
    dense = empty(layout, array.device)
    copy_array(dense, array)
    return folding(dense)
