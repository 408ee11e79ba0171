"""`python -m mindtorch_v2 show NAME`: an operator's declaration and what is made of it."""

import difflib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ._dispatch.callers import SOURCES
from ._dispatch.keys import DispatchKey
from ._dispatch.registry import Around, Lazy, Operator, registry
from ._ops._declare.op import PUBLIC, Declaration, function_of
from ._ops._declare.source import source_of


def describe_operator(name: str) -> str:
    """All overloads of an operator of that name, as text. LookupError if there is none."""
    found = _found(name)
    if not found:
        known = {o.schema.base_name for o in registry} | {n for names in PUBLIC.values() for n in names}
        near = difflib.get_close_matches(name.rpartition("::")[2].rpartition(".")[2], sorted(known), n=5, cutoff=0.6)
        raise LookupError(f"There is no operator '{name}'." + (f" Near it: {', '.join(near)}." if near else ""))
    declared = [o for o in found if isinstance(o.declaration, Declaration)]
    sections = [_section("Declaration", _places(declared), source_of(declared))] if declared else []
    for operator in found:
        sections += _sections(operator)
    return "\n".join(sections).rstrip()


def _found(name: str) -> list[Operator]:
    """The operators that a user, or ATen, calls by this name: `add`, `max.dim`, `aten::add`, `linalg.svd`, `F.gelu`."""
    if name in registry:
        exact = registry.get(name)
        overloads = [o for o in registry if o.name.partition(".")[0] == exact.name]
        return overloads or [exact]
    place, _, last = name.removeprefix("torch.").removeprefix("mindtorch_v2.").rpartition(".")
    place = {"F": "nn.functional", "": "torch"}.get(place, place)
    for where in (place, *PUBLIC):
        if last in PUBLIC.get(where, {}):
            return PUBLIC[where][last]
    return [o for o in registry if o.schema.base_name == name]


def _places(operators: list[Operator]) -> str:
    places = dict.fromkeys(f"{o.declaration.file}, line {o.declaration.line}" for o in operators)
    return "\n".join(f"# {place}" for place in places)


def _section(title: str, *texts: str) -> str:
    return "\n".join([f"--- {title} {'-' * max(3, 100 - len(title))}", *texts, ""])


def _sections(operator: Operator) -> Iterator[str]:
    """What is made of one overload."""
    declaration = operator.declaration
    yield _section("Schema", str(operator.schema))
    if isinstance(declaration, Declaration):
        yield _section(f"Caller of {operator.name}", _caller(operator))
        if declaration.derivative is not None:
            yield _section(f"Derivative of {operator.name}", *_derivative(declaration))
        composed = declaration.decomposition or (declaration.family.written if operator.is_composite else None)
        if composed is not None:
            yield _section(f"{operator.name} as other operators", _where(composed))
        if declaration.batch_rule is not None and not operator.is_composite:
            yield _section(f"{operator.name} under vmap", _where(declaration.batch_rule))
    yield _section(f"Kernels of {operator.name}", *_kernels(operator))


def _caller(operator: Operator) -> str:
    """The generated function that users call, made now if nobody called it yet."""
    if operator.name not in SOURCES:
        caller: Any = function_of(operator)
        caller.__globals__["__build__"]()
    return SOURCES[operator.name].rstrip()


def _derivative(declaration: Declaration) -> Iterator[str]:
    assert declaration.derivative is not None
    for formula in declaration.derivative.formulas:
        yield f"{', '.join(formula.arguments)}: of ({', '.join(formula.parameters)}), {_where(formula.function)}"
    operator = declaration.operator
    if f"{operator.name} backward" in SOURCES:
        yield SOURCES[f"{operator.name} backward"].rstrip()


def describe_kernels(operator: Operator) -> dict[DispatchKey, str]:
    """What runs at each key that has a kernel."""
    texts = {}
    for key, kernel in operator.kernels.items():
        if isinstance(kernel, Around):
            texts[key] = "derived from the formulas, around the kernel below"
        else:
            texts[key] = _made_of(operator, key) if isinstance(kernel, Lazy) else _where(kernel)
    return texts


def _kernels(operator: Operator) -> Iterator[str]:
    """A line for the keys that have the same kernel."""
    by_text: dict[str, list[str]] = {}
    for key, text in describe_kernels(operator).items():
        by_text.setdefault(text, []).append(key.name)
    for text, keys in by_text.items():
        yield f"{', '.join(keys)}: {text}"


def _made_of(operator: Operator, key: DispatchKey) -> str:
    """What a kernel that is made when first wanted will be made of."""
    declaration = operator.declaration
    functional = declaration if declaration.inplace_of is None else declaration.inplace_of.declaration
    if key in functional.kernels_by_layout:
        return f"_ops/sparse: {functional.kernels_by_layout[key]}"
    if key.name.lower() in functional.kernels:
        return f"_backends/{key.name.lower()}/kernels: {functional.kernels[key.name.lower()]}"
    family = declaration.family
    if key is DispatchKey.NPU and functional.npu:
        return "; ".join((functional.npu,) if isinstance(functional.npu, str) else functional.npu)
    if key is DispatchKey.NPU and not (operator.is_composite or family.is_view):
        if functional.decomposition is None:
            return "no row"
        return f"other operators: {_where(functional.decomposition)}"
    return type(family).__name__ + (f" of {_where(family.written)}" if family.written else " as declared")


def _where(function: Callable) -> str:
    """Name, file and line of a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} ({code.co_filename}, line {code.co_firstlineno})" if code else name
