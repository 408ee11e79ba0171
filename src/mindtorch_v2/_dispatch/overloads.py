"""Which overload of a function is meant, where one argument tells it: lines of the function of the first overload.

Overloads are tried in their order, which takes a while. Mostly two of them share their first arguments, and the next
is of another kind: `max(x, 0)` and `max(x, y)`. The lines look at that argument alone, and call the overload.
"""

from collections.abc import Collection, Sequence

from .registry import Operator
from .schema import MISSING, Argument

_KINDS = {
    "Tensor": {"Tensor"},
    "Tensor|Scalar": {"Tensor", "int", "float", "bool"},
    "int": {"int"},
    "float": {"int", "float"},
    "Scalar": {"int", "float", "bool"},
    "bool": {"bool"},
    "str": {"str"},
}
_ANY = {"Tensor", "tuple", "list", "int", "float", "bool", "str"}


def _kinds(argument: Argument) -> set[str]:
    """What an argument takes: "Tensor", and names of classes."""
    if argument.is_list:
        return {"tuple", "list", "int", "float"} if argument.size else {"tuple", "list"}
    return _KINDS.get(argument.type, _ANY)


def _alike(own: Sequence[Argument], theirs: Sequence[Argument]) -> bool:
    """Whether arguments can be handed on as they are."""
    return len(own) == len(theirs) and all(
        _kinds(a) == _kinds(b) and a.default is b.default for a, b in zip(own, theirs, strict=True)
    )


def _required(arguments: Sequence[Argument]) -> int:
    return sum(a.default is MISSING for a in arguments)


def lines_to_others(
    first: Operator, overloads: Sequence[Operator], told: Collection[str], takes_out: bool, is_method: bool
) -> list[str]:
    """Lines that call another overload if the first argument that the two do not share is one that only it takes.

    They are part of a function of the first overload's arguments, `extra` ones and `unexpected` keywords. What they do
    not know goes the general way.
    """
    own, lines = first.schema.positional, list[str]()
    named = [a for a in first.schema.arguments if a.keyword_only]
    usual = [f"{a.name} is {'MISSING' if a.name in told else f'__default_{a.name}__'}" for a in named]
    usual += ["not unexpected", *["out is MISSING"] * takes_out]
    if own[0].type != "Tensor":
        return []
    for number, operator in enumerate(overloads):
        theirs, earlier = operator.schema.positional, (first, *overloads[:number])
        at = 0
        while at < min(len(own), len(theirs)) and _kinds(own[at]) == _kinds(theirs[at]):
            at += 1
        if not at or any(a.keyword_only and a.default is MISSING for a in operator.schema.arguments):
            continue
        before, gathers = [a.name for a in own[:at]], operator.schema.gathers(is_method)
        given = [f"{a.name} is not MISSING" for a in own[1:at] if a.default is MISSING]
        rivals = [o for o in earlier[1:] if _required(o.schema.positional) <= at <= len(o.schema.positional)]
        if at < len(own) and own[at].default is MISSING and _required(theirs) <= at and not rivals and not gathers:
            left_out = [f"{a.name} is __default_{a.name}__" for a in own[at + 1 :]]
            lines += _leaving(number, [f"{own[at].name} is MISSING", *given, "not extra", *left_out, *usual], before)
        if at == len(theirs):
            continue
        refused = set[str]().union(*(_kinds(o.schema.positional[at]) for o in earlier if len(o.schema.positional) > at))
        if gathers or any(o.schema.gathers(is_method) for o in earlier):
            refused |= {"int", "float", "bool"}
        value = own[at].name if at < len(own) else "extra[0]"
        tests = [
            f"{value}.__class__ is {f'{own[0].name}.__class__' if kind == 'Tensor' else kind}"
            for kind in sorted(_kinds(theirs[at]) - refused)
        ]
        after, handed = own[at + 1 :], [*before, value]
        if after and _alike(after, theirs[at + 1 :]):
            handed += [a.name for a in after]
            given += [f"{a.name} is not MISSING" for a in after if a.default is MISSING]
        elif _required(theirs) <= at + 1:
            given += [f"{a.name} is __default_{a.name}__" for a in after]
        else:
            continue
        if tests:
            length = "not extra" if at < len(own) else "len(extra) == 1"
            lines += _leaving(number, [length, *given, *usual, f"({' or '.join(tests)})"], handed)
    return lines


def _leaving(number: int, conditions: Sequence[str], given: Sequence[str]) -> list[str]:
    """Lines that return what an overload gives, if it takes the arguments."""
    return [
        f"if {' and '.join(conditions)}:",
        f"    _made = __overloads__[{number}]({', '.join(given)})",
        "    if _made is not __leave__: return _made",
    ]
