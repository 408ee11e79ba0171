"""torch_npu as a name: a program for it, unmodified, and the report of `check npu`, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from simulator.chips import SOC_NAMES

FOLDER = Path(__file__).parent
START = ("import runpy, sys; from simulator import simulator; machine = simulator(); machine.chip = sys.argv[1]; "
         "import mindtorch_v2; mindtorch_v2.install(); ")  # fmt: skip


def said(npu: Any, chip: str, code: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "ASCEND_HOME_PATH": str(npu.root), "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run([sys.executable, "-c", START + code + "; print('neglected', machine.violations)", chip],
                          env=environment, cwd=folder, capture_output=True, text=True, timeout=300,
                          check=False)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.mark.parametrize("chip", ["A2", "310P", "950"])
def test_a_program_for_torch_npu_runs_unmodified(npu: Any, chip: str, tmp_path: Path) -> None:
    text = said(npu, chip, f"runpy.run_path({str(FOLDER / 'ascend_program.py')!r}, run_name='__main__')", tmp_path)
    assert text.splitlines() == [
        f"device {SOC_NAMES[chip].decode()} 0 {chip != '310P'}", "losses True True",
        "graph [7.0, 7.0, 7.0, 7.0] [2.0, 2.0, 2.0, 2.0]", "memory True True", "neglected []"]  # fmt: skip
    (recorded,) = tmp_path.glob("result/*_ascend_pt/PROF_*")
    launches = json.loads(recorded.read_text())["launches"]
    fused = [launches.get(name) for name in ("aclnnFlashAttentionScore", "aclnnApplyAdamWV2")]
    assert fused == [2 if chip != "310P" else None] * 2


def test_the_report(npu: Any) -> None:
    text = said(npu, "A2", "sys.argv[1:] = ['check', 'npu']; from mindtorch_v2.__main__ import _check; _check('npu')")
    lines = text.splitlines()
    assert "chip Ascend910B1, taken for A2; 2 devices" in text and lines[-1] == "neglected []"
    outcomes = [line for line in lines if "off by" in line]
    assert len(outcomes) == 11 and all(": ok, " in line for line in outcomes)
    assert 17 <= len(lines) <= 22 and "GB/s on the device" in text and lines[-2].startswith("a + b of small tensors")
