"""Checks the documentation: every relative link resolves, its code runs, every example runs.

python docs/check.py            # all of it (make docs)
python docs/check.py --links    # only the links
python docs/check.py --page docs/backends.md   # the code of one document, in this process

Blocks of `python` in a document make one program, blocks of `pycon` are compared with what they show. `python fragment`
is not run: it is no program by itself.
"""

import argparse
import doctest
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 180  # seconds for one example
ARGUMENTS = {"train_gpt.py": ["--steps", "30"], "classify_images.py": ["--epochs", "2"]}
PACKAGES = {"fine_tune.py": ["transformers", "accelerate"]}  # what an example needs beyond the library

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^```(\w*(?: fragment)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def documents() -> list[Path]:
    """The Markdown files at the top and below docs and examples."""
    folders = (ROOT / "docs", ROOT / "examples")
    return [*sorted(ROOT.glob("*.md")), *(path for folder in folders for path in sorted(folder.rglob("*.md")))]


def anchors(text: str) -> set[str]:
    """The fragment names that the headings of a Markdown text get on code hosting sites."""
    titles = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(document: Path) -> Iterator[str]:
    """A line for each relative link of a document that leads nowhere."""
    prose = CODE_SPAN.sub("", COMMENT.sub("", FENCE.sub("", document.read_text(encoding="utf-8"))))
    for link in LINK.findall(prose):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, fragment = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists():
            yield f"{document.relative_to(ROOT)}: no such file: {link}"
        elif fragment and target.suffix == ".md" and fragment not in anchors(target.read_text(encoding="utf-8")):
            yield f"{document.relative_to(ROOT)}: no such heading: {link}"


def failure(label: str, arguments: list[str]) -> str | None:
    """What a Python run with these arguments said if it failed; a line with its time is printed."""
    started = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    try:
        run = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, timeout=TIME_LIMIT,
                             capture_output=True, text=True)  # fmt: skip
        error = run.stderr.strip() if run.returncode else None
    except subprocess.TimeoutExpired:
        error = f"still running after {TIME_LIMIT} s"
    print(f"{'ok  ' if error is None else 'FAIL'} {label}  {time.perf_counter() - started:.1f} s", flush=True)
    return None if error is None else f"{label}:\n{error}"


def code_of(document: Path) -> list[tuple[str, str, int]]:
    """The blocks of a document that run: their kind, their text, and the line that they begin at."""
    text = document.read_text(encoding="utf-8")
    return [(found[1], found[2], text.count("\n", 0, found.start(2)) + 1) for found in FENCE.finditer(text)
            if found[1] in ("python", "pycon")]  # fmt: skip


def has_code(document: Path) -> bool:
    return bool(code_of(document))


def command_of_page(document: Path) -> list[str]:
    """The arguments of Python that run a document's code."""
    return [str(ROOT / "docs" / "check.py"), "--page", str(document)]


def run_page(document: Path) -> None:
    """Runs the code of a document: its blocks are one program."""
    scope = {"__name__": "__main__"}
    sys.path.insert(0, str(document.parent))
    for kind, text, line in code_of(document):
        name = f"{document.relative_to(ROOT)}, line {line}"
        if kind == "python":
            exec(compile(text, name, "exec"), scope)
        else:
            test = doctest.DocTestParser().get_doctest(text, scope, name, str(document), line)
            report: list[str] = []
            doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
            scope.update(test.globs)
            if report:
                raise AssertionError("".join(report))


def command(example: Path) -> list[str]:
    """The arguments of Python that run an example; one that says `import torch` goes through the library."""
    through = ["-m", "mindtorch_v2"] if re.search(r"^(import|from) torch\b", example.read_text(), re.MULTILINE) else []
    return [*through, str(example), *ARGUMENTS.get(example.name, [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", action="store_true", help="check the links only")
    parser.add_argument("--page", type=Path, help="run the code of this document")
    options = parser.parse_args()
    if options.page is not None:
        run_page(options.page.resolve())
        return 0

    found = documents()
    problems: list[str | None] = [line for document in found for line in broken_links(document)]
    print(f"{'FAIL' if problems else 'ok  '} links of {len(found)} documents")
    if not options.links:
        for document in filter(has_code, found):
            label = f"{document.relative_to(ROOT)}, {len(code_of(document))} blocks of code"
            problems.append(failure(label, command_of_page(document)))
        for example in sorted((ROOT / "examples").glob("*.py")):
            label = str(example.relative_to(ROOT))
            missing = [name for name in PACKAGES.get(example.name, []) if importlib.util.find_spec(name) is None]
            if missing:
                print(f"--   {label}  not run: needs {', '.join(missing)}")
            else:
                problems.append(failure(label, command(example)))

    failures = [problem for problem in problems if problem]
    print(*(f"\n{problem}" for problem in failures), sep="", end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
