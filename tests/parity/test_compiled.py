"""torch.compile refuses, counts and copies as PyTorch's does with backends that need no compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the real PyTorch")
HERE = Path(__file__).resolve().parent


def test_both_libraries_say_the_same() -> None:
    path = os.pathsep.join([str(HERE.parents[1] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    said = [
        subprocess.run([sys.executable, *command, HERE / "compiled.py"], env=os.environ | {"PYTHONPATH": path},
                       capture_output=True, text=True, timeout=900, check=True).stdout.splitlines()
        for command in ([HERE / "theirs.py"], ["-m", "mindtorch_v2"])
    ]  # fmt: skip
    theirs, ours = said
    assert len(theirs) > 60 and ours == theirs
