"""What editors and type checkers see: stubs that agree with the operators, completion, mistakes that are found."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

import mindtorch_v2 as torch

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = pathlib.Path(__file__).parent / "typed"
_spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
assert _spec is not None and _spec.loader is not None
stubs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(stubs)


@pytest.mark.parametrize("name", stubs.STUBS)
def test_stubs_are_up_to_date(name: str) -> None:
    assert (stubs.PACKAGE / name).read_text() == stubs.STUBS[name](), "run: python tools/stubs.py"


def test_stubs_are_shipped() -> None:
    assert (stubs.PACKAGE / "py.typed").exists()
    assert '"*" = ["*.pyi"]' in (ROOT / "pyproject.toml").read_text()


def test_the_form_of_a_stub() -> None:
    text = (stubs.PACKAGE / "_tensor_methods.pyi").read_text()
    assert "    def softmax(self, dim: _int, dtype: _DType | None = None) -> Tensor: ...\n" in text
    assert "    def add_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor: ...\n" in text
    views = re.findall(r"    @overload\n    def view\((.*)\) -> Tensor: \.\.\.", text)
    assert sorted(views) == ["self, *size: _int", "self, dtype: _DType", "self, size: Sequence[_int]"]
    assert (
        "class max(NamedTuple):\n    values: Tensor\n    indices: Tensor\n"
        in (stubs.PACKAGE / "return_types.pyi").read_text()
    )


def test_every_public_name_is_in_a_stub() -> None:
    """Whether static text has the names that the operator table brings."""
    package = (stubs.PACKAGE / "__init__.pyi").read_text()
    named = set(re.findall(r"^(?:def |class )?(\w+)|import \w+ as (\w+)$", package, re.MULTILINE))
    known = {name for pair in named for name in pair}
    assert not [n for n in vars(torch) if not n.startswith("_") and n not in known and n not in stubs.ALWAYS_IMPORTED]


# type checkers and editors -------------------------------------------------------------------------------------------


def test_mypy() -> None:
    pytest.importorskip("mypy", reason="a tool of developers")
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--no-error-summary", "--config-file",
               "pyproject.toml", *map(str, sorted(PROGRAMS.glob("*.py")))]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600,
                          env={"MYPYPATH": str(ROOT / "src")})  # fmt: skip
    complaints = [line for line in made.stdout.splitlines() if ": error:" in line]
    assert not [line for line in complaints if "correct.py" in line]
    found = {int(match[1]) for line in complaints if (match := re.search(r"mistaken\.py:(\d+):", line))}
    lines = (PROGRAMS / "mistaken.py").read_text().splitlines()
    assert found == {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def test_stubs_for_programs_that_import_torch(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mindtorch_v2", "stubs", str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")}, timeout=300)
    assert made.returncode == 0 and str(tmp_path / "torch") in made.stdout
    assert (tmp_path / "torch" / "nn" / "functional" / "__init__.pyi").read_text() == (
        "from mindtorch_v2.nn.functional import *\n"
    )
    assert (tmp_path / "torch" / "optim" / "lr_scheduler.pyi").exists()
    assert not (tmp_path / "torch" / "_ops").exists()


@pytest.mark.parametrize("written, expected", [
    ("torch.soft", {"softmax"}),
    ("x.vi", {"view", "view_as"}),
    ("F.cross", {"cross_entropy"}),
    ("torch.linalg.s", {"slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals"}),
    ("x.softmax(0).cumma", {"cummax"}),
    ("x.max(0).val", {"values"}),
    ("torch.nn.Seq", {"Sequential"}),
    ("torch.optim.AdamW(x).zero_", {"zero_grad"}),
])  # fmt: skip
def test_completion(written: str, expected: set[str]) -> None:
    jedi = pytest.importorskip("jedi", reason="what editors complete with")
    start = "import mindtorch_v2 as torch\nimport mindtorch_v2.nn.functional as F\nx = torch.randn(2, 3)\n"
    script = jedi.Script(start + written, project=jedi.Project(PROGRAMS, added_sys_path=[str(ROOT / "src")]))
    found = {completion.name for completion in script.complete(4, len(written))}
    assert expected <= found and len(found) <= len(expected) + 2


def test_an_editor_shows_signatures() -> None:
    jedi = pytest.importorskip("jedi", reason="what editors complete with")
    written = "import mindtorch_v2 as torch\ntorch.softmax("
    script = jedi.Script(written, project=jedi.Project(PROGRAMS, added_sys_path=[str(ROOT / "src")]))
    (signature,) = script.get_signatures(2, len("torch.softmax("))
    assert [parameter.name for parameter in signature.params] == ["input", "dim", "dtype", "out"]
