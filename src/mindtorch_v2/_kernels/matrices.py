"""Products of blocks of arrays inside kernels: in compiled code, calls of BLAS, which the thread makes alone."""

from typing import TYPE_CHECKING, Any

import numpy as np

from . import ir
from .teams import walk

if TYPE_CHECKING:
    from .llvm_body import Body

_ROWS_FIRST, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # of CBLAS


def multiply(made: Any, at: tuple, a: Any, a_at: tuple, b: Any, b_at: tuple, sizes: tuple, *, turned: str = "",
             adds: bool = False, wide: bool = True) -> None:
    """Makes a block of an array the product of blocks of two others, or adds it.

    A block begins at a place, with as many indices as its array has dimensions, and lies in the last two of them, whose
    elements of a row are neighbours. `sizes` are rows, columns, and what is summed over, none of them 0; `turned` names
    the factors ("a", "b", "ab") that are transposed. BLAS has integers of 64 bits if it is `wide`, else of 32.
    """
    rows, columns, inner = sizes
    first = block(a, a_at, inner, rows).T if "a" in turned else block(a, a_at, rows, inner)
    second = block(b, b_at, columns, inner).T if "b" in turned else block(b, b_at, inner, columns)
    target = block(made, at, rows, columns)
    target[...] = np.matmul(first, second) + (target if adds else 0)


def block(array: Any, at: tuple, rows: int, columns: int) -> Any:
    """The rows and columns of an array that begin at a place."""
    *lead, row, column = at
    return array[(*lead, slice(row, row + rows), slice(column, column + columns))]


def lines(body: "Body", statement: ir.Multiply) -> None:
    """Adds what calls BLAS to a function's lines."""
    kind = statement.made.type
    number, letter = ("float", "s") if kind == "f32" else ("double", "d")
    whole = "i64" if statement.wide else "i32"
    name = f"@mindtorch_blas_{letter}gemm"
    kinds = f"i32, i32, i32, {whole}, {whole}, {whole}, {number}, ptr, {whole}, ptr, {whole}, {number}, ptr, {whole}"
    body.module.declare(name, f"declare void {name}({kinds})")

    def integer(value: str) -> str:
        return f"{whole} {value if statement.wide else body.line(f'trunc i64 {value} to i32')}"

    def place(array: ir.Array, at: tuple[ir.Node, ...], columns: str) -> str:
        """Arguments for a factor or the result: where it begins, and from one row to the next."""
        row = array.ndim - 2
        if array.layout == "c":
            step = body.dims[array.name, row + 1]
        else:
            step = body.line(f"sdiv i64 {body.strides[array.name, row]}, {ir.SIZES[array.type]}")
        body.module.declare("@llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        step = body.line(f"call i64 @llvm.smax.i64(i64 {step}, i64 {columns})")  # a single row's step is nobody's
        return f"ptr {body.address(array, at)}, {integer(step)}"

    rows, columns, inner = (body.value(size) for size in statement.sizes)
    forms = [f"i32 {_TRANSPOSED if factor in statement.turned else _AS_IT_IS}" for factor in "ab"]
    first = place(statement.a, statement.a_at, rows if "a" in statement.turned else inner)
    second = place(statement.b, statement.b_at, inner if "b" in statement.turned else columns)
    made = place(statement.made, statement.at, columns)
    given = [f"i32 {_ROWS_FIRST}", *forms, *map(integer, (rows, columns, inner)), f"{number} 1.0", first, second,
             f"{number} {'1.0' if statement.adds else '0.0'}", made]
    body.do(f"call void {name}({', '.join(given)})")


def is_in(body: list) -> bool:
    """Whether there is such a product among statements or inside of them."""
    return any(isinstance(statement, ir.Multiply) for statement in walk(body))


# Around a team's work OpenBLAS is told to use one thread: it has threads of its own, which would fight for the cores.
TOGETHER = """
declare i32 @mindtorch_begin(i32)
declare void @mindtorch_run(ptr, ptr, i32)
declare void @mindtorch_end()
declare i32 @mindtorch_blas_get()
declare void @mindtorch_blas_set(i32)

define internal void @together(ptr %body, ptr %data, i32 %n) {
  %team = call i32 @mindtorch_begin(i32 %n)
  %several = icmp sgt i32 %team, 1
  br i1 %several, label %shared, label %alone
alone:
  call void %body(ptr %data)
  ret void
shared:
  %before = call i32 @mindtorch_blas_get()
  call void @mindtorch_blas_set(i32 1)
  call void @mindtorch_run(ptr %body, ptr %data, i32 %team)
  call void @mindtorch_blas_set(i32 %before)
  call void @mindtorch_end()
  ret void
}
"""
