"""Parametrized tensors: registering, reading, assigning, removing, and what a checkpoint holds."""

import copy
import pickle

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils import parametrizations
from mindtorch_v2.nn.utils import parametrize as P


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Halves(nn.Module):
    def forward(self, first, second):
        return first + second

    def right_inverse(self, whole):
        return whole / 2, whole / 2


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


class Giving(nn.Module):
    """Forward and inverse from functions."""

    def __init__(self, forward=lambda x, *_: x, inverse=lambda x: x):
        super().__init__()
        self.give, self.invert = forward, inverse

    def forward(self, *args):
        return self.give(*args)

    def right_inverse(self, x):
        return self.invert(x)


def symmetric_layer():
    return P.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())


def test_the_weight_is_computed_and_the_original_stays_the_parameter():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    assert P.register_parametrization(layer, "weight", Symmetric()) is layer
    assert layer.parametrizations.weight.original is weight
    assert torch.equal(layer.weight, layer.weight.mT) and layer.weight.grad_fn is not None
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert P.type_before_parametrizations(layer) is nn.Linear
    assert P.is_parametrized(layer) and P.is_parametrized(layer, "weight") and not P.is_parametrized(layer, "bias")
    assert str(layer) == (
        "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n  (parametrizations): ModuleDict(\n"
        "    (weight): ParametrizationList(\n      (0): Symmetric()\n    )\n  )\n)"
    )


def test_gradients_reach_the_original():
    layer = symmetric_layer()
    layer(torch.ones(2, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad[0].tolist() == [2, 4, 4]


def test_assigning_stores_the_inverse():
    layer = symmetric_layer()
    layer.weight = torch.arange(9.0).view(3, 3)
    assert layer.parametrizations.weight.original.tolist() == [[0, 1, 2], [0, 4, 5], [0, 0, 8]]
    assert layer.weight.tolist() == [[0, 1, 2], [1, 4, 5], [2, 5, 8]]


def test_one_tensor_from_several():
    layer = P.register_parametrization(nn.Linear(2, 3), "bias", Halves())
    assert list(layer.state_dict())[1:] == ["parametrizations.bias.original0", "parametrizations.bias.original1"]
    layer.bias = torch.tensor([2.0, 4.0, 6.0])
    assert layer.parametrizations.bias.original1.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        P.remove_parametrizations(layer, "bias", leave_parametrized=False)
    P.remove_parametrizations(layer, "bias")
    assert isinstance(layer.bias, nn.Parameter) and layer.bias.tolist() == [2, 4, 6]


def test_several_in_a_row():
    layer = P.register_parametrization(symmetric_layer(), "weight", Doubled())
    original = layer.parametrizations.weight.original
    assert torch.equal(layer.weight, 2 * (original.triu() + original.triu(1).mT))
    with pytest.raises(RuntimeError, match="parametrization Doubled does not implement right_inverse"):
        layer.weight = torch.ones(3, 3)


@pytest.mark.parametrize("leave", [True, False])
def test_removing_restores_class_and_parameter(leave):
    layer = P.register_parametrization(nn.Linear(3, 3), "weight", Doubled())
    original = layer.parametrizations.weight.original
    stored, computed = original.detach().clone(), layer.weight.detach()
    P.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert type(layer) is nn.Linear and not hasattr(layer, "parametrizations")
    assert layer.weight is original and torch.equal(original, computed if leave else stored)


def test_buffers_can_be_parametrized():
    norm = P.register_parametrization(nn.BatchNorm1d(2), "running_var", Doubled())
    assert norm.running_var.tolist() == [2, 2]
    P.remove_parametrizations(norm, "running_var")
    assert "running_var" in dict(norm.named_buffers())


def test_cached_computes_once():
    layer = symmetric_layer()
    assert layer.weight is not layer.weight
    with P.cached():
        first = layer.weight
        with P.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first


def test_copying_works_and_pickling_does_not():
    layer = symmetric_layer()
    copied = copy.deepcopy(layer)
    assert torch.equal(copied.weight, layer.weight)
    copied.weight = torch.zeros(3, 3)
    assert layer.weight.abs().sum() > 0
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_state_goes_into_a_fresh_module():
    first, second = symmetric_layer(), symmetric_layer()
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.weight, second.weight)


def test_transfer():
    given, taken = symmetric_layer(), nn.Linear(3, 3)
    P.transfer_parametrizations_and_params(given, taken)
    assert torch.equal(given.weight, taken.weight) and not torch.equal(given.bias, taken.bias)
    assert taken.parametrizations.weight[0] is given.parametrizations.weight[0]


def test_functional_call_takes_the_original():
    layer = P.register_parametrization(nn.Linear(2, 1, bias=False), "weight", Doubled())
    given = {"parametrizations.weight.original": torch.ones(1, 2)}
    assert torch.func.functional_call(layer, given, torch.ones(2)).tolist() == [4.0]


WEIGHT_FORMS = [
    (Giving(lambda x: 3), "A parametrization must return a tensor. Got int."),
    (Giving(lambda x: x[:1]), "Registering a parametrization may not change the shape of the tensor, unless `unsafe` "
     "flag is enabled.\nunparametrized shape: torch.Size([3, 3])\nparametrized shape: torch.Size([1, 3])"),
    (Giving(lambda x: x.double()), "Registering a parametrization may not change the dtype of the tensor, unless "
     "`unsafe` flag is enabled.\nunparametrized dtype: torch.float32\nparametrized dtype: torch.float64"),
    (Giving(inverse=lambda x: 3), "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
     "Got int"),
    (Giving(inverse=lambda x: (x, 3)), "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)."
     " Got element 1 of the sequence with type int."),
    (Giving(inverse=lambda x: x.double()), "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
     "original.dtype: torch.float32\nright_inverse(original).dtype: torch.float64"),
]


@pytest.mark.parametrize(("parametrization", "message"), WEIGHT_FORMS)
def test_refused_and_the_module_is_unchanged(parametrization, message):
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError) as error:
        P.register_parametrization(layer, "weight", parametrization)
    assert str(error.value) == message
    assert type(layer) is nn.Linear and "weight" in layer._parameters


SECOND_FORMS = [
    (Giving(lambda x: x[:1]), "Registering a parametrization may not change the shape of the tensor, unless the "
     "`unsafe` flag is enabled.\nmodule.weight.shape: torch.Size([3, 3])\n"
     "parametrization(module.weight).shape: torch.Size([1, 3])"),
    (Giving(inverse=lambda x: (x, x)), "parametrization.right_inverse must return a tensor. Got: tuple"),
    (Giving(inverse=lambda x: x[:1]), "The tensor returned by parametrization.right_inverse must have the same shape "
     "as module.weight, unless the `unsafe` flag is enabled.\nmodule.weight.shape: torch.Size([3, 3])\n"
     "returned shape: torch.Size([1, 3])"),
]


@pytest.mark.parametrize(("parametrization", "message"), SECOND_FORMS)
def test_refused_as_a_second_one(parametrization, message):
    layer = symmetric_layer()
    with pytest.raises(ValueError) as error:
        P.register_parametrization(layer, "weight", parametrization)
    assert str(error.value) == message and len(layer.parametrizations.weight) == 1


def test_unsafe_allows_another_type():
    layer = P.register_parametrization(nn.Linear(3, 3), "weight", Giving(lambda x: x.double()), unsafe=True)
    assert layer.weight.dtype == torch.float64


def test_an_unknown_name():
    with pytest.raises(ValueError, match="a parameter, a buffer, or a parametrized element with name 'x'"):
        P.register_parametrization(nn.Linear(3, 3), "x", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        P.remove_parametrizations(nn.Linear(3, 3), "weight")


def is_orthogonal(matrix):
    short = matrix if matrix.size(0) <= matrix.size(1) else matrix.mT
    return torch.allclose(short @ short.mT, torch.eye(short.size(0)), atol=1e-5)


@pytest.mark.parametrize("trivialised", [True, False])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal_stays_orthogonal_in_training(kind, shape, trivialised):
    torch.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind, use_trivialization=trivialised)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach()
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.randn(4, shape[0])).square().sum().backward()
        optimizer.step()
    assert is_orthogonal(layer.weight) and not torch.allclose(before, layer.weight)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_an_orthogonal_matrix_can_be_assigned(shape):
    layer = parametrizations.orthogonal(nn.Linear(*shape))
    target = nn.init.orthogonal_(torch.empty(shape[1], shape[0]))
    layer.weight = target
    assert torch.allclose(layer.weight, target, atol=1e-5)


def test_orthogonal_complex_is_unitary():
    layer = nn.Module()
    layer.w = nn.Parameter(torch.randn(3, 3, dtype=torch.complex64))
    parametrizations.orthogonal(layer, "w")
    assert torch.allclose(layer.w.mH @ layer.w, torch.eye(3, dtype=torch.complex64), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"),
         "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions."),
        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x"),
         'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: x'),
        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "x"),
         "Module 'Linear(in_features=2, out_features=2, bias=True)' has no parameter or buffer with name 'x'"),
        (lambda: parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0),
         "Expected n_power_iterations to be positive, but got n_power_iterations=0"),
        (lambda: setattr(parametrizations.orthogonal(nn.Linear(2, 2)), "weight", torch.ones(3, 3)),
         "Expected a matrix or batch of matrices of shape torch.Size([2, 2]). Got a tensor of shape "
         "torch.Size([3, 3])."),
    ],
)
def test_errors_of_parametrizations(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


@pytest.mark.parametrize(("kind", "sizes"), [(nn.Linear, (4, 6)), (nn.Conv2d, (3, 4, 2)),
                                             (nn.ConvTranspose2d, (3, 4, 2))])
def test_spectral_norm_approaches_one(kind, sizes):
    torch.manual_seed(0)
    layer = parametrizations.spectral_norm(kind(*sizes))
    for _ in range(30):
        weight = layer.weight
    matrix = weight.movedim(1, 0) if isinstance(layer, nn.ConvTranspose2d) else weight
    assert torch.linalg.matrix_norm(matrix.flatten(1), 2).item() == pytest.approx(1, abs=1e-4)
    layer.eval()
    assert torch.equal(layer.weight, layer.weight)


def test_weight_norm_keeps_the_weight_and_reads_older_checkpoints():
    plain = nn.Linear(3, 2)
    layer = parametrizations.weight_norm(copy.deepcopy(plain))
    assert torch.allclose(layer.weight, plain.weight)
    older = {"weight_g": torch.full((2, 1), 2.0), "weight_v": torch.eye(3)[:2] * 5, "bias": torch.zeros(2)}
    layer.load_state_dict(older)
    assert layer.weight.tolist() == [[2, 0, 0], [0, 2, 0]]
