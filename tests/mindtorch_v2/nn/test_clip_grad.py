"""nn.utils: clipping gradients, parameters as a vector."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import utils


@pytest.fixture
def parameters():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad = torch.tensor([3.0, 0.0])
    parameters[1].grad = torch.tensor([-4.0])
    return parameters


@pytest.mark.parametrize(("norm_type", "norm"), [(2.0, 5.0), (1.0, 7.0), (float("inf"), 4.0)])
def test_clip_grad_norm(parameters, norm_type, norm):
    assert utils.clip_grad_norm_(iter(parameters), norm / 2, norm_type).item() == pytest.approx(norm)
    assert parameters[0].grad.tolist() == pytest.approx([1.5, 0.0])
    assert parameters[1].grad.tolist() == pytest.approx([-2.0])
    assert parameters[2].grad is None


def test_small_gradients_stay(parameters):
    utils.clip_grad_norm_(parameters, 100.0)
    assert parameters[1].grad.item() == -4.0


def test_clip_grad_value(parameters):
    utils.clip_grad_value_(parameters, 2.5)
    assert parameters[0].grad.tolist() == [2.5, 0.0] and parameters[1].grad.item() == -2.5


def test_non_finite_norm(parameters):
    parameters[0].grad[0] = float("nan")
    with pytest.raises(RuntimeError) as error:
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert str(error.value) == (
        "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To "
        "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
    )


def test_nothing_to_clip():
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.get_total_norm([]).item() == 0.0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur."):
        utils.clip_grad_norm_((parameter for parameter in ()), 1.0)


def test_old_name_warns(parameters):
    with pytest.warns(FutureWarning, match="`torch.nn.utils.clip_grad_norm` is now deprecated"):
        utils.clip_grad_norm(parameters, 1.0)


def test_vector_round_trip():
    net = nn.Linear(2, 2)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (6,) and vector.requires_grad
    utils.vector_to_parameters(torch.arange(6.0), net.parameters())
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]] and net.bias.tolist() == [4.0, 5.0]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: int"):
        utils.vector_to_parameters(3, net.parameters())
