"""Products of half-precision matrices whose rows do not begin at multiples of 16 bytes, over copies whose rows do.

For such rows cuBLAS has kernels that load one number at a time and reach a seventh of what a GPU does otherwise. A copy
costs the memory's time, so it pays where the numbers are multiplied often enough.
"""

import ctypes
import math
from typing import NamedTuple

import numpy as np

from ...._core.computed import computed_once
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..cublas import Product
from ..launch import Launch, compiled

_EACH = 8  # numbers of 2 bytes in the 16 that a row should begin at a multiple of
# Of an H200: operations a second, by what row steps are multiples of; bytes a second, and seconds of a further kernel.
_FAST, _SLOW = 700e12, {1: 130e12, 2: 220e12, 4: 220e12}
_BANDWIDTH, _LAUNCH = 3.2e12, 4e-6
_GAIN = 1.5  # the estimates are rough: what is not clearly faster stays as it is
_THREADS, _PER_THREAD, _TURNS, _MOST_LINES = 256, 4, 3, 1 << 30  # a thread has groups of 16 bytes at once, some times

# A y of a block has a row of the target. Targets are written 16 bytes at a time from their first multiple of 16 on,
# sources read so too: what a group needs lies in two such places, and is shifted. Beyond the source there are zeros.
_MOVE = r"""
struct sizes { int64 rows, columns, step, between, lines, all_rows, all_columns, across; };
__device__ inline uint4 shifted(uint4 low, uint4 high, unsigned bytes) {
    unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, bits = (bytes & 3) * 8;
    #pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = bytes & 8 ? w[i + 2] : w[i];
    #pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = bytes & 4 ? w[i + 1] : w[i];
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}
extern "C" __global__ void __launch_bounds__(256, 4) move(const unsigned short* from, unsigned short* to, sizes s) {
    unsigned across = (unsigned)s.across, each = (unsigned)s.all_rows, part = blockIdx.x % across;
    unsigned line = blockIdx.x / across * blockDim.y + threadIdx.y, row = line % each;
    if (line >= s.lines) return;
    const unsigned short* in = from + line / each * s.between + row * s.step;
    unsigned short* out = to + line * s.all_columns;
    unsigned columns = (unsigned)s.all_columns, held = row < s.rows ? (unsigned)s.columns : 0;
    unsigned head = (16 - (unsigned)((size_t)out & 15)) % 16 / 2;
    if (head > columns) head = columns;
    unsigned groups = (columns - head) / 8, whole = held > head ? (held - head) / 8 : 0;
    unsigned off = (unsigned)((size_t)(in + head) & 15), stride = across * blockDim.x;
    const uint4* source = (const uint4*)((size_t)(in + head) - off);
    uint4* target = (uint4*)(out + head);
    for (unsigned i = part * blockDim.x + threadIdx.x; i < groups; i += U * stride) {
        uint4 low[U], high[U];
        #pragma unroll
        for (int u = 0; u < U; ++u)
            if (i + u * stride < whole) {
                low[u] = source[i + u * stride];
                high[u] = off ? source[i + u * stride + 1] : low[u];
            }
        #pragma unroll
        for (int u = 0; u < U; ++u) {
            unsigned at = i + u * stride;
            if (at < whole) target[at] = shifted(low[u], high[u], off);
            else if (at < groups)
                for (unsigned k = head + at * 8; k < head + at * 8 + 8; ++k) out[k] = k < held ? in[k] : 0;
        }
    }
    if (part == 0) {
        for (unsigned k = threadIdx.x; k < head; k += blockDim.x) out[k] = k < held ? in[k] : 0;
        for (unsigned k = head + groups * 8 + threadIdx.x; k < columns; k += blockDim.x) out[k] = k < held ? in[k] : 0;
    }
}
"""


class _Sizes(ctypes.Structure):
    """What the kernel knows of source and target: `struct sizes`."""

    _fields_ = tuple((name, ctypes.c_longlong) for name in ("rows", "columns", "step", "between", "lines", "all_rows",
                                                             "all_columns", "across"))


class Stored(NamedTuple):
    """Matrices as they lie in memory: how many, rows and columns, and the steps to the next row and matrix."""

    many: int
    rows: int
    columns: int
    step: int
    between: int


class Move:
    """The copy of matrices into contiguous ones of another size: what the source does not have becomes zeros."""

    def __init__(self, kind: np.dtype, source: Stored, rows: int, columns: int) -> None:
        self.source, self.layout = source, layout_of((source.many, rows, columns), kind)
        # Not where the source is of that size, and its rows begin at multiples of 16 bytes.
        self.is_needed = (source.rows, source.columns) != (rows, columns) or (source.step | source.between) % _EACH != 0

    @property
    def traffic(self) -> int:
        """The bytes that are read and written."""
        source, (count, rows, columns) = self.source, self.layout.shape
        read = count * min(source.rows, rows) * min(source.columns, columns)
        return (read + self.layout.size) * self.layout.dtype.itemsize

    @property
    def step(self) -> int:
        """The step between the rows that are multiplied, copied or not."""
        return self.layout.shape[2] if self.is_needed else self.source.step

    @property
    def between(self) -> int:
        """The step between the matrices that are multiplied, copied or not."""
        _, rows, columns = self.layout.shape
        return rows * columns if self.is_needed and self.source.between else self.source.between

    @computed_once
    def _launch(self) -> Launch:
        source, (count, rows, columns) = self.source, self.layout.shape
        lines, groups = count * rows, max(1, columns // _EACH)
        wide = min(_THREADS, 1 << (-(-groups // _PER_THREAD) - 1).bit_length())
        high, across = _THREADS // wide, max(1, groups // (wide * _PER_THREAD * _TURNS))
        sizes = _Sizes(min(source.rows, rows), min(source.columns, columns), source.step, source.between, lines, rows,
                       columns, across)
        return Launch(compiled(f"#define U {_PER_THREAD}\n{_MOVE}", "move"), "qq", (-(-lines // high) * across,),
                      (wide, high), [sizes])

    def into(self, target: CudaArray, source: CudaArray) -> None:
        self._launch(source.pointer, target.pointer)

    def copied(self, source: CudaArray) -> CudaArray:
        made = empty(self.layout, source.device)
        self.into(made, source)
        return made


class Piece:
    """Some columns of a padded product: from which one on, how many, and the copy of the factor that makes them."""

    def __init__(self, padding: "Padding", start: int, columns: int, factor: Move, skipped: int = 0) -> None:
        """`skipped` elements of the factor belong to the columns before."""
        self.padding, self.start, self.columns, self.factor, self.skipped = padding, start, columns, factor, skipped
        count, high, wide = padding.before.layout.shape
        size = padding.kind.itemsize
        self.layout = layout_of((count, high, columns), padding.kind, (high * wide * size, wide * size, size))
        self.bias_layout = layout_of((columns,), padding.kind)

    @computed_once
    def product(self) -> Product:
        padding, factor = self.padding, self.factor
        high, deep, wide = padding.size
        batch = None if padding.batch is None else (padding.batch, padding.a.between, factor.between)
        return Product(padding.kind, high, deep, self.columns, (padding.ways[0], padding.a.step),
                       (padding.ways[1], factor.step), batch, wide)

    def of_factor(self, b: CudaArray) -> CudaArray:
        own = _from(b, self.skipped, b.layout)
        return self.factor.copied(own) if self.factor.is_needed else own

    def of_result(self, wide: CudaArray) -> CudaArray:
        return _from(wide, self.start, self.layout)

    def of_bias(self, bias: CudaArray) -> CudaArray:
        return _from(bias, self.start, self.bias_layout)


def _from(array: CudaArray, start: int, layout: Layout) -> CudaArray:
    """What lies so many elements further on, in a layout."""
    return array_on(layout, array.memory, array.pointer + start * layout.dtype.itemsize, array.device)


class Padding:
    """A product of copies of its matrices whose rows have whole groups of 16 bytes, and the copies."""

    def __init__(self, kind: np.dtype, rows: int, inner: int, columns: int, a: tuple[int, int], b: tuple[int, int],
                 batch: tuple[int, int, int] | None) -> None:
        """As for `Product`."""
        count, between_a, between_b = batch or (1, 0, 0)
        # Sizes along rows are padded too, not only the steps between them: with an inner size of 50257 cuBLAS is as
        # slow over padded rows as over others. Numbers beyond the inner size are zeros in both factors, and those
        # beyond the others only make results that nobody reads.
        high = _rounded(rows) if a[0] else rows
        deep = _rounded(inner) if b[0] or not a[0] else inner
        wide = _rounded(columns)
        self.kind, self.size, self.ways = kind, (high, deep, wide), (a[0], b[0])
        self.batch = None if batch is None else count
        self.a = _factor(kind, (rows, inner), (high, deep), a, count, between_a)
        self.bias = Move(kind, Stored(1, 1, columns, columns, 0), 1, wide)
        self.before = Move(kind, Stored(count, rows, columns, columns, rows * columns), high, wide)
        self.after = Move(kind, Stored(count, high, wide, wide, high * wide), rows, columns)
        whole = columns - columns % _EACH
        if batch is None and b[0] and b[1] % _EACH == inner % _EACH == 0 and 0 < whole < columns:
            # The weight of a layer: all of its rows but the last few are taken as they lie.
            self.pieces = [Piece(self, 0, whole, Move(kind, Stored(1, whole, inner, b[1], 0), whole, inner)),
                           Piece(self, whole, wide - whole, Move(kind, Stored(1, columns - whole, inner, b[1], 0),
                                                                 wide - whole, inner), whole * b[1])]
        else:
            factor = _factor(kind, (inner, columns), (deep, wide), b, count, between_b)
            self.pieces = [Piece(self, 0, wide, factor)]

    @property
    def seconds(self) -> float:
        """How long the copies, and a product of few columns, take at least."""
        moves = [each for each in (self.a, self.after, *[piece.factor for piece in self.pieces]) if each.is_needed]
        return sum([each.traffic / _BANDWIDTH + _LAUNCH for each in moves]) + (len(self.pieces) - 1) * _LAUNCH


def padding_for(kind: np.dtype, rows: int, inner: int, columns: int, a: tuple[int, int], b: tuple[int, int],
                batch: tuple[int, int, int] | None) -> Padding | None:
    """The padding of a product; None unless it and a fast product take clearly less time than the product alone."""
    multiple = math.gcd(_EACH, a[1], b[1], columns)
    count = batch[0] if batch else 1
    if kind.itemsize != 2 or multiple == _EACH or count * max(rows, inner, columns) >= _MOST_LINES:
        return None
    work = 2.0 * count * rows * inner * columns
    made = Padding(kind, rows, inner, columns, a, b, batch)
    return made if work / _SLOW[multiple] > _GAIN * (work / _FAST + made.seconds) else None


def _rounded(number: int) -> int:
    return -(-number // _EACH) * _EACH


def _factor(kind: np.dtype, size: tuple[int, int], padded: tuple[int, int], how: tuple[int, int], count: int,
            between: int) -> Move:
    """The copy of a factor, which lies as `how` says; one for all products if it is the same for them."""
    (rows, columns), (high, wide) = (size[::-1], padded[::-1]) if how[0] else (size, padded)
    return Move(kind, Stored(count if between else 1, rows, columns, how[1], between), high, wide)
