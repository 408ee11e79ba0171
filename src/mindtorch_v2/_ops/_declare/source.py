"""Declarations of operators as text: what `inspect.getsource(torch.softmax)` and `python -m mindtorch_v2 show` show."""

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ..._dispatch.registry import Operator
from ..._dispatch.signatures import signature


class Declared(ModuleType):
    """What a public function's `__wrapped__` is: `inspect` finds its signature and its declarations through it.

    It is a module to `inspect` because only of modules all the text is shown, whatever statements it consists of.
    Nothing is looked up before somebody asks.
    """

    operators: Sequence[Operator]
    is_method: bool
    takes_out: bool

    def __init__(self, function: Callable, operators: Sequence[Operator], is_method: bool, takes_out: bool) -> None:
        fields = {"function": function, "operators": operators, "is_method": is_method, "takes_out": takes_out}
        self.__dict__.update(fields)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["function"](*args, **kwargs)

    def __repr__(self) -> str:
        return f"<declaration of {', '.join(operator.name for operator in self.operators)}>"

    @property
    def __signature__(self) -> inspect.Signature:
        return signature([o.schema for o in self.operators], is_method=self.is_method, takes_out=self.takes_out)

    @property
    def __file__(self) -> str:  # type: ignore[override]
        """A name under which `linecache` has the declarations."""
        declaration = self.operators[0].declaration
        name = f"{declaration.file}, line {declaration.line}"
        if name not in linecache.cache:
            text = source_of(self.operators)
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return name


def source_of(operators: Sequence[Operator]) -> str:
    """The declarations of operators, each below the functions of its file that it names."""
    declared = [operator.declaration for operator in operators]
    functional = [d if d.inplace_of is None else d.inplace_of.declaration for d in declared]
    by_file: dict[str, set[tuple[int, int]]] = {}
    for declaration in functional:
        by_file.setdefault(declaration.file, set()).update(_spans(declaration.file, declaration.line))
    texts = []
    for file, spans in by_file.items():
        lines = linecache.getlines(file)
        texts += ["".join(lines[first - 1 : last]) for first, last in sorted(spans)]
    return "\n".join(texts)


@functools.cache
def _statements(file: str) -> list[ast.stmt]:
    return ast.parse("".join(linecache.getlines(file))).body


def _span(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(d.lineno for d in decorators)]), statement.end_lineno or statement.lineno


def _spans(file: str, line: int) -> list[tuple[int, int]]:
    """First and last line of the statement at a line, and of the functions of the file that it names."""
    statements = _statements(file)
    declaring = next((s for s in statements if _span(s)[0] <= line <= _span(s)[1]), None)
    if declaring is None:
        return []
    named = {node.id for node in ast.walk(declaring) if isinstance(node, ast.Name)}
    helpers = [s for s in statements if isinstance(s, ast.FunctionDef) and s.name in named]
    return [_span(s) for s in (*helpers, declaring)]
