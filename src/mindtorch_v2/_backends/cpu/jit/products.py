"""Products of matrices by OpenBLAS, called from machine code, on the threads that kernels use.

OpenBLAS has threads of its own, which wait for work by spinning. Beside those of kernels that makes twice as many as
there are cores, and both become many times slower. So each thread of a team multiplies a part of the result, with
OpenBLAS told to use one thread meanwhile. For small matrices the call itself takes a third of NumPy's time.
"""

from ...._core import threads
from ...._kernels.language import function
from ...._kernels.llvm_body import Module
from ...._kernels.reader import read_function
from .calls import Code
from .machine import sources

__all__ = ["PRODUCT"]

_MOST = 32  # dimensions
_LIMITS = {32: 1 << 31, 64: 1 << 62}  # of BLAS's integers
_THREADS = 64  # that may call OpenBLAS at once: it is built for so many
_SHARE = 1 << 18  # multiplications that are worth a thread
VECTOR = 1 << 18  # as many of one row or column are left to kernels, where there are several threads
_UNLOCKED = 1 << 15  # multiplications from which on other Python threads may run meanwhile


# sizes ---------------------------------------------------------------------------------------------------------------


@function
def leading(rows, columns, down, right, size):
    """Elements from one row to the next; below zero, from one column to the next; 0 for what BLAS cannot take.

    `down` and `right` are strides, `size` is that of an element. The stride of a dimension of size 1 is nobody's.
    """
    plain = (right == size or columns == 1) and (rows == 1 or (down % size == 0 and down >= columns * size))
    turned = (down == size or rows == 1) and (columns == 1 or (right % size == 0 and right >= rows * size))
    if plain:
        made = columns if rows == 1 else down // size
    elif turned:
        made = -(rows if columns == 1 else right // size)
    else:
        made = 0
    return made


@function
def takes(rows, columns, inner, first, second, limit):
    """Whether BLAS takes matrices of these sizes and leading dimensions: its integers are below the limit."""
    most = max(max(rows, columns), max(inner, max(abs(first), abs(second))))
    return first != 0 and second != 0 and most < limit


@function
def part_shape(rows, columns, parts):
    """Rows, times 2**32, and columns of the parts that a result is cut into: about square, so that least is packed."""
    best = (rows << 32) | columns
    least = -1
    for across in range(1, parts + 1):
        along = parts // across
        height = ((rows + along - 1) // along + 15) // 16 * 16
        height = rows if rows < height else height
        width = ((columns + across - 1) // across + 15) // 16 * 16
        width = columns if columns < width else width
        price = height * width + 16 * (height + width)
        if least < 0 or price < least:
            least = price
            best = (height << 32) | width
    return best


@function
def team_size(rows, columns, inner, matrices, threads):
    """How many threads a product is worth."""
    several = rows * columns * inner * matrices // _SHARE
    most = threads if threads < _THREADS else _THREADS
    return most if several > most else several


@function
def is_for_others(rows, columns, inner, matrices, threads):
    """Whether a product is one of a matrix and a vector that several threads share."""
    return threads > 1 and matrices == 1 and (rows == 1 or columns == 1) and rows * columns * inner >= VECTOR


# calls of BLAS -------------------------------------------------------------------------------------------------------

_CALLS = """
declare void @mindtorch_blas_{letter}gemm(i32, i32, i32, {int}, {int}, {int}, {type}, ptr, {int}, ptr, {int},
                                          {type}, ptr, {int})
declare void @mindtorch_blas_{letter}gemv(i32, i32, {int}, {int}, {type}, ptr, {int}, ptr, {int}, {type}, ptr, {int})

define internal void @add_bias_{letter}(i64 %m, i64 %n, ptr noalias %c, i64 %ldc, ptr noalias %bias) {{
entry:
  br label %row
row:
  %i = phi i64 [0, %entry], [%i1, %end]
  %start = mul i64 %i, %ldc
  %c_row = getelementptr {type}, ptr %c, i64 %start
  br label %element
element:
  %j = phi i64 [0, %row], [%j1, %element]
  %bias_at = getelementptr {type}, ptr %bias, i64 %j
  %c_at = getelementptr {type}, ptr %c_row, i64 %j
  %added = load {type}, ptr %bias_at
  %product = load {type}, ptr %c_at
  %sum = fadd {type} %product, %added
  store {type} %sum, ptr %c_at
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %n
  br i1 %more, label %element, label %end
end:
  %i1 = add i64 %i, 1
  %rows = icmp slt i64 %i1, %m
  br i1 %rows, label %row, label %done
done:
  ret void
}}

define internal void @times_vector_{letter}(i64 %m, i64 %k, ptr %a, i64 %lda, ptr %x, i64 %x_step, ptr %y,
                                            i64 %y_step) {{
  %plain = icmp sgt i64 %lda, 0
  %form = select i1 %plain, i32 111, i32 112
  %m_ = {narrow} %m to {int}
  %k_ = {narrow} %k to {int}
  %rows = select i1 %plain, {int} %m_, {int} %k_
  %columns = select i1 %plain, {int} %k_, {int} %m_
  %ld = call i64 @llvm.abs.i64(i64 %lda, i1 false)
  %ld_ = {narrow} %ld to {int}
  %x_step_ = {narrow} %x_step to {int}
  %y_step_ = {narrow} %y_step to {int}
  call void @mindtorch_blas_{letter}gemv(i32 101, i32 %form, {int} %rows, {int} %columns, {type} 1.0, ptr %a,
                                         {int} %ld_, ptr %x, {int} %x_step_, {type} 0.0, ptr %y, {int} %y_step_)
  ret void
}}

define internal void @multiply_{letter}(i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c,
                                        i64 %ldc, ptr %bias) {{
  %la = call i64 @llvm.abs.i64(i64 %lda, i1 false)
  %lb = call i64 @llvm.abs.i64(i64 %ldb, i1 false)
  %a_plain = icmp sgt i64 %lda, 0
  %b_plain = icmp sgt i64 %ldb, 0
  %one_row = icmp eq i64 %m, 1
  br i1 %one_row, label %row, label %several_rows
row:
  %a_step = select i1 %a_plain, i64 1, i64 %la
  %turned = sub i64 0, %ldb
  call void @times_vector_{letter}(i64 %n, i64 %k, ptr %b, i64 %turned, ptr %a, i64 %a_step, ptr %c, i64 1)
  br label %add
several_rows:
  %one_column = icmp eq i64 %n, 1
  br i1 %one_column, label %column, label %matrix
column:
  %b_step = select i1 %b_plain, i64 %lb, i64 1
  call void @times_vector_{letter}(i64 %m, i64 %k, ptr %a, i64 %lda, ptr %b, i64 %b_step, ptr %c, i64 %ldc)
  br label %add
matrix:
  %a_form = select i1 %a_plain, i32 111, i32 112
  %b_form = select i1 %b_plain, i32 111, i32 112
  %m_ = {narrow} %m to {int}
  %n_ = {narrow} %n to {int}
  %k_ = {narrow} %k to {int}
  %la_ = {narrow} %la to {int}
  %lb_ = {narrow} %lb to {int}
  %ldc_ = {narrow} %ldc to {int}
  call void @mindtorch_blas_{letter}gemm(i32 101, i32 %a_form, i32 %b_form, {int} %m_, {int} %n_, {int} %k_, {type} 1.0,
                                         ptr %a, {int} %la_, ptr %b, {int} %lb_, {type} 0.0, ptr %c, {int} %ldc_)
  br label %add
add:
  %without = icmp eq ptr %bias, null
  br i1 %without, label %end, label %with
with:
  call void @add_bias_{letter}(i64 %m, i64 %n, ptr %c, i64 %ldc, ptr %bias)
  br label %end
end:
  ret void
}}
"""

# parts ---------------------------------------------------------------------------------------------------------------

# What is multiplied: addresses, leading dimensions, sizes, the shape of a part and their number, then the dimensions
# before the last two: sizes of the result, and steps in bytes of the result and of both factors.
_TASK = "c a b bias ldc lda ldb m n k size height width across each parts batch_dims multiply".split()
_STRUCT = f"{{ [{len(_TASK)} x i64], [4 x [{_MOST} x i64]] }}"


def _loads(*names: str) -> str:
    """Lines that load fields of the task into values of their names."""
    kinds = {name: "ptr" if name in ("c", "a", "b", "bias", "multiply") else "i64" for name in names}
    return "".join(f"  %{name}.at = getelementptr %Task, ptr %task, i32 0, i32 0, i32 {_TASK.index(name)}\n"
                   f"  %{name} = load {kinds[name]}, ptr %{name}.at\n" for name in names)


_PARTS = f"""
%Task = type {_STRUCT}
declare i32 @mindtorch_thread_num()
declare i32 @mindtorch_team()
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)

; One part of one matrix of the batch.
define internal void @part(ptr %task, i64 %number) {{
entry:
{_loads(*_TASK)}
  %batch = sdiv i64 %number, %each
  %place = srem i64 %number, %each
  br label %dims
dims:
  %left = phi i64 [%batch, %entry], [%rest, %dim]
  %d = phi i64 [%batch_dims, %entry], [%d1, %dim]
  %at_c = phi i64 [0, %entry], [%at_c1, %dim]
  %at_a = phi i64 [0, %entry], [%at_a1, %dim]
  %at_b = phi i64 [0, %entry], [%at_b1, %dim]
  %all = icmp eq i64 %d, 0
  br i1 %all, label %found, label %dim
dim:
  %d1 = sub i64 %d, 1
  %size_at = getelementptr %Task, ptr %task, i32 0, i32 1, i32 0, i64 %d1
  %c_at = getelementptr %Task, ptr %task, i32 0, i32 1, i32 1, i64 %d1
  %a_at = getelementptr %Task, ptr %task, i32 0, i32 1, i32 2, i64 %d1
  %b_at = getelementptr %Task, ptr %task, i32 0, i32 1, i32 3, i64 %d1
  %dim_size = load i64, ptr %size_at
  %c_step = load i64, ptr %c_at
  %a_step = load i64, ptr %a_at
  %b_step = load i64, ptr %b_at
  %rest = sdiv i64 %left, %dim_size
  %index = srem i64 %left, %dim_size
  %c_off = mul i64 %index, %c_step
  %a_off = mul i64 %index, %a_step
  %b_off = mul i64 %index, %b_step
  %at_c1 = add i64 %at_c, %c_off
  %at_a1 = add i64 %at_a, %a_off
  %at_b1 = add i64 %at_b, %b_off
  br label %dims
found:
  %i = sdiv i64 %place, %across
  %j = srem i64 %place, %across
  %row = mul i64 %i, %height
  %column = mul i64 %j, %width
  %below = sub i64 %m, %row
  %beside = sub i64 %n, %column
  %rows = call i64 @llvm.smin.i64(i64 %below, i64 %height)
  %columns = call i64 @llvm.smin.i64(i64 %beside, i64 %width)
  %a_plain = icmp sgt i64 %lda, 0
  %b_plain = icmp sgt i64 %ldb, 0
  %a_down = select i1 %a_plain, i64 %lda, i64 1
  %lb = call i64 @llvm.abs.i64(i64 %ldb, i1 false)
  %b_right = select i1 %b_plain, i64 1, i64 %lb
  %a_elements = mul i64 %row, %a_down
  %b_elements = mul i64 %column, %b_right
  %c_rows = mul i64 %row, %ldc
  %c_elements = add i64 %c_rows, %column
  %a_bytes = mul i64 %a_elements, %size
  %b_bytes = mul i64 %b_elements, %size
  %c_bytes = mul i64 %c_elements, %size
  %a_all = add i64 %a_bytes, %at_a
  %b_all = add i64 %b_bytes, %at_b
  %c_all = add i64 %c_bytes, %at_c
  %a_part = getelementptr i8, ptr %a, i64 %a_all
  %b_part = getelementptr i8, ptr %b, i64 %b_all
  %c_part = getelementptr i8, ptr %c, i64 %c_all
  %without = icmp eq ptr %bias, null
  %bias_bytes = mul i64 %column, %size
  %bias_there = getelementptr i8, ptr %bias, i64 %bias_bytes
  %bias_part = select i1 %without, ptr null, ptr %bias_there
  call void %multiply(i64 %rows, i64 %columns, i64 %k, ptr %a_part, i64 %lda, ptr %b_part, i64 %ldb, ptr %c_part,
                      i64 %ldc, ptr %bias_part)
  ret void
}}

define internal void @some(ptr %task, i64 %first, i64 %step) {{
entry:
{_loads("parts")}
  br label %next
next:
  %number = phi i64 [%first, %entry], [%following, %work]
  %is_part = icmp slt i64 %number, %parts
  br i1 %is_part, label %work, label %end
work:
  call void @part(ptr %task, i64 %number)
  %following = add i64 %number, %step
  br label %next
end:
  ret void
}}

define internal void @share(ptr %task) {{
  %number = call i32 @mindtorch_thread_num()
  %team = call i32 @mindtorch_team()
  %first = sext i32 %number to i64
  %step = sext i32 %team to i64
  call void @some(ptr %task, i64 %first, i64 %step)
  ret void
}}
"""

# the entry -----------------------------------------------------------------------------------------------------------


def _array_fields(name: str) -> str:
    """Lines that load the fields of an ndarray."""
    return "".join(f"  %{name}.{field}.at = getelementptr i8, ptr %{name}, i64 {at}\n"
                   f"  %{name}.{field} = load {kind}, ptr %{name}.{field}.at\n"
                   for field, at, kind in (("data", 16, "ptr"), ("nd", 24, "i32"), ("shape", 32, "ptr"),
                                           ("strides", 40, "ptr"), ("descr", 56, "ptr"), ("flags", 64, "i32")))


def _is_array(name: str, good: str, otherwise: str) -> str:
    """Lines that go on where an object is an ndarray."""
    return (f"  %{name}.type.at = getelementptr i8, ptr %{name}, i64 8\n"
            f"  %{name}.type = load ptr, ptr %{name}.type.at\n"
            f"  %{name}.is = icmp eq ptr %{name}.type, @PyArray_Type\n"
            f"  br i1 %{name}.is, label %{good}, label %{otherwise}\n{good}:\n{_array_fields(name)}")


def _last(name: str) -> str:
    """Lines that load the last two sizes and steps of an ndarray."""
    return "".join(f"  %{name}.{what}.at.{end} = getelementptr i64, ptr %{name}.{what}, i64 %{end}\n"
                   f"  %{name}.{what}.{end} = load i64, ptr %{name}.{what}.at.{end}\n"
                   for what in ("shape", "strides") for end in ("last", "before"))


def _stores(**values: str) -> str:
    """Lines that store fields of the task."""
    return "".join(f"  %set.{name} = getelementptr %Task, ptr %task, i32 0, i32 0, i32 {_TASK.index(name)}\n"
                   f"  store {value}, ptr %set.{name}\n" for name, value in values.items())


_ENTRY = f"""
@PyArray_Type = external global i8
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
@PyArray_API = external constant [400 x ptr]
@mindtorch_descr_float32 = external global i8
@mindtorch_descr_float64 = external global i8
@mindtorch_threads = external global i64
declare void @Py_IncRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @mindtorch_begin(i32)
declare void @mindtorch_run(ptr, ptr, i32)
declare void @mindtorch_end()
declare i32 @mindtorch_blas_get()
declare void @mindtorch_blas_set(i32)

define internal ptr @argument(ptr %args, i64 %count, i64 %number) alwaysinline {{
  %given = icmp sgt i64 %count, %number
  br i1 %given, label %load, label %none
load:
  %place = getelementptr ptr, ptr %args, i64 %number
  %value = load ptr, ptr %place
  ret ptr %value
none:
  ret ptr @_Py_NoneStruct
}}

define internal void @on_team(ptr %task, i64 %matrices, i64 %wanted) {{
entry:
{_loads("m", "n")}
  %asked = trunc i64 %wanted to i32
  %team = call i32 @mindtorch_begin(i32 %asked)
  %several = icmp sgt i32 %team, 1
  br i1 %several, label %together, label %alone
alone:
  call void @some(ptr %task, i64 0, i64 1)
  ret void
together:
  %threads = zext i32 %team to i64
  %rounded = add i64 %threads, %matrices
  %fewer = sub i64 %rounded, 1
  %a_matrix = sdiv i64 %fewer, %matrices
  %shape = call i64 @part_shape(i64 %m, i64 %n, i64 %a_matrix)
  %height = lshr i64 %shape, 32
  %width = and i64 %shape, 4294967295
  %m1 = add i64 %m, %height
  %m2 = sub i64 %m1, 1
  %down = sdiv i64 %m2, %height
  %n1 = add i64 %n, %width
  %n2 = sub i64 %n1, 1
  %across = sdiv i64 %n2, %width
  %each = mul i64 %down, %across
  %parts = mul i64 %each, %matrices
{_stores(height="i64 %height", width="i64 %width", across="i64 %across", each="i64 %each", parts="i64 %parts")}
  %before = call i32 @mindtorch_blas_get()
  call void @mindtorch_blas_set(i32 1)
  call void @mindtorch_run(ptr @share, ptr %task, i32 %team)
  call void @mindtorch_blas_set(i32 %before)
  call void @mindtorch_end()
  ret void
}}

; PRODUCT.call, see below.
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
entry:
  %task = alloca %Task, align 64
  %shape = alloca [{_MOST} x i64], align 16
  %enough = icmp sge i64 %count, 2
  br i1 %enough, label %given, label %refused
given:
  %a = call ptr @argument(ptr %args, i64 %count, i64 0)
  %b = call ptr @argument(ptr %args, i64 %count, i64 1)
  %out = call ptr @argument(ptr %args, i64 %count, i64 2)
  %bias = call ptr @argument(ptr %args, i64 %count, i64 3)
  %flag = call ptr @argument(ptr %args, i64 %count, i64 4)
  %turned = icmp eq ptr %flag, @_Py_TrueStruct
{_is_array("a", "first", "refused")}
{_is_array("b", "second", "refused")}
  %same = icmp eq ptr %a.descr, %b.descr
  %single = icmp eq ptr %a.descr, @mindtorch_descr_float32
  %double = icmp eq ptr %a.descr, @mindtorch_descr_float64
  %known = or i1 %single, %double
  %flags = and i32 %a.flags, %b.flags
  %bit = and i32 %flags, 256
  %aligned = icmp ne i32 %bit, 0
  %same_nd = icmp eq i32 %a.nd, %b.nd
  %two = icmp sge i32 %a.nd, 2
  %few = icmp sle i32 %a.nd, {_MOST}
  %good1 = and i1 %same, %known
  %good2 = and i1 %good1, %aligned
  %good3 = and i1 %good2, %same_nd
  %good4 = and i1 %good3, %two
  %good5 = and i1 %good4, %few
  br i1 %good5, label %matrices, label %refused
matrices:
  %size = select i1 %single, i64 4, i64 8
  %multiply = select i1 %single, ptr @multiply_s, ptr @multiply_d
  %nd = sext i32 %a.nd to i64
  %last = sub i64 %nd, 1
  %before = sub i64 %nd, 2
{_last("a")}
{_last("b")}
  %m = add i64 %a.shape.before, 0
  %k = add i64 %a.shape.last, 0
  %b.rows = select i1 %turned, i64 %b.shape.last, i64 %b.shape.before
  %n = select i1 %turned, i64 %b.shape.before, i64 %b.shape.last
  %b.down = select i1 %turned, i64 %b.strides.last, i64 %b.strides.before
  %b.right = select i1 %turned, i64 %b.strides.before, i64 %b.strides.last
  %chain = icmp eq i64 %b.rows, %k
  %mn = mul i64 %m, %n
  %mnk = mul i64 %mn, %k
  %some = icmp sgt i64 %mnk, 0
  %fits = and i1 %chain, %some
  br i1 %fits, label %layouts, label %refused
layouts:
  %lda = call i64 @leading(i64 %m, i64 %k, i64 %a.strides.before, i64 %a.strides.last, i64 %size)
  %ldb = call i64 @leading(i64 %k, i64 %n, i64 %b.down, i64 %b.right, i64 %size)
  %takes = call i1 @takes(i64 %m, i64 %n, i64 %k, i64 %lda, i64 %ldb, i64 LIMIT)
  br i1 %takes, label %batch, label %refused
batch:
  %d = phi i64 [0, %layouts], [%d1, %sized]
  %matrices.of = phi i64 [1, %layouts], [%matrices.more, %sized]
  %all = icmp eq i64 %d, %before
  br i1 %all, label %target, label %dim
dim:
  %a.dim.at = getelementptr i64, ptr %a.shape, i64 %d
  %b.dim.at = getelementptr i64, ptr %b.shape, i64 %d
  %a.step.at = getelementptr i64, ptr %a.strides, i64 %d
  %b.step.at = getelementptr i64, ptr %b.strides, i64 %d
  %a.dim = load i64, ptr %a.dim.at
  %b.dim = load i64, ptr %b.dim.at
  %a.step = load i64, ptr %a.step.at
  %b.step = load i64, ptr %b.step.at
  %a.one = icmp eq i64 %a.dim, 1
  %b.one = icmp eq i64 %b.dim, 1
  %equal = icmp eq i64 %a.dim, %b.dim
  %either = or i1 %a.one, %b.one
  %dim.size = select i1 %a.one, i64 %b.dim, i64 %a.dim
  %dim.some = icmp sgt i64 %dim.size, 0
  %broadcast = or i1 %equal, %either
  %dim.good = and i1 %broadcast, %dim.some
  br i1 %dim.good, label %sized, label %refused
sized:
  %a.moves = select i1 %a.one, i64 0, i64 %a.step
  %b.moves = select i1 %b.one, i64 0, i64 %b.step
  %size.to = getelementptr %Task, ptr %task, i32 0, i32 1, i32 0, i64 %d
  %a.to = getelementptr %Task, ptr %task, i32 0, i32 1, i32 2, i64 %d
  %b.to = getelementptr %Task, ptr %task, i32 0, i32 1, i32 3, i64 %d
  %shape.to = getelementptr i64, ptr %shape, i64 %d
  store i64 %dim.size, ptr %size.to
  store i64 %a.moves, ptr %a.to
  store i64 %b.moves, ptr %b.to
  store i64 %dim.size, ptr %shape.to
  %matrices.more = mul i64 %matrices.of, %dim.size
  %d1 = add i64 %d, 1
  br label %batch
target:
  %threads = load i64, ptr @mindtorch_threads
  %others = call i1 @is_for_others(i64 %m, i64 %n, i64 %k, i64 %matrices.of, i64 %threads)
  br i1 %others, label %refused, label %ours
ours:
  %shape.m = getelementptr i64, ptr %shape, i64 %before
  %shape.n = getelementptr i64, ptr %shape, i64 %last
  store i64 %m, ptr %shape.m
  store i64 %n, ptr %shape.n
  %no_bias = icmp eq ptr %bias, @_Py_NoneStruct
  br i1 %no_bias, label %where, label %look_at_bias
look_at_bias:
{_is_array("bias", "bias_array", "refused")}
  %bias.same = icmp eq ptr %bias.descr, %a.descr
  %bias.one = icmp eq i32 %bias.nd, 1
  %bias.good = and i1 %bias.same, %bias.one
  br i1 %bias.good, label %bias_size, label %refused
bias_size:
  %bias.size = load i64, ptr %bias.shape
  %bias.step = load i64, ptr %bias.strides
  %bias.fits = icmp eq i64 %bias.size, %n
  %bias.dense = icmp eq i64 %bias.step, %size
  %bias.single = icmp eq i64 %n, 1
  %bias.lies = or i1 %bias.dense, %bias.single
  %bias.takes = and i1 %bias.fits, %bias.lies
  br i1 %bias.takes, label %where, label %refused
where:
  %bias.place = phi ptr [null, %ours], [%bias.data, %bias_size]
  %new = icmp eq ptr %out, @_Py_NoneStruct
  br i1 %new, label %make, label %look_at_out
look_at_out:
{_is_array("out", "out_array", "refused")}
  %out.same = icmp eq ptr %out.descr, %a.descr
  %out.nds = icmp eq i32 %out.nd, %a.nd
  %out.bits = and i32 %out.flags, 1280
  %out.usable = icmp eq i32 %out.bits, 1280
  %out.good1 = and i1 %out.same, %out.nds
  %out.good = and i1 %out.good1, %out.usable
  br i1 %out.good, label %out_shape, label %refused
out_shape:
  %bytes = mul i64 %nd, 8
  %unequal = call i32 @memcmp(ptr %out.shape, ptr %shape, i64 %bytes)
  %out.fits = icmp eq i32 %unequal, 0
  br i1 %out.fits, label %take, label %refused
take:
  call void @Py_IncRef(ptr %out)
  br label %made
make:
  call void @Py_IncRef(ptr %a.descr)
  %empty = load ptr, ptr getelementptr ([400 x ptr], ptr @PyArray_API, i64 0, i64 184)
  %array = call ptr %empty(i32 %a.nd, ptr %shape, ptr %a.descr, i32 0)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %raised, label %made
made:
  %c = phi ptr [%out, %take], [%array, %make]
{_array_fields("c")}
{_last("c")}
  %ldc = call i64 @leading(i64 %m, i64 %n, i64 %c.strides.before, i64 %c.strides.last, i64 %size)
  %c.takes = call i1 @takes(i64 %m, i64 %n, i64 %k, i64 %ldc, i64 %ldc, i64 LIMIT)
  %c.plain = icmp sgt i64 %ldc, 0
  %c.good = and i1 %c.takes, %c.plain
  br i1 %c.good, label %steps, label %returned
returned:
  call void @Py_DecRef(ptr %c)
  br label %refused
steps:
  %e = phi i64 [0, %made], [%e1, %step]
  %stepped = icmp eq i64 %e, %before
  br i1 %stepped, label %ready, label %step
step:
  %c.step.at = getelementptr i64, ptr %c.strides, i64 %e
  %c.step = load i64, ptr %c.step.at
  %c.to = getelementptr %Task, ptr %task, i32 0, i32 1, i32 1, i64 %e
  store i64 %c.step, ptr %c.to
  %e1 = add i64 %e, 1
  br label %steps
ready:
{_stores(c="ptr %c.data", a="ptr %a.data", b="ptr %b.data", bias="ptr %bias.place", ldc="i64 %ldc", lda="i64 %lda",
         ldb="i64 %ldb", m="i64 %m", n="i64 %n", k="i64 %k", size="i64 %size", height="i64 %m", width="i64 %n",
         across="i64 1", each="i64 1", parts="i64 %matrices.of", batch_dims="i64 %before", multiply="ptr %multiply")}
  %work = mul i64 %mnk, %matrices.of
  %long = icmp sge i64 %work, {_UNLOCKED}
  br i1 %long, label %unlocked, label %quick
quick:
  call void @some(ptr %task, i64 0, i64 1)
  ret ptr %c
unlocked:
  %state = call ptr @PyEval_SaveThread()
  %team = call i64 @team_size(i64 %m, i64 %n, i64 %k, i64 %matrices.of, i64 %threads)
  call void @on_team(ptr %task, i64 %matrices.of, i64 %team)
  call void @PyEval_RestoreThread(ptr %state)
  ret ptr %c
refused:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
raised:
  ret ptr null
}}
declare i32 @memcmp(ptr, ptr, i64)
declare void @Py_DecRef(ptr)
"""


_REFUSES = """
@_Py_NoneStruct = external global i8
declare void @Py_IncRef(ptr)
define ptr @entry(ptr %self, ptr %args, i64 %count) {
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""


def ir() -> str:
    """The module: `entry` is what multiplies."""
    found = threads.blas()
    if found is None:
        return _REFUSES
    wide = found.integers == 64
    module = Module()
    for written, count in ((leading, 5), (part_shape, 3), (team_size, 5), (is_for_others, 5), (takes, 6)):
        module.function(read_function(written, written.function.__name__, ["i64"] * count))
    kinds = {"int": "i64" if wide else "i32", "narrow": "bitcast i64" if wide else "trunc i64"}
    calls = [_CALLS.format(letter=letter, type=name, **kinds) for letter, name in (("s", "float"), ("d", "double"))]
    limit = str(_LIMITS[found.integers])
    return "\n".join([module.text(), *calls, _PARTS, _ENTRY.replace("LIMIT", limit)])


def _known_as() -> str | None:
    """What the IR depends on."""
    made_by, found = sources(), threads.blas()
    return made_by and f"product {made_by} {found and found.integers}"


# `call(a, b, out=None, bias=None, turned=False)`, once it is there, is `a @ b + bias`, in `out` if that is given, with
# `b` transposed if it is `turned`; None for what BLAS cannot take: other types, layouts, or nothing to multiply.
PRODUCT = Code(ir, _known_as)
