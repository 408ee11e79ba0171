"""Optimizers take the steps PyTorch's take."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch

_tool = importlib.util.spec_from_file_location("golden_optim", Path(__file__).parents[3] / "tools" / "golden_optim.py")
golden_optim = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(golden_optim)
GOLDEN = dict(np.load(golden_optim.GOLDEN))


@pytest.mark.parametrize("dtype", golden_optim.DTYPES)
@pytest.mark.parametrize("case", golden_optim.CASES)
def test_trajectory(case, dtype):
    tolerance = {"rtol": 2e-6, "atol": 2e-7} if dtype == "float32" else {"rtol": 1e-13, "atol": 1e-14}
    np.testing.assert_allclose(golden_optim.trajectory(torch, case, dtype), GOLDEN[f"{case}.{dtype}"], **tolerance)


@pytest.mark.parametrize("flags", [{"foreach": True}, {"fused": True}, {"lr": torch.tensor(0.05)}])
@pytest.mark.parametrize("case", ["sgd_momentum", "adam", "adamw"])
def test_flags_change_no_number(case, flags, monkeypatch):
    name, options = golden_optim.CASES[case]
    monkeypatch.setitem(golden_optim.CASES, case, (name, options | flags))
    found = golden_optim.trajectory(torch, case, "float64")
    np.testing.assert_allclose(found, GOLDEN[f"{case}.float64"], rtol=1e-5)  # a float32 lr has fewer digits
