"""The chapters of docs/chapters as what runs, as pages of the site, and as notebooks.

A chapter is Markdown with fenced cells. `python` cells run one after the other; what they print, and the value of a
last expression, is shown. `source` cells name places of the library (`_autograd/engine.py: Task.run`, optionally with
`from "text" to "text"`) and show the lines that are there now. An exercise is three cells: `python exercise` is what a
reader starts from, `python solution`, and `python check`, which must fail after the first and pass after the second.

python tools/site/chapters.py            # writes build/chapters/*.ipynb
"""

import ast
import contextlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "docs" / "chapters"
PACKAGE = ROOT / "src" / "mindtorch_v2"
FENCE = re.compile(r"^```(python(?: \w+)?|source)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r'(?P<file>[\w/.]+): (?P<name>[\w.]+)(?: from "(?P<first>.+?)")?(?: to "(?P<last>.+?)")?$')


@dataclass
class Cell:
    kind: str  # text, code, source, exercise, solution or check
    text: str
    line: int = 0
    shown: list[tuple[str, str]] = field(default_factory=list)  # ("text" or "svg", what)


@dataclass(frozen=True)
class Excerpt:
    """Lines of the library's source."""

    file: str
    first: int
    text: str


def paths() -> list[Path]:
    return sorted(CHAPTERS.glob("[0-9][0-9]_*.md"))


def cells(path: Path) -> list[Cell]:
    """The cells of a chapter in order."""
    text, found, at = path.read_text(encoding="utf-8"), [], 0
    for match in FENCE.finditer(text):
        before = text[at : match.start()].strip("\n")
        if before.strip():
            found.append(Cell("text", before))
        info = match[1].split()
        kind = "source" if info[0] == "source" else info[1] if len(info) > 1 else "code"
        found.append(Cell(kind, match[2].rstrip("\n"), text.count("\n", 0, match.start(2)) + 1))
        at = match.end()
    rest = text[at:].strip("\n")
    return [*found, Cell("text", rest)] if rest.strip() else found


def excerpt(place: str) -> Excerpt:
    """The lines that a line of a source cell names; LookupError if they are not there."""
    match = PLACE.match(place)
    if match is None:
        raise LookupError(f"not a place in the source: {place}")
    lines = (PACKAGE / match["file"]).read_text(encoding="utf-8").splitlines()
    body: Any = ast.parse("\n".join(lines)).body
    node: Any = None
    for part in match["name"].split("."):
        node = next((s for s in body if part in _names(s)), None)
        if node is None:
            raise LookupError(f"{match['file']} has no {match['name']}")
        body = getattr(node, "body", [])
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    last = node.end_lineno
    if match["first"] is not None:
        first = _line_with(lines, match["first"], first, last, place)
    if match["last"] is not None:
        last = _line_with(lines, match["last"], first, last, place)
    return Excerpt(match["file"], first, "\n".join(lines[first - 1 : last]))


def _names(statement: ast.stmt) -> set[str]:
    """What a statement defines: a function, a class, variables, or an operator that it declares."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {t.id for t in statement.targets if isinstance(t, ast.Name)}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        schema = statement.value.args[0]
        if isinstance(schema, ast.Constant) and isinstance(schema.value, str):
            return {schema.value.partition("(")[0].partition(".")[0]}
    return set()


def _line_with(lines: list[str], text: str, first: int, last: int, place: str) -> int:
    for number in range(first, last + 1):
        if text in lines[number - 1]:
            return number
    raise LookupError(f"{place}: no line has {text!r}")


# running -------------------------------------------------------------------------------------------------------------


def run_cell(cell: Cell, scope: dict[str, Any], name: str) -> None:
    """Runs a cell and keeps what it shows."""
    tree = ast.parse(cell.text, name)
    ast.increment_lineno(tree, cell.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), scope)
        value = eval(compile(ast.Expression(last.value), name, "eval"), scope) if last is not None else None
    if printed.getvalue():
        cell.shown.append(("text", printed.getvalue().rstrip("\n")))
    picture = value._repr_svg_() if hasattr(value, "_repr_svg_") else value
    if isinstance(picture, str) and picture.startswith("<svg"):
        cell.shown.append(("svg", picture))
    elif value is not None:
        cell.shown.append(("text", repr(value)))


def run(path: Path) -> list[Cell]:
    """The cells with what they show. Of an exercise, the check fails before the solution and passes after it."""
    sys.path.insert(0, str(CHAPTERS))
    try:
        scope: dict[str, Any] = {"__name__": "__main__"}
        found = cells(path)
        for cell in found:
            name = f"{path.name}, line {cell.line}"
            if cell.kind in ("code", "exercise", "solution"):
                run_cell(cell, scope, name)
            elif cell.kind == "check":
                _must_fail(cell, scope, name, [c for c in found if c.kind == "exercise" and c.line < cell.line][-1])
                run_cell(cell, scope, name)
            elif cell.kind == "source":
                for place in cell.text.splitlines():
                    excerpt(place)
        return found
    finally:
        sys.path.remove(str(CHAPTERS))


def _must_fail(check: Cell, scope: dict[str, Any], name: str, exercise: Cell) -> None:
    """Raises if the check passes with what the reader starts from."""
    unsolved = dict(scope)
    run_cell(Cell("exercise", exercise.text, exercise.line), unsolved, name)
    try:
        run_cell(Cell("check", check.text, check.line), unsolved, name)
    except Exception:  # noqa: BLE001 - whatever a function that is not written yet leads to
        return
    raise AssertionError(f"{name}: the check passes without a solution")


# what readers see ----------------------------------------------------------------------------------------------------


def sources_in(found: list[Cell]) -> Iterator[Excerpt]:
    for cell in found:
        if cell.kind == "source":
            yield from (excerpt(place) for place in cell.text.splitlines())


def page(path: Path, found: list[Cell]) -> str:
    """The chapter as Markdown of the site, with what its cells show."""
    parts = []
    for cell in found:
        if cell.kind == "text":
            parts.append(cell.text)
        elif cell.kind == "source":
            for place in cell.text.splitlines():
                lines = excerpt(place)
                link = f"[`{lines.file}`, line {lines.first}](../source/{lines.file}.html#L{lines.first})"
                parts.append(f"{link}\n\n```python\n{lines.text}\n```")
        elif cell.kind == "solution":
            body = "\n".join(f"    {line}" for line in ["```python", *cell.text.splitlines(), "```"])
            parts.append(f'??? note "A solution"\n\n{body}')
        else:
            heading = {"exercise": "**Exercise.** Fill in:\n\n", "check": "It is right if this passes:\n\n"}.get(
                cell.kind, ""
            )
            parts.append(f"{heading}```python\n{cell.text}\n```")
            for kind, shown in cell.shown:
                one_line = re.sub(r"\n\s*", " ", shown)
                parts.append(f"```text\n{shown}\n```" if kind == "text" else f'<div class="picture">{one_line}</div>')
    note = f"This page is a notebook: [{path.stem}.ipynb]({path.stem}.ipynb)."
    return "\n\n".join([*parts, note, ""])


def notebook(path: Path, found: list[Cell]) -> dict[str, Any]:
    """The chapter as a Jupyter notebook, with what its cells show."""
    made: list[dict[str, Any]] = []

    def add(kind: str, text: str, outputs: list | None = None) -> None:
        cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "id": f"cell-{len(made)}"}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": outputs or []}
        made.append(cell | {"source": text.splitlines(keepends=True)})

    for cell in found:
        if cell.kind == "source":
            for place in cell.text.splitlines():
                lines = excerpt(place)
                add("markdown", f"`{lines.file}`, line {lines.first}:\n\n```python\n{lines.text}\n```")
        elif cell.kind == "text":
            add("markdown", cell.text)
        elif cell.kind == "solution":
            add("markdown", f"<details><summary>A solution</summary>\n\n```python\n{cell.text}\n```\n\n</details>")
        else:
            outputs = [
                {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": shown}}
                if kind == "svg"
                else {"output_type": "stream", "name": "stdout", "text": shown + "\n"}
                for kind, shown in cell.shown
            ]
            add("code", cell.text, outputs if cell.kind == "code" else [])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebooks(folder: Path, ran: dict[Path, list[Cell]]) -> None:
    """Writes all chapters as notebooks, with the module that draws their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(CHAPTERS / "drawing.py", folder / "drawing.py")
    for path, found in ran.items():
        (folder / f"{path.stem}.ipynb").write_text(json.dumps(notebook(path, found), indent=1), encoding="utf-8")


def main() -> int:
    sys.path.insert(0, str(ROOT / "src"))
    folder = ROOT / "build" / "chapters"
    write_notebooks(folder, {path: run(path) for path in paths()})
    print(f"ok   {len(paths())} notebooks in {folder.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
