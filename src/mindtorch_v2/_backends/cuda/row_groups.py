"""Groups of the pipeline that fold rows (_pipeline/fuse.py) as CUDA C: a row is held in the registers of its threads.

A row belongs to a part of a warp, to a warp, or to a whole block, of which each thread has ITEMS packs of V neighbours.
What a fold does not need is computed before it, and stored as soon as it is known.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._kernels import cuda, ir
from .special import source_of

LONGEST = 8192  # elements of a row
_BUSY = 2048  # rows from which on there is a warp's work for every processor: fewer are dealt to more threads
_MOST = {True: 32, False: 16}  # elements of a thread, of rows of one warp, and of others
_THREADS = 128  # of a block with several rows

# LANES threads of a warp, in WARPS warps, have a row; `pack` and what is around it are launch.py's.
_HEAD = r"""
#define ACROSS (LANES * WARPS)
template <typename T> __device__ inline pack<T, V> fetched(const T* from) {
    pack<T, V> made;
    if ((size_t)from % alignof(pack<T, V>)) {
        #pragma unroll
        for (int j = 0; j < V; ++j) made.v[j] = from[j];
    } else made = *(const pack<T, V>*)from;
    return made;
}
template <typename T> __device__ inline void put(T* to, const pack<T, V>& given) {
    if ((size_t)to % alignof(pack<T, V>)) {
        #pragma unroll
        for (int j = 0; j < V; ++j) to[j] = given.v[j];
    } else *(pack<T, V>*)to = given;
}
struct sum_of { template <typename T> __device__ static T of(T a, T b) { return a + b; } };
struct max_of { template <typename T> __device__ static T of(T a, T b) { return larger_of(a, b); } };
template <typename F, int COUNT, typename T> __device__ inline T among(T x) {
    #pragma unroll
    for (int s = COUNT / 2; s; s >>= 1) x = F::of(x, __shfl_xor_sync(0xffffffff, x, s));
    return x;
}
"""


class Rows(NamedTuple):
    """How rows are dealt to threads: the macros of a kernel, and its block and grid."""

    v: int
    items: int
    lanes: int
    warps: int
    full: bool  # whether every thread has elements of the row in all its packs
    block: tuple[int, int]
    grid: int


def dealt(rows: int, width: int, narrowest: int) -> Rows | None:
    """What threads have of rows, whose elements take no less than `narrowest` bytes; None if they are too long."""
    v = next(n for n in (8 if narrowest <= 2 else 4, 4, 2, 1) if width % n == 0)
    packs = width // v
    if width > LONGEST:
        return None
    if packs <= 32:
        lanes = 1 << (packs - 1).bit_length()
        return Rows(v, 1, lanes, 1, lanes == packs, (lanes, _THREADS // lanes), -(-rows * lanes // _THREADS))
    busy = rows >= _BUSY
    warps = 1
    if not busy or packs > 32 * (_MOST[True] // v):
        each = max(_MOST[False] // v, 1) if busy or packs > 1024 else 1
        warps = min(-(-packs // (32 * each)), 32)
    items = -(-packs // (32 * warps))
    block = (32, _THREADS // 32) if warps == 1 else (32 * warps, 1)
    return Rows(v, items, 32, warps, packs == 32 * warps * items, block, -(-rows // block[1]))


def _used(node: Any) -> set[str]:
    return {one.data for one in node.walk() if one.op == "var"}


class _Kernel:
    """Writes a kernel down, stage by stage: a fold parts what it folds from what is made of it."""

    def __init__(self, body: Any, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str],
                 letters: str) -> None:  # fmt: skip
        self.body, self.types, self.letters = body, types, letters
        self.places = {name: k for k, name in enumerate(stored)}
        self.loads = {name: k for k, name in enumerate(loaded, len(stored))}
        self.sources = {name: k for k, name in enumerate(body.sources, len(stored) + len(loaded))}
        self.looks = {d: k for k, d in enumerate(body.places, len(stored) + len(loaded) + len(body.sources))}
        self.stage = dict.fromkeys(self.loads, 0)
        self.last = dict.fromkeys(self.loads, 0)  # the stage that needs a value last
        for one in body.statements:
            read = [one.source] if self._folds(one) else sorted(_used(one.value))
            self.stage[one.name] = max([self.stage[name] for name in read], default=0) + self._folds(one)
            own = self.stage[one.name] - self._folds(one)
            self.last[one.name] = own
            for name in read:
                self.last[name] = max(self.last[name], own)
        self.text = cuda.Text()
        each = {k: " + (PLACE(k) + j)" * (letters[k] == "1") for k in (*self.sources.values(), *self.looks.values())}
        self.text.places = {d: f"(at[{k}]{each[k]})" for d, k in self.looks.items()}
        self.text.sources = {name: (types[k], f"p{k}{each[k]}") for name, k in self.sources.items()}
        # What maps load from neighbours is brought with what is loaded, from a place that the row says.
        self.moved = {one.name: node for one in body.statements for node in [self._moved(one)]
                      if node is not None and one.name not in self.places}  # fmt: skip

    def _moved(self, one: Any) -> Any:
        """What a statement fetches, if that is neighbours for the neighbours of a row and nothing else; else None."""
        node = None if self._folds(one) else one.value
        if node is not None and node.op == "cast":
            node = node.args[0]
        if node is None or node.op != "fetch" or self.letters[self.sources[node.data]] != "1":
            return None
        further, condition = node.args
        return node if condition.op == "const" and condition.data and self._is_same(further) else None

    def _is_same(self, node: Any) -> bool:
        """Whether a value is the same for all elements of a row."""
        if node.op == "place" or node.op == "fetch":
            k = self.looks[node.data] if node.op == "place" else self.sources[node.data]
            return self.letters[k] == "0" and all(map(self._is_same, node.args))
        return node.op in ("const", "word") or bool(node.args) and all(map(self._is_same, node.args))

    @staticmethod
    def _folds(one: Any) -> bool:
        return not isinstance(one, ir.Set)

    def _kind(self, name: str) -> str:
        return cuda.C_TYPES[self.body.types[name]]

    def _narrowed(self, name: str) -> str:
        kind = self.types[self.places[name]]
        return name if kind == self._kind(name) else f"narrow<{kind}>::of(widened({name}))"

    def _set(self, one: Any) -> None:
        self.text.known = {}
        value = self.text.value(one.value)
        self.text.line(f"const {self._kind(one.name)} {one.name} = {value};")

    def _begin(self) -> None:
        """Brings what is loaded, and sets the values of rows that nothing is folded for."""
        line = self.text.line
        for name, k in self.loads.items():
            if self.letters[k] == "0":
                line(f"const {self._kind(name)} {name} = ({self._kind(name)})widened(p{k}[0]);")
                continue
            line(f"pack<{self.types[k]}, V> held_{name}[ITEMS];")
            line("#pragma unroll")
            line(f"for (int k = 0; k < ITEMS; ++k) if (HAS(k)) held_{name}[k] = fetched(p{k} + PLACE(k));")
        for node in self.body.wrong:
            if self._is_same(node):
                line(f"require(!{self.text.value(node)});")
        for name, node in self.moved.items():
            kind, k = self.types[self.sources[node.data]], self.sources[node.data]
            further = f"(const {kind}*)((const char*)p{k} + {self.text.value(node.args[0])})"
            line(f"pack<{kind}, V> held_{name}[ITEMS];")
            line("#pragma unroll")
            line(f"for (int k = 0; k < ITEMS; ++k) if (HAS(k)) held_{name}[k] = fetched({further} + PLACE(k));")
        for one in self.body.statements:
            if one.name in self.moved:
                continue
            if not self._folds(one) and one.name not in self.body.rows and self.last[one.name] > self.stage[one.name]:
                line(f"{self._kind(one.name)} held_{one.name}[ITEMS][V];")

    def _loop(self, stage: int, own: Sequence[Any], folds: Sequence[Any]) -> None:
        """What a stage does with each element."""
        line, rows = self.text.line, self.body.rows
        made = {one.name for one in own}
        read = {name for one in own for name in _used(one.value)} | {one.source for one in folds}
        kept = [one.name for one in own if one.name in self.places]
        for one in folds:
            start = "0" if one.kind in ("sum", "mean") else cuda.literal(-math.inf, self.body.types[one.name])
            line(f"{self._kind(one.name)} total_{one.name} = {start};")
        line("#pragma unroll")
        line("for (int k = 0; k < ITEMS; ++k) {")
        self.text.indent += 1
        line("if (!HAS(k)) continue;")
        for name in kept:
            line(f"pack<{self.types[self.places[name]]}, V> made_{name};")
        line("#pragma unroll")
        line("for (int j = 0; j < V; ++j) {")
        self.text.indent += 1
        for node in self.body.wrong if not stage else ():
            if not self._is_same(node):
                line(f"require(!{self.text.value(node)});")
        for name in sorted(read - made - rows):
            if name in self.moved:
                line(f"const {self._kind(name)} {name} = ({self._kind(name)})widened(held_{name}[k].v[j]);")
            elif name not in self.loads:
                line(f"const {self._kind(name)} {name} = held_{name}[k][j];")
            elif self.letters[self.loads[name]] != "0":
                line(f"const {self._kind(name)} {name} = ({self._kind(name)})widened(held_{name}[k].v[j]);")
        for one in own:
            self._set(one)
            if self.last[one.name] > stage:
                line(f"held_{one.name}[k][j] = {one.name};")
        for one in folds:
            line(f"total_{one.name} = {self._fold(one)}::of(total_{one.name}, {one.source});")
        for name in kept:
            line(f"made_{name}.v[j] = {self._narrowed(name)};")
        self.text.indent -= 1
        line("}")
        for name in kept:
            line(f"if (own) put(o{self.places[name]} + PLACE(k), made_{name});")
        self.text.indent -= 1
        line("}")

    @staticmethod
    def _fold(one: Any) -> str:
        return "sum_of" if one.kind in ("sum", "mean") else "max_of"

    def _joined(self, folds: Sequence[Any]) -> None:
        """The totals of all threads that have the row, which then all of them know."""
        line = self.text.line
        for one in folds:
            line(f"total_{one.name} = among<{self._fold(one)}, LANES>(total_{one.name});")
        line("#if WARPS > 1")
        for one in folds:
            line(f"__shared__ {self._kind(one.name)} shared_{one.name}[WARPS];")
            line(f"if (threadIdx.x % 32 == 0) shared_{one.name}[threadIdx.x / 32] = total_{one.name};")
        line("__syncthreads();")
        for one in folds:
            start = "0" if one.kind in ("sum", "mean") else cuda.literal(-math.inf, self.body.types[one.name])
            line(f"total_{one.name} = threadIdx.x % 32 < WARPS ? shared_{one.name}[threadIdx.x % 32] : {start};")
            line(f"total_{one.name} = among<{self._fold(one)}, 32>(total_{one.name});")
        line("#endif")
        for one in folds:
            ends = f" / ({self._kind(one.name)})width" * (one.kind == "mean")
            line(f"const {self._kind(one.name)} {one.name} = total_{one.name}{ends};")

    def lines(self) -> list[str]:
        """What a thread does, once it knows where its row is."""
        statements, rows = self.body.statements, self.body.rows
        self._begin()
        for stage in range(max(self.stage.values()) + 1):
            sets = [one for one in statements if not self._folds(one) and self.stage[one.name] == stage]
            folds = [one for one in statements if self._folds(one) and self.stage[one.source] == stage]
            for one in sets:
                if one.name in rows:
                    self._set(one)
            own = [one for one in sets if one.name not in rows and one.name not in self.moved]
            if own or folds:
                self._loop(stage, own, folds)
            if folds:
                self._joined(folds)
        for name, k in self.places.items():
            if name in rows:
                self.text.line(f"if (own && threadIdx.x == 0) o{k}[0] = {self._narrowed(name)};")
        return self.text.lines


def places_of(body: Any, count: int, rank: int) -> str:
    """What a kernel is told of its arrays: sizes, strides in elements, and the words of gather maps."""
    words = f" int64 word[{body.words}];" if body.words else ""
    return f"struct Places {{ int64 size[{rank}]; int64 stride[{count}][{rank}];{words} }};\n"


def row_source(body: Any, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str], letters: str, rank: int,
               rows: Rows) -> str:  # fmt: skip
    """A kernel `row_group(addresses of what is written, of what is read, numbers, rows, width, Places)`.

    Rows are counted over `rank` dimensions, innermost first. Letters say of each array whether it has an element for
    each of a row ("1"), or one for all ("0").
    """
    outs, last = len(stored), len(types)
    real = last - len(body.places)  # arrays: what is behind them are places
    lines = "\n".join(_Kernel(body, types, stored, loaded, letters).lines())
    arrays = "".join(f"{kind}* o{k}, " if k < outs else f"const {kind}* p{k}, " for k, kind in enumerate(types[:real]))
    numbers = "".join(f"{cuda.C_TYPES[kind]} {name}, " for name, kind in body.numbers.items())
    moves = " ".join(f"{'o' if k < outs else 'p'}{k} += at[{k}];" for k in range(real))
    has = "true" if rows.full else "PLACE(k) < width"
    return f"""#define V {rows.v}
#define ITEMS {rows.items}
#define LANES {rows.lanes}
#define WARPS {rows.warps}
#define PLACE(k) ((k * ACROSS + (int)threadIdx.x) * V)
#define HAS(k) ({has})
{cuda.HEAD}{_HEAD}{source_of(lines)}{places_of(body, last, rank)}
extern "C" __global__ void __launch_bounds__({math.prod(rows.block)}) row_group({arrays}{numbers}int64 rows,
                                                                              int64 width, Places places) {{
    int64 row = blockIdx.x * (int64)blockDim.y + threadIdx.y;
    bool own = row < rows;  // others compute along, since a warp's threads do so together
    int64 rest = own ? row : rows - 1, at[{last}] = {{}};
    #pragma unroll
    for (int d = 0; d < {rank}; ++d) {{
        int64 index = d == {rank - 1} ? rest : rest % places.size[d];
        rest /= places.size[d];
        #pragma unroll
        for (int k = 0; k < {last}; ++k) at[k] += index * places.stride[k][d];
    }}
    {moves}
{lines}
}}
"""
