"""What is known of an operator stands in its declaration: no table by operator names lies beside them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2._ops._declare.op import DECLARATIONS, PUBLIC

_PACKAGE = Path(torch.__file__).parent
_PLACES = ("_ops", "_autograd", "_dispatch", "_functorch", "amp", "utils/flop_counter.py", "_compat/operator_names.py")
_FILES = sorted(file for place in _PLACES
                for file in ([_PACKAGE / place] if place.endswith(".py") else (_PACKAGE / place).rglob("*.py")))
_NAMES = {name for names in PUBLIC.values() for name in names} | {o.schema.base_name for o in registry}
_MANY = 8
_NOT_ABOUT_OPERATORS = {"_FAILURES"}  # what is said of LAPACK's routines, some of which have an operator's name


def _declared_in(file: Path) -> set[str]:
    """The names in schemas that a file declares, with what generated names are made of."""
    made = {d.operator.schema.base_name for d in DECLARATIONS.values() if Path(d.file) == file}
    parts = [(n.removeprefix("_foreach_"), n.removeprefix("special_"), n.removesuffix("_copy")) for n in made]
    return made.union(*parts)


def _strings(nodes: Iterator[ast.expr | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _words(node: ast.AST) -> list[str]:
    """The strings of a collection: a dict's keys, elements, or a text that is split."""
    if isinstance(node, ast.Dict):
        return _strings(iter(node.keys))
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return _strings(iter(node.elts))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return node.func.value.value.split() if isinstance(node.func.value, ast.Constant) else []
    return []


def _tables(file: Path) -> Iterator[str]:
    """The collections of a file that name many operators which it does not declare."""
    elsewhere = _NAMES - _declared_in(file)
    for statement in ast.parse(file.read_text()).body:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        if any(isinstance(t, ast.Name) and t.id in _NOT_ABOUT_OPERATORS for t in targets):
            continue
        for node in ast.walk(statement):
            words = _words(node)
            named = [word for word in words if word in elsewhere]
            if len(named) >= _MANY and 2 * len(named) > len(words):
                yield f"{file.relative_to(_PACKAGE)}, line {node.lineno}: {' '.join(named)}"


@pytest.mark.parametrize("file", _FILES, ids=lambda file: str(file.relative_to(_PACKAGE)))
def test_no_table_by_operator_names(file: Path) -> None:
    assert list(_tables(file)) == []


def test_a_table_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.py"
    file.write_text('SOME = "add sub mul div sin cos tan exp".split()\nOTHERS = {"relu": 1, "gelu": 2}\n')
    monkeypatch.setitem(globals(), "_PACKAGE", tmp_path)
    assert list(_tables(file)) == ["table.py, line 1: add sub mul div sin cos tan exp"]


def test_fields_name_what_is_there() -> None:
    for declaration in DECLARATIONS.values():
        operator, out = declaration.operator, declaration.out
        if declaration.inplace_of is None and out is not None:
            assert set(out.tensors.split()) <= set(operator.schema.names), operator
            places = {f"{place}.{name}" for place, names in PUBLIC.items() for name in names
                      if operator in names[name]} if out.names else set()
            assert set(out.names.split()) <= places, operator
            assert not out.by or any(o.schema.base_name == out.by for o in registry), operator
        if isinstance(declaration.autocast, dict):
            assert declaration.autocast.keys() <= {"cpu", "accelerators"}, operator


_DEVICE = re.compile(r"_backends\.(?!interface\b)\w+|\b(CUDA|NPU|PRIVATE)_MASK\b|\b(Cuda|Npu|Meta)Array\b")


def test_operators_ask_for_no_device() -> None:
    """They know the interface that all devices have, and no device."""
    found = [f"{file.relative_to(_PACKAGE)}: {line.strip()}" for file in sorted((_PACKAGE / "_ops").rglob("*.py"))
             for line in file.read_text().splitlines() if _DEVICE.search(line)]
    assert found == []
    assert _DEVICE.search("from .._backends.cuda import runtime") and _DEVICE.search("if keys & CUDA_MASK:")
    assert not _DEVICE.search("from .._backends.interface import Backend")
