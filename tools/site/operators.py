"""The reference: a page of Markdown for each public operator, made of its declaration."""

import doctest
import inspect
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mathematics
import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.keys import DispatchKey
from mindtorch_v2._dispatch.registry import Operator
from mindtorch_v2._ops._declare import documentation
from mindtorch_v2._ops._declare.op import PUBLIC, Declaration
from mindtorch_v2._ops._declare.samples import Case, TensorSample
from mindtorch_v2._ops._declare.source import source_of
from mindtorch_v2._show import describe_kernels

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(torch.__file__).resolve().parent
MODULES = {
    "torch": torch,
    "Tensor": torch.Tensor,
    "nn.functional": torch.nn.functional,
    "special": torch.special,
    "linalg": torch.linalg,
    "fft": torch.fft,
    "sparse": torch.sparse,
}
TYPES = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float32",
    "bfloat16": "float32",
    "complex64": "complex64",
    "complex128": "complex128",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}  # with the type that NumPy makes the numbers in
DEVICES = ("CPU", "Meta", "CUDA", "NPU")
SHOWN_SHAPES = 5


class Entry(NamedTuple):
    """An operator that has a page."""

    name: str  # the page's
    title: str
    names: dict[str, Callable]  # how users call it: "torch.softmax", "Tensor.softmax", ...
    operators: list[Operator]
    text: str

    @property
    def declaration(self) -> Declaration:
        return self.operators[0].declaration

    @property
    def family(self) -> str:
        return self.declaration.module.partition("_ops.")[2]

    @property
    def summary(self) -> str:
        """The first sentence of what is said of it."""
        words = self.text.partition(">>>")[0].strip().replace("\n", " ")
        return re.split(r"(?<=[.:])\s", words, maxsplit=1)[0].rstrip(":")


@cache
def entries() -> dict[str, Entry]:
    """All public operators, by the names of their pages."""
    found: dict[str, tuple[dict[str, Callable], list[Operator]]] = {}
    for place, functions in PUBLIC.items():
        for name, operators in functions.items():
            first = operators[0]
            functional = first.declaration.inplace_of or first
            base = functional.schema.base_name
            if base.startswith("_"):
                continue
            names, known = found.setdefault(base, ({}, []))
            known += [o for o in operators if o not in known and o.declaration.inplace_of is None]
            where = "nn.functional" if place == "_nn" else place
            function = getattr(MODULES[where], name, None)
            if function is not None:
                shown = name if where == "torch" else f"{where}.{name}"
                names[shown if where == "Tensor" else f"torch.{shown}"] = function
    made = {}
    for base, (names, operators) in sorted(found.items()):
        operators = operators or [o for o in mathematics.operators_of(base)]
        text = documentation.text_on(operators[0])
        preferred = [n for n in names if n.rpartition(".")[2] == base]
        title = (preferred or list(names) or [f"torch.ops.aten.{base}"])[0]
        made[base] = Entry(base, title, names, operators, text)
    return made


@cache
def by_hand() -> dict[str, list[str]]:
    """The equations that are written down and not derived."""
    return tomllib.loads((ROOT / "docs" / "site" / "formulas.toml").read_text(encoding="utf-8"))


def equations(entry: Entry) -> tuple[list[str], list[str], bool]:
    """The equations of the value and of gradients, and whether every gradient has one."""
    hand = by_hand().get(entry.name) or by_hand().get(re.sub(r"(_copy|_)$", "", entry.name))
    derived = next((o.declaration for o in entry.operators if o.declaration.samples is not None), entry.declaration)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forward = [f"{left} = {right}" for left, right in mathematics.forward(derived)] if hand is None else []
        lines = mathematics.backward(derived) if hand is None or len(hand) == 1 else []
    backward = [f"{left} = {right}" for left, right in lines if right]
    whole = all(right for _, right in lines)
    if hand is not None:
        split = next((i for i, line in enumerate(hand) if line.startswith((r"\bar", r"\overline{\mathit"))), len(hand))
        forward, backward = hand[:split], hand[split:] or backward
    return forward, backward, whole


# what is tried out ---------------------------------------------------------------------------------------------------


def _made(value: Any, kind: str) -> Any:
    if isinstance(value, TensorSample):
        array = value.array(np.random.default_rng(0), np.dtype(TYPES[kind]))
        made = torch.tensor(np.array(array, order="C"))
        return made.to(getattr(torch, kind)) if value.kind == "float" else made
    if isinstance(value, (list, tuple)):
        return type(value)(_made(v, kind) for v in value)
    return value


def _call(operator: Operator, case: Case, kind: str = "float32") -> Any:
    """The result of a sample call in a type; None if it is refused."""
    function = mathematics.function_of(operator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*[_made(a, kind) for a in case.args], **{k: _made(a, kind) for k, a in case.kwargs.items()})
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, ArithmeticError):
            return None


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"({', '.join(map(str, value.shape))}{',' if value.dim() == 1 else ''})"
    if isinstance(value, (tuple, list)):
        return ", ".join(_shape(v) for v in value)
    return type(value).__name__


def _shown(value: Any) -> str:
    if isinstance(value, TensorSample):
        return f"({', '.join(map(str, value.shape))}{',' if len(value.shape) == 1 else ''})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_shown(v) for v in value)}]"
    return repr(value)


def shapes(entry: Entry) -> Iterator[tuple[str, str]]:
    """Sample calls, with shapes in the place of tensors, and the shapes that come out."""
    seen = set()
    for operator in entry.operators:
        for case in mathematics.good_cases(operator.declaration):
            tensors = [a for a in case.args if isinstance(a, TensorSample)]
            arguments = [_shown(a) for a in case.args] + [f"{k}={_shown(a)}" for k, a in case.kwargs.items()]
            call = f"{entry.title.rpartition('.')[2]}({', '.join(arguments)})"
            if call in seen or len(call) > 100 or (tensors and 0 in tensors[0].shape):
                continue
            result = _call(operator, case)
            if result is not None:
                seen.add(call)
                yield call, _shape(result)
            if len(seen) >= SHOWN_SHAPES:
                return


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch.")
    if isinstance(value, (tuple, list)):
        return ", ".join(dict.fromkeys(_kind(v) for v in value))
    return type(value).__name__


def types(entry: Entry) -> tuple[dict[str, list[str]], list[str]]:
    """Types of arguments by the type that comes out, and those that are refused; nothing where no argument has one."""
    accepted: dict[str, list[str]] = {}
    refused = []
    for operator in entry.operators:
        for case in mathematics.good_cases(operator.declaration):
            if any(isinstance(a, TensorSample) and a.kind == "float" and 0 not in a.shape for a in case.args):
                for kind in TYPES:
                    result = _call(operator, case, kind)
                    if result is None:
                        refused.append(kind)
                    else:
                        accepted.setdefault(_kind(result), []).append(kind)
                return accepted, refused
    return accepted, refused


def run_example(entry: Entry) -> str | None:
    """What went wrong with the examples of a text; None if they give what they show."""
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.run(doctest.DocTestParser().get_doctest(entry.text, scope, entry.name, None, 0), out=report.append)
    return "".join(report) if report else None


# the page ------------------------------------------------------------------------------------------------------------


def signature(name: str, function: Callable) -> str:
    """How it is called, with types."""
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return f"{name}(...)"
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _wrapped(line: str) -> str:
    """A signature, broken where it is too long for a page."""
    if len(line) <= 96:
        return line
    head, _, rest = line.partition("(")
    inner, _, tail = rest.rpartition(")")
    parts = re.split(r", (?![^\[\]]*\])", inner)
    return f"{head}(\n    " + ",\n    ".join(parts) + f",\n){tail}"


def source_link(file: str, line: int) -> str:
    """A link from a page of the reference to a line of the source."""
    return f"../source/{Path(file).resolve().relative_to(PACKAGE).as_posix()}.html#L{line}"


def words(text: str) -> str:
    """The words of a docstring; what Markdown would take for markup is kept as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_])", r"\\\1", p).replace("<", "&lt;") for p in parts)


def _text(entry: Entry) -> Iterator[str]:
    """The words and examples of the description."""
    for block in re.split(r"\n\s*\n", entry.text):
        yield f"```pycon\n{block.strip()}\n```" if block.lstrip().startswith(">>>") else words(block)


def page(entry: Entry, to_mathml: Callable[[str], str]) -> str:
    """The Markdown of an operator's page."""
    described, example = [], []
    for block in _text(entry):
        (example if block.startswith("```") else described).append(block)
    lines = [f"# {entry.title}", *described, "", "```python"]
    shown = list(dict.fromkeys(signature(name, f) for name, f in entry.names.items() if not name.endswith("_")))
    lines += [_wrapped(s) for s in shown] or [str(o.schema) for o in entry.operators]
    others = [f"`{name}`" for name in entry.names if name.endswith("_")]
    lines += ["```", f"In place: {', '.join(others)}." if others else "", "", "## Example", *example]
    lines += ["", *_mathematics(entry, to_mathml), "", *_shapes_and_types(entry), "", *_devices(entry)]
    declaration = entry.declaration
    module = Path(declaration.file).resolve().relative_to(PACKAGE).as_posix()
    source = source_of(entry.operators).strip("\n")
    lines += [
        "",
        "## Declaration",
        "",
        f"[`{module}`, line {declaration.line}]({source_link(declaration.file, declaration.line)})"
        f": everything above is made of it; `python -m mindtorch_v2 show {entry.name}` prints it with the code"
        " generated from it.",
        "",
        "```python",
        source,
        "```",
        "",
        "Schemas, as ATen writes them:",
        "",
        "```text",
    ]
    return "\n".join([*lines, *(str(o.schema) for o in entry.operators), "```", ""])


def _mathematics(entry: Entry, to_mathml: Callable[[str], str]) -> Iterator[str]:
    forward, backward, whole = equations(entry)
    derivative = entry.declaration.derivative
    if not forward and not backward:
        return
    yield "## Mathematics"
    for line in forward:
        yield f'\n<div class="equation">{to_mathml(line)}</div>\n'
    if backward:
        yield "Gradients, with $\\bar{y}$ what comes in:".replace("$\\bar{y}$", to_mathml(r"\bar{y}"))
        for line in backward:
            yield f'\n<div class="equation">{to_mathml(line)}</div>\n'
    elif derivative is None and entry.operators[0].is_composite:
        yield "It is made of other operators, whose gradients make its own."
    if derivative is not None and not whole:
        yield "The formula of the gradient stands in the declaration below."


def _shapes_and_types(entry: Entry) -> Iterator[str]:
    rows = list(shapes(entry))
    if rows:
        yield "## Shapes"
        yield "\n| call, with shapes for tensors | shape of the result |\n|---|---|"
        yield from (f"| `{call}` | `{shape}` |" for call, shape in rows)
    accepted, refused = types(entry)
    if accepted:
        yield "\n## Types"
        yield "\n| arguments | result |\n|---|---|"
        yield from (f"| {', '.join(kinds)} | {result} |" for result, kinds in accepted.items())
        yield f"| {', '.join(refused)} | refused |" if refused else ""


def _devices(entry: Entry) -> Iterator[str]:
    yield "## Devices"
    yield "\n| device | what runs |\n|---|---|"
    operator = entry.operators[0]
    kernels = describe_kernels(operator)
    for device in DEVICES:
        text = kernels.get(DispatchKey[device], "refused")
        yield f"| {device.lower()} | {words(text.replace(str(PACKAGE) + '/', '').replace('|', ' or '))} |"


def index(found: dict[str, Entry]) -> str:
    """The list of all operators, by family."""
    families: dict[str, list[Entry]] = {}
    for entry in found.values():
        families.setdefault(entry.family, []).append(entry)
    lines = [
        "# Operators",
        f"All {len(found)} public operators, each with its page: how it is called, what it computes and its"
        " gradients, shapes, types, devices, an example, and its declaration. Equations are those of real arguments;"
        " `x` is the first one, `y` the result.",
        "",
        "```pycon",
        ">>> import mindtorch_v2 as torch",
        ">>> torch.softmax(torch.tensor([0.0, 0.0, 1.0]), dim=0)",
        "tensor([0.2119, 0.2119, 0.5761])",
        "```",
    ]
    for family, members in sorted(families.items()):
        lines += [
            "",
            f"## {family.replace('_', ' ').replace('.', ', ')}",
            "",
            "| operator | what it gives |",
            "|---|---|",
        ]
        lines += [f"| [{e.title}]({e.name}.md) | {words(e.summary).replace('|', chr(92) + '|')} |" for e in members]
    return "\n".join([*lines, ""])
