"""Source of CPU kernels whose own work is so small that a general kernel's calls would show.

Pointwise operators: operands of one plain type go straight into the array function. The generated function knows
`general` (the path for everything else), `plain` (the types that need no conversion), `compute` (the operator's own
function) and `ufunc` (what that is when every other argument has its default, if anything).
"""

from collections.abc import Sequence

from ..._dispatch.keys import (
    BACKEND_MASK,
    DUAL_MASK,
    HOST_MASK,
    INFERENCE_MASK,
    REQUIRES_GRAD,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
)
from ..._dispatch.schema import Argument

SHARED = 1 << 15  # elements from which on an array may be computed by several threads where nothing is compiled


def _sharing_lines(count: int, numbers: Sequence[str] = ()) -> list[str]:
    """Lines that give large operands to the array function in the form in which threads share them."""
    return [f"if {f'{array} is not {name} and ' if name else ''}{array}.size >= {SHARED}: {array} = shared({array})"
            for array, name in zip("abc"[:count], numbers, strict=True)]


def _operand_lines(operand: Argument, array: str, leave: str) -> list[str]:
    """Lines that set `array`, or leave: a number joins a floating operand, a tensor must have the same type."""
    name = operand.name
    if operand.type != "Tensor|Scalar":
        return [f"if {name}._array.dtype is not kind: {leave}", f"{array} = {name}._array"]
    return [f"if {name}.__class__ is not Tensor and {name}.__class__ in NUMBERS:",
            f"    if kind.kind != 'f' or {name}.__class__ not in REAL: {leave}",
            f"    {array} = {name}",
            f"elif {name}._array.dtype is kind: {array} = {name}._array",
            f"else: {leave}"]


def _compiled_lines(arguments: Sequence[Argument], names: str, checked: bool, target: str = "") -> list[str]:
    """Lines that set `r` to what compiled code makes of a call: None where it does not serve it.

    It writes into a `target`, where there is one.
    """
    given, numbers = [f"{target}._array"] * bool(target), []
    for a in arguments:
        if a.type == "Tensor|Scalar":
            numbers.append(f"{a.name}.__class__ in NUMBERS")
            absent = f"{a.name} is None or " if a.optional else ""
            given.append(f"{a.name} if {absent}{numbers[-1]} else {a.name}._array")
        else:
            given.append(f"{a.name}._array" if a.is_tensor else a.name)
    lines = []
    if checked:
        lines = [f"if {' or '.join([f'not ({_at_default(arguments)})', *numbers])}: check({names})"]
        if lines[0].startswith("if not (True):"):
            lines = []
    arrays = ", ".join(given)
    spread = [f"if r is None: r = spread({arrays})"] * (sum(a.is_tensor for a in arguments) > 1 and not target)
    if not target:
        return [*lines, f"r = fast({arrays})", *spread, f"if r is None: r = more({names})"]
    names = f"{target}, {names}"
    return [*lines, f"r = fast({arrays})",
            "if r is None:", f"    run = find({names})", f"    r = more({names}) if run is None else run({names})"]


def functional_source(name: str, arguments: Sequence[Argument], *, is_ufunc: bool, boolean: bool, checked: bool,
                      compiled: bool, leading: bool, shares: bool) -> str:
    """The kernel that returns a new tensor. Without compiled code it serves operands that are the first arguments."""
    operands = [a for a in arguments if a.is_tensor]
    names = ", ".join(a.name for a in arguments)
    lines = []
    if compiled:
        lines = ["if offers:", f"    made = taking({names})", "    if made is not None: return made",
                 *_compiled_lines(arguments, names, checked),
                 "if r is not None:", "    made = new(Tensor)", "    made._array = r", "    return made"]
    if not leading:
        return _function(name, names, [*lines, f"return general({names})"])
    lines += _start(arguments, names, is_ufunc, checked, reflected=len(operands) == 2, shares=shares)
    for operand, array in zip(operands[1:], "bc"):
        lines += _operand_lines(operand, array, f"return general({names})")
    if shares:
        lines += _sharing_lines(len(operands), [a.name if a.type == "Tensor|Scalar" and i else "" for i, a in
                                                enumerate(operands)])
    work = [f"r = {_call(arguments)}"]
    if not boolean:
        work += ["if r.dtype is not kind: r = r.astype(kind)"]
    if is_ufunc:
        quick = f"r = ufunc({', '.join('abc'[: len(operands)])})"
        at_default = _at_default(arguments)
        work = [quick] if at_default == "True" else [f"if {at_default}: {quick}", "else:", *("    " + w for w in work)]
    if len(operands) > 1:
        # NumPy finds shapes that do not broadcast; `plan` says so in PyTorch's words.
        work = ["try:", *("    " + w for w in work)]
        work += ["except ValueError:", f"    plan(operator, ({names},))", "    raise"]
    lines += [*work, "if r.__class__ is not ndarray: r = asarray(r)"]
    # Where the result lies unlike the first operand, PyTorch's strides may not be NumPy's.
    unlike = "not a.flags.c_contiguous"
    if len(operands) > 1:
        unlike = "a.strides != r.strides and any(a.strides) or 1 in r.shape"
    lines += [f"if {unlike}: r = laid_out(r, ({''.join(a.name + ', ' for a in operands)}))"]
    lines += ["made = new(Tensor)", "made._array = r", "return made"]
    return _function(name, names, lines)


def inplace_source(name: str, arguments: Sequence[Argument], *, is_ufunc: bool, checked: bool, compiled: bool,
                   leading: bool, shares: bool) -> str:
    """The kernel that writes into its first operand. Without compiled code it serves operands that come first."""
    first = arguments[0].name
    operands = [a for a in arguments if a.is_tensor]
    names = ", ".join(a.name for a in arguments)
    written = _counted(first)
    lines = []
    if compiled:
        lines = [*_compiled_lines(arguments, names, checked), "if r is not None:", *("    " + line for line in written)]
    if not leading:
        return _function(name, names, [*lines, f"return general({names})"])
    lines += _start(arguments, names, is_ufunc, checked)
    for operand, array in zip(operands[1:], "bc"):
        other = operand.name
        lines += _operand_lines(operand, array, f"return general({names})")
        lines += [f"if {array} is not {other}:" if operand.type == "Tensor|Scalar" else "if True:",
                  f"    if {array}.shape != a.shape: return general({names})",
                  f"    if {first}._base is not None or {other}._base is not None or {first}._storage is not None:",
                  f"        check_overlap({first}, {other})"]
    lines += [f"if 0 in a.strides: check_writable({first})",
              "if not a.flags.c_contiguous and overlaps_itself(a.shape, a.strides):",
              f"    return general({names})"]
    if shares:
        lines += _sharing_lines(len(operands), [a.name if a.type == "Tensor|Scalar" and i else "" for i, a in
                                                enumerate(operands)])
    computed = f"copyto(a, {_call(arguments)})"
    if is_ufunc:
        given = ", ".join("abc"[: len(operands)])
        lines += [f"if {_at_default(arguments)}: ufunc({given}, out=a)", f"else: {computed}"]
    else:
        lines += [computed]
    return _function(name, names, [*lines, *written])


def into_source(name: str, arguments: Sequence[Argument], *, ufunc: str | None, boolean: bool, checked: bool,
                compiled: bool, shares: bool) -> str:
    """The kernel that writes into `out`, its first argument, and returns that; None where it cannot, and did nothing.

    It is for one that lies in memory as a result might, element on element with operands or apart from them. NumPy
    does it where there is a `ufunc` for operands that are the first arguments.
    """
    operands = [a for a in arguments if a.is_tensor]
    names = ", ".join(a.name for a in arguments)
    lines: list[str] = []
    if compiled:
        lines = [*_compiled_lines(arguments, names, checked, "out"), "if r is not None:",
                 *("    " + line for line in _counted("out"))]
    if ufunc is None:
        return _function(name, f"out, {names}", [*lines, "return None"])
    first = arguments[0].name
    lines += [f"if not ({_at_default(arguments)}): return None"] * (_at_default(arguments) != "True")
    lines += [f"if {first}.__class__ in NUMBERS: return None"] * (operands[0].type == "Tensor|Scalar")
    lines += ["o = out._array", f"a = {first}._array", "kind = a.dtype", "if kind not in plain: return None"]
    lines += [f"check({names})"] * checked
    for operand, array in zip(operands[1:], "bc"):
        lines += _operand_lines(operand, array, "return None")
    same = " or a is o" * (ufunc == "negative")  # which NumPy 2.4 gets wrong for some arrays
    lines += [f"if o.dtype is not {'boolean' if boolean else 'kind'} or o.__class__ is not ndarray{same}: return None",
              "if 0 in o.strides or not o.flags.c_contiguous and overlaps_itself(o.shape, o.strides): return None"]
    for operand, array in zip(operands, "abc"):
        within = f"{array}.shape != o.shape or not may_be_written(o, {array})"
        number = f"{array}.__class__ is ndarray and " * (operand.type == "Tensor|Scalar")
        lines += [f"if {number}({within}): return None" if number else f"if {within}: return None"]
    if shares:
        lines += _sharing_lines(len(operands), [a.name if a.type == "Tensor|Scalar" and i else "" for i, a in
                                                enumerate(operands)])
        lines += [f"if o.size >= {SHARED}: o = shared(o)"]
    lines += [f"ufunc({', '.join('abc'[: len(operands)])}, out=o)"]
    return _function(name, f"out, {names}", [*lines, *_counted("out")])


def _counted(written: str) -> list[str]:
    """Lines that count that a tensor was written, and return it."""
    return [f"counter = {written}._counter", f"if counter is None: {written}._bump_version()",
            "else: counter.value += 1", f"return {written}"]


def _start(arguments: Sequence[Argument], names: str, is_ufunc: bool, checked: bool,
           reflected: bool = False, shares: bool = False) -> list[str]:
    """Lines that set `a` and `kind`, or leave; with `reflected`, a number may come first (`2 - x`).

    The operator's own check is left out where it cannot fail: for floating operands and defaults in all else.
    """
    first = arguments[0].name
    lines = []
    if arguments[0].type == "Tensor|Scalar":
        lines.append(f"if {first}.__class__ is not Tensor and {first}.__class__ in NUMBERS:")
        if reflected and is_ufunc:
            second = arguments[1].name
            lines += [f"    if {second}.__class__ not in NUMBERS and {first}.__class__ in REAL and "
                      f"{_at_default(arguments)}:",
                      f"        a = {second}._array",
                      "        kind = a.dtype",
                      "        if kind in plain and kind.kind == 'f':",
                      *[f"            if a.size >= {SHARED}: a = shared(a)"] * shares,
                      f"            r = {'asarray(' * shares}ufunc({first}, a){')' * shares}",
                      f"            return wrap(r if a.strides == r.strides else laid_out(r, ({first}, {second})))"]
        lines.append(f"    return general({names})")
    lines += [f"a = {first}._array", "kind = a.dtype", "if kind is not usual:",
              f"    if kind not in plain: return general({names})"]
    if checked:
        lines.append(f"    if kind.kind != 'f': check({names})")
        if _at_default(arguments) != "True":
            lines.append(f"if not ({_at_default(arguments)}): check({names})")
    return lines


def _at_default(arguments: Sequence[Argument]) -> str:
    """The test that every argument that is no operand has its default."""
    return " and ".join(f"{a.name} is default_{a.name}" for a in arguments if not a.is_tensor) or "True"


def _call(arguments: Sequence[Argument]) -> str:
    operands = ", ".join("abc"[: sum(a.is_tensor for a in arguments)])
    others = "".join(f", {a.name}" for a in arguments if not a.is_tensor)
    return f"compute(xp, {operands}{others})"


def _function(name: str, names: str, lines: list[str]) -> str:
    body = "\n".join("    " + line for line in lines)
    return f"def {name}({names}):\n{body}\n"


def view_source(name: str, arguments: Sequence[Argument], expression: str) -> str:
    """The kernel of a view: `tracked_view` of _core/tensor.py, written out. Its own names begin with an underscore.

    `expression`, of the array `a` and the arguments, gives an array and its offset in bytes, or None. Where that does
    not serve (None, an error, no elements, a view whose base came to need grad), `general` does.
    """
    first, names = arguments[0].name, ", ".join([a.name for a in arguments])
    return f"""def {name}({names}):
    a = {first}._array
    try: _shown, _offset = {expression}
    except (ValueError, IndexError, OverflowError, TypeError, AttributeError): _shown = None
    _base = {first}._base
    if _shown is None or not _shown.size or {_unusual(first)}: return general({names})
{_view_setup(first)}
    _made = new(Tensor)
    _made._array = _shown
{_view_fields(arguments, "None", "    ")}
    if unusual.threads and not modes.grad_enabled or {first}._creation: _made._creation = creation_now({first})
    return _made
"""


def planned_view_source(name: str, arguments: Sequence[Argument], key: str, *, several: bool) -> str:
    """The kernel of a view, or of several, whose geometries are remembered for the layout of the array.

    `remember` finds them out, and makes the call the general way.
    """
    first, names = arguments[0].name, ", ".join([a.name for a in arguments])
    head = f"""def {name}({names}):
    try:
        _key = {key},
        _found = find(_key)
    except TypeError: _key = _found = None
    _base = {first}._base
    if not _found or {_unusual(first)}: return remember(_key, {names})
    _own, _kind, _views = _found
{_view_setup(first)}
    _buffer, _begin = ({first}._array, 0) if _own else ({first}._shared_storage().buffer, {first}._offset)
"""
    if not several:
        return head + f"""    _shape, _strides, _offset = _views
    _made = new(Tensor)
    _made._array = ndarray(_shape, _kind, _buffer, _begin + _offset, _strides)
{_view_fields(arguments, "None", "    ")}
    if unusual.threads and not modes.grad_enabled or {first}._creation: _made._creation = creation_now({first})
    return _made
"""
    return head + f"""    _nr, _all, _creation = 0, [], MULTI_OUTPUT
    if unusual.threads and not modes.grad_enabled or {first}._creation: _creation = creation_now({first}, True)
    for _shape, _strides, _offset in _views:
        _made = new(Tensor)
        _made._array = ndarray(_shape, _kind, _buffer, _begin + _offset, _strides)
{_view_fields(arguments, "_nr", "        ")}
        _made._creation = _creation
        _all.append(_made)
        _nr += 1
    return tuple(_all)
"""


def view_plan_source(name: str, arguments: Sequence[Argument], *, several: bool, by_place: bool) -> str:
    """The function that prepares plans of a view: for one geometry, or several, that compiled code shows an array in.

    `_given` are the arguments behind the first; `_step` is what leads to a view of a tensor that is none itself. A plan
    has another one, `ahead`, for sources that were found to be plain.
    """
    first, names = arguments[0].name, ", ".join([a.name for a in arguments])
    place = ", _begin=0, _length=0" * by_place
    elsewhere = f"{first}._offset != _begin or {first}._shared_storage().nbytes() != _length" * by_place
    lines = [f"def prepare(_given, _geometry, _distance=None, _step=None{place}):"]
    for plan in (name, "ahead"):
        leaving = [elsewhere, _unusual(first) * (plan == name)]
        keys = f"{first}._keys & {BACKEND_MASK} | {VIEW_MASK}" if plan == name else str(HOST_MASK | VIEW_MASK)
        body = [f"_base = {first}._base",
                *[f"if {condition}: return general({names})" for condition in leaving if condition],
                *(_several_planned(first, names, keys) if several else _one_planned(first, names, keys))]
        lines += [f"    def {plan}({names}):", *["        " + line for line in body]]
    return "\n".join([*lines, f"    {name}.ahead = ahead", f"    return {name}", ""])


def _one_planned(first: str, names: str, keys: str) -> list[str]:
    """Lines that show an array in one geometry."""
    return [f"_shown = show(_geometry, {first}._array)",
            f"if _shown is None: return general({names})",
            "_made = new(Tensor)",
            "_made._array = _shown",
            *_of_source(first),
            *_planned_fields(first, "None", keys),
            f"if {_other_creation(first)}: _made._creation = creation_now({first})",
            "return _made"]


def _several_planned(first: str, names: str, keys: str) -> list[str]:
    """Lines that show an array in several geometries."""
    each = ["_made = new(Tensor)",
            "_made._array = _all[_nr]",
            *_planned_fields(first, "_nr", "_keys"),
            "_made._creation = _creation",
            "_all[_nr] = _made",
            "_nr += 1"]
    return [f"_array = {first}._array",
            "_all = [show(_each[0], _array) for _each in _geometry]",
            f"if _all[0] is None: return general({names})",
            f"_creation = creation_now({first}, True) if {_other_creation(first)} else MULTI_OUTPUT",
            *_of_source(first),
            f"_keys, _nr = {keys}, 0",
            "for _each, _distance, _step in _geometry:",
            *["    " + line for line in each],
            "return tuple(_all)"]


def _other_creation(first: str) -> str:
    """The condition that a view of a tensor is not made as views mostly are."""
    return f"unusual.threads and not modes.grad_enabled or {first}._creation"


def _of_source(first: str) -> list[str]:
    """Lines that read what planned views take from their source."""
    return [f"_counter = {first}._counter",
            f"if _counter is None: _counter = {first}._counter = VersionCounter()",
            f"_begins = {first}._offset"]


def _planned_fields(first: str, nr: str, keys: str) -> list[str]:
    """Lines that set the fields of a planned view."""
    return ["_made._counter = _counter",
            f"_made._keys = {keys}",
            "if _base is None:",
            f"    _made._base = {first}",
            "    _made._view_step = _step",
            "else:",
            "    _made._base = _base",
            f"    _made._view_step = ({first}._view_step, operator, _given, {nr})",
            f"    if {first}._storage is not None: _made._storage = {first}._storage",
            "if _distance or _begins: _made._offset = _begins + _distance",
            "if _counter.value: _made._edge_version = _counter.value"]


def _unusual(first: str) -> str:
    """The condition that a view's source is an inference tensor, of a class that answers for it, or a view whose base
    came to need grad."""
    woken = f"_base is not None and _base._keys & {REQUIRES_GRAD | DUAL_MASK} and {first}._keys & {VIEW_MASK}"
    return f"{first}._keys & {INFERENCE_MASK | TORCH_DISPATCH_MASK} or {woken}"


def _view_setup(first: str) -> str:
    """Lines that set what all views of one call share."""
    return f"""    _counter = {first}._counter
    if _counter is None: _counter = {first}._counter = VersionCounter()
    _step = _storage = None
    if _base is None: _base = {first}
    else: _step, _storage = {first}._view_step, {first}._storage
    _keys = {first}._keys & {BACKEND_MASK} | {VIEW_MASK}"""


def _view_fields(arguments: Sequence[Argument], nr: str, indent: str) -> str:
    """Lines that set the fields of a view."""
    given = "(" + "".join(f"{a.name}, " for a in arguments[1:]) + ")"
    lines = ["_made._counter = _counter",
             "_made._base = _base",
             f"_made._view_step = (_step, operator, {given}, {nr})",
             "_made._keys = _keys",
             f"_offset += {arguments[0].name}._offset",
             "if _offset: _made._offset = _offset",
             "if _storage is not None: _made._storage = _storage",
             "if _counter.value: _made._edge_version = _counter.value"]
    return "\n".join(indent + line for line in lines)
