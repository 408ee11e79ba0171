"""Products with a matrix that was packed before, inside kernels: machine code of vectors, written out here.

BLAS packs its second factor in every call, into the order in which its inner loop reads it. A factor that is multiplied
again and again (the weight of a recurrent layer, at each step) is packed once here: a panel has `width` columns of it,
which lie next to each other for each of its rows. An inner loop holds a tile of the result in registers, of two vectors
a row; each of its elements is one chain of fused multiplications and additions over up to `_DEPTH` terms, whatever rows
are multiplied together, so that results do not depend on how rows are shared out.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import ir
from .matrices import block

if TYPE_CHECKING:
    from .llvm_body import Body

_DEPTH = 1024  # terms of a sum that are added in one go: longer chains round worse, and their factors leave the caches
_VECTORS = 2  # of a tile's row
_AHEAD = 4  # lines of memory of the first factor's rows that are asked for before they are needed
_NUMBERS = {"f32": "float", "f64": "double"}
PREFIX = "mindtorch_panels_"


class Tile(NamedTuple):
    """What a processor's registers hold: bytes of a vector, and rows of a tile."""

    vector: int
    rows: int

    @property
    def name(self) -> str:
        """What kernels know it by, a constant of theirs."""
        return f"{self.vector}_{self.rows}"

    def width(self, itemsize: int) -> int:
        """Columns of a panel."""
        return _VECTORS * self.vector // itemsize


def tile_of(features: str) -> Tile | None:
    """The tile for a processor that has these features, as the system or LLVM names them; None for unknown ones."""
    words = set(features.replace("+", " ").replace(",", " ").replace("=", " ").split())
    if "avx512f" in words:
        return Tile(64, 12)  # of 32 registers 24 hold the tile
    if {"avx2", "fma"} <= words:
        return Tile(32, 6)  # 12 of 16
    return Tile(16, 12) if words & {"asimd", "neon"} else None


# in plain Python -----------------------------------------------------------------------------------------------------


def pack(panels: Any, at: int, b: Any, b_at: tuple, sizes: tuple, *, turned: bool, tile: str) -> None:
    """Fills panel `at` of `panels` (panels, inner, width) with a block of an array, which is transposed if `turned`.

    Blocks are those of `multiply`: a block begins at a place, and lies in the last two dimensions of its array.
    `sizes` are columns, up to the width, and what is summed over. `tile` names the Tile that the panels are for. What
    lies in columns beyond these is anything.
    """
    columns, inner = sizes
    panels[at, :inner, :columns] = block(b, b_at, columns, inner).T if turned else block(b, b_at, inner, columns)


def multiply_panel(made: Any, at: tuple, a: Any, a_at: tuple, panels: Any, panel: int, sizes: tuple, *,
                   adds: bool = False, tile: str) -> None:
    """Makes a block of an array the product of a block of another and a panel, or adds it.

    `sizes` are rows, columns, up to the width, and what is summed over; none is 0.
    """
    rows, columns, inner = sizes
    target = block(made, at, rows, columns)
    target[...] = np.matmul(block(a, a_at, rows, inner), panels[panel, :inner, :columns]) + (target if adds else 0)


# statements ----------------------------------------------------------------------------------------------------------


def _place(body: "Body", array: ir.Array, at: tuple[ir.Node, ...]) -> str:
    """Where a block of a matrix begins, and elements from one row to the next."""
    if array.layout == "c":
        step = body.dims[array.name, array.ndim - 1]
    else:
        step = body.line(f"sdiv i64 {body.strides[array.name, array.ndim - 2]}, {ir.SIZES[array.type]}")
    return f"ptr {body.address(array, at)}, i64 {step}"


def _panel(body: "Body", panels: ir.Array, at: ir.Node) -> str:
    zero = ir.const(0, "i64")
    return f"ptr {body.address(panels, (at, zero, zero))}"


def lines_of_pack(body: "Body", statement: ir.Pack) -> None:
    """Adds what packs a block to a function's lines."""
    name = f"@{PREFIX}pack_{statement.panels.type}_{statement.tile}"
    body.module.declare(name, f"declare void {name}(ptr, ptr, i64, i64, i64, i1)")
    columns, inner = (body.value(size) for size in statement.sizes)
    panel = _panel(body, statement.panels, statement.at)
    body.do(f"call void {name}({panel}, {_place(body, statement.b, statement.b_at)}, i64 {columns}, i64 {inner}, "
            f"i1 {'true' if statement.turned else 'false'})")


def lines_of_product(body: "Body", statement: ir.MultiplyPanel) -> None:
    """Adds what multiplies with a panel."""
    name = f"@{PREFIX}multiply_{statement.panels.type}_{statement.tile}"
    body.module.declare(name, f"declare void {name}(ptr, i64, ptr, ptr, i64, i64, i64, i64, i1)")
    rows, columns, inner = (body.value(size) for size in statement.sizes)
    panel = _panel(body, statement.panels, statement.panel)
    body.do(f"call void {name}({_place(body, statement.a, statement.a_at)}, {panel}, "
            f"{_place(body, statement.made, statement.at)}, i64 {rows}, i64 {columns}, i64 {inner}, "
            f"i1 {'true' if statement.adds else 'false'})")


# machine code --------------------------------------------------------------------------------------------------------

# A loop that is not unrolled: LLVM would need more registers than there are, and keep parts of the tile in memory.
_AS_WRITTEN = '!1 = distinct !{!1, !2}\n!2 = !{!"llvm.loop.unroll.disable"}\n'


@functools.cache
def module_of(kind: str, tile: Tile) -> tuple[str, tuple[str, str]]:
    """The module of a type and a tile, and the names of what packs and what multiplies."""
    lanes, tall = tile.vector // ir.SIZES[kind], tile.rows
    names = f"{PREFIX}pack_{kind}_{tile.name}", f"{PREFIX}multiply_{kind}_{tile.name}"
    made = _Code(kind, lanes, tall)
    tiles = [made.tile(rows, vectors) for vectors in range(1, _VECTORS + 1) for rows in range(1, tall + 1)]
    return "\n".join([made.declared(), *tiles, made.multiply(names[1]), made.pack(names[0]), _AS_WRITTEN]), names


class _Code:
    """Writes the functions of a module. Steps from row to row are in elements."""

    def __init__(self, kind: str, lanes: int, tall: int) -> None:
        self.number, self.size, self.lanes, self.tall = _NUMBERS[kind], ir.SIZES[kind], lanes, tall
        self.vector, self.width = f"<{lanes} x {self.number}>", _VECTORS * lanes
        self.fma = f"@llvm.fma.v{lanes}{kind}"
        # Vectors stay whole on processors for which LLVM prefers shorter ones.
        self.attributes = f'nounwind "min-legal-vector-width"="{lanes * self.size * 8}" "no-jump-tables"="true"'

    def declared(self) -> str:
        return (f"declare {self.vector} {self.fma}({self.vector}, {self.vector}, {self.vector})\n"
                "declare i64 @llvm.smin.i64(i64, i64)\n"
                "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n")

    def tile(self, rows: int, vectors: int) -> str:
        """`tile_N_V`: N rows by V vectors of a panel, over `count` terms."""
        number, vector, parts = self.number, self.vector, range(vectors)
        cells = [(r, v) for r in range(rows) for v in parts]
        given = "ptr noalias readonly %a, i64 %lda, ptr noalias readonly %b, ptr noalias %c, i64 %ldc, i64 %count"
        given = f"({given}, i1 %adds) noinline {self.attributes}"
        lines = [f"define internal void @tile_{rows}_{vectors}{given} {{", "entry:"]
        for r in range(rows):
            lines += [f"  %a.to{r} = mul i64 %lda, {r}", f"  %a{r} = getelementptr {number}, ptr %a, i64 %a.to{r}"]
        lines += ["  br label %next", "next:", "  %i = phi i64 [ 0, %entry ], [ %i1, %next ]"]
        lines += [f"  %s{r}.{v} = phi {vector} [ zeroinitializer, %entry ], [ %t{r}.{v}, %next ]" for r, v in cells]
        lines += [f"  %b.to = mul i64 %i, {self.width}", f"  %b.row = getelementptr {number}, ptr %b, i64 %b.to"]
        for v in parts:
            lines += [f"  %b.at{v} = getelementptr {number}, ptr %b.row, i64 {v * self.lanes}",
                      f"  %b{v} = load {vector}, ptr %b.at{v}, align {self.size}"]
        per_line = 64 // self.size
        lines += [f"  %turn = and i64 %i, {per_line - 1}", "  %soon.row = mul i64 %turn, %lda",
                  f"  %soon.in = add i64 %i, {_AHEAD * per_line}", "  %soon.to = add i64 %soon.row, %soon.in",
                  f"  %soon = getelementptr {number}, ptr %a, i64 %soon.to",
                  "  call void @llvm.prefetch.p0(ptr %soon, i32 0, i32 3, i32 1)"]
        for r in range(rows):
            lines += [f"  %x.at{r} = getelementptr {number}, ptr %a{r}, i64 %i",
                      f"  %x{r} = load {number}, ptr %x.at{r}, align {self.size}",
                      f"  %x.first{r} = insertelement {vector} poison, {number} %x{r}, i32 0",
                      f"  %x.all{r} = shufflevector {vector} %x.first{r}, {vector} poison, "
                      f"<{self.lanes} x i32> zeroinitializer"]
            lines += [f"  %t{r}.{v} = call {vector} {self.fma}({vector} %x.all{r}, {vector} %b{v}, {vector} %s{r}.{v})"
                      for v in parts]
        lines += ["  %i1 = add i64 %i, 1", "  %more = icmp slt i64 %i1, %count",
                  "  br i1 %more, label %next, label %done, !llvm.loop !1", "done:"]
        for r, v in cells:
            lines += [f"  %c.to{r}.{v} = mul i64 %ldc, {r}",
                      f"  %c.in{r}.{v} = add i64 %c.to{r}.{v}, {v * self.lanes}",
                      f"  %c{r}.{v} = getelementptr {number}, ptr %c, i64 %c.in{r}.{v}"]
        lines += ["  br i1 %adds, label %add, label %store", "add:"]
        for r, v in cells:
            lines += [f"  %old{r}.{v} = load {vector}, ptr %c{r}.{v}, align {self.size}",
                      f"  %sum{r}.{v} = fadd {vector} %old{r}.{v}, %t{r}.{v}",
                      f"  store {vector} %sum{r}.{v}, ptr %c{r}.{v}, align {self.size}"]
        lines += ["  ret void", "store:"]
        lines += [f"  store {vector} %t{r}.{v}, ptr %c{r}.{v}, align {self.size}" for r, v in cells]
        return "\n".join([*lines, "  ret void", "}", ""])

    def multiply(self, name: str) -> str:
        """All rows by a panel, in tiles of about equal height; one that sticks out is computed beside, and copied."""
        number, width, tall = self.number, self.width, self.tall
        forms = [(n, v) for v in range(1, _VECTORS + 1) for n in range(1, tall + 1)]
        cases = "".join(f"    i64 {n + tall * (v - 1)}, label %rows{n}.{v}\n" for n, v in forms[:-1])
        given = "ptr %a.at, i64 %lda, ptr %b.at, ptr %into, i64 %step, i64 %count, i1 %adding"
        calls = "".join(f"rows{n}.{v}:\n  call void @tile_{n}_{v}({given})\n  br label %computed\n" for n, v in forms)
        return f"""define void @{name}(ptr %a, i64 %lda, ptr %b, ptr %c, i64 %ldc, i64 %rows, i64 %columns, i64 %inner,
                     i1 %adds) {self.attributes} {{
entry:
  %beside = alloca [{tall * width} x {number}], align 64
  %whole = icmp eq i64 %columns, {width}
  %step = select i1 %whole, i64 %ldc, i64 {width}
  %vectors.up = add i64 %columns, {self.lanes - 1}
  %vectors = udiv i64 %vectors.up, {self.lanes}
  %more.vectors = sub i64 %vectors, 1
  %wider = mul i64 %more.vectors, {tall}
  %rows.up = add i64 %rows, {tall - 1}
  %tiles = udiv i64 %rows.up, {tall}
  br label %depth
depth:
  %k = phi i64 [ 0, %entry ], [ %k1, %deeper ]
  %left = sub i64 %inner, %k
  %count = call i64 @llvm.smin.i64(i64 %left, i64 {_DEPTH})
  %later = icmp sgt i64 %k, 0
  %added = or i1 %adds, %later
  %adding = and i1 %added, %whole
  %b.to = mul i64 %k, {width}
  %b.at = getelementptr {number}, ptr %b, i64 %b.to
  br label %tile
tile:
  %t = phi i64 [ 0, %depth ], [ %t1, %stored ]
  %t1 = add i64 %t, 1
  %low.all = mul i64 %t, %rows
  %high.all = mul i64 %t1, %rows
  %low = udiv i64 %low.all, %tiles
  %high = udiv i64 %high.all, %tiles
  %height = sub i64 %high, %low
  %a.rows = mul i64 %low, %lda
  %a.to = add i64 %a.rows, %k
  %a.at = getelementptr {number}, ptr %a, i64 %a.to
  %c.to = mul i64 %low, %ldc
  %c.at = getelementptr {number}, ptr %c, i64 %c.to
  %into = select i1 %whole, ptr %c.at, ptr %beside
  %form = add i64 %height, %wider
  switch i64 %form, label %rows{tall}.{_VECTORS} [
{cases}  ]
{calls}computed:
  br i1 %whole, label %stored, label %copy
copy:
  %r = phi i64 [ 0, %computed ], [ %r1, %copied ]
  %from.to = mul i64 %r, {width}
  %from = getelementptr {number}, ptr %beside, i64 %from.to
  %row.to = mul i64 %r, %ldc
  %row = getelementptr {number}, ptr %c.at, i64 %row.to
  br label %element
element:
  %j = phi i64 [ 0, %copy ], [ %j1, %put ]
  %from.at = getelementptr {number}, ptr %from, i64 %j
  %new = load {number}, ptr %from.at, align {self.size}
  %row.at = getelementptr {number}, ptr %row, i64 %j
  br i1 %added, label %sum, label %put
sum:
  %old = load {number}, ptr %row.at, align {self.size}
  %both = fadd {number} %old, %new
  br label %put
put:
  %value = phi {number} [ %new, %element ], [ %both, %sum ]
  store {number} %value, ptr %row.at, align {self.size}
  %j1 = add i64 %j, 1
  %more.columns = icmp slt i64 %j1, %columns
  br i1 %more.columns, label %element, label %copied
copied:
  %r1 = add i64 %r, 1
  %more.rows = icmp slt i64 %r1, %height
  br i1 %more.rows, label %copy, label %stored
stored:
  %more.tiles = icmp slt i64 %t1, %tiles
  br i1 %more.tiles, label %tile, label %deeper
deeper:
  %k1 = add i64 %k, {_DEPTH}
  %more = icmp slt i64 %k1, %inner
  br i1 %more, label %depth, label %end
end:
  ret void
}}
"""

    def pack(self, name: str) -> str:
        """A panel out of rows as they are, or out of columns that lie as rows: squares of vectors are transposed."""
        number, vector, lanes, width = self.number, self.vector, self.lanes, self.width
        rows = [f"  %place{i} = add i64 %low, {i}\n"
                f"  %there{i} = call i64 @llvm.smin.i64(i64 %place{i}, i64 %last)\n"  # what lies beyond is never seen
                f"  %to{i} = mul i64 %there{i}, %ldb\n"
                f"  %row{i} = getelementptr {number}, ptr %b, i64 %to{i}\n" for i in range(lanes)]
        loads = [f"  %v.at{i} = getelementptr {number}, ptr %row{i}, i64 %k\n"
                 f"  %v0.{i} = load {vector}, ptr %v.at{i}, align {self.size}\n" for i in range(lanes)]
        stores = [f"  %o.row{i} = add i64 %k, {i}\n"
                  f"  %o.to{i} = mul i64 %o.row{i}, {width}\n"
                  f"  %o.in{i} = add i64 %o.to{i}, %low\n"
                  f"  %o.at{i} = getelementptr {number}, ptr %panel, i64 %o.in{i}\n"
                  f"  store {vector} %v{lanes.bit_length() - 1}.{i}, ptr %o.at{i}, align {self.size}\n"
                  for i in range(lanes)]
        singles = [f"  %e.at{i} = getelementptr {number}, ptr %row{i}, i64 %e\n"
                   f"  %one{i} = load {number}, ptr %e.at{i}, align {self.size}\n"
                   f"  %f.at{i} = getelementptr {number}, ptr %f.row, i64 {i}\n"
                   f"  store {number} %one{i}, ptr %f.at{i}, align {self.size}\n" for i in range(lanes)]
        copies = [f"  %part{v} = getelementptr {number}, ptr %source, i64 {v * lanes}\n"
                  f"  %all{v} = load {vector}, ptr %part{v}, align {self.size}\n"
                  f"  %into{v} = getelementptr {number}, ptr %target, i64 {v * lanes}\n"
                  f"  store {vector} %all{v}, ptr %into{v}, align {self.size}\n" for v in range(_VECTORS)]
        return f"""define void @{name}(ptr noalias %panel, ptr noalias readonly %b, i64 %ldb, i64 %columns, i64 %inner,
                     i1 %turned) {self.attributes} {{
entry:
  %last = sub i64 %columns, 1
  %whole = icmp eq i64 %columns, {width}
  br i1 %turned, label %half, label %as_it_is
half:
  %low = phi i64 [ 0, %entry ], [ %low1, %halved ]
{"".join(rows)}  %squares = sub i64 %inner, {lanes - 1}
  br label %test
test:
  %k = phi i64 [ 0, %half ], [ %k1, %square ]
  %fits = icmp slt i64 %k, %squares
  br i1 %fits, label %square, label %rest
square:
{"".join(loads)}{self._transposed()}{"".join(stores)}  %k1 = add i64 %k, {lanes}
  br label %test
rest:
  %e = phi i64 [ %k, %test ], [ %e1, %single ]
  %single.left = icmp slt i64 %e, %inner
  br i1 %single.left, label %single, label %halved
single:
  %f.to = mul i64 %e, {width}
  %f.in = add i64 %f.to, %low
  %f.row = getelementptr {number}, ptr %panel, i64 %f.in
{"".join(singles)}  %e1 = add i64 %e, 1
  br label %rest
halved:
  %low1 = add i64 %low, {lanes}
  %again = icmp slt i64 %low1, {width}
  br i1 %again, label %half, label %end
as_it_is:
  %i = phi i64 [ 0, %entry ], [ %i1, %filled ]
  %source.to = mul i64 %i, %ldb
  %source = getelementptr {number}, ptr %b, i64 %source.to
  %target.to = mul i64 %i, {width}
  %target = getelementptr {number}, ptr %panel, i64 %target.to
  br i1 %whole, label %vectors, label %element
vectors:
{"".join(copies)}  br label %filled
element:
  %j = phi i64 [ 0, %as_it_is ], [ %j1, %element ]
  %there = call i64 @llvm.smin.i64(i64 %j, i64 %last)
  %source.at = getelementptr {number}, ptr %source, i64 %there
  %value = load {number}, ptr %source.at, align {self.size}
  %target.at = getelementptr {number}, ptr %target, i64 %j
  store {number} %value, ptr %target.at, align {self.size}
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, {width}
  br i1 %more, label %element, label %filled
filled:
  %i1 = add i64 %i, 1
  %more.rows = icmp slt i64 %i1, %inner
  br i1 %more.rows, label %as_it_is, label %end
end:
  ret void
}}
"""

    def _transposed(self) -> str:
        """A square of vectors turned, in as many rounds as its side has bits: each swaps blocks of half the size."""
        lanes, lines = self.lanes, []
        for stage in range(lanes.bit_length() - 1):
            half = lanes >> (stage + 1)
            for i in range(lanes):
                first, second = i & ~half, i | half
                taken = [(lane & ~half | (half if i & half else 0)) + (lanes if lane & half else 0)
                         for lane in range(lanes)]
                chosen = ", ".join(f"i32 {lane}" for lane in taken)
                lines.append(f"  %v{stage + 1}.{i} = shufflevector {self.vector} %v{stage}.{first}, "
                             f"{self.vector} %v{stage}.{second}, <{lanes} x i32> <{chosen}>\n")
        return "".join(lines)
