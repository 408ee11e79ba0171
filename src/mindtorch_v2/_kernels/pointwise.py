"""Loops around a traced expression: over arrays that lie alike, and over arrays of any strides."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import ir, llvm
from .ir import Array, Node, cast, const
from .library import shapes
from .llvm_body import LLVM_TYPES, Module, literal
from .math import FUNCTIONS
from .trace import Expression

# What an operation costs, in additions: functions of the language 16 unless it is known better, all else one.
_COSTS = {name.removesuffix("_f32").removesuffix("_f64"): 16 for name in FUNCTIONS}
_COSTS |= dict.fromkeys(("div", "sqrt"), 4) | dict.fromkeys(
    ("exp", "exp2", "log", "log2", "log10", "tanh", "sin", "cos", "erf", "expm1", "log1p", "sinh", "cosh", "asin",
     "acos", "atan", "sigmoid", "hypot"), 6)
_COSTS |= dict.fromkeys(("gammainc", "gammaincc", "zeta"), 300)


def cost(node: Node) -> int:
    """What an expression costs, in additions."""
    return sum(_COSTS.get(n.op, 1) for n in node.walk() if n.args) or 1


def calls_functions(node: Node) -> bool:
    """Whether an expression has functions as exp in it, which cost as much as many additions."""
    return any(_COSTS.get(n.op, 1) >= _COSTS["exp"] for n in node.walk())


def _placed(node: Node, loaded: dict[str, Node]) -> Node:
    """An expression with elements in the place of its parameters."""
    made: dict[int, Node] = {}

    def replaced(one: Node) -> Node:
        known = made.get(id(one))
        if known is None:
            known = loaded.get(one.data) if one.op == "arg" else None
            if known is None:
                known = Node(one.op, one.type, tuple([replaced(a) for a in one.args]), one.data) if one.args else one
            made[id(one)] = known
        return known

    return replaced(node)


_DEARER = 8  # times as much that a side must cost as what is asked for it, where that is much
_COSTLY = 6  # additions from which on one looks first whether any element wants a side of a choice
_BLOCK, _PROBE = 256, 32  # elements that are looked at together, and every so many of which one is looked at before all


def _with_other(node: Node, choice: Node, side: int) -> Node:
    """An expression in which a choice is one of its sides."""
    made: dict[int, Node] = {}

    def replaced(one: Node) -> Node:
        if id(one) not in made:
            args = tuple([replaced(a) for a in ((one.args[side],) if one is choice else one.args)])
            made[id(one)] = args[0] if one is choice else Node(one.op, one.type, args, one.data) if args else one
        return made[id(one)]

    return replaced(node)


def without_costly_side(node: Node) -> tuple[Node, Node] | None:
    """(when, what) an expression whose dearest choice has a costly side is where no element wants that; else None.

    `when` is true of an element that does want it.
    """
    found, most = None, _COSTLY - 1
    whole_cost = cost(node)
    for choice in node.walk():
        if choice.op != "select":
            continue
        asked = cost(choice.args[0])
        for side, other in ((1, 2), (2, 1)):
            cheap = _with_other(node, choice, other)
            saved = whole_cost - cost(cheap)
            if saved > most and asked < max(_COSTLY, saved // _DEARER):
                wanted = choice.args[0]
                if side == 2:
                    wanted = Node("not", "bool", (wanted,))
                found, most = (wanted, cheap), saved
    return found


def flat_kernel(expression: Expression, kinds: Sequence[str], out: str) -> tuple[ir.Kernel, int]:
    """A loop over arrays in the same order, the result `out`, then those that are loaded; and the elements of a turn.

    That is one, unless a choice between values has a costly side: then a block of which no element wants it is
    computed without it.
    """
    arrays = [Array("out", out, 1, "c")]
    arrays += [Array(f"t{i}", kind, 1, "c") for i, kind in zip(expression.loads, kinds, strict=True)]
    own = ir.TYPES[expression.kind.name]

    def at(node: Node, index: Node) -> Node:
        return _placed(node, {a.name: cast(Node("load", a.type, (index,), a), own) for a in arrays[1:]})

    def stored(node: Node, index: Node) -> list[Any]:
        return [ir.Store(arrays[0], (index,), at(node, index))]

    numbers = [("count", "i64"), *((f"n{i}", kind) for i, kind in expression.numbers.items())]
    count, one = Node("arg", "i64", (), "count"), number(1)
    work = cost(at(expression.node, var("i")))
    choice = without_costly_side(expression.node)
    if choice is None:
        loop = ir.Loop("i", number(0), count, one, stored(expression.node, var("i")), number(work))
        return ir.Kernel("flat", arrays, numbers, [loop], {"i": "i64"}), 1
    wanted, cheap = choice
    first, index = var("first"), whole("add", var("first"), var("i"))
    some = Node("var", "bool", (), "some")
    probes = at(wanted, first)
    for k in range(_PROBE, _BLOCK, _PROBE):
        probes = Node("or", "bool", (probes, at(wanted, whole("add", first, number(k)))))

    def over_block(body: list[Any]) -> ir.Loop:
        return ir.Loop("i", number(0), number(_BLOCK), one, body)

    block: list[Any] = [
        ir.Set("some", probes),
        ir.If(some, [], [over_block([ir.Set("some", Node("or", "bool", (some, at(wanted, index))))])]),
        ir.If(some, [over_block(stored(expression.node, index))], [over_block(stored(cheap, index))]),
    ]
    turn = [ir.Set("first", whole("mul", var("block"), number(_BLOCK))),
            ir.If(Node("le", "bool", (whole("add", first, number(_BLOCK)), count)), block,
                  [ir.Loop("i", first, count, one, stored(expression.node, var("i")))])]
    turns = whole("cdiv", whole("add", count, number(_BLOCK - 1)), number(_BLOCK))
    loop = ir.Loop("block", number(0), turns, one, turn, number(work * _BLOCK))
    variables = {"i": "i64", "block": "i64", "first": "i64", "some": "bool"}
    return ir.Kernel("flat", arrays, numbers, [loop], variables), _BLOCK


CHUNK = 1 << 12  # elements of a row that one turn takes


def var(name: str) -> Node:
    return Node("var", "i64", (), name)


def whole(op: str, a: Node, b: Node) -> Node:
    return Node(op, "i64", (a, b))


def number(value: int) -> Node:
    return const(value, "i64")


def in_row(arrays: Sequence[Array], letters: str, k: int) -> Node:
    """Where in an array the element `j` of a row is, in bytes; `letters` as `strided_kernel`'s `inner`."""
    if letters[k] == "0":
        return var(f"at{k}")
    size = ir.SIZES[arrays[k].type]
    stride = number(size if letters[k] == "1" else -size) if letters[k] in "1r" else var(f"step{k}")
    return whole("add", var(f"at{k}"), whole("mul", var("j"), stride))


def _walk(geometry: Array, count: int, first: int) -> list[Any]:
    """Statements that go on by the index in dimension `d`, told by `rest`; sizes and strides are from `first` on."""

    def entry(at: Node) -> Node:
        return Node("load", "i64", (at,), geometry)

    base = whole("add", number(first), whole("mul", var("d"), number(1 + count)))
    walk: list[Any] = [ir.Set("size", entry(base)), ir.Set("own", whole("crem", var("rest"), var("size"))),
                       ir.Set("rest", whole("cdiv", var("rest"), var("size")))]
    return walk + [ir.Set(f"at{k}", whole("add", var(f"at{k}"),
                                          whole("mul", var("own"), entry(whole("add", base, number(1 + k))))))
                   for k in range(count)]


def loop_over_rows(arrays: Sequence[Array], geometry: Array, letters: str, inner: list[Any], work: int, *,
                   begins: bool = False, before: Sequence[Any] = (), after: Sequence[Any] = (),
                   interleaved: int = 0, start: Node | None = None) -> tuple[list[Any], dict[str, str]]:
    """(statements, variables) that run `inner` for each element `j` of parts of rows, in parallel.

    `geometry` has length of a row, parts of one, number of outer dimensions, turns, each array's stride in a row, with
    `begins` where each array begins, and for each outer dimension its size and strides. A turn runs `before` and
    `after` once, and `inner` from element `start` on, if `before` has done those up to it. `work` is what one costs.
    """
    count = len(arrays)

    def entry(at: Node) -> Node:
        return Node("load", "i64", (at,), geometry)

    outer = 4 + count * (2 if begins else 1)
    found: list[Any] = [
        ir.Set("rest", whole("cdiv", var("turn"), var("chunks"))),
        ir.Set("first", whole("mul", whole("crem", var("turn"), var("chunks")), number(CHUNK))),
        *(ir.Set(f"at{k}", entry(number(4 + count + k)) if begins else number(0)) for k in range(count)),
        ir.Loop("d", number(0), var("rank"), number(1), _walk(geometry, count, outer)),
        # In how many turns from now on the next row of the nearest dimension comes, so that nothing is to be divided.
        ir.If(Node("and", "bool", (Node("eq", "bool", (var("chunks"), number(1))),
                                   Node("gt", "bool", (var("rank"), number(0))))),
              [ir.Set("left", whole("sub", entry(number(outer)), whole("crem", var("turn"), entry(number(outer))))),
               *(ir.Set(f"next{k}", entry(number(outer + 1 + k))) for k in range(count))], [ir.Set("left", number(1))]),
    ]
    turn: list[Any] = [
        ir.If(Node("eq", "bool", (var("left"), number(0))), found,
              [ir.Set(f"at{k}", whole("add", var(f"at{k}"), var(f"next{k}"))) for k in range(count)]),
        ir.Set("left", whole("sub", var("left"), number(1))),
        ir.Set("last", whole("min", var("length"), whole("add", var("first"), number(CHUNK)))),
        *before,
        ir.Loop("j", start or var("first"), var("last"), number(1), inner, interleaved=interleaved,
                apart=any(array.shared for array in arrays)),
        *after,
    ]
    strided = [k for k in range(count) if letters[k] == "s"]
    head: list[Any] = [ir.Set("length", entry(number(0))), ir.Set("chunks", entry(number(1))),
                       ir.Set("rank", entry(number(2))), ir.Set("left", number(0)),
                       *(ir.Set(f"next{k}", number(0)) for k in range(count)),
                       *(ir.Set(f"step{k}", entry(number(4 + k))) for k in strided)]
    total = whole("mul", whole("min", var("length"), number(CHUNK)), number(work))
    names = ["length", "chunks", "rank", "turn", "rest", "first", "last", "left", "d", "j", "size", "own",
             *(f"{name}{k}" for name in ("at", "next") for k in range(count)), *(f"step{k}" for k in strided)]
    loop = ir.Loop("turn", number(0), entry(number(3)), number(1), turn, total)
    return [*head, loop], dict.fromkeys(names, "i64")


def strided_kernel(expression: Expression, kinds: Sequence[str], out: str, inner: str) -> ir.Kernel:
    """A loop over rows of arrays of any strides, given by `geometry`: see `geometry_of`.

    `inner` says of the result and each array how elements follow each other in a row: "1" side by side, "r" so in the
    other direction, "0" the same one for all, "s" by a stride that the geometry has.
    """
    arrays, store = _stored(expression, kinds, out, inner)
    geometry = Array("geometry", "i64", 1, "c")
    body, variables = loop_over_rows(arrays, geometry, inner, [store], cost(store.value))
    numbers = [(f"n{i}", kind) for i, kind in expression.numbers.items()]
    return ir.Kernel("strided", [*arrays, geometry], numbers, body, variables)


def _stored(expression: Expression, kinds: Sequence[str], out: str, inner: str) -> tuple[list[Array], ir.Store]:
    """The arrays, the result first, and the statement that computes element `j` of a row."""
    arrays = [Array("out", out, 1, "raw")]
    arrays += [Array(f"t{i}", kind, 1, "raw") for i, kind in zip(expression.loads, kinds, strict=True)]
    own = ir.TYPES[expression.kind.name]
    loaded = {a.name: cast(Node("load", a.type, (in_row(arrays, inner, k),), a), own)
              for k, a in enumerate(arrays) if k}
    return arrays, ir.Store(arrays[0], (in_row(arrays, inner, 0),), _placed(expression.node, loaded))


def small_kernel(expression: Expression, kinds: Sequence[str], out: str) -> ir.Kernel:
    """The same for small arrays, whose rows are short: a turn takes all rows of one dimension, without dividing.

    `geometry` has the length of a row, nothing, the number of outer dimensions, turns, each array's stride in a row,
    and for each outer dimension, of which there is at least one, its size and strides.
    """
    letters = "s" * (1 + len(kinds))
    arrays, store = _stored(expression, kinds, out, letters)
    geometry, count = Array("geometry", "i64", 1, "c"), len(arrays)

    def entry(at: int) -> Node:
        return Node("load", "i64", (number(at),), geometry)

    row: list[Any] = [ir.Loop("j", number(0), var("length"), number(1), [store])]
    row += [ir.Set(f"at{k}", whole("add", var(f"at{k}"), var(f"next{k}"))) for k in range(count)]
    turn: list[Any] = [ir.Set("rest", var("turn")), *(ir.Set(f"at{k}", number(0)) for k in range(count)),
                       ir.Loop("d", number(1), var("rank"), number(1), _walk(geometry, count, 4 + count)),
                       ir.Loop("i", number(0), var("rows"), number(1), row)]
    body: list[Any] = [ir.Set("length", entry(0)), ir.Set("rank", entry(2)), ir.Set("rows", entry(4 + count)),
                       *(ir.Set(f"step{k}", entry(4 + k)) for k in range(count)),
                       *(ir.Set(f"next{k}", entry(5 + count + k)) for k in range(count)),
                       ir.Loop("turn", number(0), entry(3), number(1), turn, number(1))]
    names = ["length", "rank", "rows", "turn", "rest", "d", "i", "j", "size", "own",
             *(f"{name}{k}" for name in ("at", "step", "next") for k in range(count))]
    numbers = [(f"n{i}", kind) for i, kind in expression.numbers.items()]
    return ir.Kernel("small", [*arrays, geometry], numbers, body, dict.fromkeys(names, "i64"))


def geometry_of(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> np.ndarray:
    """What `strided_kernel` wants to know: sizes, and strides in bytes of result and arrays, innermost first."""
    length = sizes[0]
    chunks = -(-length // CHUNK)
    turns = chunks
    for n in sizes[1:]:
        turns *= n
    outer = [v for d in range(1, len(sizes)) for v in (sizes[d], *(own[d] for own in strides))]
    return np.array([length, chunks, len(sizes) - 1, turns, *(own[0] for own in strides), *outer], np.int64)


# the entry of flat loops ---------------------------------------------------------------------------------------------

# What a call's arguments are: "array", "number" (of class float or int), "float", "int", the name of an object that
# there is one of, or "any".
Pattern = Sequence[str]


def flat_module(expression: Expression, kinds: Sequence[str], out: str, pattern: Pattern, *, into: bool) -> str:
    """A module whose `entry` takes an operator's arguments, arrays for tensors: the result, or None if it cannot.

    It serves arrays of one shape in C order and numbers that answer the guards alike. With `into`, the first array is
    written, and True comes back.
    """
    kernel, block = flat_kernel(expression, kinds, out)
    module = Module()
    frame = llvm.inner_functions(module, kernel, exact=True)
    module.parts.append(llvm.RUN)
    entry = llvm.Entry(module, frame.words)
    body = entry.body
    arrays = _arguments(entry, expression, kernel, out, pattern, into)
    body.head.append(f"  %sizes = alloca [{len(arrays)} x i64], align 16")
    for k, (_, array) in enumerate(arrays):
        body.do(f"store i64 {ir.SIZES[array.type]}, ptr {body.line(f'getelementptr i64, ptr %sizes, i64 {k}')}")
    module.declare("@mindtorch_alike", "declare i64 @mindtorch_alike(i64, i64, i64)")
    count = body.line(f"call i64 @mindtorch_alike(i64 {body.line('ptrtoint ptr %given to i64')}, "
                      f"i64 {body.line('ptrtoint ptr %sizes to i64')}, i64 {len(arrays)})")
    entry.unless(body.line(f"icmp sgt i64 {count}, 0"), "refused")
    first = arrays[0][0]
    if into:
        target = entry.field(first, llvm.DATA, "ptr")
        for given, array in arrays[1:]:
            _apart(entry, target, out, entry.field(given, llvm.DATA, "ptr"), array.type, count)
    else:
        made = _new_array(entry, out, entry.field(first, llvm.NDIM, "i32"), entry.field(first, llvm.SHAPE, "ptr"))
        target = entry.field(made, llvm.DATA, "ptr")
    entry.word(frame.data["out"], "ptr", target)
    for given, array in arrays:
        if array in kernel.arrays:
            entry.word(frame.data[array.name], "ptr", entry.field(given, llvm.DATA, "ptr"))
    entry.word(frame.numbers["count"], "i64", count)
    for i, kind in expression.numbers.items():
        entry.word(frame.numbers[f"n{i}"], LLVM_TYPES[kind], body.numbers[f"n{i}"])
    turns = count
    if block > 1:
        turns = body.line(f"sdiv i64 {body.line(f'add i64 {count}, {block - 1}')}, {block}")
    entry.word(frame.turns, "i64", turns)
    body.do(f"call void @run(ptr %frame, i64 {turns}, i64 {kernel.body[0].work.data})")
    if into:
        entry.give("_Py_TrueStruct")
    else:
        body.do(f"ret ptr {made}")
    body.start("refused")
    entry.give("_Py_NoneStruct")
    entry.finish("entry")
    return module.text()


def spread_module(expression: Expression, kinds: Sequence[str], out: str, pattern: Pattern) -> str:
    """The same for small arrays of any strides that broadcast to a result in C order."""
    kernel = small_kernel(expression, kinds, out)
    module = Module()
    frame = llvm.inner_functions(module, kernel, exact=True, prefix="small_")
    entry = llvm.Entry(module, frame.words)
    body = entry.body
    arrays = _arguments(entry, expression, kernel, out, pattern, False)
    total, rank = len(arrays), shapes.RANK
    body.head += [f"  %geometry = alloca [{5 + total + (rank - 1) * (2 + total)} x i64], align 16",
                  f"  %dims = alloca [{rank} x i64], align 16", f"  %last = alloca [{total} x i64], align 16"]
    module.declare("@mindtorch_spread", "declare i64 @mindtorch_spread(i64, i64, i64, i64, i64, i64, i64)")
    places = [body.line(f"ptrtoint ptr %{name} to i64") for name in ("given", "geometry", "dims", "last")]
    plain = int(set(pattern) <= {"array", "any"})  # a number may be an operand of another shape
    ndim = body.line(f"call i64 @mindtorch_spread(i64 {places[0]}, i64 {total}, i64 {plain}, i64 {ir.SIZES[out]}, "
                     f"i64 {places[1]}, i64 {places[2]}, i64 {places[3]})")
    entry.unless(body.line(f"icmp sgt i64 {ndim}, 0"), "refused")
    made = _new_array(entry, out, body.line(f"trunc i64 {ndim} to i32"), "%dims")
    by_name = {array.name: given for given, array in arrays}
    pointers = [entry.field(made, llvm.DATA, "ptr")]
    pointers += [entry.field(by_name[a.name], llvm.DATA, "ptr") for a in kernel.arrays[1:-1]]
    for i, kind in expression.numbers.items():
        entry.word(frame.numbers[f"n{i}"], LLVM_TYPES[kind], body.numbers[f"n{i}"])
    turns = body.line(f"load i64, ptr {body.line('getelementptr i64, ptr %geometry, i64 3')}")
    given = "".join(f", ptr {p}" for p in (*pointers, "%geometry"))
    body.do(f"call void @small_core(ptr %frame, i64 0, i64 {turns}{given})")
    body.do(f"ret ptr {made}")
    body.start("refused")
    entry.give("_Py_NoneStruct")
    entry.finish("entry")
    return module.text()


def _arguments(entry: llvm.Entry, expression: Expression, kernel: ir.Kernel, out: str, pattern: Pattern,
               into: bool) -> list[tuple[str, Array]]:
    """Goes on if the arguments are of the pattern's kinds and answer the guards; the arrays, noted in `given` too."""
    body, module = entry.body, entry.module
    entry.unless(body.line(f"icmp eq i64 %nargs, {len(pattern)}"), "refused")
    by_name = {a.name: a for a in kernel.arrays}
    arrays: list[tuple[str, Array]] = []
    for i, wanted in enumerate(pattern):
        given = entry.argument(i)
        if wanted == "array":
            array = by_name.get(f"t{i}") or Array(f"t{i}", out, 1, "c")  # one that is only written
            entry.array(given, Array(array.name, array.type, 1, "raw"), "refused", into and not i)
            body.do(f"store ptr {given}, ptr {body.line(f'getelementptr ptr, ptr %given, i64 {len(arrays)}')}")
            arrays.append((given, array))
        elif wanted in ("float", "int", "number"):
            body.numbers[f"n{i}"] = entry.plain_number(given, wanted, expression.numbers[i], "refused")
        elif wanted != "any":
            module.declare(f"@{wanted}", f"@{wanted} = external global i8")
            entry.unless(body.line(f"icmp eq ptr {given}, @{wanted}"), "refused")
            if i in expression.numbers:  # True or False, as a number
                body.numbers[f"n{i}"] = literal(wanted == "_Py_TrueStruct", expression.numbers[i])
    body.head.append(f"  %given = alloca [{len(arrays)} x ptr], align 16")
    for _, node, op, value, answer in expression.guards:
        test = body.value(Node(op, "bool", (node, cast(const(value, "f64" if isinstance(value, float) else "i64"),
                                                       node.type))))
        entry.unless(test if answer else body.line(f"xor i1 {test}, true"), "refused")
    return arrays


def _apart(entry: llvm.Entry, target: str, kind: str, other: str, other_kind: str, count: str) -> None:
    """Goes on if an array is the target itself or lies apart from it."""
    body = entry.body
    t, o = body.line(f"ptrtoint ptr {target} to i64"), body.line(f"ptrtoint ptr {other} to i64")
    t_end = body.line(f"add i64 {t}, {body.line(f'mul i64 {count}, {ir.SIZES[kind]}')}")
    o_end = body.line(f"add i64 {o}, {body.line(f'mul i64 {count}, {ir.SIZES[other_kind]}')}")
    before = body.line(f"or i1 {body.line(f'icmp ule i64 {t_end}, {o}')}, {body.line(f'icmp ule i64 {o_end}, {t}')}")
    if ir.SIZES[kind] == ir.SIZES[other_kind]:
        before = body.line(f"or i1 {before}, {body.line(f'icmp eq i64 {t}, {o}')}")
    entry.unless(before, "refused")


def _new_array(entry: llvm.Entry, kind: str, ndim: str, shape: str) -> str:
    """A new ndarray in C order, from entry 94 of NumPy's table, PyArray_NewFromDescr."""
    module, body = entry.module, entry.body
    descr = f"@mindtorch_descr_{ir.DTYPES[kind]}"
    module.declare(descr, f"{descr} = external global i8")
    module.declare("@PyArray_API", "@PyArray_API = external global ptr")
    module.declare("@PyArray_Type", "@PyArray_Type = external global i8")
    module.declare("@Py_IncRef", "declare void @Py_IncRef(ptr)")
    body.do(f"call void @Py_IncRef(ptr {descr})")  # it is taken over
    make = body.line(f"load ptr, ptr {body.line('getelementptr ptr, ptr @PyArray_API, i64 94')}")
    made = body.line(f"call ptr {make}(ptr @PyArray_Type, ptr {descr}, i32 {ndim}, ptr {shape}, ptr null, ptr null, "
                     "i32 0, ptr null)")
    entry.unless(body.line(f"icmp ne ptr {made}, null"), "raised")
    return made
