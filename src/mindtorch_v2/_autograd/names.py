"""What recorded nodes are called: PyTorch's names, which users read in printed tensors and in graphs.

A name is the operator's in capitals, `Backward`, and the number of the overload. Where that is not what PyTorch's node
is called, the field `node` of the declaration says it: a name, or `{name: condition}`. A condition is an expression of
the operator's arguments (`when_given`, `when_tensor`, `when_number` make the usual ones); the first that holds counts,
and where none does, the formula's (its attribute `node`) or the operator's own. Of a composite, the last of its nodes
is called so.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .._dispatch.schema import NUMBERS

NodeName = str | Mapping[str, str] | None
OTHERWISE = "True"  # the condition of a name that calls have where the ones before it do not hold


def when_given(*arguments: str) -> str:
    """The condition that one of the arguments is not None."""
    return " or ".join(f"{argument} is not None" for argument in arguments)


def when_tensor(*arguments: str) -> str:
    """The condition that one of the arguments, which may be numbers or left out, is a tensor."""
    return " or ".join(f"{argument}.__class__ not in NOT_TENSORS" for argument in arguments)


def when_number(argument: str) -> str:
    """The condition that an argument, which may be a tensor, is a number."""
    return f"{argument}.__class__ in NUMBERS"


CONDITION_SCOPE = {"NUMBERS": NUMBERS, "NOT_TENSORS": NUMBERS | {type(None)}}


def name_by_operator(base_name: str) -> str:
    """The name of the node of an operator's first overload."""
    return base_name.title().replace("_", "") + "Backward0"


def without_namespace(name: str) -> str:
    """The name of the class of a node: `CopyBackwards` of `torch::autograd::CopyBackwards`."""
    return name.rpartition("::")[2]


def chosen(by_name: Mapping[str, str], values: Mapping[str, str], otherwise: str) -> str:
    """The source of a choice: the value of the first name whose condition holds."""
    choices = "".join(f"{values[name]} if {condition} else " for name, condition in by_name.items())
    return f"({choices}{otherwise})"


def chooser(declared: str | Mapping[str, str], arguments: str) -> Callable[..., str | None]:
    """The function of a call's arguments that tells its node's name; None for the name it has anyhow."""
    if isinstance(declared, str):
        return lambda *args: declared
    text = chosen(declared, {name: repr(name) for name in declared}, "None")
    made: Callable[..., str | None] = eval(f"lambda {arguments}: {text}", dict(CONDITION_SCOPE))  # noqa: S307
    return made


_RENAMED: dict[tuple[type, str], type] = {}


def renamed(kind: type, name: str) -> type:
    """The class of nodes that are those of `kind` under another name."""
    made = _RENAMED.get((kind, name))
    if made is None:
        whole = None if "::" not in name else lambda node: name
        members: dict[str, Any] = {"shown": staticmethod(whole) if whole else None}
        made = _RENAMED[kind, name] = type(without_namespace(name), (kind,), members)
    return made
