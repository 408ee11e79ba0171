"""Source of the CPU kernels of pointwise operators: operands of one plain type go straight into the array function.

The generated function knows `general` (the path for everything else), `plain` (the types that need no conversion), and
`function` (a ufunc, or the operator's own `compute`).
"""

from collections.abc import Sequence

from .._dispatch.schema import Argument


def _operand_lines(second: Argument, leave: str) -> list[str]:
    """Lines that set `b`, or leave: a number joins a floating operand as it is, a tensor must have the same type."""
    name = second.name
    if second.type != "Tensor|Scalar":
        return [f"if {name}._array.dtype is not kind: {leave}", f"b = {name}._array"]
    return [f"if {name}.__class__ in NUMBERS:",
            f"    if kind.kind != 'f' or {name}.__class__ is complex: {leave}",
            f"    b = {name}",
            f"elif {name}._array.dtype is kind: b = {name}._array",
            f"else: {leave}"]


def functional_source(name: str, arguments: Sequence[Argument], *, is_ufunc: bool, boolean: bool) -> str:
    """The kernel that returns a new tensor."""
    operands = [a for a in arguments if a.is_tensor]
    names = ", ".join(a.name for a in arguments)
    lines = _start(arguments, names, is_ufunc, reflected=len(operands) == 2)
    call = _call(arguments, is_ufunc, out=False)
    if len(operands) == 2:
        # NumPy finds shapes that do not broadcast; `plan` says so in PyTorch's words.
        lines += [*_operand_lines(operands[1], f"return general({names})"),
                  "try:", f"    r = {call}", "except ValueError:", f"    plan(operator, ({names},))", "    raise"]
    else:
        lines += [f"r = {call}"]
    lines += ["if r.__class__ is not ndarray: r = asarray(r)"]
    if not is_ufunc and not boolean:
        lines += ["if r.dtype is not kind: r = r.astype(kind)"]
    lines += ["made = new(Tensor)", "made._array = r", "return made"]
    return _function(name, names, lines)


def inplace_source(name: str, arguments: Sequence[Argument], *, is_ufunc: bool) -> str:
    """The kernel that writes into its first operand."""
    first = arguments[0].name
    operands = [a for a in arguments if a.is_tensor]
    names = ", ".join(a.name for a in arguments)
    lines = _start(arguments, names, is_ufunc)
    if len(operands) == 2:
        other = operands[1].name
        lines += _operand_lines(operands[1], f"return general({names})")
        lines += [f"if b is not {other}:" if operands[1].type == "Tensor|Scalar" else "if True:",
                  f"    if b.shape != a.shape: return general({names})",
                  f"    if {first}._base is not None or {first}._storage is not None: check_overlap({first}, {other})"]
    lines += [f"if 0 in a.strides: check_writable({first})"]
    call = _call(arguments, is_ufunc, out=is_ufunc)
    lines += [call if is_ufunc else f"copyto(a, {call})"]
    lines += [f"counter = {first}._counter", f"if counter is None: {first}._bump_version()", "else: counter.value += 1",
              f"return {first}"]
    return _function(name, names, lines)


def _start(arguments: Sequence[Argument], names: str, is_ufunc: bool, reflected: bool = False) -> list[str]:
    """Lines that set `a` and `kind`, or leave; with `reflected`, a number may come first (`2 - x`)."""
    first = arguments[0]
    at_default = [f"{a.name} != default_{a.name}" for a in arguments if not a.is_tensor] if is_ufunc else []
    lines = []
    if first.type == "Tensor|Scalar":
        lines.append(f"if {first.name}.__class__ in NUMBERS:")
        if reflected and is_ufunc:
            second = arguments[1].name
            usable = [f"{second}.__class__ not in NUMBERS", f"{first.name}.__class__ is not complex",
                      f"{second}._array.dtype in plain", f"{second}._array.dtype.kind == 'f'"]
            usable += [f"not ({' or '.join(at_default)})"] if at_default else []
            call = _call(arguments, is_ufunc, out=False).replace("a, b", f"{first.name}, {second}._array", 1)
            lines.append(f"    if {' and '.join(usable)}: return wrap({call})")
        lines.append(f"    return general({names})")
    lines += [f"a = {first.name}._array", "kind = a.dtype"]
    lines.append(f"if {' or '.join(['kind not in plain', *at_default])}: return general({names})")
    return lines


def _call(arguments: Sequence[Argument], is_ufunc: bool, out: bool) -> str:
    passed = ["a", "b"][: sum(a.is_tensor for a in arguments)]
    if not is_ufunc:
        passed = ["xp", *passed, *(a.name for a in arguments if not a.is_tensor)]
    return f"function({', '.join(passed)}{', out=a' if out else ''})"


def _function(name: str, names: str, lines: list[str]) -> str:
    body = "\n".join("    " + line for line in lines)
    return f"def {name}({names}):\n{body}\n"
