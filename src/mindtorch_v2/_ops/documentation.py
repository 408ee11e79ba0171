"""What docstrings say of operators: `docs/<family>.md` has a section for each, with an example that a test runs."""

import functools
import pathlib
from collections.abc import Sequence

from .._dispatch.registry import Operator

FOLDER = pathlib.Path(__file__).with_name("docs")


@functools.cache
def sections(family: str) -> dict[str, str]:
    """The texts on a family's operators, by their name without overload."""
    file = FOLDER.joinpath(*family.split(".")).with_suffix(".md")
    if not file.exists():
        return {}
    parts = file.read_text(encoding="utf-8").split("\n# ")[1:]
    return {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}


def text_on(operator: Operator) -> str:
    """What is said of an operator; of an in-place form or one over lists, by the operator it stands for."""
    declaration, name = operator.declaration, operator.schema.base_name
    family = declaration.module.partition("_ops.")[2]
    text = sections(family).get(name, "")
    if not text and declaration.inplace_of is not None:
        return f"`{name[:-1]}`, written into the tensor itself, which is returned."
    if not text and declaration.family.written is not None:
        text = declaration.family.written.__doc__ or ""
    return text


def docstring(operators: Sequence[Operator]) -> str:
    """The docstring of the function that calls one of these operators: words, an example, and the schemas."""
    schemas = "\n".join([str(operator.schema) for operator in operators])
    text = text_on(operators[0])
    return f"{text}\n\n{schemas}" if text else schemas
