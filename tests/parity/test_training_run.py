"""The same program, with the same seed, prints PyTorch's losses at every step."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

PROGRAM = Path(__file__).parent / "training_run.py"


def losses(*prefix: str) -> list[float]:
    """What the program prints when it is run behind these arguments of Python."""
    path = os.pathsep.join([str(PROGRAM.parents[2] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run([sys.executable, *prefix, PROGRAM], capture_output=True, text=True, timeout=300,
                         env=os.environ | {"PYTHONPATH": path})
    assert run.returncode == 0, run.stderr
    return [float(line) for line in run.stdout.splitlines()]


def test_every_loss_of_200_steps_agrees_to_four_decimals() -> None:
    theirs, ours = losses(str(PROGRAM.parent / "theirs.py")), losses("-m", "mindtorch_v2")
    assert len(theirs) == 200 and theirs[-1] < 0.7 * theirs[0], "the program did not learn"
    assert ours == pytest.approx(theirs, abs=5e-5, rel=0)
