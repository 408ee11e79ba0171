"""Kernels over lists of arrays as LLVM's text: one launch, whose team shares out the elements of all of them together.

There is a frame for each place of the lists. The turns of all parallel loops are numbered one after another, and each
thread runs those from a number to another, of as many frames as these belong to.
"""

from . import ir
from .llvm import NDIM, RUN, SHAPE, Entry, inner_functions, shared_out
from .llvm_body import LLVM_TYPES, Module

COUNT = "count"  # the number that says how many elements the arrays of one place have
_LIST_SIZE, _LIST_ITEMS = 16, 24  # where the fields of a Python list lie, in bytes

_SIZE = f"""define internal i64 @elements(ptr %array) nounwind {{
entry:
  %ndim.place = getelementptr i8, ptr %array, i64 {NDIM}
  %ndim = load i32, ptr %ndim.place
  %shape.place = getelementptr i8, ptr %array, i64 {SHAPE}
  %shape = load ptr, ptr %shape.place
  br label %test
test:
  %d = phi i32 [ 0, %entry ], [ %next, %more ]
  %size = phi i64 [ 1, %entry ], [ %larger, %more ]
  %goes_on = icmp slt i32 %d, %ndim
  br i1 %goes_on, label %more, label %out
more:
  %place = getelementptr i64, ptr %shape, i32 %d
  %n = load i64, ptr %place
  %larger = mul i64 %size, %n
  %next = add i32 %d, 1
  br label %test
out:
  ret i64 %size
}}
"""


def _sharing(words: int, turns: int) -> str:
    """What runs some turns of all frames, and what each thread of a team runs; `%all` is: frames, how many, turns."""
    return f"""define internal void @some_of_all(ptr %all, i64 %begin, i64 %end) noinline nounwind {{
entry:
  %frames = load ptr, ptr %all
  %count.place = getelementptr i64, ptr %all, i64 1
  %count = load i64, ptr %count.place
  br label %test
test:
  %k = phi i64 [ 0, %entry ], [ %k.next, %after ]
  %first = phi i64 [ 0, %entry ], [ %last, %after ]
  %there = icmp slt i64 %k, %count
  %before = icmp slt i64 %first, %end
  %goes_on = and i1 %there, %before
  br i1 %goes_on, label %frame, label %out
frame:
  %words = mul i64 %k, {words}
  %frame.place = getelementptr i64, ptr %frames, i64 %words
  %turns.place = getelementptr i64, ptr %frame.place, i64 {turns}
  %turns = load i64, ptr %turns.place
  %last = add i64 %first, %turns
  %low = sub i64 %begin, %first
  %inside = icmp sgt i64 %low, 0
  %from = select i1 %inside, i64 %low, i64 0
  %high = sub i64 %end, %first
  %ends = icmp slt i64 %high, %turns
  %to = select i1 %ends, i64 %high, i64 %turns
  %some = icmp slt i64 %from, %to
  br i1 %some, label %work, label %after
work:
  call void @some(ptr %frame.place, i64 %from, i64 %to)
  br label %after
after:
  %k.next = add i64 %k, 1
  br label %test
out:
  ret void
}}

{shared_out("team_of_all", "some_of_all", 2)}"""


def module_over_lists(kernel: ir.Kernel) -> str:
    """The module of a kernel whose arrays are flat, with the builtin function `entry(*lists, *numbers)`.

    The number `count` is not given. It does nothing and gives False where the lists hold something else than arrays of
    the kernel's types that lie row by row, as many in each list and of as many elements at each place.
    """
    module = Module()
    frame = inner_functions(module, kernel, exact=False)
    run = RUN.replace("@some(", "@some_of_all(").replace("@team,", "@team_of_all,")
    module.parts += [_SIZE, _sharing(frame.words, frame.turns), run]
    module.declare("@PyMem_RawMalloc", "declare ptr @PyMem_RawMalloc(i64)")
    module.declare("@PyMem_RawFree", "declare void @PyMem_RawFree(ptr)")
    entry = Entry(module, frame.words)
    body = entry.body
    body.head += ["  %all = alloca [3 x i64], align 16", "  %work = alloca [2 x i64], align 16", "  %k = alloca i64"]
    given_numbers = [(name, kind) for name, kind in kernel.numbers if name != COUNT]
    entry.unless(body.line(f"icmp eq i64 %nargs, {len(kernel.arrays) + len(given_numbers)}"), "refused")
    lists = [entry.argument(i) for i in range(len(kernel.arrays))]
    sizes = []
    for given in lists:
        entry.unless(entry.is_a(given, "PyList_Type"), "refused")
        sizes.append(entry.field(given, _LIST_SIZE, "i64"))
        entry.unless(body.line(f"icmp eq i64 {sizes[0]}, {sizes[-1]}"), "refused")
    for i, (name, kind) in enumerate(given_numbers, len(lists)):
        value = entry.number(entry.argument(i), kind, "refused")
        entry.word(frame.numbers[name], LLVM_TYPES[kind], value)
    bytes_of_all = body.line(f"mul i64 {sizes[0]}, {8 * frame.words}")
    frames = body.line(f"call ptr @PyMem_RawMalloc(i64 {bytes_of_all})")
    entry.unless(body.line(f"icmp ne ptr {frames}, null"), "refused")
    turns_place, count_place = (body.line(f"getelementptr i64, ptr %all, i64 {i}") for i in (2, 1))
    work_place = body.line("getelementptr i64, ptr %work, i64 1")
    body.do(f"store ptr {frames}, ptr %all")
    body.do(f"store i64 {sizes[0]}, ptr {count_place}")
    for place in (turns_place, work_place, "%k"):
        body.do(f"store i64 0, ptr {place}")
    items = [entry.field(given, _LIST_ITEMS, "ptr") for given in lists]
    body.do("br label %next_place")
    body.start("next_place")
    k = body.line("load i64, ptr %k")
    body.do(f"br i1 {body.line(f'icmp slt i64 {k}, {sizes[0]}')}, label %place, label %filled")
    body.start("place")
    own = body.line(f"getelementptr i64, ptr {frames}, i64 {body.line(f'mul i64 {k}, {frame.words}')}")
    module.declare("@llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    body.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {own}, ptr %frame, i64 {8 * frame.words}, i1 false)")
    elements = []

    def store(at: int, kind: str, value: str) -> None:
        body.do(f"store {kind} {value}, ptr {body.line(f'getelementptr i64, ptr {own}, i64 {at}')}")

    for array, held in zip(kernel.arrays, items, strict=True):
        given = body.line(f"load ptr, ptr {body.line(f'getelementptr ptr, ptr {held}, i64 {k}')}")
        entry.array(given, array, "other", written=True)
        elements.append(body.line(f"call i64 @elements(ptr {given})"))
        entry.unless(body.line(f"icmp eq i64 {elements[0]}, {elements[-1]}"), "other")
        store(frame.data[array.name], "ptr", entry.data(given))
    store(frame.numbers[COUNT], "i64", elements[0])
    body.do(f"call void @limits(ptr {own}, ptr %work)")
    turns = body.line("load i64, ptr %work")
    store(frame.turns, "i64", turns)
    before = body.line(f"load i64, ptr {turns_place}")
    body.do(f"store i64 {body.line(f'add i64 {turns}, {before}')}, ptr {turns_place}")
    body.do(f"store i64 {body.line(f'add i64 {k}, 1')}, ptr %k")
    body.do("br label %next_place")
    body.start("filled")
    total, work = body.line(f"load i64, ptr {turns_place}"), body.line(f"load i64, ptr {work_place}")
    body.do(f"call void @run(ptr %all, i64 {total}, i64 {work})")
    body.do(f"call void @PyMem_RawFree(ptr {frames})")
    entry.give("_Py_TrueStruct")
    body.start("other")
    body.do(f"call void @PyMem_RawFree(ptr {frames})")
    body.do("br label %refused")
    body.start("refused")
    entry.give("_Py_FalseStruct")
    entry.finish("entry")
    return module.text()
