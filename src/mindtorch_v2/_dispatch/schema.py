"""Operator schemas: parsing, argument binding and conversion.

The language is ATen's (`add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`), with one
addition: `Tensor|Scalar` takes a tensor or a Python number in the same place.
"""

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.device import contiguous_format, device, layout, memory_format, preserve_format
from .._core.dtype import OF_ARRAY, as_dtype, dtype

NUMBERS: frozenset[Any] = frozenset((int, float, bool, complex))
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()

# Keyword names that PyTorch takes for another, and the NumPy spellings it also knows.
KEYWORD_ALIASES = {"input": "self", "axis": "dim", "keepdims": "keepdim", "x": "self", "a": "self", "x1": "self",
                   "x2": "other", "self": "input", "from": "from_", "value": "src"}

# How PyTorch's messages call our types.
_SHOWN = {"Scalar": "Number", "ScalarType": "torch.dtype", "Device": "torch.device", "Layout": "torch.layout",
          "MemoryFormat": "torch.memory_format", "Generator": "torch.Generator", "Tensor|Scalar": "Tensor"}


# NumPy's spellings, which functions that PyTorch writes in Python do not take.
_NUMPYS_NAMES = frozenset(("axis", "keepdims", "x", "a", "x1", "x2"))
# What fits into 64 bits.
LEAST, MOST, MOST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1


# Lists of SymInt under whatever schema. In a list of that type a tensor must not be a bool; elsewhere it is 0 or 1.
_SIZES = ("size", "sizes", "shape", "strides", "shifts", "repeats", "pad", "normalized_shape", "s", "split_sizes",
          "output_padding")


# Functions that in PyTorch take an int, or in another overload a list.
_INT_OR_LIST = frozenset(("any", "all"))


class Mismatch(TypeError):
    """An argument that does not fit; the text names the argument, the schema is added by the caller."""

    value: Any = MISSING  # what was given in the place of a tensor


class Unpackable(Mismatch):
    """An argument of the right type with a value that is too large; no other overload is asked."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    type: str  # without list brackets, question mark and alias
    optional: bool = False
    is_list: bool = False
    size: int | None = None
    writes: bool = False
    keyword_only: bool = False
    default: Any = MISSING
    gaps: bool = False  # whether a list may hold None
    one_for_all: bool = True  # whether a tensor of one element stands for a list of that size
    symbolic: bool = False  # whether PyTorch has it as SymInt

    @property
    def is_out(self) -> bool:
        """Whether it is written by keyword, as `out` is."""
        return self.writes and self.keyword_only

    @property
    def is_tensor(self) -> bool:
        return self.type in ("Tensor", "Tensor|Scalar")

    @property
    def refuses_none(self) -> bool:
        """Whether None stands for having been left out, but may not be given: `int m=None`, without a question mark."""
        return self.default is None and not self.optional and self.type != "Any"

    @property
    def shown_name(self) -> str:
        return "input" if self.name == "self" else self.name  # what PyTorch's functions call it

    @property
    def shown_type(self) -> str:
        if self.is_list:
            return "tuple of Tensors" if self.type == "Tensor" else f"tuple of {self.type}s"
        return _SHOWN.get(self.type, self.type)

    def convert(self, value: Any) -> Any:
        """The value as kernels take it, or Mismatch."""
        if value is None:
            if self.optional:
                return None
            raise Mismatch(self._expected(value))
        converter = _CONVERTERS[self.type]
        if not self.is_list:
            return self._converted(converter, value)
        if isinstance(value, (list, tuple)):
            if self.type == "Tensor":
                for i, v in enumerate(value):
                    if converter(v) is MISSING and not (v is None and self.gaps):
                        raise Mismatch(f"expected Tensor as element {i} in argument 0, but got {type(v).__name__}")
            values = (self._converted_ints(value) if self.type == "int" else
                      tuple(self._converted(converter, v) for v in value))
            if self.size is not None and len(values) == 1 and self.size > 1:
                values *= self.size
            return values
        if self.type == "Tensor" or self.size is None:
            raise Mismatch(self._expected(value))
        if self.type == "int" and self.one_for_all and is_tensor(value):
            converter = _to_list_int
        return (self._converted(converter, value),) * self.size

    def _converted_ints(self, items: Sequence[Any]) -> tuple[int, ...]:
        """Integers of a list, of which PyTorch looks at the first before it takes all: booleans may follow it."""
        converted = []
        # Not `iter(items)`: a subclass may have one of its own, which PyTorch does not look at.
        own: Any = tuple if isinstance(items, tuple) else list
        for i, item in enumerate(own.__iter__(items)):
            if self.symbolic and is_tensor(item) and item.dtype.category == 0:
                raise RuntimeError("Expected scalar.isIntegral( false) to be true, but got false.")
            try:
                number = _to_list_int(item) if i or not isinstance(item, bool) else MISSING
            except ValueError as error:
                raise Unpackable(f"argument '{self.shown_name}' failed to unpack the object at pos {i + 1} with error "
                                 f'"{error}"') from None
            if number is MISSING:
                raise Mismatch(f"argument '{self.shown_name}' must be {self.shown_type}, but found element of type "
                               f"{type(item).__name__} at pos {i}")
            converted.append(number)
        return tuple(converted)

    def _converted(self, converter: Callable, value: Any) -> Any:
        if value is None and self.gaps:  # Tensor?[] holds None for a full slice
            return None
        converted = converter(value)
        if converted is MISSING:
            raise Mismatch(self._expected(value))
        return converted

    def _expected(self, value: Any) -> str:
        return f"argument '{self.shown_name}' must be {self.shown_type}, not {type(value).__name__}"


_BASES: tuple[Any, ...] = (int, float, complex)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor; the class itself, which has all of a tensor's names, is none."""
    return hasattr(value, "_keys") and not isinstance(value, type)


def _to_tensor(value: Any) -> Any:
    return value if is_tensor(value) else MISSING


def _to_tensor_or_number(value: Any) -> Any:
    return value if is_tensor(value) else to_number(value)


def to_int(value: Any) -> Any:
    if value.__class__ is not int:
        if isinstance(value, (bool, np.ndarray)):
            return MISSING
        if is_tensor(value) and (value.dtype.category != 1 or value.requires_grad or value.dim()):
            return MISSING
        value = _index_of(value)
        if value is MISSING:
            return MISSING
    if not LEAST <= value <= MOST:
        raise ValueError("Overflow when unpacking long long")
    return value


def _to_list_int(value: Any) -> Any:
    """An integer inside a list: a tensor of one element will do."""
    if is_tensor(value):
        return MISSING if value.dtype.category > 1 or value.numel() != 1 else int(value)
    if value.__class__ is np.ndarray and not value.ndim:
        return _index_of(value)
    return int(value) if isinstance(value, bool) else to_int(value)


def _index_of(value: Any) -> Any:
    """The integer that an object says it is."""
    try:
        return operator.index(value)
    except TypeError:
        return MISSING


def _to_bool(value: Any) -> Any:
    return value if value.__class__ is bool else MISSING


def to_float(value: Any) -> Any:
    value = to_number(value)
    return MISSING if value is MISSING or value.__class__ is complex else float(value)


def to_number(value: Any) -> Any:
    if value.__class__ not in NUMBERS:
        if isinstance(value, np.number):
            value = value.item()
        elif isinstance(value, np.bool_):  # PyTorch reads it as a floating point number
            value = float(value)
        elif is_tensor(value):
            return MISSING if value.dim() or value.requires_grad else value.item()
        elif isinstance(value, (int, float, complex)):
            value = next(base(value) for base in _BASES if isinstance(value, base))
        else:
            return MISSING
    if value.__class__ is int and not LEAST <= value <= MOST_UNSIGNED:
        raise OverflowError("int too big to convert")
    return value


def _to_dtype(value: Any) -> Any:
    return as_dtype(value) if isinstance(value, (dtype, type)) else MISSING


def _to_str(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else MISSING


def _to_device(value: Any) -> Any:
    value = value.decode(errors="replace") if isinstance(value, bytes) else value
    return device(value) if isinstance(value, (str, int, device)) and not isinstance(value, bool) else MISSING


def _instance_of(kind: type | tuple) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kind) else MISSING


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _to_tensor, "Tensor|Scalar": _to_tensor_or_number, "Scalar": to_number, "int": to_int,
    "float": to_float, "bool": _to_bool, "str": _to_str, "ScalarType": _to_dtype, "Device": _to_device,
    "Layout": _instance_of(layout), "MemoryFormat": _instance_of(memory_format), "Any": lambda value: value,
    "Generator": lambda value: value if hasattr(value, "manual_seed") else MISSING,
}

_HEAD = re.compile(r"\s*(?:(?P<ns>\w+)::)?(?P<name>\w+)(?:\.(?P<overload>\w+))?\s*\(")
_SELF = re.compile(r"[\w|]+(?:\([^)]*\))?\??\s+self\b")
_SCHEMA = re.compile(
    r"\s*(?:(?P<ns>\w+)::)?(?P<name>\w+)(?:\.(?P<overload>\w+))?\s*\((?P<args>.*)\)\s*->\s*(?P<ret>.+?)\s*", re.S
)
_ARGUMENT = re.compile(
    r"(?P<type>Tensor\|Scalar|[A-Za-z]\w*)(?:\((?P<alias>[a-z*][a-z0-9*]*!?(?:\s*->\s*[a-z*!]+)?)\))?!?(?P<opt1>\?)?"
    r"(?P<list>\[(?P<size>\d*)\])?!?(?P<opt2>\?)?\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.+))?", re.S)
_RETURN = re.compile(r"(?P<type>\w+)(?:\((?P<alias>[^)]*)\))?!?(?P<list>\[\])?\??(?:\s+(?P<name>\w+))?")
_ALIASES = {"SymInt": "int"}
_WORDS = {"contiguous_format": contiguous_format, "preserve_format": preserve_format}


def _split(text: str) -> list[str]:
    """Splits at top-level commas."""
    parts, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        if ch in "([":
            depth += 1
        elif ch in ")]":
            depth -= 1
        elif ch == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _default(text: str, type_name: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except ValueError:
        value = float(text) if text in ("inf", "-inf") else _WORDS.get(text, text)
    if type_name == "float" and value.__class__ is int:
        return float(value)
    if type_name == "ScalarType" and value.__class__ is str:
        return next((kind for kind in OF_ARRAY.values() if kind.name == value), value)
    if type_name == "Device" and value.__class__ is str:
        return device(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Return:
    name: str
    type: str
    is_list: bool
    alias: str | None


class Schema:
    """One overload's signature. With `lazy`, the arguments are parsed when first asked for: most are never."""

    arguments: tuple[Argument, ...]
    names: tuple[str, ...]
    positional: tuple[Argument, ...]
    returns: tuple[Return, ...]
    index: dict[str, int]
    defaults: tuple
    varargs: str | None
    # Whether PyTorch's function is written in Python; a string names what it then reads of a tensor before all else.
    python: bool | str = False
    old_orders: tuple[str, ...] = ()  # of arguments, names separated by spaces (old_orders.py)

    def __init__(self, text: str, namespace: str = "aten", *, lazy: bool = False) -> None:
        head = _HEAD.match(text)
        if head is None:
            raise ValueError(f"not a schema (name(type argument, ...) -> type): {text!r}")
        self.text = " ".join(text.split())
        self.namespace = head["ns"] or namespace
        self.base_name: str = head["name"]
        self.overload: str = head["overload"] or ""
        self.name = self.base_name + (f".{self.overload}" if self.overload else "")
        first = text[head.end() :].partition(",")[0].partition(")")
        self.takes_self = _SELF.match(text, head.end()) is not None
        self.writes = "!" in first[0]  # whether the first argument is written to
        if not lazy:
            self._parse()

    def __getattr__(self, name: str) -> Any:
        if name not in Schema.__annotations__:
            raise AttributeError(f"'Schema' object has no attribute '{name}'")
        self._parse()
        return self.__dict__[name]

    def _parse(self) -> None:
        match = _SCHEMA.fullmatch(self.text)
        if match is None:
            raise ValueError(f"not a schema (name(type argument, ...) -> type): {self.text!r}")
        self.arguments = self._parse_arguments(match["args"])
        self.names = tuple(a.name for a in self.arguments)
        self.positional = tuple(a for a in self.arguments if not a.keyword_only)
        self.returns = self._parse_returns(match["ret"])
        self.index = {name: i for i, name in enumerate(self.names)}
        self.defaults = tuple(a.default for a in self.arguments)
        # x.view(2, 3): integers may be given without a tuple where PyTorch's parser allows it.
        rest = [a for a in self.positional if a.name != "self"]
        self.varargs = None
        if (
            len(rest) == 1
            and rest[0].is_list
            and rest[0].type == "int"
            and rest[0].size is None
            and not rest[0].optional
        ):
            self.varargs = rest[0].name

    def _parse_arguments(self, text: str) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        keyword_only = False
        for part in _split(text):
            if part == "*":
                keyword_only = True
                continue
            m = _ARGUMENT.fullmatch(part)
            if m is None:
                raise ValueError(f"not an argument: {part!r} in {self.text}")
            type_name = _ALIASES.get(m["type"], m["type"])
            if type_name not in _CONVERTERS:
                raise ValueError(f"unknown type {type_name!r} of {m['name']!r} in {self.text}")
            default = MISSING if m["default"] is None else _default(m["default"].strip(), type_name)
            if m["size"] and default.__class__ in NUMBERS:  # `int[2] padding=0`
                default = (default,) * int(m["size"])
            if any(a.name == m["name"] for a in arguments):
                raise ValueError(f"argument {m['name']!r} twice in {self.text}")
            if default is MISSING and not keyword_only and arguments and arguments[-1].default is not MISSING:
                raise ValueError(f"{m['name']!r} without a default follows one with a default in {self.text}")
            arguments.append(Argument(
                m["name"], type_name, bool(m["opt2"]) or (bool(m["opt1"]) and not m["list"]), m["list"] is not None,
                int(m["size"]) if m["size"] else None, "!" in part[: m.start("name")], keyword_only, default,
                bool(m["opt1"] and m["list"]), self.base_name not in _INT_OR_LIST,
                m["type"] == "SymInt" or m["name"] in _SIZES))
        return tuple(arguments)

    def _parse_returns(self, text: str) -> tuple[Return, ...]:
        if text == "()":
            return ()
        inner = text[1:-1] if text.startswith("(") else text
        returns = []
        for i, part in enumerate(_split(inner)):
            m = _RETURN.fullmatch(part)
            if m is None:
                raise ValueError(f"not a return type: {part!r} in {self.text}")
            returns.append(
                Return(m["name"] or ("result" if i == 0 else f"result{i}"), m["type"], bool(m["list"]), m["alias"])
            )
        return tuple(returns)

    def __str__(self) -> str:
        return f"{self.namespace}::{self.text}" if "::" not in self.text else self.text

    __repr__ = __str__

    # binding ---------------------------------------------------------------------------------------------------

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any], *, is_method: bool = False) -> list[Any]:
        """The call's values in the order of the schema, converted; TypeError with the schema if they do not fit.

        In the text of the error, a method's arguments are counted without `self`.
        """
        try:
            return self._bound(args, kwargs, is_method)
        except Mismatch as error:
            read = self.python
            if isinstance(read, str) and error.value is not MISSING and not hasattr(error.value, read):
                raise AttributeError(f"'{type(error.value).__name__}' object has no attribute '{read}'") from None
            colon = ":" if str(error).startswith("argument") else ""
            raise TypeError(f"{self.base_name}(){colon} {error}. Schema: {self}") from None

    def match(self, args: Sequence[Any], kwargs: dict[str, Any], *, is_method: bool = False) -> list[Any] | None:
        """As `bind`, but None if the call does not fit."""
        try:
            return self._bound(args, kwargs, is_method)
        except Unpackable as error:
            raise TypeError(f"{self.base_name}(): {error}") from None
        except Mismatch:
            return None

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any], skipped: int = 0) -> list[Any]:
        args = self._gathered(args, bool(skipped))
        if len(args) > len(self.positional):
            most = len(self.positional) - skipped
            least = sum(a.default is MISSING for a in self.positional) - skipped
            taken = f"{most} positional argument{'s' * (most != 1)}" if most == least else (
                f"from {least} to {most} positional arguments")
            given = len(args) - skipped
            raise Mismatch(f"takes {taken} but {given} {'was' if given == 1 else 'were'} given")
        values = list(self.defaults)
        values[: len(args)] = args
        for name, value in kwargs.items():
            at = self.index.get(name)
            if at is None and not (name in _NUMPYS_NAMES and self.python):
                at = self.index.get(KEYWORD_ALIASES.get(name, ""))
            if at is None:
                raise Mismatch(f"got an unexpected keyword argument '{name}'")
            if at < len(args):
                raise Mismatch(f"got multiple values for argument '{name}'")
            values[at] = value
        lacking = [f'"{a.shown_name}"' for a, v in zip(self.arguments, values) if v is MISSING]
        if lacking:
            raise Mismatch(f"missing {len(lacking)} required positional arguments: {', '.join(lacking)}")
        for i, argument in enumerate(self.arguments):
            value = values[i]
            if value is not argument.default:
                try:
                    values[i] = argument.convert(value)
                except Mismatch as error:
                    position = f" (position {i + 1 - skipped})" if i < len(args) else ""
                    named = type(error)(str(error).replace("' must", f"'{position} must", 1))
                    asked = argument.type == "Tensor" and not argument.is_list and not argument.optional
                    named.value = value if asked else MISSING
                    raise named from None
        return values

    def expected(self, name: str, value: Any) -> TypeError:
        """What is raised for an argument of another type."""
        argument = self.arguments[self.index[name]]
        return TypeError(f"{self.base_name}(): {argument._expected(value)}. Schema: {self}")

    def gathers(self, is_method: bool) -> bool:
        """Whether integers may be given without a tuple: x.flip(0, 1) and zeros(2, 3), but not flip(x, 0, 1)."""
        return self.varargs is not None and (is_method or self.index[self.varargs] == 0)

    def _gathered(self, args: Sequence[Any], is_method: bool) -> Sequence[Any]:
        """`args` with bare integers of x.view(2, 3) in a tuple."""
        if self.varargs is None or not self.gathers(is_method):
            return args
        first = self.index[self.varargs]
        rest = args[first:]
        if len(rest) == 1 and is_tensor(rest[0]) and rest[0].numel() != 1:
            return args
        if rest and all(
            v.__class__ is int or is_tensor(v) or (hasattr(v, "__index__") and not hasattr(v, "__len__"))
            for v in rest
        ):
            return (*args[:first], tuple(rest))
        return args

