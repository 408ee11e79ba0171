"""Models of the transformers library, unmodified, on this library against PyTorch: every number of a training step."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from architectures import ARCHITECTURES

pytest.importorskip("transformers")
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What PyTorch and this library computed, each in a process of its own, from PyTorch's weights and saved models."""
    folder = tmp_path_factory.mktemp("architectures")
    theirs, ours, compiled = "torch.npz", "ours.npz", "compiled.npz"
    path = os.pathsep.join([str(HERE.parents[1] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    for arguments in ([theirs], [ours, theirs], [compiled, theirs]):
        command = ["-m", "mindtorch_v2"] if arguments[0] != theirs else [HERE / "theirs.py"]
        done = subprocess.run([sys.executable, *command, HERE / "architectures.py", folder, *arguments],
                              env=environment | {"COMPILED": "1" if arguments[0] == compiled else "0"}, check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments[0]}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    return [{key: value for key, value in np.load(folder / file).items()} for file in (theirs, ours, compiled)]


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_training_step_and_generation_agree(name, way, results):
    chosen = (results[0], results[1 if way == "eager" else 2])
    theirs, ours = ({key[len(name) + 1:]: v for key, v in r.items() if key.startswith(f"{name}/")} for r in chosen)
    for made in (theirs, ours):
        assert "error" not in made, str(made["error"])
    assert ours.keys() == theirs.keys()
    kinds = {key.partition("/")[0] for key in theirs}
    assert {"initial", "output", "saved", "loaded", "gradient", "step", "training loss"} <= kinds
    assert ARCHITECTURES[name][3] == ("greedy" in kinds)
    for key, expected in theirs.items():
        got = ours[key]
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), key
        if expected.dtype.kind == "f":
            largest = max(1.0, float(np.abs(expected).max(initial=0.0)))  # whose rounding the small ones may carry
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * largest, err_msg=key)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=key)
