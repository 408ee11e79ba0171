"""Pointwise functions as CUDA kernels: traced expressions (_kernels/trace.py) with loops around them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._kernels import cuda
from ..._kernels.ir import TYPES
from ..._kernels.trace import Expression, Untraceable
from .launch import C_TYPES, c_type

__all__ = ["Traced", "Untraceable"]
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# What CUDA's C library computes besides the functions of all C libraries.
_FUNCTIONS = frozenset(("erfinv", "erfcx", "rsqrt"))

_HEAD = cuda.HEAD + r"""
template <typename T> struct __align__(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) four { T v[4]; };
"""


class Traced:
    """What a pointwise function became: a device function `computed(loaded values, numbers)`, and its guards."""

    def __init__(self, compute: Callable, args: Sequence[Any], at: Sequence[int], kind: np.dtype,
                 narrow: np.dtype | None) -> None:
        """`args` with dtypes in the place of tensors; `narrow` is what to round to between steps, if anything."""
        if kind.name not in C_TYPES:
            raise Untraceable
        traced = Expression(compute, args, at, kind, narrow, functions=_FUNCTIONS)
        self.kind, self.loads = kind, traced.loads
        self.numbers = {i: "q" if letter == "i64" else "d" for i, letter in traced.numbers.items()}
        self.guards = " and ".join(f"({text} {_SIGNS[op]} {value!r}) is {answer}"
                                   for text, _, op, value, answer in traced.guards)
        parameters = [(f"t{i}", TYPES[kind.name]) for i in self.loads]
        parameters += [(f"n{i}", letter) for i, letter in traced.numbers.items()]
        self.function = cuda.function_of("computed", traced.node, parameters)

    def flat_source(self, dtypes: Sequence[np.dtype], single: Sequence[bool], out: np.dtype) -> str:
        """A kernel for operands that lie alike, four elements a thread; those of one element are read by all."""
        types = [c_type(d) for d in dtypes]
        arrays = "".join(f"const {name}* p{i}, " for i, name in zip(self.loads, types, strict=True))
        flat = [(i, name) for i, name, one in zip(self.loads, types, single, strict=True) if not one]
        together = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for i, _ in flat)])
        wide = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + i);\n" for i, name in flat)

        def call(load: Callable[[int], str]) -> str:
            loaded = [f"({c_type(self.kind)})widened({f'p{i}[0]' if one else load(i)})"
                      for i, one in zip(self.loads, single, strict=True)]
            return f"narrow<R>::of(computed({', '.join([*loaded, *(f'n{i}' for i in self.numbers)])}))"

        return f"""{_HEAD}typedef {c_type(out)} R;
{self.function}
extern "C" __global__ void fused({arrays}R* out, {self._number_parameters()}int64 count) {{
    int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * 4;
    if (i + 4 <= count && (({together}) & 15) == 0) {{
{wide}        four<R> made;
        #pragma unroll
        for (int k = 0; k < 4; ++k) made.v[k] = {call(lambda i: f"w{i}.v[k]")};
        *(four<R>*)(out + i) = made;
    }} else {{
        for (int64 j = i; j < i + 4 && j < count; ++j) out[j] = {call(lambda i: f"p{i}[j]")};
    }}
}}
"""

    def strided_source(self, dtypes: Sequence[np.dtype], out: np.dtype, rank: int, per_thread: int,
                       index: str, inner: Sequence[int] | None = None) -> str:
        """A kernel for operands of any strides, over `rank` dimensions, innermost first; the result's come last.

        `inner` are the innermost strides of the operands, 0 or 1, where four elements can be loaded at a time.
        """
        types = [c_type(d) for d in dtypes]
        arrays = "".join(f"const {name}* p{i}, " for i, name in zip(self.loads, types, strict=True))
        last = len(types)
        loaded = [f"({c_type(self.kind)})widened(p{i}[at[{k}] + j * places.stride[{k}][0]])"
                  for k, i in enumerate(self.loads)]
        numbers = [f"n{i}" for i in self.numbers]
        values, together = ", ".join([*loaded, *numbers]), ""
        if inner is not None:
            wide = [(k, i, name) for k, (i, name) in enumerate(zip(self.loads, types, strict=True)) if inner[k]]
            parts = ", ".join([f"({c_type(self.kind)})widened({f'w{i}.v[j]' if inner[k] else f'p{i}[at[{k}]]'})"
                               for k, i in enumerate(self.loads)] + numbers)
            loads = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + at[{k}]);\n"
                            for k, i, name in wide)
            places = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for _, i, _ in wide)])
            together = f"""    if ((({places}) & 15) == 0) {{
{loads}        four<R> made;
        #pragma unroll
        for (int j = 0; j < 4; ++j) made.v[j] = narrow<R>::of(computed({parts}));
        *(four<R>*)(out + at[{last}]) = made;
        return;
    }}
"""
        return f"""{_HEAD}typedef {c_type(out)} R;
typedef {index} index_t;
struct Places {{ int64 size[{rank}]; int64 stride[{last + 1}][{rank}]; }};
{self.function}
extern "C" __global__ void fused({arrays}R* out, {self._number_parameters()}int64 count, Places places) {{
    int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * {per_thread};
    if (i >= count) return;
    index_t rest = (index_t)i;
    int64 at[{last + 1}] = {{}};
    #pragma unroll
    for (int d = 0; d < {rank}; ++d) {{
        index_t size = (index_t)places.size[d], own = {f"d == {rank - 1} ? rest : rest % size"};
        rest /= size;
        #pragma unroll
        for (int k = 0; k < {last + 1}; ++k) at[k] += own * places.stride[k][d];
    }}
{together}    #pragma unroll
    for (int j = 0; j < {per_thread}; ++j)
        out[at[{last}] + j * places.stride[{last}][0]] = narrow<R>::of(computed({values}));
}}
"""

    def _number_parameters(self) -> str:
        return "".join(f"{'double' if letter == 'd' else 'int64'} n{i}, " for i, letter in self.numbers.items())
