"""The pages of the reference: operators, functions written in Python, modules and optimizers."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import operators

import mindtorch_v2 as torch
from mindtorch_v2._ops._declare import documentation

PLACES = {
    "torch": torch,
    "Tensor": torch.Tensor,
    "nn_functional": torch.nn.functional,
    "nn_init": torch.nn.init,
    "func": torch.func,
    "autograd": torch.autograd,
}


def add_reference(site: Any, to_mathml: Callable[[str], str]) -> list[str]:
    """Writes all pages of the reference; what went wrong with their examples."""
    problems = []
    found = operators.entries()
    for entry in found.values():
        failed = operators.run_example(entry)
        if failed:
            problems.append(f"the example of {entry.title}: {failed}")
        page = operators.page(entry, to_mathml)
        if "## Mathematics" not in page:
            problems.append(f"{entry.title} has no mathematics: docs/site/formulas.toml is the place for it")
        site.write(f"api/{entry.name}.md", page)
        site.sources.add(Path(entry.declaration.file).resolve())
    site.write("api/index.md", operators.index(found))
    problems += _add_functions(site)
    site.write("modules.md", _modules())
    return problems


def _add_functions(site: Any) -> list[str]:
    """A page for each place that has functions which are no operators."""
    lines = [
        "# Functions written in Python",
        "",
        "What is public and no operator, by where it is found. Operators have [pages of their own](../api/index.md).",
        "",
        "```pycon",
        ">>> import mindtorch_v2 as torch",
        ">>> torch.func.grad(torch.sin)(torch.tensor(0.0))",
        "tensor(1.)",
        "```",
        "",
    ]
    problems = []
    for place in PLACES:
        dotted = place.replace("_", ".", 1) if place.startswith("nn_") else place
        prefix = dotted if place in ("torch", "Tensor") else f"torch.{dotted}"
        sections = documentation.sections(f"functions.{place}")
        lines.append(f"- [{prefix}]({place}.md), {len(sections)} functions")
        page = [f"# {prefix}", f"Functions and classes of `{prefix}` that are written in Python."]
        for name, text in sorted(sections.items(), key=lambda item: item[0].lower()):
            function = inspect.getattr_static(PLACES[place], name, None) or getattr(PLACES[place], name, None)
            entry = operators.Entry(name, f"{prefix}.{name}", {}, [], text)
            failed = operators.run_example(entry)
            if failed:
                problems.append(f"the example of {entry.title}: {failed}")
            page += ["", f"## {prefix}.{name}", ""]
            if callable(function):
                page += ["```python", operators._wrapped(operators.signature(f"{prefix}.{name}", function)), "```", ""]
            page += [block + "\n" for block in operators._text(entry)]
        site.write(f"functions/{place}.md", "\n".join(page))
    site.write("functions/index.md", "\n".join([*lines, ""]))
    return problems


def _first_words(value: Any) -> str:
    text = (value.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    return operators.words(re.sub(r"\s+", " ", text))


def _modules() -> str:
    """Classes of nn and optim, with how they are made."""
    lines = [
        "# Modules and optimizers",
        "",
        "Layers, losses and containers of `nn`, optimizers and schedulers of `optim`: how they"
        " are made and what they do. They behave as PyTorch's, and their states load into each other.",
        "",
        "```pycon",
        ">>> import mindtorch_v2 as torch",
        ">>> from mindtorch_v2 import nn, optim",
        ">>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())",
        ">>> model",
        "Sequential(",
        "  (0): Linear(in_features=3, out_features=2, bias=True)",
        "  (1): ReLU()",
        ")",
        "```",
        "",
    ]
    kinds = {
        "torch.nn": (torch.nn, torch.nn.Module),
        "torch.optim": (torch.optim, torch.optim.Optimizer),
        "torch.optim.lr_scheduler": (torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
    }
    for place, (module, base) in kinds.items():
        lines += [f"## {place}", ""]
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, base):
                lines += [
                    f"### {place}.{name}",
                    "",
                    "```python",
                    operators._wrapped(operators.signature(f"{place}.{name}", value)),
                    "```",
                    "",
                    _first_words(value),
                    "",
                ]
    return "\n".join(lines)
