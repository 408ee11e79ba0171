"""weight_norm and spectral_norm in their older form, fused batch norms, skip_init, memory formats, nn.grad."""

import copy

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import grad
from mindtorch_v2.nn.modules.utils import _ntuple, _pair, consume_prefix_in_state_dict_if_present
from mindtorch_v2.nn.utils import (
    convert_conv2d_weight_memory_format,
    fuse_conv_bn_eval,
    fuse_linear_bn_eval,
    remove_spectral_norm,
    remove_weight_norm,
    skip_init,
    spectral_norm,
    weight_norm,
)

OLD_FORM = pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")


@OLD_FORM
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_splits_length_and_direction(dim):
    plain = nn.Linear(3, 2)
    layer = weight_norm(copy.deepcopy(plain), dim=dim)
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert torch.allclose(layer.weight, plain.weight)
    with torch.no_grad():
        layer.weight_v.mul_(3)
        layer.weight_g.mul_(2)
    layer(torch.ones(1, 3)).sum().backward()
    assert torch.allclose(layer.weight, 2 * plain.weight) and layer.weight_g.grad is not None
    remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and torch.allclose(layer.weight, 2 * plain.weight)
    assert not layer._forward_pre_hooks


def test_weight_norm_warns_that_it_is_old():
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        weight_norm(nn.Linear(2, 2))


@OLD_FORM
def test_the_same_parameter_twice_or_not_at_all():
    for normed, removed, name in ((weight_norm, remove_weight_norm, "weight_norm"),
                                  (spectral_norm, remove_spectral_norm, "spectral_norm")):
        layer = normed(nn.Linear(2, 2))
        with pytest.raises(RuntimeError, match=f"Cannot register two {name} hooks on the same parameter weight"):
            normed(layer)
        with pytest.raises(ValueError, match=f"{name} of 'bias' not found in Linear"):
            removed(layer, "bias")


@pytest.mark.parametrize(
    ("kind", "sizes"), [(nn.Linear, (4, 6)), (nn.Conv2d, (3, 4, 2)), (nn.ConvTranspose2d, (3, 4, 2))]
)
def test_spectral_norm_divides_by_the_largest_singular_value(kind, sizes):
    torch.manual_seed(0)  # how soon the iteration ends depends on the weights
    plain = kind(*sizes)
    layer = spectral_norm(copy.deepcopy(plain), n_power_iterations=40)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(torch.randn(2, 4) if isinstance(plain, nn.Linear) else torch.randn(2, 3, 4, 4))
    dim = 1 if isinstance(plain, nn.ConvTranspose2d) else 0
    norm = torch.linalg.matrix_norm(plain.weight.movedim(dim, 0).flatten(1), 2)
    assert torch.allclose(layer.weight, plain.weight / norm, atol=1e-4)


def test_spectral_norm_iterates_in_training_only():
    layer = spectral_norm(nn.Linear(4, 4)).eval()
    before = layer.weight_u.clone()
    layer(torch.ones(4))
    assert torch.equal(layer.weight_u, before)
    layer.train()(torch.ones(4))
    assert not torch.equal(layer.weight_u, before)


def test_spectral_norm_state_has_a_version_and_older_files_are_completed():
    layer = spectral_norm(nn.Linear(3, 4))
    layer(torch.ones(3))
    state = layer.eval().state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    layer(torch.ones(3))
    older = {name: tensor for name, tensor in state.items() if name != "weight_v"} | {"weight": layer.weight.detach()}
    fresh = spectral_norm(nn.Linear(3, 4)).eval()
    fresh.load_state_dict(older)
    assert torch.allclose(fresh(torch.ones(3)), layer(torch.ones(3)), atol=1e-5)
    del older["weight_u"]
    with pytest.raises(RuntimeError, match="weight_u"):
        fresh.load_state_dict(older)


def test_spectral_norm_removed_is_a_plain_layer():
    layer = spectral_norm(nn.Linear(3, 3))
    layer(torch.ones(3))
    weight = layer.weight.detach()
    remove_spectral_norm(layer)
    assert torch.allclose(layer.weight, weight, atol=1e-6) and list(layer.state_dict()) == ["bias", "weight"]
    layer.load_state_dict(nn.Linear(3, 3).state_dict())


def learned(norm):
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norm.eval()


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), (2, 3, 5, 5)),
        (nn.Conv1d(3, 4, 3, bias=False), nn.BatchNorm1d(4, affine=False), (2, 3, 5)),
        (nn.ConvTranspose2d(3, 4, 2), nn.BatchNorm2d(4), (2, 3, 5, 5)),
        (nn.Linear(3, 4), nn.BatchNorm1d(4), (5, 3)),
    ],
)
def test_a_fused_layer_does_what_both_did(layer, norm, shape):
    learned(norm)
    layer.eval()
    if isinstance(layer, nn.Linear):
        fused = fuse_linear_bn_eval(layer, norm)
    else:
        fused = fuse_conv_bn_eval(layer, norm, transpose=isinstance(layer, nn.ConvTranspose2d))
    x = torch.randn(shape)
    assert torch.allclose(fused(x), norm(layer(x)), atol=1e-5) and fused is not layer


def test_fusion_refuses_training():
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    with pytest.raises(AssertionError, match="got linear.out_features=4 and bn.num_features=5"):
        fuse_linear_bn_eval(nn.Linear(3, 4).eval(), nn.BatchNorm1d(5).eval())


def test_skip_init_draws_nothing():
    torch.manual_seed(3)
    layer = skip_init(nn.Linear, 3, 4, dtype=torch.float64)
    assert layer.weight.shape == (4, 3) and layer.weight.dtype == torch.float64 and layer.weight.device.type == "cpu"
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), after)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        skip_init(nn.ReLU)


def test_memory_format_of_convolution_weights():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 3))
    weight = net[0].weight
    convert_conv2d_weight_memory_format(net, torch.channels_last)
    assert net[0].weight is weight and weight.stride() == (27, 1, 9, 3) and net[1].weight.is_contiguous()


@pytest.mark.parametrize("settings", [(1, 0, 1, 1), (2, 1, 1, 2), (1, 1, 2, 1)])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims, settings):
    x = torch.randn(2, 4, *[6] * dims, requires_grad=True)
    weight = torch.randn(4, 4 // settings[3], *[3] * dims, requires_grad=True)
    out = getattr(nn.functional, f"conv{dims}d")(x, weight, None, *settings)
    upstream = torch.randn(out.shape)
    expected = torch.autograd.grad(out, (x, weight), upstream)
    of_input = getattr(grad, f"conv{dims}d_input")(x.shape, weight, upstream, *settings)
    of_weight = getattr(grad, f"conv{dims}d_weight")(x, weight.shape, upstream, *settings)
    assert torch.allclose(of_input, expected[0], atol=1e-4) and torch.allclose(of_weight, expected[1], atol=1e-4)


def test_sizes_and_prefixes():
    assert _pair(3) == (3, 3) and _pair([1, 2, 3]) == (1, 2, 3) and _ntuple(4)(0) == (0, 0, 0, 0)
    state = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).state_dict(prefix="module.")
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state)[:2] == ["0.weight", "0.bias"] and list(state._metadata) == ["", "0", "1"]
