"""IR as LLVM's: text, from which machine code is made (_backends/cpu/jit).

A kernel becomes a builtin function of Python's that reads the fields of ndarrays itself: `entry` checks the arguments
and fills a frame (one word a field), `limits` computes how many turns the parallel loop has, `core` runs some of them,
`team` is what each of several threads runs.
"""

import functools

from . import ir, matrices
from .ir import Array
from .llvm_body import LLVM_TYPES, Body, Module, array_name

# Where the fields of an ndarray lie (NumPy 2), in bytes.
DATA, NDIM, SHAPE, STRIDES, DESCR, FLAGS = 16, 24, 32, 40, 56, 64
_C_ORDER, _ALIGNED, _WRITEABLE = 1, 0x100, 0x400
# Work is counted in additions of vectors' elements, of which a core does some 20 in a nanosecond. Waking a team takes
# some microseconds, more where its threads went to sleep, so that it has to save more than that. Many threads have more
# to save: what they wrote lies in their caches, from where one alone reads it ten times as slowly as they do.
_RELEASED = 1 << 13  # work from which on the GIL is released
_SHARED, _LEAST_SHARED = 1 << 18, 1 << 15  # work from which on it is shared out: that of all threads, and at least
_SHARE, _LEAST_SHARE = 1 << 16, 1 << 11  # work that is worth a thread, likewise

SHARED = ("mindtorch_alike", "mindtorch_spread")


@functools.cache
def shared_functions() -> str:
    """The functions that entries of kernels share, as a module's text."""
    from .library import shapes
    from .reader import read_function

    module = Module()
    for name, written, count in ((SHARED[0], shapes.alike, 3), (SHARED[1], shapes.spread, 7)):
        module.function(read_function(written, name, ["i64"] * count), "")
    return module.text()


class _Frame:
    """Where the words of a kernel's frame lie: of each array its place, sizes and strides; the numbers; the turns."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.data: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        at = 0
        for array in kernel.arrays:
            self.data[array.name] = at
            at += 1 + 2 * array.ndim
        for name, _ in kernel.numbers:
            self.numbers[name] = at
            at += 1
        self.turns, self.words = at, at + 1


def _word(body: Body, at: int, kind: str = "i64") -> str:
    place = body.line(f"getelementptr i64, ptr %frame, i64 {at}")
    return body.line(f"load {kind}, ptr {place}, align 8, !invariant.load !0")


def _opened(module: Module, kernel: ir.Kernel, frame: _Frame, exact: bool) -> Body:
    """A function's beginning: the fields of arrays and the numbers, from the frame."""
    body = Body(module, exact)
    body.begin(kernel.variables)
    for array in kernel.arrays:
        base = frame.data[array.name]
        for d in range(array.ndim if array.layout != "flat" else 0):
            body.dims[array.name, d] = _word(body, base + 1 + d)
            body.strides[array.name, d] = _word(body, base + 1 + array.ndim + d)
    for name, kind in kernel.numbers:
        body.numbers[name] = _word(body, frame.numbers[name], LLVM_TYPES[kind])
    return body


def _parallel(kernel: ir.Kernel) -> tuple[list, ir.Loop | None]:
    """What comes before the parallel loop, and that."""
    for i, statement in enumerate(kernel.body):
        if isinstance(statement, ir.Loop) and statement.work is not None:
            return kernel.body[:i], statement
    return kernel.body, None


def inner_functions(module: Module, kernel: ir.Kernel, exact: bool, prefix: str = "") -> _Frame:
    """Adds `core` of a kernel to a module; and `limits`, `some` and `team`, unless it is one beside another."""
    frame = _Frame(kernel)
    before, loop = _parallel(kernel)
    limits = _opened(module, kernel, frame, exact)
    count, work = "1", "0"
    if loop is not None:
        limits.statements(before)
        limits.known = {}
        count, work = limits.value(loop.stop), limits.value(loop.work)  # type: ignore[arg-type]
    limits.do(f"store i64 {count}, ptr %work")
    limits.do("%work.place = getelementptr i64, ptr %work, i64 1")
    limits.do(f"store i64 {work}, ptr %work.place")
    if not prefix:
        module.parts.append("define internal void @limits(ptr noalias readonly %frame, ptr noalias %work) nounwind {\n"
                            f"{_with_data(limits, kernel, frame)}  ret void\n}}\n")
    core = _opened(module, kernel, frame, exact)
    core.statements(before)
    if loop is not None:
        core.known = {}
        core._loop(loop, "%begin", "%end")
        core.statements(kernel.body[len(before) + 1 :])
    pointers = "".join(f", ptr {'' if a.shared else 'noalias '}{array_name(a)}" for a in kernel.arrays)
    # Called from several places, it is compiled once; one that serves small arrays only is not made fast at length.
    attributes = "noinline nounwind minsize optsize" if prefix else "noinline nounwind"
    module.parts.append(f"define internal void @{prefix}core(ptr noalias readonly %frame, i64 %begin, i64 %end"
                        f"{pointers}) {attributes} {{\n{core.text()}  ret void\n}}\n")
    if prefix:
        return frame
    given = "".join(f", ptr %d{i}" for i in range(len(kernel.arrays)))
    loads = "".join(f"  %p{i} = getelementptr i64, ptr %frame, i64 {frame.data[a.name]}\n"
                    f"  %d{i} = load ptr, ptr %p{i}, align 8\n" for i, a in enumerate(kernel.arrays))
    module.declare("@mindtorch_thread_num", "declare i32 @mindtorch_thread_num()")
    module.declare("@mindtorch_team", "declare i32 @mindtorch_team()")
    module.parts.append(f"""define internal void @some(ptr %frame, i64 %begin, i64 %end) noinline nounwind {{
{loads}  call void @core(ptr %frame, i64 %begin, i64 %end{given})
  ret void
}}

{shared_out("team", "some", frame.turns)}""")
    return frame


def shared_out(name: str, some: str, turns: int) -> str:
    """What each thread of a team runs: its share of the turns, of which the frame's word `turns` says how many."""
    return f"""define internal void @{name}(ptr %frame) nounwind {{
  %number = call i32 @mindtorch_thread_num()
  %members = call i32 @mindtorch_team()
  %n = sext i32 %number to i64
  %m = sext i32 %members to i64
  %place = getelementptr i64, ptr %frame, i64 {turns}
  %turns = load i64, ptr %place, align 8
  %next = add i64 %n, 1
  %low = mul i64 %turns, %n
  %high = mul i64 %turns, %next
  %begin = sdiv i64 %low, %m
  %end = sdiv i64 %high, %m
  call void @{some}(ptr %frame, i64 %begin, i64 %end)
  ret void
}}
"""


def _with_data(body: Body, kernel: ir.Kernel, frame: _Frame) -> str:
    """A function's lines, with the places of arrays loaded first."""
    loads = [f"  %q{i} = getelementptr i64, ptr %frame, i64 {frame.data[a.name]}\n"
             f"  {array_name(a)} = load ptr, ptr %q{i}" for i, a in enumerate(kernel.arrays)]
    body.head[:0] = loads
    return body.text()


RUN = f"""
@mindtorch_threads = external global i64
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @mindtorch_parallel(ptr, ptr, i32)

define internal void @run(ptr %frame, i64 %turns, i64 %work) noinline nounwind {{
  %all = mul i64 %turns, %work
  %small = icmp slt i64 %all, {_RELEASED}
  br i1 %small, label %here, label %long
here:
  call void @some(ptr %frame, i64 0, i64 %turns)
  ret void
long:
  %state = call ptr @PyEval_SaveThread()
  %most = load i64, ptr @mindtorch_threads
  %some_shared = sdiv i64 {_SHARED}, %most
  %few_shared = icmp slt i64 %some_shared, {_LEAST_SHARED}
  %shared = select i1 %few_shared, i64 {_LEAST_SHARED}, i64 %some_shared
  %some_share = sdiv i64 {_SHARE}, %most
  %few_share = icmp slt i64 %some_share, {_LEAST_SHARE}
  %share = select i1 %few_share, i64 {_LEAST_SHARE}, i64 %some_share
  %shares = sdiv i64 %all, %share
  %fewer = icmp slt i64 %shares, %most
  %some = select i1 %fewer, i64 %shares, i64 %most
  %fewer2 = icmp slt i64 %turns, %some
  %threads = select i1 %fewer2, i64 %turns, i64 %some
  %alone = icmp slt i64 %threads, 2
  %short = icmp slt i64 %all, %shared
  %one = or i1 %alone, %short
  br i1 %one, label %single, label %several
single:
  call void @some(ptr %frame, i64 0, i64 %turns)
  br label %done
several:
  %number = trunc i64 %threads to i32
  call void @mindtorch_parallel(ptr @team, ptr %frame, i32 %number)
  br label %done
done:
  call void @PyEval_RestoreThread(ptr %state)
  ret void
}}
"""


class Entry:
    """The lines of a builtin function: `ptr %self, ptr %args, i64 %nargs`."""

    def __init__(self, module: Module, words: int) -> None:
        self.module = module
        self.body = Body(module, exact=True)
        self.body.head.append(f"  %frame = alloca [{words} x i64], align 16")

    def word(self, at: int, kind: str, value: str) -> None:
        place = self.body.line(f"getelementptr i64, ptr %frame, i64 {at}")
        self.body.do(f"store {kind} {value}, ptr {place}")

    def argument(self, i: int) -> str:
        place = self.body.line(f"getelementptr ptr, ptr %args, i64 {i}")
        return self.body.line(f"load ptr, ptr {place}")

    def field(self, given: str, at: int, kind: str) -> str:
        return self.body.line(f"load {kind}, ptr {self.body.line(f'getelementptr i8, ptr {given}, i64 {at}')}")

    def unless(self, good: str, otherwise: str) -> None:
        label = self.body.label("good")
        self.body.do(f"br i1 {good}, label %{label}, label %{otherwise}")
        self.body.start(label)

    def is_a(self, given: str, type_symbol: str) -> str:
        self.module.declare(f"@{type_symbol}", f"@{type_symbol} = external global i8")
        return self.body.line(f"icmp eq ptr {self.field(given, 8, 'ptr')}, @{type_symbol}")

    def array(self, given: str, array: Array, otherwise: str, written: bool = False) -> None:
        """Goes on if an argument is an ndarray as expected."""
        self.unless(self.is_a(given, "PyArray_Type"), otherwise)
        descr = f"mindtorch_descr_{ir.DTYPES[array.type]}"
        self.module.declare(f"@{descr}", f"@{descr} = external global i8")
        self.unless(self.body.line(f"icmp eq ptr {self.field(given, DESCR, 'ptr')}, @{descr}"), otherwise)
        wanted = _ALIGNED | (_C_ORDER if array.layout in ("c", "flat") else 0) | (_WRITEABLE if written else 0)
        flags = self.body.line(f"and i32 {self.field(given, FLAGS, 'i32')}, {wanted}")
        self.unless(self.body.line(f"icmp eq i32 {flags}, {wanted}"), otherwise)

    def data(self, given: str) -> str:
        """Where the elements of an ndarray lie."""
        return self.field(given, DATA, "ptr")

    def number(self, given: str, kind: str, otherwise: str) -> str:
        """The value of a Python number."""
        body = self.body
        if kind == "i64":
            self.module.declare("@PyLong_AsLongLong", "declare i64 @PyLong_AsLongLong(ptr)")
            self.module.declare("@PyErr_Occurred", "declare ptr @PyErr_Occurred()")
            value = body.line(f"call i64 @PyLong_AsLongLong(ptr {given})")
            suspect = body.line(f"icmp eq i64 {value}, -1")
            check, good = body.label("check"), body.label("good")
            body.do(f"br i1 {suspect}, label %{check}, label %{good}")
            body.start(check)
            raised = body.line("call ptr @PyErr_Occurred()")
            body.do(f"br i1 {body.line(f'icmp eq ptr {raised}, null')}, label %{good}, label %raised")
            body.start(good)
            return value
        self.module.declare("@PyFloat_AsDouble", "declare double @PyFloat_AsDouble(ptr)")
        self.module.declare("@PyErr_Occurred", "declare ptr @PyErr_Occurred()")
        quick, slow, good = body.label("float"), body.label("other"), body.label("good")
        body.do(f"br i1 {self.is_a(given, 'PyFloat_Type')}, label %{quick}, label %{slow}")
        body.start(quick)
        own = self.field(given, 16, "double")
        body.do(f"br label %{good}")
        body.start(slow)
        other = body.line(f"call double @PyFloat_AsDouble(ptr {given})")
        raised = body.line("call ptr @PyErr_Occurred()")
        end = body.label("converted")
        body.do(f"br i1 {body.line(f'icmp eq ptr {raised}, null')}, label %{end}, label %raised")
        body.start(end)
        body.do(f"br label %{good}")
        body.start(good)
        return body.line(f"phi double [ {own}, %{quick} ], [ {other}, %{end} ]")

    def plain_number(self, given: str, wanted: str, kind: str, otherwise: str) -> str:
        """The value of a Python float or int; goes on if it is of the class wanted, "float", "int" or "number"."""
        body = self.body
        as_float, as_int, good = body.label("float"), body.label("int"), body.label("good")
        values = []
        if wanted != "int":
            test = body.label("class") if wanted == "number" else otherwise
            body.do(f"br i1 {self.is_a(given, 'PyFloat_Type')}, label %{as_float}, label %{test}")
            body.start(as_float)
            value = self.field(given, 16, "double")
            values.append((value, as_float))
            body.do(f"br label %{good}")
            if wanted == "number":
                body.start(test)
        if wanted != "float":
            body.do(f"br i1 {self.is_a(given, 'PyLong_Type')}, label %{as_int}, label %{otherwise}")
            body.start(as_int)
            self.module.declare("@PyLong_AsLongLong", "declare i64 @PyLong_AsLongLong(ptr)")
            self.module.declare("@PyErr_Occurred", "declare ptr @PyErr_Occurred()")
            self.module.declare("@PyErr_Clear", "declare void @PyErr_Clear()")
            whole = body.line(f"call i64 @PyLong_AsLongLong(ptr {given})")
            suspect, bad, fine = body.label("suspect"), body.label("bad"), body.label("fine")
            body.do(f"br i1 {body.line(f'icmp eq i64 {whole}, -1')}, label %{suspect}, label %{fine}")
            body.start(suspect)
            raised = body.line("call ptr @PyErr_Occurred()")
            body.do(f"br i1 {body.line(f'icmp eq ptr {raised}, null')}, label %{fine}, label %{bad}")
            body.start(bad)
            body.do("call void @PyErr_Clear()")
            body.do(f"br label %{otherwise}")
            body.start(fine)
            value = whole if kind == "i64" else body.line(f"sitofp i64 {whole} to double")
            values.append((value, fine))
            body.do(f"br label %{good}")
        body.start(good)
        text = ", ".join(f"[ {value}, %{label} ]" for value, label in values)
        return body.line(f"phi {LLVM_TYPES[kind]} {text}")

    def give(self, symbol: str) -> None:
        """Returns an object that always exists."""
        self.module.declare(f"@{symbol}", f"@{symbol} = external global i8")
        self.module.declare("@Py_IncRef", "declare void @Py_IncRef(ptr)")
        self.body.do(f"call void @Py_IncRef(ptr @{symbol})")
        self.body.do(f"ret ptr @{symbol}")

    def finish(self, name: str) -> None:
        self.body.start("raised")
        self.body.do("ret ptr null")
        self.module.parts.append(f"define ptr @{name}(ptr %self, ptr %args, i64 %nargs) nounwind {{\n"
                                 f"{self.body.text()}}}\n")


def module_of(kernel: ir.Kernel, exact: bool = False) -> str:
    """A kernel's module, with the builtin function `entry(*arrays, *numbers)`: False if the arrays are others."""
    module = Module()
    frame = inner_functions(module, kernel, exact)
    module.parts.append(RUN)
    if matrices.is_in(kernel.body):
        module.parts[-1:] = [RUN.replace("call void @mindtorch_parallel(", "call void @together("), matrices.TOGETHER]
    entry = Entry(module, frame.words)
    body = entry.body
    expected = len(kernel.arrays) + len(kernel.numbers)
    entry.unless(body.line(f"icmp eq i64 %nargs, {expected}"), "refused")
    for i, array in enumerate(kernel.arrays):
        given = entry.argument(i)
        entry.array(given, array, "refused")
        base = frame.data[array.name]
        if array.layout not in ("raw", "flat"):
            ndim = entry.field(given, NDIM, "i32")
            entry.unless(body.line(f"icmp eq i32 {ndim}, {array.ndim}"), "refused")
            shape, strides = entry.field(given, SHAPE, "ptr"), entry.field(given, STRIDES, "ptr")
            for d in range(array.ndim):
                entry.word(base + 1 + d, "i64", entry.field(shape, 8 * d, "i64"))
                entry.word(base + 1 + array.ndim + d, "i64", entry.field(strides, 8 * d, "i64"))
            if array.layout in ("r", "x"):  # code for others may be quicker with these
                in_order = body.line(f"and i32 {entry.field(given, FLAGS, 'i32')}, {_C_ORDER}")
                entry.unless(body.line(f"icmp eq i32 {in_order}, 0"), "refused")
                last, test = entry.field(strides, 8 * (array.ndim - 1), "i64"), "eq" if array.layout == "r" else "ne"
                entry.unless(body.line(f"icmp {test} i64 {last}, {ir.SIZES[array.type]}"), "refused")
        entry.word(base, "ptr", entry.data(given))
    for i, (name, kind) in enumerate(kernel.numbers, len(kernel.arrays)):
        value = entry.number(entry.argument(i), kind, "refused")
        entry.word(frame.numbers[name], LLVM_TYPES[kind], value)
    body.head.append("  %work = alloca [2 x i64], align 16")
    body.do("call void @limits(ptr %frame, ptr %work)")
    turns = body.line("load i64, ptr %work")
    work = body.line(f"load i64, ptr {body.line('getelementptr i64, ptr %work, i64 1')}")
    entry.word(frame.turns, "i64", turns)
    body.do(f"call void @run(ptr %frame, i64 {turns}, i64 {work})")
    entry.give("_Py_TrueStruct")
    body.start("refused")
    entry.give("_Py_FalseStruct")
    entry.finish("entry")
    return module.text()
