"""Asks pyright what tests/mindtorch_v2/test_stubs.py asks mypy: that a correct program is, and that mistakes are found.

pip install pyright && python tools/check_pyright.py
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "mindtorch_v2" / "typed"


def complaints() -> dict[str, set[int]]:
    """File name -> the lines that pyright calls errors."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
        settings = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings))
        command = ["pyright", "--pythonpath", sys.executable, "--outputjson"]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    found: dict[str, set[int]] = {}
    for one in json.loads(made.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found.setdefault(Path(one["file"]).name, set()).add(one["range"]["start"]["line"] + 1)
    return found


def main() -> None:
    found, agrees = complaints(), True
    for program in sorted(PROGRAMS.glob("*.py")):
        lines = program.read_text().splitlines()
        expected = {number for number, line in enumerate(lines, 1) if re.search(r"# wrong$", line)}
        seen = found.get(program.name, set())
        print(
            f"{program.name}: {len(seen & expected)} of {len(expected)} mistakes found, {len(seen - expected)} "
            "complaints about correct lines"
        )
        for number in sorted(seen ^ expected):
            print(f"  line {number}: {lines[number - 1]}")
        agrees &= seen == expected
    sys.exit(not agrees)


if __name__ == "__main__":
    main()
