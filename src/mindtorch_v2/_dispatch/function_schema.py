"""`torch._C.parse_schema`: schemas of operators as data, and whether one may take another's place."""

import ast
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_MISSING: Any = object()
# What a type is called in annotations and by its kind.
_TYPES = {
    "Tensor": ("Tensor", "TensorType"), "int": ("int", "IntType"), "SymInt": ("int", "IntType"),
    "float": ("float", "FloatType"), "bool": ("bool", "BoolType"), "str": ("str", "StringType"),
    "Scalar": ("number", "NumberType"), "complex": ("complex", "ComplexType"), "Any": ("Any", "AnyType"),
    "ScalarType": ("int", "IntType"), "Layout": ("int", "IntType"), "MemoryFormat": ("int", "IntType"),
    "QScheme": ("QScheme", "QSchemeType"), "Device": ("Device", "DeviceObjType"), "Storage": ("Storage", "StorageType"),
    "Generator": ("Generator", "GeneratorType"), "Stream": ("Stream", "StreamObjType"),
    "SymFloat": ("float", "FloatType"), "SymBool": ("bool", "BoolType"), "Dimname": ("str", "StringType"),
    "Tensor|Scalar": ("Tensor", "TensorType"), "NoneType": ("NoneType", "NoneType"), "None": ("NoneType", "NoneType"),
}
_NAMES = {"number": "Scalar"}
_TOKEN = re.compile(r"\s*(->|\.\.\.|::|[A-Za-z_]\w*|-?\d[\w.+-]*|\"[^\"]*\"|'[^']*'|\S)?")
_UNKNOWN = ("\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for "
            "a full list, please see https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func ")

# Types of C++ that are others in a schema.
_OF_C = {
    "int64_t": "\nUse `SymInt` or `int` instead of `int64_t` in an operator's schema string. `SymInt` corresponds to "
               "c10::SymInt in C++ while `int` in schema corresponds to the int64_t type in C++.:",
    "double": "\nUse `float` instead of `double` in an operator's schema string. `float` in schema corresponds to the "
              "double type in C++:",
}


@dataclass(frozen=True)
class Type:
    """A type of an argument: a base type, and what is around it."""

    base: str  # as written
    wrappers: tuple[str, ...] = ()  # "[]" and "?", the innermost first

    def __str__(self) -> str:
        text = _TYPES[self.base][0]
        for wrapper in self.wrappers:
            text = f"List[{text}]" if wrapper == "[]" else f"Optional[{text}]"
        return text

    annotation_str = property(__str__)

    def kind(self) -> str:
        if not self.wrappers:
            return _TYPES[self.base][1]
        return "ListType" if self.wrappers[-1] == "[]" else "OptionalType"

    def isSubtypeOf(self, other: "Type") -> bool:
        mine, theirs = self.str(), other.str()
        return mine == theirs or theirs in (f"{mine}?", "Any")

    def str(self) -> str:
        """The type as schemas write it; types that are numbers by themselves are `int`."""
        base = _TYPES[self.base][0]
        return _NAMES.get(base, base) + "".join(self.wrappers)


@dataclass(frozen=True)
class AliasInfo:
    """What memory an argument or a result shows, and whether it is written."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    is_write: bool
    of_elements: bool = False  # of the tensors in a list

    before_set = property(lambda self: set() if self.of_elements else set(self.before))
    after_set = property(lambda self: set() if self.of_elements else set(self.after))

    def __str__(self) -> str:
        after = "" if self.after == self.before else f" -> {'|'.join(self.after)}"
        return f"({'|'.join(self.before)}{'!' if self.is_write else ''}{after})"


@dataclass(frozen=True)
class Argument:
    """An argument, or a result."""

    name: str
    type: Type
    N: int | None = None
    alias_info: AliasInfo | None = None
    kwarg_only: bool = False
    default: Any = _MISSING

    real_type = property(lambda self: self.type)
    is_write = property(lambda self: self.alias_info is not None and self.alias_info.is_write)
    is_out = property(lambda self: self.kwarg_only and self.is_write)

    def has_default_value(self) -> bool:
        return self.default is not _MISSING

    @property
    def default_value(self) -> Any:
        return None if self.default is _MISSING else self.default

    def __str__(self) -> str:
        text = self.type.base + "".join(self.type.wrappers)
        if self.alias_info is not None:  # it follows the tensor, or the list
            is_list = "[]" in text and not self.alias_info.of_elements
            end = text.index("[]") + 2 if is_list else len(self.type.base)
            text = f"{text[:end]}{self.alias_info}{text[end:]}"
        if self.N is not None:
            text = text.replace("[]", f"[{self.N}]", 1)
        text += f" {self.name}" if self.name else ""
        return text if self.default is _MISSING else f"{text}={_shown(self.default)}"


def _shown(value: Any) -> str:
    """A default as schemas write it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, float) and not isinstance(value, bool):
        text = f"{value:.17g}"
        return text if re.search(r"[.einf]", text) else f"{text}."
    return str(value)


@dataclass(frozen=True)
class FunctionSchema:
    """The signature of an operator."""

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False

    @property
    def is_mutable(self) -> bool:
        return any(argument.is_write for argument in self.arguments)

    def _is_view_op(self) -> bool:
        return any(r.alias_info is not None and not r.alias_info.is_write for r in self.returns)

    def __str__(self) -> str:
        shown, keywords = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not keywords:
                keywords = True
                shown.append("*")
            shown.append(str(argument))
        shown += ["..."] * self.is_vararg
        results = [str(result) for result in self.returns] + ["..."] * self.is_varret
        one = len(results) == 1 and not self.is_varret and not self.returns[0].name
        returned = results[0] if one else f"({', '.join(results)})"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(shown)}) -> {returned}"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(str(self))

    def _outline(self) -> tuple:
        return self.name, self.overload_name, self.is_vararg, self.is_varret, len(self.returns)

    def _parted(self) -> tuple[list[Argument], list[Argument]]:
        """The arguments that are read, and those that are results."""
        return [a for a in self.arguments if not a.is_out], [a for a in self.arguments if a.is_out]

    def is_backward_compatible_with(self, old: "FunctionSchema") -> bool:
        """Whether every call that the older schema takes is one of this schema, with results of the same types."""
        if self._outline() != old._outline():
            return False
        if not all(_takes(theirs, mine) for mine, theirs in zip(self.returns, old.returns, strict=True)):
            return False
        (given, outs), (before, outs_before) = self._parted(), old._parted()
        if len(given) < len(before) or len(outs) < len(outs_before):
            return False
        if not all(a.has_default_value() for a in given[len(before):]):
            return False
        pairs = [*zip(given, before, strict=False), *zip(outs, outs_before, strict=False)]
        return all(_takes(mine, theirs) for mine, theirs in pairs)

    def check_forward_compatible_with(self, old: "FunctionSchema") -> tuple[bool, str]:
        """Whether programs written with this schema run where only the older one is; and why not."""
        if self._outline() != old._outline():
            return False, ""
        (given, outs), (before, outs_before) = self._parted(), old._parted()
        if len(outs) != len(outs_before):
            return False, "Function schema should have the same number of out arguments"
        for mine, theirs in zip([*given[:len(before)], *outs], [*before[:len(given)], *outs_before], strict=True):
            same = (mine.name, mine.type, mine.N, mine.alias_info) == (
                theirs.name, theirs.type, theirs.N, theirs.alias_info)
            if not same or mine.default is not theirs.default and mine.default != theirs.default or (
                    mine.kwarg_only and not theirs.kwarg_only):
                return False, f"'{mine.name}' is not forward compatible with the older version of the schema"
        for mine in given[len(before):]:
            text = f"Function schema is not forward compatible since the new argument '{mine.name}' of type "
            if not mine.has_default_value():
                return False, f"{text}{mine.type.str()} did not provide a default value."
            if mine.type.wrappers:
                return False, f"{text}{mine.type.str()} has a container type as its default value."
        return True, ""


def _takes(mine: Argument, theirs: Argument) -> bool:
    """Whether what one argument is given can be given to another."""
    if (mine.name, mine.N, mine.alias_info) != (theirs.name, theirs.N, theirs.alias_info):
        return False
    if mine.kwarg_only and not theirs.kwarg_only:
        return False
    if theirs.has_default_value() and theirs.default != mine.default:
        return False
    return theirs.type.isSubtypeOf(mine.type)


class _Parser:
    """Reads a schema, a token at a time."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.token, self.begin = text, 0, "", 0
        self.unnamed = 0  # so many arguments and results have memory without a name
        self.advance()

    def advance(self) -> str:
        """Goes on, and gives the token that was the current one."""
        last = self.token
        found = _TOKEN.match(self.text, self.at)
        assert found is not None
        self.token, self.begin, self.at = found[1] or "", found.start(1) if found[1] else len(self.text), found.end()
        return last

    def expect(self, token: str, name: str = "") -> None:
        if self.token != token:
            self.fail(f"expected {name or token} but found {self.kind()} here:")
        self.advance()

    def kind(self) -> str:
        word = "eof" if not self.token else "ident" if self.token[0].isalpha() or self.token[0] == "_" else self.token
        return f"'{word}'"

    def fail(self, message: str) -> NoReturn:
        mark = f"\n{' ' * self.begin}{'~' * len(self.token)} <--- HERE\n" if self.token else ""
        raise RuntimeError(f"{message}\n{self.text}{mark}")

    def word(self) -> str:
        if self.kind() != "'ident'":
            self.fail(f"expected ident but found {self.kind()} here:")
        return self.advance()

    def schema(self) -> FunctionSchema:
        name = self.word()
        if self.token == "::":
            self.advance()
            name += f"::{self.word()}"
        if self.token == "::":
            self.begin, self.token = self.begin, ":"
            self.fail("expected eof but found ':' here:")
        overload = ""
        if self.token == ".":
            self.advance()
            overload = self.word()
        arguments, vararg = self.arguments()
        returns, varret = self.returns()
        if self.token:
            self.fail(f"expected eof but found {self.kind()} here:")
        if vararg and any(a.has_default_value() for a in arguments):
            raise RuntimeError(f"\nschemas with vararg (...) can't have default value args:\n{self.text}")
        return FunctionSchema(name, overload, tuple(arguments), tuple(returns), vararg, varret)

    def arguments(self) -> tuple[list[Argument], bool]:
        self.expect("(")
        arguments: list[Argument] = []
        keyword_only = vararg = False
        while self.token != ")":
            if self.token == "*":
                self.advance()
                keyword_only = True
            elif self.token == "...":
                self.advance()
                vararg = True
            else:
                arguments.append(self.argument(keyword_only))
            if self.token != ",":
                break
            self.advance()
        self.expect(")")
        return arguments, vararg

    def argument(self, keyword_only: bool) -> Argument:
        kind, size, alias = self.type()
        name, default = self.word(), _MISSING
        if self.token == "=":
            self.advance()
            default = self.value(kind, size)
        return Argument(name, kind, size, alias, keyword_only, default)

    def returns(self) -> tuple[list[Argument], bool]:
        if not self.token:
            return [], True
        self.expect("->", "arrow")
        if self.token == "...":
            self.advance()
            return [], True
        if self.token != "(":
            return [self.result()], False
        self.advance()
        results: list[Argument] = []
        varret = False
        while self.token != ")":
            if self.token == "...":
                self.advance()
                varret = True
            else:
                results.append(self.result())
            if self.token != ",":
                break
            self.advance()
        self.expect(")")
        return results, varret

    def result(self) -> Argument:
        kind, size, alias = self.type()
        name = self.advance() if self.kind() == "'ident'" else ""
        return Argument(name, kind, size, alias)

    def type(self) -> tuple[Type, int | None, AliasInfo | None]:
        if self.token in _OF_C:
            self.fail(_OF_C[self.token])
        if self.token not in _TYPES:
            self.fail(f"{_UNKNOWN}:" if self.kind() == "'ident'" else f"expected ident but found {self.kind()} here:")
        base, size, alias = self.advance(), None, None
        wrappers: list[str] = []
        while self.token in ("[", "?", "(") or self.token == "!" and wrappers[-1:] != ["?"]:
            opening = self.advance()
            if opening == "?":
                wrappers.append("?")
            elif opening == "!":  # memory of its own, written to
                alias = AliasInfo((f"${self.unnamed}",), (), is_write=True)
                self.unnamed += 1
            elif opening == "[":
                size = int(self.advance()) if self.token != "]" else size
                self.expect("]")
                wrappers.append("[]")
                if alias is not None:
                    alias = AliasInfo(alias.before, alias.after, alias.is_write, of_elements=True)
            else:
                alias = self.alias()
        return Type(base, tuple(wrappers)), size, alias

    def alias(self) -> AliasInfo:
        sets: list[list[str]] = [[], []]
        side, writes = 0, False
        while self.token != ")":
            token = self.advance()
            if token == "->":
                side = 1
            elif token == "!":
                writes = True
            elif not token:
                self.expect(")")
            elif token != "|":
                sets[side].append(token)
        self.expect(")")
        return AliasInfo(tuple(sets[0]), tuple(sets[1] if side else sets[0]), writes)

    def value(self, kind: Type, size: int | None) -> Any:
        """A default; one number stands for all of a list of a known length."""
        if self.token == "[":
            self.advance()
            items = []
            while self.token != "]":
                items.append(self.value(Type(kind.base), None))
                if self.token == ",":
                    self.advance()
            self.expect("]")
            return items
        token = self.advance()
        if token == "-":
            token += self.advance()
        try:
            value = ast.literal_eval(token)
        except (ValueError, SyntaxError):
            value = {"True": True, "False": False, "None": None}.get(token, token)
        if kind.base == "float" and type(value) is int:
            value = float(value)
        return [value] * size if size is not None and "[]" in kind.wrappers and value is not None else value


def parse_schema(schema: str) -> FunctionSchema:
    """The schema that a text says; RuntimeError that shows the place if it is none."""
    return _Parser(schema).schema()
