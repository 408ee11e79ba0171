"""Steps under a limited address space, each model in a process of its own: see memory_limits.py."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch

SCRIPT = Path(__file__).with_name("memory_limits.py")
MODELS = ("mlp", "resnet", "gpt", "lstm")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")


@functools.cache
def measured(*arguments: str) -> dict[str, Any]:
    """What the script found; under "said", the lines that were running where a child died."""
    source = Path(torch.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
                   "MINDTORCH_JIT": "0",  # the compiler takes more memory than a step
                   "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "said": done.stderr}


@pytest.mark.parametrize("model", MODELS)
def test_a_step_without_memory_raises_and_leaves_the_parameters(model: str) -> None:
    found = measured(model, "--points", "40")
    ends = [result.get("ended", str(result)) for result in found["results"]]
    assert len(ends) == 40 and ends[-1] == "complete"
    failed = [end for end in ends if end != "complete"]
    assert len(failed) > 20
    for end in failed:
        assert end.startswith("RuntimeError: [enforce fail at alloc_cpu.cpp"), f"{end}\n{found['said']}"
    assert all(result["right"] for result in found["results"]), "a failed step changed a parameter"
    assert all(result["next"] for result in found["results"]), "the step after a failed one is not the first step"


def test_limits_are_met_in_every_part_of_a_step() -> None:
    reached = {result["at"] for model in MODELS for result in measured(model, "--points", "40")["results"]}
    assert reached == {"forward", "backward", "step"}


def test_steps_of_random_sizes_do_not_grow() -> None:
    found = measured("lstm", "--steps", "300")
    assert found["late"] - found["early"] < 16 << 20
