"""Each program in `programs` prints the same under PyTorch and under this library: words equal, numbers close."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
# One process for all: importing PyTorch takes longer than a program.
RUN_ALL = "import runpy, sys\nfor path in sys.argv[1:]:\n    print('program', path)\n    runpy.run_path(path)"


def printed(*launcher: str) -> dict[str, list[str]]:
    """The lines of each program."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run([sys.executable, *launcher, "-c", RUN_ALL, *map(str, PROGRAMS)], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    parts = [part.splitlines() for part in done.stdout.split("program ")[1:]]
    return {lines[0]: lines[1:] for lines in parts}


@pytest.fixture(scope="module")
def outputs():
    return printed(), printed("-m", "mindtorch_v2")


@pytest.mark.parametrize("path", [str(p) for p in PROGRAMS], ids=[p.stem for p in PROGRAMS])
def test_a_program_prints_the_same(path, outputs):
    theirs, ours = outputs[0][path], outputs[1][path]
    assert len(theirs) == len(ours) > 5
    for expected, got in zip(theirs, ours, strict=True):
        assert NUMBER.sub("#", expected) == NUMBER.sub("#", got)
        for a, b in zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True):
            last_digit = 10.0 ** -len(a.partition(".")[2])
            assert math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=2 * last_digit), (expected, got)
