"""The schema of a Python function, from its annotations."""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from ._core.device import device
from ._core.dtype import dtype
from ._core.tensor import Tensor
from .types import Number


class _Kind(NamedTuple):
    """A type of the schema language, and which lists of it there are."""

    name: str
    lists: bool = False
    lists_of_optional: bool = False
    optional_lists: bool = False


_KINDS = {
    Tensor: _Kind("Tensor", lists=True, lists_of_optional=True),
    int: _Kind("SymInt", lists=True, optional_lists=True),
    float: _Kind("float", lists=True, optional_lists=True),
    bool: _Kind("bool", lists=True, optional_lists=True),
    str: _Kind("str"),
    Number: _Kind("Scalar", lists=True),
    dtype: _Kind("ScalarType"),
    device: _Kind("Device"),
}
_NONE = type(None)


def _without_none(annotation: Any) -> Any:
    """T of an Optional[T]; None for any other annotation."""
    members = typing.get_args(annotation)
    if _NONE not in members or typing.get_origin(annotation) is tuple:
        return None
    return typing.Union[tuple(m for m in members if m is not _NONE)]  # noqa: UP007 - of one member, the member


def _element(annotation: Any) -> Any:
    """T of a Sequence[T] or list[T]; None for any other annotation."""
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    is_list = inspect.isclass(origin) and issubclass(origin, Sequence) and origin is not tuple
    return members[0] if is_list and len(members) == 1 else None


def _known(annotation: Any) -> _Kind | None:
    for plain, kind in _KINDS.items():
        if annotation == plain:
            return kind
    return None


def _schema_type(annotation: Any) -> str | None:
    """What the schema language calls an annotation; None if it has no word for it."""
    kind = _known(annotation)
    if kind is not None:
        return kind.name
    inner = _element(annotation)
    if inner is not None:
        kind, optional = _known(inner), _known(_without_none(inner))
        if kind is not None and kind.lists:
            return f"{kind.name}[]"
        return f"{optional.name}?[]" if optional is not None and optional.lists_of_optional else None
    rest = _without_none(annotation)
    if rest is None:
        return None
    kind, element = _known(rest), _known(_element(rest))
    if kind is not None:
        return f"{kind.name}?"
    return f"{element.name}[]?" if element is not None and element.optional_lists else None


def _default_text(name: str, value: Any, refuse: Callable[[str], NoReturn]) -> str:
    if isinstance(value, dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if value is None or isinstance(value, (int, float, bool)):
        return repr(value)
    refuse(f"Parameter {name} has an unsupported default value type {type(value)}. Please file an issue on GitHub so "
           "we can prioritize this.")


def infer_schema(prototype_function: Callable, /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """The schema of a function, from its annotations; `mutates_args` names the arguments it writes to."""
    signature = inspect.signature(prototype_function)

    def refuse(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        refuse(f"Unsupported type annotation. It is not a type. ({error}).")
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError("mutates_args must either be a sequence of the names of the arguments that are mutated or the "
                         "string 'unknown'. ")
    parts: list[str] = []
    for nr, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if name not in hints:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = _schema_type(hints[name])
        if kind is None:
            _refuse_type(name, hints[name], refuse)
        if mutates_args == "unknown":
            written = kind.startswith("Tensor")
        else:
            written = name in mutates_args
            if written and not kind.startswith("Tensor"):
                refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        if written:
            kind = f"Tensor(a{nr}!)" + kind.removeprefix("Tensor")
        default = parameter.default
        text = "" if default is parameter.empty else f"={_default_text(name, default, refuse)}"
        parts.append(f"{kind} {name}{text}")
    strangers = set() if mutates_args == "unknown" else set(mutates_args) - set(signature.parameters)
    if strangers:
        refuse(f"{strangers} in mutates_args were not found in the custom op's signature. mutates_args should contain "
               "the names of all args that the custom op mutates, or just the string 'unknown' if you don't know.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(hints, signature, refuse)}"


def _refuse_type(name: str, annotation: Any, refuse: Callable[[str], NoReturn]) -> NoReturn:
    members = [m for m in typing.get_args(annotation) if m is not Ellipsis]
    hint = ""
    if typing.get_origin(annotation) is tuple and members:
        shown = getattr(members[0], "__name__", members[0])
        hint = ("We do not support Tuple inputs in schema. As a workaround, please try to use List instead. For "
                f"example, list[{shown}]. ")
    words = ", ".join(getattr(plain, "__name__", str(plain)) for plain in _KINDS)
    refuse(f"Parameter {name} has unsupported type {annotation}. {hint}The valid types are: {words}, lists of most of "
           "them, and Optional.")


def _returned(hints: dict[str, Any], signature: inspect.Signature, refuse: Callable[[str], NoReturn]) -> str:
    """The schema's text for what the function returns."""
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    annotation = hints["return"]
    if annotation is _NONE:
        return "()"
    several = typing.get_origin(annotation) is tuple
    names = [_schema_type(a) for a in (typing.get_args(annotation) if several else (annotation,))]
    if any(name is None or name.endswith("?") for name in names):
        refuse(f"Return has unsupported type {annotation}.")
    return f"({', '.join(map(str, names))})" if several else str(names[0])
