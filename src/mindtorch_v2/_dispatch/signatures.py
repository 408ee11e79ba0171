"""What the schemas of a public function say to Python's tools: its parameters, their types, what comes back."""

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any

from .schema import MISSING, Argument, Schema

_TYPES = {"Tensor|Scalar": "Tensor | Number", "Scalar": "Number", "ScalarType": "dtype", "Device": "DeviceLike",
          "Layout": "layout", "MemoryFormat": "memory_format"}  # fmt: skip


def annotation(schema: Schema, argument: Argument) -> str:
    """The type of an argument, in the words of the stubs: `Sequence[int] | None`."""
    text = _TYPES.get(argument.type, argument.type)
    if argument.is_list and f"{argument.type}?[] {argument.name}" in schema.text:
        text += " | None"
    if argument.is_list:
        one = text
        text = f"Sequence[{text}]"
        if argument.size is not None and argument.type != "Tensor":  # one number stands for all
            text = f"{one} | {text}"
    if argument.optional or argument.default is None:
        text = f"{text} | None" if text != "Any" else text
    return text


def result_annotation(schema: Schema) -> str:
    """The type of what a call gives: a tensor, a tuple, or the named tuple of `torch.return_types`."""
    returns = schema.returns
    if not returns:
        return "None"
    if returns[0].is_list:
        return "tuple[Tensor, ...]" if returns[0].alias else "list[Tensor]"
    kinds = [_TYPES.get(r.type, r.type) for r in returns]
    if len(returns) == 1:
        return kinds[0]
    if returns[1].name == "result1":  # they were given no names
        return f"tuple[{', '.join(kinds)}]"
    return f"return_types.{schema.base_name}"


def parameters(schema: Schema, *, is_method: bool, takes_out: bool) -> list[Parameter]:
    """The parameters of the function, or method, of one schema; integers of `x.view(2, 3)` may come one by one."""
    made = []
    for argument in schema.arguments:
        name = argument.name if is_method else argument.shown_name
        if argument.name == schema.varargs:
            made.append(Parameter(name, Parameter.VAR_POSITIONAL, annotation="int"))
            continue
        after_varargs = any(p.kind is Parameter.VAR_POSITIONAL for p in made)
        kind = Parameter.KEYWORD_ONLY if argument.keyword_only or after_varargs else Parameter.POSITIONAL_OR_KEYWORD
        default: Any = Parameter.empty if argument.default is MISSING else argument.default
        made.append(Parameter(name, kind, default=default, annotation=annotation(schema, argument)))
    if takes_out:
        several = len(schema.returns) > 1 or schema.returns[0].is_list
        text = "Sequence[Tensor] | None" if several else "Tensor | None"
        made.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation=text))
    return made


def signature(schemas: Sequence[Schema], *, is_method: bool, takes_out: bool) -> Signature:
    """The signature of a public function. Of several overloads: what they share, then `*args` and `**kwargs`."""
    each = [parameters(schema, is_method=is_method, takes_out=takes_out) for schema in schemas]
    results = {result_annotation(schema) for schema in schemas}
    result = results.pop() if len(results) == 1 else Signature.empty
    if len(each) == 1:
        return Signature(each[0], return_annotation=result)
    shared = []
    for at_place in zip(*each):
        if len({(p.name, p.kind) for p in at_place}) > 1 or at_place[0].kind is not Parameter.POSITIONAL_OR_KEYWORD:
            break
        types = list(dict.fromkeys(p.annotation for p in at_place))
        shared.append(at_place[0].replace(annotation=" | ".join(types)))
    rest = [Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]
    return Signature([*shared, *rest], return_annotation=result)
