"""How ATen has an operator where that is not as it is declared here: the field `aten` of a declaration.

It is for those who look on, the `__torch_dispatch__` of subclasses and of modes. Nobody else pays.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._dispatch.schema import NUMBERS, Schema

# The name of a call's overload, or what tells it.
Overload = str | Callable[[Schema, Sequence[Any]], str]


class Aten(NamedTuple):
    """Calls are of `overload` there; None: as the schema says.

    With a `name`, `when` holds, and they are calls of that operator, with `values(*arguments)`; `result` makes ours of
    its result. Of an in-place form, they are calls of the in-place form of that. `parts` are the several operators that
    it is there. A composite that is a `leaf` is one there; calls that are recorded are shown as what it is written as
    all the same.
    """

    overload: Overload | None = None
    name: str | None = None
    values: Callable[..., Sequence[Any]] = lambda *values: values
    result: Callable[[Any], Any] = lambda result: result
    when: Callable[..., bool] = lambda *values: True
    parts: Callable | None = None
    leaf: bool = False


AS_DECLARED = Aten()
LEAF = Aten(leaf=True)


def first(result: Any) -> Any:
    return result[0]


def is_number(value: Any) -> bool:
    return value.__class__ in NUMBERS


class if_given:
    """Another overload than the default one if an argument is given."""

    def __init__(self, argument: str, overload: str) -> None:
        self.argument, self.overload = argument, overload

    def __call__(self, schema: Schema, values: Sequence[Any]) -> str:
        at = schema.index[self.argument]
        return "default" if values[at] is None or values[at] == schema.defaults[at] else self.overload


def by_operands(*names: str, inplace: Sequence[str] | None = None) -> Overload:
    """Names by the first two arguments: both tensors, a number second, a number first, both numbers."""

    def chosen(schema: Schema, values: Sequence[Any]) -> str:
        numbers = is_number(values[0]), is_number(values[1])
        known = inplace if inplace is not None and schema.writes else names
        return known[3 if all(numbers) else 2 if numbers[0] else 1 if numbers[1] else 0]

    return chosen


def declared_overload(schema: Schema, values: Sequence[Any]) -> str:
    """The schema's own overload; where it has none, by whether a number stands for a tensor."""
    if schema.overload:
        return "default" if schema.overload in ("functional", "method") else schema.overload
    mixed = next((i for i, a in enumerate(schema.arguments) if a.type == "Tensor|Scalar" and i), None)
    return "default" if mixed is None else "Scalar" if is_number(values[mixed]) else "Tensor"
