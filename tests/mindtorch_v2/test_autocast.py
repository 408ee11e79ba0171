"""torch.autocast: which operators take which precision, nesting, decorators, gradients."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional as F


def test_products_take_bfloat16_and_losses_float32() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
        assert y.dtype is torch.bfloat16
        assert (x @ x.t()).dtype is torch.bfloat16
        assert F.mse_loss(y, torch.zeros(4, 3, dtype=torch.bfloat16)).dtype is torch.float32
        assert y.softmax(-1).dtype is torch.bfloat16  # in no list on the CPU
        assert (x + x).dtype is torch.float32
        assert torch.cat([y, x[:, :3]]).dtype is torch.float32
    assert (x @ x.t()).dtype is torch.float32


def test_the_numbers_are_those_of_bfloat16() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
    assert torch.equal(y, F.linear(x.bfloat16(), w.bfloat16()))


def test_double_is_left_alone() -> None:
    x = torch.ones(2, 2, dtype=torch.float64)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.float64


def test_contexts_nest_and_can_be_disabled() -> None:
    x = torch.ones(2, 2)
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        assert (x @ x).dtype is torch.float16
        with torch.autocast("cpu", enabled=False):
            assert not torch.is_autocast_enabled("cpu")
            assert (x @ x).dtype is torch.float32
        assert torch.get_autocast_dtype("cpu") is torch.float16
    assert not torch.is_autocast_enabled("cpu")


def test_as_a_decorator() -> None:
    @torch.autocast("cpu")
    def product(a: torch.Tensor) -> torch.Tensor:
        return a @ a

    assert product(torch.ones(2, 2)).dtype is torch.bfloat16


def test_gradients_come_in_the_types_of_the_leaves() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8, requires_grad=True)
    with torch.autocast("cpu"):
        loss = F.mse_loss(F.linear(x, w), torch.zeros(4, 3))
    loss.backward()
    assert w.grad.dtype is torch.float32
    expected = torch.autograd.grad(F.mse_loss(F.linear(x, w), torch.zeros(4, 3)), w)[0]
    assert torch.allclose(w.grad, expected, rtol=0.05, atol=0.02)


def test_another_device_is_not_touched() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cuda"):
        assert (x @ x).dtype is torch.float32


def test_wrong_arguments() -> None:
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'tpu'"):
        torch.autocast("tpu")
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        assert not torch.autocast("cpu", dtype=torch.float64)._enabled
