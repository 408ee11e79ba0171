"""Random numbers on the simulated NPU: each operator that draws, by what its numbers must look like."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2._dispatch.dispatcher import dispatch

COUNT = 4000


def empty(dtype: Any = torch.float32) -> Any:
    return torch.empty(COUNT, dtype=dtype, device="npu")


def ones() -> Any:
    return torch.ones(COUNT, device="npu")


# name -> (what draws, mean, smallest, largest); None for what is not bounded
DRAWS: dict[str, tuple[Callable[[], Any], float | None, float | None, float | None]] = {
    "rand": (lambda: torch.rand(COUNT, device="npu"), 0.5, 0, 1),
    "rand_like": (lambda: torch.rand_like(ones()), 0.5, 0, 1),
    "randn": (lambda: torch.randn(COUNT, device="npu"), 0, None, None),
    "randn_like": (lambda: torch.randn_like(ones()), 0, None, None),
    "uniform_": (lambda: empty().uniform_(2, 4), 3, 2, 4),
    "normal_": (lambda: empty().normal_(3, 0.5), 3, None, None),
    "random_": (lambda: empty(torch.int8).random_().float(), 63, 0, 127),
    "random_.to": (lambda: empty(torch.int64).random_(10).float(), 4.5, 0, 9),
    "random_.from": (lambda: empty(torch.int32).random_(-5, 5).float(), -0.5, -5, 4),
    "randint": (lambda: torch.randint(10, (COUNT,), device="npu").float(), 4.5, 0, 9),
    "randint.low": (lambda: torch.randint(-5, 5, (COUNT,), device="npu").float(), -0.5, -5, 4),
    "randint_like": (lambda: torch.randint_like(ones(), 10), 4.5, 0, 9),
    "randint_like.low": (lambda: torch.randint_like(ones(), -5, 5), -0.5, -5, 4),
    "randperm": (lambda: torch.randperm(COUNT, device="npu").float(), (COUNT - 1) / 2, 0, COUNT - 1),
    "normal.float_float": (lambda: torch.normal(2.0, 0.5, (COUNT,), device="npu"), 2, None, None),
    "normal.Tensor_float": (lambda: torch.normal(ones() * 2, 0.5), 2, None, None),
    "normal.float_Tensor": (lambda: torch.normal(2.0, ones() * 0.5), 2, None, None),
    "normal.Tensor_Tensor": (lambda: torch.normal(ones() * 2, ones() * 0.5), 2, None, None),
    "exponential_": (lambda: empty().exponential_(2.0), 0.5, 0, None),
    "cauchy_": (lambda: empty().cauchy_(1.0, 0.5).atan(), None, -math.pi / 2, math.pi / 2),
    "log_normal_": (lambda: empty().log_normal_(0.0, 0.25), math.exp(0.03125), 0, None),
    "geometric_": (lambda: empty().geometric_(0.25), 4, 1, None),
    "bernoulli": (lambda: torch.bernoulli(ones() * 0.3), 0.3, 0, 1),
    "bernoulli.p": (lambda: torch.bernoulli(ones(), 0.3), 0.3, 0, 1),
    "bernoulli_.float": (lambda: empty().bernoulli_(0.3), 0.3, 0, 1),
    "bernoulli_.Tensor": (lambda: empty().bernoulli_(ones() * 0.3), 0.3, 0, 1),
    "multinomial": (lambda: torch.multinomial(torch.tensor([1.0, 0.0, 3.0], device="npu"), COUNT, True).float(),
                    1.5, 0, 2),
    "dropout": (lambda: F.dropout(ones(), 0.2), 1, 0, 1.25),
    "dropout_": (lambda: F.dropout(ones(), 0.2, inplace=True), 1, 0, 1.25),
    "native_dropout": (lambda: torch.native_dropout(ones(), 0.2, True)[0], 1, 0, 1.25),
    "alpha_dropout": (lambda: F.alpha_dropout(torch.randn(COUNT, device="npu"), 0.2, training=True), 0, None, None),
    "feature_dropout": (lambda: F.dropout1d(torch.ones(COUNT, 1, 2, device="npu"), 0.2), 1, 0, 1.25),
    "feature_alpha_dropout": (lambda: F.feature_alpha_dropout(torch.randn(COUNT, 1, device="npu"), 0.2, training=True),
                              0, None, None),
    "rrelu": (lambda: F.rrelu(-ones(), 0.1, 0.3, training=True), -0.2, -0.3, -0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws(shared_npu: Any, name: str) -> None:
    draw, mean, low, high = DRAWS[name]
    torch.manual_seed(11)
    first = draw()
    again = draw()
    torch.manual_seed(11)
    assert first.device.type == "npu"
    values = first.cpu()
    assert draw().cpu().equal(values), "the seed does not start the numbers anew"
    assert not again.cpu().equal(values), "two draws are the same"
    deviation = values.std().item()
    if mean is not None:
        assert abs(values.mean().item() - mean) < 6 * deviation / math.sqrt(COUNT), (values.mean().item(), mean)
    assert low is None or values.min().item() >= low - 1e-6
    assert high is None or values.max().item() <= high + 1e-6


def test_a_cpu_generator_is_refused(shared_npu: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.rand(2, device="npu", generator=torch.Generator())


def test_gradients_flow_through_dropout(shared_npu: Any) -> None:
    x = torch.ones(100, device="npu", requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad.equal(y.detach())


def test_bits_mean_the_same_on_a_cpu(npu: Any) -> None:
    x = torch.arange(1.0, 301.0).reshape(30, 10)
    for device in ("cpu", "npu"):
        bits = dispatch("aten::_dropout_bits", x.to(device), 300, 0.25)
        assert (bits.dtype, bits.shape, bits.device.type) == (torch.uint8, (48,), device)
        made = [dispatch("aten::_dropout_masked", x.to(d), bits.to(d), 0.25).cpu() for d in ("cpu", "npu")]
        torch.testing.assert_close(*made)
        assert 0.1 < (made[0] == 0).float().mean().item() < 0.4
        torch.testing.assert_close(made[0][made[0] != 0], x[made[0] != 0] / 0.75)
