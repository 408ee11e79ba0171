"""Processes of a program on this library, where the real PyTorch is installed too: which of the two they see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the real PyTorch")

ROOT = Path(__file__).resolve().parents[2]
CROSSINGS = str(ROOT / "tests" / "mindtorch_v2" / "drop_in" / "crossings.py")
OURS = "2.13.0+mindtorch2"
PRINT = "import torch; print(torch.__version__)"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name != "MINDTORCH_AS_TORCH"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          env={**kept, "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": "", **variables})


def test_children_see_this_library() -> None:
    ways = ["through_subprocess", "through_a_console_script", "through_metadata", "through_spawn",
            "through_a_data_loader"]
    done = run("-m", "mindtorch_v2", CROSSINGS, *ways)
    assert json.loads(done.stdout) == dict.fromkeys(ways, OURS), done.stderr


def test_a_child_that_is_told_so_sees_pytorch() -> None:
    child = f"subprocess.run([sys.executable, '-c', {PRINT!r}])"
    code = f"import os, subprocess, sys; os.environ['MINDTORCH_AS_TORCH'] = '0'; {child}"
    assert run("-m", "mindtorch_v2", "-c", code).stdout.strip() == run("-c", PRINT).stdout.strip() != OURS


def test_accelerate_launches_programs_on_this_library(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="a package of the extra `parity`")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom accelerate import Accelerator\nprint(torch.__version__, Accelerator(cpu=True).device)\n")
    done = run("-m", "mindtorch_v2", "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1",
               str(tmp_path / "train.py"))
    assert f"{OURS} cpu" in done.stdout, done.stderr
