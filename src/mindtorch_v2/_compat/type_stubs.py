"""`python -m mindtorch_v2 stubs FOLDER`: lets type checkers take `import torch` for this library."""

from pathlib import Path

from .absent_modules import ABSENT_MODULES


def write_torch_stubs(folder: Path) -> int:
    """Writes `torch` and its public submodules as stubs that name this library's; the number of files written."""
    package = Path(__file__).parent.parent
    files = [file for file in package.rglob("*.py") if _is_public(file.relative_to(package))]
    for file in files:
        place = file.relative_to(package)
        parts = place.with_suffix("").parts
        module = ".".join((package.name, *(part for part in parts if part != "__init__")))
        version = f"from {module} import __version__ as __version__\n" if module == package.name else ""
        _write(folder / "torch" / place.with_suffix(".pyi"), f"from {module} import *\n{version}")
    absent = [Path(*name.split("."), "__init__.pyi") for name in ABSENT_MODULES if "._" not in name]
    for place in absent:  # anything may be imported from them, and nothing used
        _write(folder / "torch" / place, "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    return len(files) + len(absent)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _is_public(place: Path) -> bool:
    return all(part == "__init__.py" or not part.startswith("_") for part in place.parts)
