"""Pipelines on the Meta device: what was recorded is planned, as for the CPU, and nothing is run."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn


def block(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.gelu(F.linear(x, weight, bias)) * 2 + x
    z = F.layer_norm(y, (8,))
    return (z.softmax(-1) - 0.5).t().contiguous().view(-1)[3:], z, y.sum()


def writes(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(2).add_(bias)
    x[1].zero_()
    return x.t() + weight[:, :4], F.dropout(x, 0.5)


def planned(function: Callable, device: str) -> tuple[Any, Any]:
    given = [torch.empty(shape, device=device) for shape in ((4, 8), (8, 8), (8,))]
    with torch.pipeline() as pipe:
        made = function(*given)
        assert len(pipe)
    (_, plan), *more = pipe.history
    assert not more
    return (*made, given[0]), plan


@pytest.mark.parametrize("function", [block, writes])
def test_a_plan_is_that_of_the_cpu(function: Callable) -> None:
    (made, plan), (expected, other) = planned(function, "meta"), planned(function, "cpu")
    assert [(s.kind, s.entries, s.bytes, s.flops) for s in plan.steps] == [
        (s.kind, s.entries, s.bytes, s.flops) for s in other.steps
    ]
    assert plan.peak == other.peak and plan.memory == other.memory
    for one, two in zip(made, expected, strict=True):
        assert one.is_meta and (one.shape, one.stride(), one.dtype) == (two.shape, two.stride(), two.dtype)
        assert (one._version, one.storage_offset()) == (two._version, two.storage_offset())


def test_a_training_step_that_no_machine_holds() -> None:
    net = nn.Sequential(nn.Linear(1000, 4000), nn.ReLU(), nn.Linear(4000, 10)).to("meta")
    way = torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.pipeline(explain=True) as pipe:
        net(torch.empty(1 << 24, 1000, device="meta")).square().mean().backward()
        way.step()
    assert all(p.grad.shape == p.shape for p in net.parameters())
    data = pipe.explain().data()
    plan = data["plans"][0]
    assert plan["device"] == "meta" and plan["peak"] >= 2 * 4000 * 4 << 24
    assert all(step["seconds"] is None for step in plan["steps"]) and plan["steps"][0]["flops"] == 2 * 4000 * 1000 << 24
    assert "plan 1 on meta" in str(pipe.explain()) and data["bandwidth"] == {"meta": None}


def test_meta_beside_the_cpu() -> None:
    """An optimizer that counts its steps on the CPU: calls of both are in one plan, and those of Meta make nothing."""
    net = nn.Linear(1 << 20, 1 << 14, device="meta")
    way = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        with torch.pipeline(explain=True) as pipe:
            net(torch.empty(8, 1 << 20, device="meta")).tanh().sum().backward()
            way.step()
    assert way.state[net.weight]["step"].item() == 2 and way.state[net.weight]["exp_avg"].is_meta
    assert {layout.device.type for _, plan in pipe.history for layout in plan.layouts} == {"cpu", "meta"}


def test_elements_are_not_there() -> None:
    x = torch.empty(3, device="meta")
    with torch.pipeline():
        y = (x + 1).sum()
        with pytest.raises(RuntimeError, match="meta"):
            y.item()
        with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
            y.cpu()
    assert y.shape == ()


def test_compiled_functions() -> None:
    given = [torch.empty(shape, device="meta") for shape in ((4, 8), (8, 8), (8,))]
    for mode in (None, "reduce-overhead"):
        compiled = torch.compile(block, mode=mode)
        for _ in range(5):
            made = compiled(*given)
            assert [t.shape for t in made] == [(29,), (4, 8), ()] and all(t.is_meta for t in made)
