"""The schema of a Python function, from its annotations."""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from .._compat.old_names import Tag
from .._core.device import device
from .._core.dtype import dtype
from .._core.tensor import Tensor
from ..types import Number


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


def _supported() -> dict[Any, str]:
    """The annotations that the schema language has a word for."""
    # ruff: noqa: UP007, UP045 - annotations made of values
    found: dict[Any, str] = {}
    for plain, kind in _KINDS.items():
        found[plain] = kind.name
        found[typing.Optional[plain]] = f"{kind.name}?"
        lists = (typing.Sequence, list, Sequence)  # noqa: UP006, UP035 - annotations of the old form are told apart
        if kind.lists:
            found |= {made[plain]: f"{kind.name}[]" for made in lists}
        if kind.lists_of_optional:
            found |= {made[typing.Optional[plain]]: f"{kind.name}?[]" for made in lists}
        if kind.optional_lists:
            found |= {typing.Optional[made[plain]]: f"{kind.name}[]?" for made in lists}
    return found


SUPPORTED_PARAM_TYPES = _supported()
SUPPORTED_RETURN_TYPES = {Tensor: "Tensor", list[Tensor]: "Tensor[]", int: "SymInt", float: "float", bool: "bool",
                          Number: "Scalar"}
_TestTensor = Tensor  # a name of this module, which annotations of others do not see


def tuple_to_list(tuple_type: Any) -> Any:
    """The annotation of a list that can hold what a tuple of this annotation holds."""
    members = [m for m in typing.get_args(tuple_type) if m is not Ellipsis]
    if not members:
        return list
    return list[typing.Union[tuple(members)]]  # type: ignore[misc]  # noqa: UP007 - made of values


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


def infer_schema(prototype_function: Callable, /, *, mutates_args: Any, op_name: str | None = None,
                 tags: Any = ()) -> str:
    """The schema of a function, from its annotations; `mutates_args` names the arguments it writes to.

    With the tag `inplace` the result is the first argument, with `out` the results are those that it writes.
    """
    mutates_args = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
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
    tag = aliasing_tag(tags)
    if tag is not None:
        _check_tag(tag, signature, hints, mutates_args, refuse)
    parts: list[str] = []
    written_by_keyword: list[str] = []
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
            written_by_keyword.append(kind)
        default = parameter.default
        text = "" if default is parameter.empty else f"={_default_text(name, default, refuse)}"
        parts.append(f"{kind} {name}{text}")
    strangers = set() if mutates_args == "unknown" else set(mutates_args) - set(signature.parameters)
    if strangers:
        refuse(f"{strangers} in mutates_args were not found in the custom op's signature. mutates_args should contain "
               "the names of all args that the custom op mutates, or just the string 'unknown' if you don't know.")
    returned = _returned(hints, signature, refuse)
    if tag is not None:
        several = len(written_by_keyword) > 1
        returned = f"({', '.join(written_by_keyword)})" if several else written_by_keyword[0]
    return f"{op_name or ''}({', '.join(parts)}) -> {returned}"


def aliasing_tag(tags: Any) -> Any:
    """The tag that says which arguments are the results: `inplace`, `out`, or none."""
    given = () if tags is None else tags if isinstance(tags, (tuple, list, set, frozenset)) else (tags,)
    if Tag.inplace in given and Tag.out in given:
        raise AssertionError("torch.Tag.inplace and torch.Tag.out are mutually exclusive")
    return next((tag for tag in (Tag.inplace, Tag.out) if tag in given), None)


def _check_tag(tag: Any, signature: inspect.Signature, hints: dict[str, Any], mutates_args: Any,
               refuse: Callable[[str], NoReturn]) -> None:
    """Refuses a function whose arguments cannot be its results as the tag says."""
    parameters = signature.parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    if tag is Tag.inplace:
        if not positional:
            refuse("torch.Tag.inplace requires a positional Tensor argument.")
        if hints.get(positional[0]) is not Tensor:
            refuse("torch.Tag.inplace requires the first positional argument to be a Tensor.")
        if tuple(mutates_args) != (positional[0],):
            refuse("torch.Tag.inplace requires mutates_args to contain exactly the first positional argument, got "
                   f"{mutates_args}.")
        if hints.get("return") is not Tensor:
            refuse("torch.Tag.inplace requires the return annotation to be torch.Tensor.")
        return
    written = tuple(p.name for p in parameters if p.name in mutates_args)
    if any(name in positional for name in written):
        refuse("torch.Tag.out requires mutable arguments to be keyword-only.")
    if not written:
        refuse("torch.Tag.out requires at least one mutable keyword-only Tensor argument.")
    if any(hints.get(name) is not Tensor for name in written):
        refuse("torch.Tag.out only supports mutable keyword-only Tensor arguments.")
    returned = hints.get("return")
    wanted = Tensor if len(written) == 1 else (Tensor,) * len(written)
    if (returned if len(written) == 1 else typing.get_args(returned)) != wanted:
        refuse("torch.Tag.out requires the return annotation to match the mutable keyword-only Tensor arguments "
               f"{written}.")


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
