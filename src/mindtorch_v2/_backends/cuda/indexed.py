"""Kernels that read, write or combine elements at places which index arrays name.

A call walks over a shape. For each point of it the strides say where it is in `other` (what is read into or from) and,
with the indices, where in `data`. An index that leaves its dimension stops the device, as PyTorch's assertions do.
"""

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._geometry import contiguous_strides
from .array import collapsed
from .launch import ASSERTIONS, C_TYPES, Launch, compiled

_THREADS, _RANK, _MANY = 256, 12, 1 << 18
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}
COMBINED = {"add": "a + b", "multiply": "a * b", "maximum": "(a != a || a > b) ? a : b",
            "minimum": "(a != a || a < b) ? a : b"}
# Types whose sums the device itself makes, and the type that it makes them of.
_SUMMED = {"float": "float", "double": "double", "int": "int", "unsigned int": "unsigned int",
           "long long": "unsigned long long", "unsigned long long": "unsigned long long"}


class Index(NamedTuple):
    """One index array: strides over the shape walked over, and what an index counts, in elements."""

    kind: np.dtype
    strides: Sequence[int]
    step: int
    limit: int


_SOURCE = ASSERTIONS.replace("{", "{{").replace("}", "}}") + r"""
#define R {rank}
#define EACH(k) for (int k = 0; k < {items}; ++k)
typedef {N} N; typedef {S} S; typedef {T} T; typedef {U} U;
struct Table {{
    int64 size[R], magic[R], shift[R], data[R], other[R], index[{count}][R], step[{count}], limit[{count}];
}};
union Value {{ int64 words[2]; T value; __device__ Value() {{}} }};
{functions}
extern "C" __global__ void indexed(T* data, U* other, {indices}, int64 low, int64 high, int64 count, Table table) {{
    int64 at[{items}], of[{items}], {keys};
    Value given;
    given.words[0] = low; given.words[1] = high;
    #pragma unroll
    EACH(k) {{
        N rest = blockIdx.x * (N)({threads} * {items}) + k * {threads} + threadIdx.x;
        int64 a = 0, o = 0, {starts};
        if (rest >= (N)count) {{ at[k] = -1; continue; }}
        #pragma unroll
        for (int d = 0; d < R; ++d) {{
            N own = rest;
            if (d < R - 1) {{ rest = {quotient}; own -= rest * (N)table.size[d]; }}
            a += (int64)(S)own * (S)table.data[d];
            o += (int64)(S)own * (S)table.other[d];
            {places}
        }}
        at[k] = a; of[k] = o;
        {loads}
    }}
    #pragma unroll
    EACH(k) if (at[k] >= 0) {{ {bounds} }}
    {body}
}}
"""

_BODIES = {
    "read": "T held[{items}];\n    #pragma unroll\n    EACH(k) if (at[k] >= 0) held[k] = data[at[k]];\n"
            "    #pragma unroll\n    EACH(k) if (at[k] >= 0) other[of[k]] = held[k];",
    "write": "T held[{items}];\n    #pragma unroll\n    EACH(k) if (at[k] >= 0) held[k] = other[of[k]];\n"
             "    #pragma unroll\n    EACH(k) if (at[k] >= 0) data[at[k]] = held[k];",
    "fill": "#pragma unroll\n    EACH(k) if (at[k] >= 0) data[at[k]] = given.value;",
    "combine": "#pragma unroll\n    EACH(k) if (at[k] >= 0) combine(data + at[k], {value});",
}

# The device compares and exchanges words of 4 or 8 bytes, so a smaller element is changed within its word.
_EXCHANGE = r"""
typedef {word} word_t; typedef {bits} bits_t;
union Element {{ bits_t bits; T value; __device__ Element() {{}} }};
__device__ inline void combine(T* place, T value) {{
    size_t behind = (size_t)place & (sizeof(word_t) - 1);
    word_t* word = (word_t*)((size_t)place - behind);
    int shift = (int)behind * 8;
    word_t kept = ~((word_t)(bits_t)~(bits_t)0 << shift), seen = *(volatile word_t*)word, old;
    do {{
        old = seen;
        Element element;
        element.bits = (bits_t)(old >> shift);
        auto a = widened(element.value), b = widened(value);
        element.value = narrow<T>::of({expression});
        word_t made = (old & kept) | (word_t)element.bits << shift;
        if (made == old) return;
        seen = atomicCAS(word, old, made);
    }} while (seen != old);
}}
"""
_SUM = "__device__ inline void combine(T* place, T value) {{ atomicAdd(({own}*)place, ({own})value); }}\n"


def _combining(how: str, kind: str, size: int) -> str:
    if how == "add" and kind in _SUMMED:
        return _SUM.format(own=_SUMMED[kind])
    word = "unsigned long long" if size == 8 else "unsigned int"
    return _EXCHANGE.format(word=word, bits=_WORDS[size], expression=COMBINED[how])


@functools.cache
def _kernel(action: str, data: str, other: str, size: int, kinds: tuple[str, ...], rank: int, items: int, small: bool,
            wraps: bool, scalar: bool) -> Any:
    several = range(len(kinds))
    body = _BODIES.get(action, _BODIES["combine"])
    taken = "given.value" if scalar else "narrow<T>::of(widened(other[of[k]]))"
    bound = "require(key{j}[k] >= {low} && key{j}[k] < table.limit[{j}]);{wrap} at[k] += (int64)(S)key{j}[k] * " \
            "(S)table.step[{j}];"
    text = _SOURCE.format(
        rank=rank, items=items, threads=_THREADS, count=len(kinds), T=data, U=other,
        N="unsigned int" if small else "unsigned long long", S="int" if small else "int64",
        functions=_combining(action, data, size) if action in COMBINED else "",
        indices=", ".join(f"const {kind}* index{j}" for j, kind in enumerate(kinds)),
        keys=", ".join(f"key{j}[{items}]" for j in several), starts=", ".join(f"p{j} = 0" for j in several),
        quotient="(__umulhi(rest, (unsigned int)table.magic[d]) + rest) >> (int)table.shift[d]" if small
        else "rest / (N)table.size[d]",
        places=" ".join(f"p{j} += (int64)(S)own * (S)table.index[{j}][d];" for j in several),
        loads=" ".join(f"key{j}[k] = (int64)index{j}[p{j}];" for j in several),
        bounds=" ".join(bound.format(j=j, low=f"-table.limit[{j}]" if wraps else "0", wrap=(
            f" if (key{j}[k] < 0) key{j}[k] += table.limit[{j}];" if wraps else "")) for j in several),
        body=body.format(items=items, value=taken))
    return compiled(text, "indexed")


def bits_of(number: Any, kind: np.dtype) -> tuple[int, int]:
    """A number as two words that begin with an element of that type."""
    return struct.unpack("qq", np.full(1, number, kind).tobytes().ljust(16, b"\0"))


class Indexed:
    """The launches of one call: called with the addresses of `data`, `other` and the indices, and a number's bits.

    The action is read, write, fill, or one of COMBINED; `other` is None where the number is what is written.
    """

    def __init__(self, action: str, data: np.dtype, shape: Sequence[int], data_strides: Sequence[int],
                 indices: Sequence[Index], *, other: np.dtype | None = None, other_strides: Sequence[int] | None = None,
                 wraps: bool = False) -> None:
        self.action, self.scalar, self.wraps = action, other is None, wraps
        steps, size = [index.step for index in indices], data.itemsize
        sources = [list(data_strides), list(other_strides or [0] * len(shape)), *(list(i.strides) for i in indices)]
        moves = action not in COMBINED
        if data.kind == "c" and not moves:  # sums of real and imaginary parts
            shape = (*shape, 2)
            sources = [[2 * s for s in each] + [1] if n < 2 else [*each, 0] for n, each in enumerate(sources)]
            steps, data, size = [2 * s for s in steps], np.dtype(f"f{size // 2}"), size // 2
            other = data if other is not None else None
        self.types = ("", "") if moves else (C_TYPES[data.name], C_TYPES[(data if other is None else other).name])
        self.kinds = tuple([C_TYPES[index.kind.name] for index in indices])
        self.limits = [index.limit for index in indices]
        sizes, strides = collapsed(range(len(shape) - 1, -1, -1), shape, sources)
        self.aligned, self.narrow = 0, self._launch(sizes, strides, steps, size)
        self.wide = self.narrow
        wider = self._wider(sizes, strides, steps, size) if moves and other is not None else 1
        if wider > 1:
            self.aligned = size * wider - 1
            parts = [[s if k == 0 else s // wider for k, s in enumerate(each)] for each in strides[:2]] + strides[2:]
            self.wide = self._launch([sizes[0] // wider, *sizes[1:]], parts, [s // wider for s in steps], size * wider)

    @staticmethod
    def _wider(sizes: list[int], strides: list[list[int]], steps: list[int], size: int) -> int:
        """How many neighbours can be moved as one element."""
        if strides[0][0] != 1 or strides[1][0] != 1 or any(each[0] for each in strides[2:]):
            return 1
        counts = [sizes[0], *steps, *strides[0][1:], *strides[1][1:]]
        return next((n for n in (16, 8, 4, 2) if n * size <= 16 and not any(c % n for c in counts)), 1)

    def _launch(self, sizes: list[int], strides: list[list[int]], steps: list[int], size: int) -> Launch:
        count = functools.reduce(int.__mul__, sizes, 1)
        small = max(count, *self.limits, *steps, *(s for each in strides for s in each)) < 1 << 31
        items = 4 if count >= _MANY else 1
        types = self.types if self.types[0] else (_WORDS[size],) * 2
        kernel = _kernel(self.action, *types, size, self.kinds, len(sizes), items, small, self.wraps, self.scalar)
        shifts = [(n - 1).bit_length() for n in sizes]
        magics = [((1 << 32) * ((1 << s) - n)) // n + 1 if small else 0 for n, s in zip(sizes, shifts, strict=True)]
        words = [*sizes, *magics, *shifts, *(s for each in strides for s in each), *steps, *self.limits]
        fixed = [ctypes.c_longlong(count), (ctypes.c_longlong * len(words))(*words)]
        return Launch(kernel, "q" * (4 + len(self.kinds)), (-(-count // (_THREADS * items)),), (_THREADS,), fixed)

    def __call__(self, data: int, other: int, *rest: int) -> None:
        (self.narrow if (data | other) & self.aligned else self.wide)(data, other, *rest)


def fits(shape: Sequence[int]) -> bool:
    """Whether a shape has few enough dimensions for a kernel's table."""
    return len(shape) <= _RANK


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return contiguous_strides(tuple(shape))
