"""torch.amp.GradScaler."""

import pickle

import pytest

import mindtorch_v2 as torch


def made(value=1.0):
    weight = torch.nn.Parameter(torch.tensor([value]))
    return weight, torch.optim.SGD([weight], lr=0.5)


def test_a_step_sees_unscaled_gradients_and_the_scale_grows():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    weight, optimiser = made()
    for expected in (8.0, 16.0):
        optimiser.zero_grad()
        scaler.scale(weight.sum()).backward()
        assert weight.grad.item() == (8.0)
        scaler.step(optimiser)
        scaler.update()
        assert scaler.get_scale() == expected
    assert weight.item() == 0.0


def test_an_overflow_skips_the_step_and_halves_the_scale():
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    weight, optimiser = made()
    scaler.scale((weight * float("inf")).sum()).backward()
    assert scaler.step(optimiser) is None
    scaler.update()
    assert weight.item() == 1.0 and scaler.get_scale() == 2.0


def test_calls_in_the_wrong_order_are_refused():
    scaler = torch.amp.GradScaler("cpu")
    weight, optimiser = made()
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimiser)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimiser)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimiser)
    scaler.step(optimiser)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(optimiser)


def test_state_is_saved_and_loaded():
    scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 32.0
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == 32.0
    assert list(scaler.state_dict()) == [
        "scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "_growth_tracker",
    ]


@pytest.mark.usefixtures("without_gpu")
def test_disabled_it_does_nothing():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler()
    x = torch.ones(1)
    assert scaler.scale(x) is x and scaler.get_scale() == 1.0 and scaler.state_dict() == {}


def test_half_gradients_are_refused():
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.float().sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimiser)
