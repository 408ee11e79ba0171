"""nn.init: gains, checks, and what is returned."""

import math

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import init


@pytest.mark.parametrize(
    ("nonlinearity", "param", "gain"),
    [
        ("linear", None, 1),
        ("conv_transpose2d", None, 1),
        ("sigmoid", None, 1),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("leaky_relu", None, math.sqrt(2 / (1 + 0.01**2))),
        ("leaky_relu", 0.3, math.sqrt(2 / (1 + 0.3**2))),
        ("selu", None, 0.75),
    ],
)
def test_gain(nonlinearity, param, gain):
    assert init.calculate_gain(nonlinearity, param) == gain


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.calculate_gain("foo"), "Unsupported nonlinearity foo"),
        (lambda: init.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
        (
            lambda: init.kaiming_uniform_(torch.empty(3)),
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
        ),
        (
            lambda: init.kaiming_uniform_(torch.empty(2, 3), mode="x"),
            "Mode x not supported, please use one of ['fan_in', 'fan_out']",
        ),
        (lambda: init.eye_(torch.empty(3)), "Only tensors with 2 dimensions are supported"),
        (lambda: init.sparse_(torch.empty(3), 0.1), "Only tensors with 2 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3, 2, 2), 2), "dim 0 must be divisible by groups"),
        (lambda: init.orthogonal_(torch.empty(3)), "Only tensors with 2 or more dimensions are supported"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


def test_a_parameter_is_filled_in_place_and_stays_a_leaf():
    weight = torch.nn.Parameter(torch.zeros(3, 4))
    assert init.kaiming_uniform_(weight) is weight
    assert weight.is_leaf and weight.requires_grad and weight.abs().sum().item() > 0


def test_no_elements_only_warns():
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(torch.empty(0, 3))


def test_mean_far_outside_warns():
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(torch.zeros(4), mean=5.0, a=0.0, b=1.0)


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated in favor of `nn.init.constant_`."):
        assert init.constant(torch.zeros(2), 3.0).tolist() == [3.0, 3.0]


def test_a_generator_is_used():
    first, second = (torch.Generator().manual_seed(3) for _ in range(2))
    assert init.uniform_(torch.zeros(4), generator=first).tolist() == init.uniform_(
        torch.zeros(4), generator=second
    ).tolist()


def test_dirac_with_groups():
    weight = init.dirac_(torch.zeros(4, 2, 3), groups=2)
    assert [index for index in range(24) if weight.reshape(-1)[index]] == [1, 10, 13, 22]


def layers_that_initialise():
    """One module of each kind that has parameters."""
    nn = torch.nn
    return [
        nn.Linear(2, 3), nn.Bilinear(2, 3, 4), nn.Conv2d(1, 2, 3), nn.ConvTranspose1d(1, 2, 3), nn.Embedding(3, 4),
        nn.EmbeddingBag(3, 4), nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GroupNorm(1, 2), nn.RMSNorm(3), nn.LSTM(2, 3),
        nn.InstanceNorm1d(3, affine=True), nn.GRUCell(2, 3), nn.PReLU(), nn.MultiheadAttention(4, 2, add_bias_kv=True),
        nn.MultiheadAttention(4, 2, kdim=3, vdim=2), nn.Transformer(4, 2, 1, 1, 8, batch_first=True),
        nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2, 4]),
    ]  # fmt: skip


@pytest.mark.parametrize("module", layers_that_initialise(), ids=lambda module: type(module).__name__)
def test_replaced_functions_keep_every_loaded_weight(module, monkeypatch):
    """Libraries that load weights replace these functions wherever PyTorch's modules have them, as it has them here."""
    owners = {
        init: [name for name in init.__all__ if name.endswith("_")],
        torch.nn.modules.activation: ["constant_", "xavier_normal_", "xavier_uniform_"],
        torch.nn.modules.transformer: ["xavier_uniform_"],
    }
    for owner, names in owners.items():
        for name in names:
            monkeypatch.setattr(owner, name, lambda tensor, *args, **kwargs: tensor)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(7.0)
    for part in module.modules():
        for name in ("reset_parameters", "_reset_parameters"):
            getattr(part, name, lambda: None)()
    assert [name for name, parameter in module.named_parameters() if not bool((parameter == 7).all())] == []


def test_attention_calls_the_functions_of_its_own_module(monkeypatch):
    monkeypatch.setattr(init, "constant_", None)
    torch.nn.MultiheadAttention(4, 2)
    monkeypatch.setattr(torch.nn.modules.activation, "constant_", lambda tensor, value: tensor.data.fill_(3))
    assert torch.nn.MultiheadAttention(4, 2).in_proj_bias[0] == 3


def test_the_identity_is_made_on_meta_too():
    assert torch.nn.init.eye_(torch.empty(3, 4, device="meta")).shape == (3, 4)
    assert [torch.nn.InstanceNorm1d(2)._get_no_batch_dim(), torch.nn.InstanceNorm3d(2)._get_no_batch_dim()] == [2, 4]
