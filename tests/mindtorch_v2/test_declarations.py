"""What is known of an operator stands in its declaration: no table by operator names lies beside them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2._ops._declare.composites import Composite
from mindtorch_v2._ops._declare.op import DECLARATIONS, PUBLIC, op
from mindtorch_v2.distributed.tensor._strategies import strategy_named

_PACKAGE = Path(torch.__file__).parent
_PLACES = ("_ops", "_autograd", "_dispatch", "_functorch", "_pipeline", "amp", "_backends/meta",
           "_backends/interface.py", "_backends/cpu/backend.py", "_compat/operator_names.py", "_profile.py",
           "_subclasses", "distributed/tensor", "utils/flop_counter.py")
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


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="a declaration has no fields \\['linnear'\\]"):
        op("_misspelt(Tensor self) -> Tensor", kernel=Composite(lambda self: self), linnear=True)
    assert "aten::_misspelt" not in DECLARATIONS


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
        if declaration.sharded:
            assert callable(strategy_named(declaration.sharded)), operator


def test_kernels_of_sparse_layouts_are_imported_when_they_are_called() -> None:
    program = ("import sys, mindtorch_v2 as torch\n"
               "rearrange = 'mindtorch_v2._ops.sparse.rearrange'\n"
               "assert rearrange not in sys.modules\n"
               "assert torch.eye(2).to_sparse().permute(1, 0).to_dense().tolist() == [[1, 0], [0, 1]]\n"
               "assert rearrange in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)


_DEVICES = ("cpu", "cuda", "npu", "meta")
_DEVICE_NAMES = frozenset((*(f"{device.upper()}_MASK" for device in _DEVICES), "PRIVATE_MASK", "CPU", "META",
                           "CudaArray", "NpuArray", "MetaArray"))
# Twins of arguments (plans.py) say that they are on the CPU; and `x == ndarray` is about an operand, not about memory.
_ALLOWED = {("_declare/plans.py", "CPU"), ("_declare/plans.py", "META"), ("_declare/public.py", "ndarray")}


def devices_asked_for(source: str) -> list[tuple[int, str]]:
    """Lines and names of what asks which device has a tensor: by its key, its name, or the class of its array."""
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if "_backends" in module and not module.endswith("_backends.interface"):
                found.append((line, module))
            found += [(line, name.name) for name in node.names if name.name in _DEVICE_NAMES]
        elif isinstance(node, ast.Attribute):
            of_key = getattr(node.value, "id", "") == "DispatchKey" and node.attr.lower() in (*_DEVICES, "privateuse1")
            if of_key or node.attr in [f"is_{device}" for device in _DEVICES]:
                found.append((line, node.attr))
        elif isinstance(node, ast.Compare):
            for side in ast.walk(node):
                if isinstance(side, ast.Constant) and side.value in _DEVICES:
                    found.append((line, side.value))
                elif getattr(side, "id", getattr(side, "attr", "")).lstrip("_") == "ndarray":
                    of_namespace = getattr(getattr(side, "value", None), "id", "") == "xp"  # an array, or a number?
                    found += [] if of_namespace and len(node.ops) == 1 else [(line, "ndarray")]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "backend_of"):
            names = {getattr(n, "attr", getattr(n, "id", getattr(n, "value", None))) for n in ast.walk(node.args[-1])}
            found += [(line, name) for name in ("ndarray", *_DEVICES) if name in names]
    return found


def test_operators_ask_for_no_device() -> None:
    """They know the interface that all devices have, and no device."""
    files = {file.relative_to(_PACKAGE / "_ops").as_posix(): file for file in (_PACKAGE / "_ops").rglob("*.py")}
    assert [name for name in files if any(device in name.split("/")[-1] for device in (*_DEVICES, "device"))] == []
    found = [f"{name}:{line}: {asked}" for name, file in sorted(files.items())
             for line, asked in devices_asked_for(file.read_text()) if (name, asked) not in _ALLOWED]
    assert found == []


@pytest.mark.parametrize("source", [
    "from .._backends.cuda import runtime", "from .._dispatch.keys import CUDA_MASK", "kernels = {DispatchKey.Meta: f}",
    "if x.device.type == 'cpu': pass", "if x.is_cuda: pass", "if a.__class__ is np.ndarray: pass",
    "isinstance(a, np.ndarray)", "backend_of('cpu')", "if xp.ndarray is np.ndarray: pass"])
def test_what_asks_for_a_device_is_found(source: str) -> None:
    assert devices_asked_for(source)
    assert not devices_asked_for("from .._backends.interface import Backend\nif backend.direct: pass\n"
                                 "if a.__class__ is xp.ndarray: pass\nif at_hand(a): pass")
