"""Groups of the pipeline (_pipeline/fuse.py) as CUDA C: the expressions of several calls in one kernel."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._core.geometry import collapsed
from ..._kernels import cuda, ir
from .fuse import _HEAD
from .prelude import ASSERTIONS, PACKS
from .row_groups import dealt, places_of, row_source
from .special import source_of

_THREADS, _RANK = 256, 8
_FEW = 1 << 31  # elements that are counted in 32 bits, which divides many times as quickly
_LARGE = 1 << 22  # elements from which a thread takes eight: the card is busy with half the threads


class Written(NamedTuple):
    """A kernel of a source, and how it is launched.

    Its arguments are addresses of what is written, of what is read, and numbers, as the format says, then `fixed`.
    """

    text: str
    name: str
    format: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    fixed: list[Any]


def group_of(body: Any, shape: Sequence[int], operands: Sequence[Any], stored: Sequence[str],
             loaded: Sequence[str], told: Sequence[int] = ()) -> Written:  # fmt: skip
    """The kernel of a group.

    The first operands are those that the values named in `stored` go to; `told` are the words of gather maps.
    """
    outs, count = len(stored), math.prod(shape)
    spread = []
    for operand in operands:
        layout, size = operand.layout, operand.layout.dtype.itemsize
        steps = [s // size if n != 1 else 0 for n, s in zip(layout.shape, layout.strides, strict=True)]
        spread.append([0] * (len(shape) - len(steps)) + steps)
    order = sorted(range(len(shape)), key=lambda d: (spread[0][d] if outs else 0, -d))
    sizes, strides = collapsed(order, shape, spread)
    if len(sizes) > _RANK:
        raise ValueError("too many dimensions for one kernel")
    fixed: list[Any] = [ctypes.c_longlong(count)]
    flat = len(sizes) == 1 and all(own[0] == 1 for own in strides[:outs]) and all(own[0] in (0, 1) for own in strides)
    if flat and not body.sources:
        fours = 2 if count >= _LARGE else 1
        text = _flat_source(body, operands, stored, loaded, [own[0] for own in strides], fours)
        per_thread = 4 * fours
    else:
        words = [*sizes, *(s for own in strides for s in own), *told]
        fixed.append((ctypes.c_longlong * len(words))(*words))
        near = [own[0] for own in strides]
        in_fours = sizes[0] % 4 == 0 and set(near[:outs]) == {1} and set(near[outs : outs + len(loaded)]) <= {0, 1}
        per_thread = 4 if body.sources and in_fours else 1
        text = _strided_source(body, operands, stored, loaded, len(sizes), count < _FEW, near * (per_thread > 1))
    grid = (-(-count // (_THREADS * per_thread)),)
    return Written(text, "group", _letters(body, operands), grid, (_THREADS,), fixed)


def row_group_of(body: Any, shape: Sequence[int], operands: Sequence[Any], stored: Sequence[str],
                 loaded: Sequence[str], letters: str, told: Sequence[int] = ()) -> Written | None:  # fmt: skip
    """The same for a body with values of rows, which are the last dimension; None where they are too long.

    Layouts of operands have the shape, with letters as `row_geometry` gives them.
    """
    *outer, width = shape
    arrays = zip(_arrays(body, operands), letters, strict=False)
    wide = [o.layout.dtype.itemsize for o, letter in arrays if letter == "1"]
    rows = dealt(math.prod(outer), width, min(wide, default=4))
    if rows is None:
        return None
    sizes, strides = collapsed(range(len(outer) - 1, -1, -1), outer, [o.layout.strides[:-1] for o in operands])
    if len(sizes) > _RANK:
        raise ValueError("too many dimensions for one kernel")
    spread = [s // o.layout.dtype.itemsize for o, own in zip(operands, strides, strict=True) for s in own]
    words = [*sizes, *spread, *told]
    types = [cuda.C_TYPES[ir.TYPES[o.layout.dtype.name]] for o in operands]
    text = PACKS + ASSERTIONS * bool(body.wrong) + row_source(body, types, stored, loaded, letters, len(sizes), rows)
    fixed = [ctypes.c_longlong(math.prod(outer)), ctypes.c_longlong(width), (ctypes.c_longlong * len(words))(*words)]
    return Written(text, "row_group", _letters(body, operands), (rows.grid,), rows.block, fixed)


def _arrays(body: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The operands that are arrays, behind which are the places that gather maps look at (_pipeline/fetches.py)."""
    return operands[: len(operands) - len(body.places)]


def _letters(body: Any, operands: Sequence[Any]) -> str:
    """What the slots of a launch hold: addresses, then numbers."""
    return "q" * len(_arrays(body, operands)) + "".join("d" if kind == "f64" else "q" for kind in body.numbers.values())


def _function(body: Any, stored: Sequence[str], loaded: Sequence[str]) -> str:
    """A device function that computes the values of one element."""
    text = cuda.Text(0)
    text.kinds = body.types
    own = [statement.name for statement in body.statements]
    text.lines += [f"    {cuda.C_TYPES[body.types[name]]} {name};" for name in own]
    text.places = {d: f"i{d}" for d in body.places}
    text.sources = {name: (cuda.C_TYPES[kind], name) for name, kind in body.sources.items()}
    for node in body.wrong:
        text.line(f"require(!{text.value(node)});")
    text.statements(body.statements)
    given = [f"{cuda.C_TYPES[body.types[name]]} {name}" for name in loaded]
    given += [f"const {cuda.C_TYPES[kind]}* {name}" for name, kind in body.sources.items()]
    given += [f"int64 i{d}" for d in body.places] + ["const Places& places"] * bool(body.sources)
    given += [f"{cuda.C_TYPES[kind]} {name}" for name, kind in body.numbers.items()]
    given += [f"{cuda.C_TYPES[body.types[name]]}& made{k}" for k, name in enumerate(stored)]
    lines = "\n".join([*text.lines, *(f"    made{k} = {name};" for k, name in enumerate(stored))])
    return f"__device__ inline void computed({', '.join(given)}) {{\n{lines}\n}}\n"


def _head(body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str],
          struct: str = "") -> tuple[str, list[str], str]:  # fmt: skip
    """What comes before a kernel, the types of its arrays, and its parameters."""
    function = _function(body, stored, loaded)
    types = [cuda.C_TYPES[ir.TYPES[o.layout.dtype.name]] for o in _arrays(body, operands)]
    outs = len(stored)
    arrays = "".join(f"{name}* o{k}, " if k < outs else f"const {name}* p{k}, " for k, name in enumerate(types))
    numbers = "".join(f"{cuda.C_TYPES[kind]} {name}, " for name, kind in body.numbers.items())
    head = f"{_HEAD}{ASSERTIONS * bool(body.wrong)}{source_of(function)}{struct}{function}"
    return head, types, f"{arrays}{numbers}int64 count"


def _element(body: Any, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str],
             load: Callable[[int], str], store: Callable[[int], str], further: str = "") -> str:  # fmt: skip
    """Lines that compute one element; `load` and `store` say where the operand of a number is.

    What gather maps look at is `further`, so many times their first stride, than the thread's first element.
    """
    outs = len(stored)
    kinds = [cuda.C_TYPES[body.types[name]] for name in stored]
    declared = "".join(f"{kind} m{k}; " for k, kind in enumerate(kinds))
    values = [f"({cuda.C_TYPES[body.types[name]]})widened({load(k)})" for k, name in enumerate(loaded, outs)]
    behind = outs + len(loaded)
    at = [f"at[{k}]" + f" + {further} * places.stride[{k}][0]" * bool(further)
          for k in range(behind, len(types) + len(body.places))]  # fmt: skip
    values += [f"p{k} + {place}" if k < len(types) else place for k, place in enumerate(at, behind)]
    values += ["places"] * bool(body.sources)
    values += [*body.numbers, *(f"m{k}" for k in range(outs))]
    stores = "".join(f"{store(k)} = narrow<{types[k]}>::of(widened(m{k})); " if types[k] != kinds[k] else
                     f"{store(k)} = m{k}; " for k in range(outs))  # fmt: skip
    return f"{{ {declared}computed({', '.join(values)}); {stores}}}"


def _flat_source(body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str],
                 steps: Sequence[int], fours: int) -> str:  # fmt: skip
    """A kernel for arrays that lie alike, so many times four elements a thread; those of step 0 are read by all."""
    head, types, parameters = _head(body, operands, stored, loaded)
    outs = len(stored)
    wide = [k for k in range(outs, len(types)) if steps[k]]
    together = " | ".join([*(f"(size_t)o{k}" for k in range(outs)), *(f"(size_t)p{k}" for k in wide)])
    places = [f"i + {4 * _THREADS * f}" for f in range(fours)]
    loads = "".join(f"        four<{types[k]}> w{k}_{f} = *(const four<{types[k]}>*)(p{k} + {at});\n"
                    for f, at in enumerate(places) for k in wide)  # fmt: skip
    computed = ""
    for f, at in enumerate(places):
        fast = _element(body, types, stored, loaded, lambda k: f"w{k}_{f}.v[k]" if steps[k] else f"p{k}[0]",  # noqa: B023
                        lambda k: f"r{k}.v[k]")  # fmt: skip
        made = "".join(f"four<{types[k]}> r{k}; " for k in range(outs))
        kept = "".join(f" *(four<{types[k]}>*)(o{k} + {at}) = r{k};" for k in range(outs))
        computed += f"        {{ {made}\n        #pragma unroll\n        for (int k = 0; k < 4; ++k) {fast}\n"
        computed += f"       {kept} }}\n"
    slow = _element(body, types, stored, loaded, lambda k: f"p{k}[{'j' if steps[k] else '0'}]", lambda k: f"o{k}[j]")
    last = 4 * _THREADS * (fours - 1)
    return f"""{head}extern "C" __global__ void group({parameters}) {{
    int64 i = blockIdx.x * (int64){4 * _THREADS * fours} + threadIdx.x * 4;
    if (i + {last + 4} <= count && (({together}) & 15) == 0) {{
{loads}{computed}    }} else {{
        for (int64 at = i; at <= i + {last}; at += {4 * _THREADS})
            for (int64 j = at; j < at + 4 && j < count; ++j) {slow}
    }}
}}
"""


_FOURS = r"""
template <typename T> __device__ inline four<T> four_of(const T* from) {
    four<T> made;
    if ((size_t)from % alignof(four<T>)) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) made.v[j] = from[j];
    } else made = *(const four<T>*)from;
    return made;
}
template <typename T> __device__ inline void put_four(T* to, const four<T>& given) {
    if ((size_t)to % alignof(four<T>)) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) to[j] = given.v[j];
    } else *(four<T>*)to = given;
}
"""


def _strided_source(body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str],
                    rank: int, few: bool, near: Sequence[int]) -> str:  # fmt: skip
    """A kernel for arrays of any strides, over `rank` dimensions, innermost first.

    A `few` elements are counted in 32 bits. With `near`, the first strides, a thread has four neighbours.
    """
    last, counted, outs = len(operands), "unsigned" if few else "int64", len(stored)
    head, types, parameters = _head(body, operands, stored, loaded, places_of(body, last, rank))
    fours, before, after = "", "", ""
    if near:
        wide = [k for k in range(outs, outs + len(loaded)) if near[k]]
        before = "".join(f"four<{types[k]}> w{k} = four_of(p{k} + at[{k}]); " for k in wide)
        before += "".join(f"four<{types[k]}> r{k}; " for k in range(outs))
        before += "\n    #pragma unroll\n    for (int k = 0; k < 4; ++k)"
        element = _element(body, types, stored, loaded, lambda k: f"w{k}.v[k]" if near[k] else f"p{k}[at[{k}]]",
                           lambda k: f"r{k}.v[k]", "k")  # fmt: skip
        after, fours = "".join(f" put_four(o{k} + at[{k}], r{k});" for k in range(outs)), _FOURS
    else:
        element = _element(body, types, stored, loaded, lambda k: f"p{k}[at[{k}]]", lambda k: f"o{k}[at[{k}]]")
    each = 4 if near else 1
    return f"""{head}{fours}extern "C" __global__ void group({parameters}, Places places) {{
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i * {each} >= count) return;
    {counted} rest = i * {each};
    int64 at[{last}] = {{}};
    #pragma unroll
    for (int d = 0; d < {rank}; ++d) {{
        {counted} size = places.size[d], own = d == {rank - 1} ? rest : rest % size;
        rest /= size;
        #pragma unroll
        for (int k = 0; k < {last}; ++k) at[k] += own * places.stride[k][d];
    }}
    {before} {element}{after}
}}
"""
