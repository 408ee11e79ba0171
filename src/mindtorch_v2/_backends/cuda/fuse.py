"""Pointwise functions as CUDA kernels: traced expressions (_kernels/trace.py) with loops around them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import REDUCED
from ..._kernels import cuda
from ..._kernels.ir import TYPES, Node
from ..._kernels.trace import Expression, Number, Program, Symbol, Untraceable
from .c_types import C_TYPES, c_type
from .special import FUNCTIONS, source_of

__all__ = ["Traced", "Untraceable", "applied_to"]
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_HEAD = cuda.HEAD + r"""
template <typename T> struct __align__(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) four { T v[4]; };
"""


def applied_to(operands: Sequence[Any], function: Callable) -> np.dtype:
    """The type of what a function of symbols gives, for operands that are types, or numbers."""
    program, given = Program(False, FUNCTIONS), []
    for value in operands:
        if isinstance(value, np.dtype):
            name = TYPES.get(value.name)
            if name is None:
                raise Untraceable
            given.append(Symbol(program, Node("arg", name, (), "x"), value))
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            node = Node("arg", "f64" if isinstance(plain, float) else "i64", (), "n")
            given.append(Number(program, "n", plain, node, value.dtype if isinstance(value, np.generic) else None))
    made = function(*given)
    if not isinstance(made, Symbol) or made.np is None:
        raise Untraceable
    return made.np


class Traced:
    """What a pointwise function became: a device function `computed(loaded values, numbers)`, and its guards."""

    def __init__(self, compute: Callable, args: Sequence[Any], at: Sequence[int], kind: np.dtype,
                 narrow: np.dtype | None) -> None:
        """`args` with dtypes in the place of tensors; `narrow` is what to round to between steps, if anything."""
        if kind.name not in C_TYPES:
            raise Untraceable
        traced = Expression(compute, args, at, kind, narrow, rounds=True, functions=FUNCTIONS)
        self.kind, self.loads, self.made = kind, traced.loads, traced.result
        self.kinds = dict.fromkeys(traced.loads, kind)
        self.numbers = {i: "q" if letter == "i64" else "d" for i, letter in traced.numbers.items()}
        self.guards = " and ".join(f"({text} {_SIGNS[op]} {value!r}) is {answer}"
                                   for text, _, op, value, answer in traced.guards)
        self._write_down(traced.node)

    def _write_down(self, node: Node) -> None:
        parameters = [(f"t{i}", TYPES[self.kinds[i].name]) for i in self.loads]
        parameters += [(f"n{i}", "i64" if letter == "q" else "f64") for i, letter in self.numbers.items()]
        self.function = cuda.function_of("computed", node, parameters)
        self.head = _HEAD + source_of(self.function)

    @classmethod
    def of_expression(cls, kinds: Sequence[np.dtype], compute: Callable) -> tuple["Traced", list[Any]]:
        """What `compute(loads, number)` became, and the numbers that it takes, which do not change."""
        made, program, values = object.__new__(cls), Program(False, FUNCTIONS), list[Any]()

        def number(value: Any) -> Any:
            if not isinstance(value, (bool, int, float, np.generic)):
                return value
            strong = value.dtype if isinstance(value, np.generic) else None
            plain = value.item() if isinstance(value, np.generic) else value
            values.append(plain)
            made.numbers[len(values) - 1] = "d" if isinstance(plain, float) else "q"
            name = f"n{len(values) - 1}"
            return Number(program, name, plain, Node("arg", "f64" if isinstance(plain, float) else "i64", (), name),
                          strong)

        made.loads, made.kinds, made.numbers = list(range(len(kinds))), dict(enumerate(kinds)), {}
        loads = [Symbol(program, Node("arg", TYPES[kind.name], (), f"t{i}"), kind) for i, kind in enumerate(kinds)]
        result = compute(loads, number)
        if not isinstance(result, Symbol) or result.np is None or result.node is None:
            raise Untraceable
        made.made = result.np
        made._write_down(result.node)
        return made, values

    def _loaded(self, i: int, element: str) -> str:
        """An element in the type in which the function takes it."""
        kind = self.kinds[i]
        return element if kind in REDUCED else f"({c_type(kind)})widened({element})"

    def _stored(self, values: str, out: np.dtype) -> str:
        """What is stored: the function of values, in the type of the result."""
        return f"computed({values})" if self.made == out else f"narrow<R>::of(widened(computed({values})))"

    def flat_source(self, dtypes: Sequence[np.dtype], single: Sequence[bool], out: np.dtype) -> str:
        """A kernel for operands that lie alike, four elements a thread; those of one element are read by all."""
        types = [c_type(d) for d in dtypes]
        arrays = "".join(f"const {name}* p{i}, " for i, name in zip(self.loads, types, strict=True))
        flat = [(i, name) for i, name, one in zip(self.loads, types, single, strict=True) if not one]
        together = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for i, _ in flat)])
        wide = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + i);\n" for i, name in flat)

        def call(load: Callable[[int], str]) -> str:
            loaded = [self._loaded(i, f"p{i}[0]" if one else load(i))
                      for i, one in zip(self.loads, single, strict=True)]
            return self._stored(", ".join([*loaded, *(f"n{i}" for i in self.numbers)]), out)

        return f"""{self.head}typedef {c_type(out)} R;
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
        loaded = [self._loaded(i, f"p{i}[at[{k}] + j * places.stride[{k}][0]]") for k, i in enumerate(self.loads)]
        numbers = [f"n{i}" for i in self.numbers]
        values, together = ", ".join([*loaded, *numbers]), ""
        if inner is not None:
            wide = [(k, i, name) for k, (i, name) in enumerate(zip(self.loads, types, strict=True)) if inner[k]]
            parts = ", ".join([self._loaded(i, f"w{i}.v[j]" if inner[k] else f"p{i}[at[{k}]]")
                               for k, i in enumerate(self.loads)] + numbers)
            loads = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + at[{k}]);\n"
                            for k, i, name in wide)
            places = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for _, i, _ in wide)])
            together = f"""    if ((({places}) & 15) == 0) {{
{loads}        four<R> made;
        #pragma unroll
        for (int j = 0; j < 4; ++j) made.v[j] = {self._stored(parts, out)};
        *(four<R>*)(out + at[{last}]) = made;
        return;
    }}
"""
        return f"""{self.head}typedef {c_type(out)} R;
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
        out[at[{last}] + j * places.stride[{last}][0]] = {self._stored(values, out)};
}}
"""

    def _number_parameters(self) -> str:
        return "".join(f"{'double' if letter == 'd' else 'int64'} n{i}, " for i, letter in self.numbers.items())
