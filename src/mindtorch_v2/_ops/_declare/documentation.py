"""What docstrings say: `docs/<family>.md` has a section for each operator, with an example that a test runs.

Functions written in Python show the section of the operator of their name, or have one in `docs/functions/<place>.md`.
"""

import functools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..._dispatch.registry import Operator

FOLDER = pathlib.Path(__file__).parents[1] / "docs"


_read: dict[str, dict[str, str]] = {}


def sections(family: str) -> dict[str, str]:
    """The texts on a family's operators, by their name without overload; a heading may name several."""
    if family not in _read:
        file = FOLDER.joinpath(*family.split(".")).with_suffix(".md")
        parts = file.read_text(encoding="utf-8").split("\n# ")[1:] if file.exists() else []
        _read[family] = {
            name: text.strip()
            for names, _, text in (part.partition("\n") for part in parts)
            for name in names.split(", ")
        }
    return _read[family]


@functools.cache
def of_functions(place: str) -> Mapping[str, str]:
    """The texts on functions of a place ("torch", "nn_functional", ...): its own, torch's and the operators'."""
    texts: dict[str, str] = {}
    for family, read in _read.items():  # all whose operators have a function by now
        if not family.startswith("functions."):
            texts.update(read)
    return {**texts, **sections("functions.torch"), **sections(f"functions.{place}")}


def explained(place: str, name: str, function: Any) -> Any:
    """The function, or class, with what is said of it below the docstring that it has."""
    text = of_functions(place).get(name)
    if text is not None and text not in (function.__doc__ or ""):
        function.__doc__ = f"{function.__doc__ or ''}\n\n{text}".lstrip()
    return function


def explain(place: str, functions: Mapping[str, Any]) -> None:
    """Lengthens the docstrings of all that has a section among these."""
    for name in of_functions(place).keys() & functions.keys():
        explained(place, name, functions[name])


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


def devices_of(operator: Operator) -> str:
    """What is said of how an operator runs on devices."""
    declaration = operator.declaration if operator.declaration.inplace_of is None else (
        operator.declaration.inplace_of.declaration)
    if declaration.family.is_view:
        return "A view on every device."
    own = {device: [f"{name.partition('.')[0]}.py"] for device, name in declaration.kernels.items()
           if not device.startswith("sparse")}
    rows = (declaration.npu,) if isinstance(declaration.npu, str) else declaration.npu or ()
    called = own["npu"] = list(dict.fromkeys([*re.findall(r"aclnn\w+", " ".join(rows)), *own.get("npu", ())]))
    listed = [f"{device} {', '.join([f'`{name}`' for name in names])}" for device, names in own.items() if names]
    if not listed and operator.is_composite:
        return "Made of other operators, so that it runs where they do."
    kernels = f"Kernels of devices: {'; '.join(listed)}; else its family's."
    text = kernels if listed else "Its family's kernel everywhere."
    return text if called or declaration.decomposition is not None else f"{text} NPUs have none."


def docstring(operators: Sequence[Operator]) -> str:
    """The docstring of a function that calls one of these operators: words, an example, devices, and the schemas."""
    schemas = "\n".join([str(operator.schema) for operator in operators])
    return "\n\n".join(filter(None, (text_on(operators[0]), devices_of(operators[0]), schemas)))
