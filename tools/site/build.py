"""Builds the documentation site: pages out of docs/, the declarations and the chapters; every example runs first.

python tools/site/build.py            # build/site/html (make site)
python tools/site/build.py --no-run   # without running the code of docs/*.md again
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

os.environ.setdefault("MINDTORCH_JIT", "0")  # thousands of small calls: compiling would be the most of it
ROOT = Path(__file__).resolve().parents[2]
os.environ["PYTHONPATH"] = str(ROOT / "src")  # for the programs that examples start
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs"), str(ROOT / "tools" / "site")]

import chapters  # noqa: E402
import check  # noqa: E402
import operators  # noqa: E402
import reference  # noqa: E402

PAGES, HTML = ROOT / "build" / "site" / "pages", ROOT / "build" / "site" / "html"
# Documents that have another place on the site than below docs.
PLACES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
PACKAGE = "src/mindtorch_v2/"
# Links of a document, and what only looks like one: blocks of code and code in a line.
MARKED = re.compile(
    r"^```.*?^```$|<!--.*?-->|!?\[[^\]]*\]\((?P<link>[^)\s]+)[^)]*\)|`[^`\n]+`", re.MULTILINE | re.DOTALL
)
ATTRIBUTE = re.compile(r"""<(\w+)[^>]*?\b(src|href|data|poster|action)=["']?([^"'\s>]+)""")
IDS = re.compile(r"""\b(?:id|name)=["']?([^"'\s>]+)""")
SOURCE_STYLE = """
pre { font: 13px/1.45 monospace; }
pre a { color: #999; text-decoration: none; }
span:target { background: #fff3c4; display: inline-block; width: 100%; }
"""
TRACE = "trace_of_gpt.html"  # made whole, with text of programs in it
WITHOUT_EXAMPLE = ("changelog.html",)
# What the theme would load from another host so that search works on pages opened from a file.
FOREIGN = '<script src="https://unpkg.com/iframe-worker/shim"></script>'


def place_of(path: Path) -> str | None:
    """Where a document of the repository is on the site; None for other files."""
    name = path.relative_to(ROOT).as_posix()
    if name in PLACES:
        return PLACES[name]
    if name.startswith("docs/") and not name.startswith("docs/site/") and path.suffix == ".md":
        return name.removeprefix("docs/")
    return None


class Site:
    """The pages that are written, and the files of the repository that they point at."""

    def __init__(self) -> None:
        self.sources: set[Path] = set()

    def write(self, name: str, text: str) -> None:
        target = PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def add_document(self, path: Path) -> None:
        """A document of the repository, with its links as they are on the site."""
        place = place_of(path)
        assert place is not None
        up = "../" * place.count("/")
        text = path.read_text(encoding="utf-8").replace("```python fragment", "```python")

        def relinked(match: re.Match) -> str:
            link = match["link"]
            if link is None or link.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", link):
                return match.group(0)
            name, _, fragment = link.partition("#")
            target = (path.parent / name).resolve()
            there = place_of(target)
            if there is None and target.suffix in (".png", ".svg", ".jpg"):
                there = f"images/{target.name}"
                (PAGES / "images").mkdir(parents=True, exist_ok=True)
                shutil.copy(target, PAGES / there)
            elif there is None:
                self.sources.add(target)
                there = f"source/{target.relative_to(ROOT).as_posix().removeprefix(PACKAGE)}.html"
            return match.group(0).replace(f"({link}", f"({up}{there}{'#' + fragment if fragment else ''}")

        text = MARKED.sub(relinked, text)
        self.write(place, re.sub(r"<!-- site: (.*?) -->", r"\1", text, flags=re.DOTALL))

    def add_source(self, path: Path) -> None:
        """A file of the repository, a line each with an anchor."""
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_for_filename
        from pygments.util import ClassNotFound

        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        try:
            lexer = get_lexer_for_filename(path.name, stripnl=False)
            lines = highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n")
        except ClassNotFound:
            lines = escape(text).split("\n")
        body = "\n".join(f'<span id="L{i}"><a href="#L{i}">{i:5}</a>  {line}</span>' for i, line in enumerate(lines, 1))
        style = HtmlFormatter(style="default").get_style_defs("pre") + SOURCE_STYLE
        head = f"<meta charset=utf-8><link rel=icon href=data:,><title>{name}</title><style>{style}</style>"
        self.write(
            f"source/{name.removeprefix(PACKAGE)}.html",
            f"<!doctype html><html lang=en>{head}<h3>{name}</h3><pre>{body}</pre></html>",
        )


def add_trace() -> None:
    """The page of a trace, to be opened from the one that explains it."""
    program = ROOT / "examples" / "trace_gpt.py"
    subprocess.run([sys.executable, "-m", "mindtorch_v2", str(program)], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(program.parent / "out" / "trace.html", PAGES / TRACE)


def write_settings(documents: list[Path]) -> Path:
    """The settings of mkdocs, with the documents that its navigation does not name at the end of it."""
    text = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8").replace("../../build/site/", "")
    places = [place_of(path) for path in documents]
    text += "".join(f"      - {place}\n" for place in places if f" {place}\n" not in text)
    target = PAGES.parent / "mkdocs.yml"
    target.write_text(text, encoding="utf-8")
    return target


def mathml(latex: str) -> str:
    from latex2mathml.converter import convert

    return convert(latex, display="inline")


def run_documents(paths: list[Path]) -> list[str]:
    """What failed of the code in documents."""
    found = [
        check.failure(str(p.relative_to(ROOT)), check.command_of_page(p))
        for p in paths
        if check.has_code(p) and p not in chapters.paths()
    ]
    return [problem for problem in found if problem]


def bring_home(html: Path) -> None:
    """Puts a script of this site in the place of the one that the theme loads from another host."""
    for path in html.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if FOREIGN in text:
            up = "../" * len(path.relative_to(html).parent.parts)
            path.write_text(text.replace(FOREIGN, f'<script src="{up}file_worker.js"></script>'), encoding="utf-8")


def problems_of(html: Path) -> Iterator[str]:
    """Links that lead nowhere, files that would come from another host, and pages without an example."""
    texts = {
        path.relative_to(html).as_posix(): path.read_text(encoding="utf-8") for path in sorted(html.rglob("*.html"))
    }
    anchors = {name: set(map(unescape, IDS.findall(text))) for name, text in texts.items()}
    for name, text in texts.items():
        if name == TRACE:
            continue
        if "<pre" not in text and name not in WITHOUT_EXAMPLE:
            yield f"{name}: no example"
        for tag, attribute, link in ATTRIBUTE.findall(text):
            link = unescape(link)
            if re.match(r"(https?:)?//", link):
                if tag != "a" or attribute != "href":
                    yield f"{name}: <{tag}> takes {link} from another host"
                continue
            if re.match(r"(data|mailto|javascript):", link) or (tag == "form" and attribute == "action"):
                continue
            target, _, fragment = link.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(name), target)) if target else name
            if not (html / there).exists():
                yield f"{name}: no such file: {link}"
            elif fragment and there in anchors and fragment not in anchors[there] and not fragment.startswith("__"):
                yield f"{name}: no such place: {link}"
    for style in html.rglob("*.css"):
        for link in re.findall(r"url\(\"?(https?:[^)\"]+)", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(html)}: takes {link} from another host"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-run", action="store_true", help="do not run the code of documents")
    options = parser.parse_args()

    started = time.perf_counter()
    shutil.rmtree(ROOT / "build" / "site", ignore_errors=True)
    site = Site()
    documents = [path for path in check.documents() if place_of(path) is not None]
    problems = [] if options.no_run else run_documents(documents)
    for path in documents:
        if path not in chapters.paths():
            site.add_document(path)
    ran = {path: chapters.run(path) for path in chapters.paths()}
    chapters.write_notebooks(PAGES / "chapters", ran)
    for path, cells in ran.items():
        site.write(f"chapters/{path.stem}.md", chapters.page(path, cells))
        site.sources |= {ROOT / PACKAGE / lines.file for lines in chapters.sources_in(cells)}
    for name in ("site.css", "file_worker.js"):
        shutil.copy(ROOT / "docs" / "site" / name, PAGES / name)
    add_trace()
    problems += reference.add_reference(site, mathml)
    for source in sorted(site.sources):
        site.add_source(source)
    print(
        f"ok   pages of {len(operators.entries())} operators, {len(site.sources)} files of source"
        f"  {time.perf_counter() - started:.1f} s",
        flush=True,
    )

    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--config-file",
            str(write_settings(documents)),
        ],
        cwd=ROOT,
        env=environment,
    )
    if built.returncode:
        problems.append("mkdocs failed")
    else:
        (HTML / "404.html").unlink()  # for servers; its links are those of a site at the root of a host
        bring_home(HTML)
        problems += problems_of(HTML)
    print(*problems[:50], sep="\n")
    size = sum(path.stat().st_size for path in HTML.rglob("*") if path.is_file()) if HTML.exists() else 0
    print(
        f"{'FAIL' if problems else 'ok  '} {HTML.relative_to(ROOT)}: {len(list(HTML.rglob('*.html')))} pages,"
        f" {size / 1e6:.0f} MB, {time.perf_counter() - started:.0f} s"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
