"""Initialisations and modules give, with the same seed, what PyTorch gives."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch

_tool = importlib.util.spec_from_file_location("golden_nn", Path(__file__).parents[3] / "tools" / "golden_nn.py")
golden_nn = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(golden_nn)
GOLDEN = dict(np.load(golden_nn.GOLDEN))


@pytest.mark.parametrize("case", golden_nn.INITIALISATIONS)
def test_initialisation_draws_the_same_numbers(case):
    np.testing.assert_allclose(golden_nn.initialised(torch, case), GOLDEN[f"init.{case}"], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("case", golden_nn.MODULES)
def test_module_gives_the_same_parameters_output_and_gradients(case):
    found = golden_nn.module_run(torch, case)
    prefix = f"module.{case}."
    expected = {key.removeprefix(prefix): value for key, value in GOLDEN.items() if key.startswith(prefix)}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # The gradient through a matrix exponential is a sum of terms that cancel.
        atol = 1e-5 if case == "orthogonal_exponential" else 2e-6
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=atol, err_msg=name)
