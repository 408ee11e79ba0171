"""Pipelines on a GPU: programs give what they give call by call, and groups run as one kernel."""

import pytest
from tests.mindtorch_v2 import test_pipeline_fuzz as fuzz

import mindtorch_v2 as torch


@pytest.fixture(autouse=True)
def on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DEVICE", ["cuda"])


def test_random_programs() -> None:
    found = {fuzz.told(seed): wrong for seed in range(60) if (wrong := fuzz.differences(seed))}
    assert not found


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_chain_is_one_kernel(kind: torch.dtype) -> None:
    x, bias = torch.randn(37, 1001, device="cuda").to(kind), torch.randn(1001, device="cuda").to(kind)

    def chain() -> tuple:
        y = torch.tanh(x * 2 + bias)
        z = torch.relu(y - 0.25) * x.t().t()
        return z.t() + 1, z

    eager = chain()
    with torch.pipeline() as pipe:
        made = chain()
    steps = [step for step in pipe.history[-1][1].steps if step.kind != "view"]
    assert [step.kind for step in steps] == ["pointwise"] * 2
    assert steps[0].group.launch
    for one, other in zip(eager, made, strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()


def test_writes_and_backward() -> None:
    def run() -> tuple:
        torch.manual_seed(0)
        x = torch.randn(64, 32, device="cuda", requires_grad=True)
        w = torch.randn(32, 8, device="cuda")
        y = torch.nn.functional.gelu(x @ w)
        y[:, 0].mul_(3)
        (y.sigmoid() * y).sum().backward()
        w.add_(1).mul_(0.5)
        return y.detach(), x.grad, w

    eager = run()
    with torch.pipeline():
        made = run()
    for one, other in zip(eager, made, strict=True):
        torch.testing.assert_close(one, other)
