"""Optimizers take the steps PyTorch's take, schedules set its rates, foreach operators give its numbers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch

_tool = importlib.util.spec_from_file_location("golden_optim", Path(__file__).parents[3] / "tools" / "golden_optim.py")
golden_optim = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(golden_optim)
GOLDEN = dict(np.load(golden_optim.GOLDEN))
FLAGS = ({"foreach": True}, {"fused": True}, {"lr": torch.tensor(0.05)}, {"lr": torch.tensor([0.05])})


@pytest.mark.parametrize(
    ("case", "dtype"), [(case, dtype) for case in golden_optim.CASES for dtype in golden_optim.kinds_of(case)]
)
def test_trajectory(case, dtype):
    tolerance = {"rtol": 2e-6, "atol": 5e-7} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-13}
    if case.startswith("muon"):  # orthogonalises in bfloat16
        tolerance = {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(golden_optim.trajectory(torch, case, dtype), GOLDEN[f"{case}.{dtype}"], **tolerance)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("case", ["sgd_momentum", "adam", "adamw", "adagrad"])
def test_flags_change_no_number(case, flags, monkeypatch):
    name, options = golden_optim.CASES[case]
    if "lr" in flags:  # a float32 lr has fewer digits
        flags = {"lr": torch.full_like(flags["lr"], options["lr"])}
    monkeypatch.setitem(golden_optim.CASES, case, (name, options | flags))
    found = golden_optim.trajectory(torch, case, "float64")
    np.testing.assert_allclose(found, GOLDEN[f"{case}.float64"], rtol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize("case", ["sgd_nesterov", "adam_amsgrad_decay", "adamw", "adagrad_options"])
def test_large_parameters_step_as_their_rows_do(case, layout):
    name, options = golden_optim.CASES[case]
    values = torch.randn(300, 400, dtype=torch.float64)
    doubled = torch.stack([values, values], -1)
    arranged = {"contiguous": values.clone(), "transposed": values.t().clone().t(), "strided": doubled[..., 0]}
    large = torch.nn.Parameter(arranged[layout])
    rows = [torch.nn.Parameter(row.clone()) for row in values]
    optimizers = [getattr(torch.optim, name)(params, **options) for params in ([large], rows)]
    for _ in range(3):
        large.grad = torch.randn(300, 400, dtype=torch.float64)
        for row, gradient in zip(rows, large.grad, strict=True):
            row.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(large, torch.stack(rows))


@pytest.mark.parametrize("by", ["SGD", "Adam"])
@pytest.mark.parametrize("name", golden_optim.SCHEDULES)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
def test_rates(name, by):
    np.testing.assert_allclose(golden_optim.rates(torch, name, by), GOLDEN[f"{name}.{by}"], rtol=1e-14)


@pytest.mark.parametrize(("name", "overloads"), golden_optim.foreach_calls().items(), ids=str)
def test_foreach(name, overloads):
    np.testing.assert_allclose(golden_optim.foreach_results(torch, name, overloads), GOLDEN[name], rtol=1e-14)
