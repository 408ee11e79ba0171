"""Groups of the pipeline (_pipeline/fuse.py) on a GPU: the expressions of several calls in one kernel."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.geometry import collapsed
from ..._kernels import cuda, ir
from .array import layout_of, quick_empty
from .fuse import _HEAD
from .launch import PACKS, Launch, compiled, longs
from .row_groups import dealt, row_source
from .special import source_of

_THREADS, _RANK = 256, 8
_LARGE = 1 << 22  # elements from which a thread takes eight: the card is busy with half the threads


def allocation(layout: Any) -> Callable[[], Any]:
    """What makes arrays of a layout of the pipeline's."""
    own, where = layout_of(layout.shape, layout.dtype, layout.strides), layout.device
    return lambda: quick_empty(own, where)


def launch_of(body: Any, shape: Sequence[int], operands: Sequence[Any], stored: Sequence[str],
              loaded: Sequence[str]) -> Launch:  # fmt: skip
    """The launch of a group's kernel: addresses of what is written, of what is read, then numbers.

    The first operands are those that the values named in `stored` go to.
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
    if flat:
        fours = 2 if count >= _LARGE else 1
        text = _flat_source(body, operands, stored, loaded, [own[0] for own in strides], fours)
        per_thread = 4 * fours
    else:
        words = [*sizes, *(s for own in strides for s in own)]
        fixed.append((ctypes.c_longlong * len(words))(*words))
        text, per_thread = _strided_source(body, operands, stored, loaded, len(sizes)), 1
    grid = (-(-count // (_THREADS * per_thread)),)
    return Launch(compiled(text, "group"), _letters(body, operands), grid, (_THREADS,), fixed)


def row_launch_of(body: Any, shape: Sequence[int], operands: Sequence[Any], stored: Sequence[str],
                  loaded: Sequence[str], letters: str) -> Launch | None:  # fmt: skip
    """The same for a body with values of rows, which are the last dimension; None where they are too long.

    Layouts of operands have the shape, with letters as `row_geometry` gives them.
    """
    *outer, width = shape
    wide = [o.layout.dtype.itemsize for o, letter in zip(operands, letters, strict=True) if letter == "1"]
    rows = dealt(math.prod(outer), width, min(wide, default=4))
    if rows is None:
        return None
    sizes, strides = collapsed(range(len(outer) - 1, -1, -1), outer, [o.layout.strides[:-1] for o in operands])
    if len(sizes) > _RANK:
        raise ValueError("too many dimensions for one kernel")
    spread = [s // o.layout.dtype.itemsize for o, own in zip(operands, strides, strict=True) for s in own]
    words = [*sizes, *spread]
    types = [cuda.C_TYPES[ir.TYPES[o.layout.dtype.name]] for o in operands]
    text = PACKS + row_source(body, types, stored, loaded, letters, len(sizes), rows)
    fixed = [*longs(math.prod(outer), width), (ctypes.c_longlong * len(words))(*words)]
    return Launch(compiled(text, "row_group"), _letters(body, operands), (rows.grid,), rows.block, fixed)


def _letters(body: Any, operands: Sequence[Any]) -> str:
    """What the slots of a launch hold: addresses, then numbers."""
    return "q" * len(operands) + "".join("d" if kind == "f64" else "q" for kind in body.numbers.values())


def _function(body: Any, stored: Sequence[str], loaded: Sequence[str]) -> str:
    """A device function that computes the values of one element."""
    text = cuda.Text(0)
    text.kinds = body.types
    own = [statement.name for statement in body.statements]
    text.lines += [f"    {cuda.C_TYPES[body.types[name]]} {name};" for name in own]
    text.statements(body.statements)
    given = [f"{cuda.C_TYPES[body.types[name]]} {name}" for name in loaded]
    given += [f"{cuda.C_TYPES[kind]} {name}" for name, kind in body.numbers.items()]
    given += [f"{cuda.C_TYPES[body.types[name]]}& made{k}" for k, name in enumerate(stored)]
    lines = "\n".join([*text.lines, *(f"    made{k} = {name};" for k, name in enumerate(stored))])
    return f"__device__ inline void computed({', '.join(given)}) {{\n{lines}\n}}\n"


def _head(
    body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str]
) -> tuple[str, list[str], str]:
    """What comes before a kernel, the types of its arrays, and its parameters."""
    function = _function(body, stored, loaded)
    types = [cuda.C_TYPES[ir.TYPES[o.layout.dtype.name]] for o in operands]
    outs = len(stored)
    arrays = "".join(f"{name}* o{k}, " if k < outs else f"const {name}* p{k}, " for k, name in enumerate(types))
    numbers = "".join(f"{cuda.C_TYPES[kind]} {name}, " for name, kind in body.numbers.items())
    return f"{_HEAD}{source_of(function)}{function}", types, f"{arrays}{numbers}int64 count"


def _element(body: Any, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str],
             load: Callable[[int], str], store: Callable[[int], str]) -> str:  # fmt: skip
    """Lines that compute one element; `load` and `store` say where the operand of a number is."""
    outs = len(stored)
    kinds = [cuda.C_TYPES[body.types[name]] for name in stored]
    declared = "".join(f"{kind} m{k}; " for k, kind in enumerate(kinds))
    values = [f"({cuda.C_TYPES[body.types[name]]})widened({load(k)})" for k, name in enumerate(loaded, outs)]
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


def _strided_source(body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str],
                    rank: int) -> str:  # fmt: skip
    """A kernel for arrays of any strides, over `rank` dimensions, innermost first."""
    head, types, parameters = _head(body, operands, stored, loaded)
    last = len(types)
    element = _element(body, types, stored, loaded, lambda k: f"p{k}[at[{k}]]", lambda k: f"o{k}[at[{k}]]")
    return f"""{head}struct Places {{ int64 size[{rank}]; int64 stride[{last}][{rank}]; }};
extern "C" __global__ void group({parameters}, Places places) {{
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 rest = i, at[{last}] = {{}};
    #pragma unroll
    for (int d = 0; d < {rank}; ++d) {{
        int64 own = d == {rank - 1} ? rest : rest % places.size[d];
        rest /= places.size[d];
        #pragma unroll
        for (int k = 0; k < {last}; ++k) at[k] += own * places.stride[k][d];
    }}
    {element}
}}
"""
