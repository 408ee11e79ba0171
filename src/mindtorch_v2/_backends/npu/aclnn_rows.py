"""Rows: how an operator's arguments become the parameters of an ACLNN operator.

    aclnnGeluV2(self, approximate{none,tanh}, out)

Each slot stands for one C parameter, in order:

    name            the operator's argument of that name, or a result (`out`, or the names of several results)
    name{a,b}       the index of the argument's value among the choices
    name|literal    the literal where the argument is None
    name:int32      a scalar of that element type
    name.dtype      the element type of a tensor
    literal         a number, True, False, None (NULL), [] or 'text'
    cName=literal   the same, with the C parameter's name to tell what it is

After the bracket, `empty=literal` tells what results hold when an input has no elements (a sum: 0).
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .facts import BY_VALUE, INTEGERS, Parameter, signature

_ROW = re.compile(r"\s*(?P<symbol>\w+)\s*\((?P<slots>.*)\)\s*(?:empty=(?P<empty>\S+))?\s*", re.S)
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)"
                    r"(?:\{(?P<choices>[^}]*)\}|:(?P<cast>\w+)|(?P<dtype>\.dtype)|\|(?P<absent>.+))?")  # fmt: skip
_WORDS = frozenset(("True", "False", "None", "inf", "nan"))
_REFUSED = object()


class Slot(NamedTuple):
    """Where one C parameter comes from."""

    parameter: Parameter
    name: str | None  # an argument or a result; None for a constant
    constant: Any = None
    choices: tuple[str, ...] | None = None
    cast: np.dtype | None = None
    of_dtype: bool = False
    absent: Any = None  # what stands for an argument that is None

    def value(self, values: Mapping[str, Any]) -> Any:
        """The parameter's value in a call."""
        if self.name is None:
            return self.constant
        value = values[self.name]
        if value is None:
            value = self.absent
        if self.choices is not None:
            if str(value) not in self.choices:
                raise ValueError(f"{self.name} is {value!r}, but must be one of {', '.join(self.choices)}")
            return self.choices.index(str(value))
        if self.of_dtype:
            return value.dtype
        return value if self.cast is None else self.cast.type(value)


class Row(NamedTuple):
    symbol: str
    slots: tuple[Slot, ...]
    empty: Any = None

    def fits(self, values: Mapping[str, Any], is_array: Callable[[Any], bool]) -> bool:
        """Whether tensors stand where the row takes tensors, and numbers where it takes scalars."""
        for slot in self.slots:
            if slot.name is None or slot.name not in values or slot.of_dtype or slot.choices is not None:
                continue
            value, parameter = values[slot.name], slot.parameter
            if value is None:
                if slot.absent is None and not parameter.optional and parameter.kind != "dtype":
                    return False
            elif parameter.is_tensor != is_array(value):
                return False
        return True


def parse_row(text: str, arguments: Mapping[str, str] | None = None) -> Row:
    """The row a text describes; ValueError where it disagrees with the C signature.

    `arguments` are the names it may use, with their schema types ("Tensor", "Tensor|Scalar", "int[]", "ScalarType"; ""
    for a value of no certain type), and what the row makes of them is checked too.
    """
    match = _ROW.fullmatch(text)
    if match is None:
        raise ValueError(f"not a row (aclnnSymbol(slot, ...)): {text!r}")
    symbol = match["symbol"]
    try:
        parameters = signature(symbol)
    except LookupError as error:
        raise ValueError(f"{text!r}: {error.args[0]}") from None
    parts = _split(match["slots"])
    if len(parts) != len(parameters):
        wanted = ", ".join(f"{p.name}:{p.kind}" for p in parameters)
        raise ValueError(f"{text!r} has {len(parts)} slots, but {symbol} takes {len(parameters)}: {wanted}")
    slots = tuple(_slot(part, parameter, text) for part, parameter in zip(parts, parameters, strict=True))
    row = Row(symbol, slots, None if match["empty"] is None else _literal(match["empty"]))
    if arguments is not None:
        _check_types(row, arguments, text)
    return row


# C kinds that a schema type can become.
_KINDS = {
    "Tensor": ("tensor", "out_tensor", "inout_tensor"), "Scalar": ("scalar", "float", "double"),
    "Tensor[]": ("tensor_list", "out_tensor_list", "inout_tensor_list"), "ScalarType": ("dtype",), "str": ("char*",),
    "bool": ("bool", "scalar"),
    "int": (*INTEGERS, "scalar", "float", "double"), "float": ("float", "double", "scalar"), "int[]": ("int_array",),
    "bool[]": ("bool_array",), "Generator": (),
}  # fmt: skip
_KINDS["Tensor|Scalar"] = _KINDS["Tensor"] + _KINDS["Scalar"]


def _check_types(row: Row, arguments: Mapping[str, str], text: str) -> None:
    for slot in row.slots:
        if slot.name is None:
            continue
        if slot.name not in arguments:
            raise ValueError(f"{text!r} names {slot.name}, which the operator does not have")
        kind = arguments[slot.name].rstrip("?")
        if kind and not slot.choices and not slot.of_dtype and slot.parameter.kind not in _KINDS.get(kind, ()):
            raise ValueError(f"{text!r}: {slot.name} is a {kind}, but {slot.parameter.name} is a {slot.parameter.kind}")


def schema_types(schema: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Types of a schema's arguments and of its results by name; a single result is called `out`."""
    arguments = {a.name: f"{a.type}{'[]' if a.is_list else ''}{'?' if a.optional else ''}" for a in schema.arguments}
    results = {r.name: "Tensor[]" if r.is_list else "Tensor" for r in schema.returns}
    return arguments, {"out": next(iter(results.values()))} if len(results) == 1 else results


def parse_rows(text: str | Sequence[str], arguments: Mapping[str, str] | None = None) -> tuple[Row, ...]:
    """One or several rows, of which the first that fits a call is used; in one text each has a line of its own."""
    texts = [line for line in text.splitlines() if line.strip()] if isinstance(text, str) else text
    return tuple(parse_row(line.strip(), arguments) for line in texts)


def _split(text: str) -> list[str]:
    parts = re.findall(r"(?:[^,{}\[\]']|\{[^}]*\}|\[[^\]]*\]|'[^']*')+", text)
    return [part.strip() for part in parts if part.strip()]


def _literal(text: str) -> Any:
    if text.lstrip("-") in ("inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _REFUSED


def _slot(part: str, parameter: Parameter, row: str) -> Slot:
    name, equals, text = part.partition("=")
    if equals:
        if name.strip() != parameter.name:
            raise ValueError(f"{row!r}: {name.strip()} stands where the C parameter is {parameter.name}")
        part = text.strip()
    match = None if part in _WORDS else _NAMED.fullmatch(part)
    if match is None:
        return Slot(parameter, None, _checked_constant(_literal(part), parameter, part, row))
    choices = tuple(c.strip() for c in match["choices"].split(",")) if match["choices"] is not None else None
    if choices is not None and parameter.kind not in INTEGERS:
        raise ValueError(f"{row!r}: {part} sends an index, but {parameter.name} is a {parameter.kind}")
    if match["dtype"] and parameter.kind != "dtype":
        raise ValueError(f"{row!r}: {part} sends an element type, but {parameter.name} is a {parameter.kind}")
    if match["cast"] and parameter.kind != "scalar":
        raise ValueError(f"{row!r}: {part} sends a scalar, but {parameter.name} is a {parameter.kind}")
    absent = None
    if match["absent"]:
        absent = _checked_constant(_literal(match["absent"]), parameter, match["absent"], row)
    cast = np.dtype(match["cast"]) if match["cast"] else None
    return Slot(parameter, match["name"], None, choices, cast, bool(match["dtype"]), absent)


_CONSTANTS: dict[str, tuple[type, ...]] = {
    "bool": (bool,), "float": (int, float), "double": (int, float), "scalar": (bool, int, float, complex),
    "int_array": (list, tuple), "bool_array": (list, tuple), "char*": (str,), **{kind: (int,) for kind in INTEGERS},
}  # fmt: skip


def _checked_constant(value: Any, parameter: Parameter, shown: str, row: str) -> Any:
    if value is None and parameter.optional and parameter.kind not in BY_VALUE:
        return None
    allowed = _CONSTANTS.get(parameter.kind, ())
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise ValueError(f"{row!r}: {shown} cannot be {parameter.name}, a {parameter.kind}")
    return tuple(value) if isinstance(value, list) else value
