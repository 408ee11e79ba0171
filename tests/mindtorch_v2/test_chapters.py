"""The chapters of docs/chapters: all cells run, what they quote of the source is there, exercises check themselves."""

import sys
from pathlib import Path

import pytest

from mindtorch_v2._dispatch.registry import registry

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))
try:
    import chapters
finally:
    sys.path.remove(str(ROOT / "tools" / "site"))


def written(tmp_path, text):
    path = tmp_path / "00_test.md"
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = {operator.name for operator in registry}
    yield
    for name in [operator.name for operator in registry if operator.name not in before]:
        registry.remove(name)
    sys.modules.pop("drawing", None)


@pytest.mark.parametrize("path", chapters.paths(), ids=lambda path: path.stem)
def test_a_chapter_runs(path):
    found = chapters.run(path)
    kinds = [cell.kind for cell in found]
    assert kinds.count("source") >= 2, "it opens no source"
    assert kinds.count("exercise") == kinds.count("solution") == kinds.count("check") >= 2
    assert any(kind == "svg" for cell in found for kind, _ in cell.shown), "it has no picture"
    page = chapters.page(path, found)
    assert "```source" not in page and "../source/" in page
    cells = chapters.notebook(path, found)["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) == len(
        [kind for kind in kinds if kind in ("code", "exercise", "check")]
    )


def test_there_are_eight_chapters():
    assert len(chapters.paths()) == 8
    index = (chapters.CHAPTERS / "README.md").read_text()
    assert all(path.name in index for path in chapters.paths())


def test_source_is_found_by_name():
    found = chapters.excerpt("_autograd/engine.py: Task.run")
    assert found.text.lstrip().startswith("def run(self)")
    lines = (chapters.PACKAGE / found.file).read_text().splitlines()
    assert lines[found.first - 1] == found.text.splitlines()[0]
    assert chapters.excerpt("_ops/view.py: transpose").text.startswith('op("transpose(')
    part = chapters.excerpt('_autograd/engine.py: Task.run from "while heap" to "take(heap)"')
    assert len(part.text.splitlines()) == 2


@pytest.mark.parametrize(
    "place", ["_autograd/engine.py: Task.walk", '_autograd/engine.py: Task.run from "nowhere"', "engine", "_x.py: f"]
)
def test_source_that_is_not_there_fails(place):
    with pytest.raises((LookupError, FileNotFoundError)):
        chapters.excerpt(place)


def test_a_check_that_cannot_fail_is_found(tmp_path):
    text = "```python exercise\nx = 1\n```\n```python solution\nx = 2\n```\n```python check\nassert x\n```\n"
    with pytest.raises(AssertionError, match="passes without a solution"):
        chapters.run(written(tmp_path, text))
    chapters.run(written(tmp_path, text.replace("assert x", "assert x == 2")))


def test_cells_show_what_they_print_and_end_with(tmp_path):
    (cell,) = chapters.run(written(tmp_path, "```python\nprint('a')\n1 + 1\n```\n"))
    assert cell.shown == [("text", "a"), ("text", "2")]
    with pytest.raises(ZeroDivisionError):
        chapters.run(written(tmp_path, "```python\n1 / 0\n```\n"))
