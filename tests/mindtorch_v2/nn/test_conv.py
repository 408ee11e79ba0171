"""Convolutions against their definition, in every layout and block size; the layers made of them; lazy modules."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn
from mindtorch_v2._backends.cpu import convolution as kernels

RNG = np.random.default_rng(0)
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
# input, weight, stride, padding, dilation, groups
GEOMETRIES = [
    ((2, 3, 9), (4, 3, 3), (2,), (1,), (2,), 1),
    ((3, 4, 7, 6), (6, 2, 3, 2), (2, 1), (1, 0), (1, 2), 2),
    ((2, 3, 6, 7), (5, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 6, 7), (5, 3, 1, 1), (2, 3), (0, 1), (1, 1), 1),
    ((2, 4, 6, 7), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((2, 4, 8, 7), (4, 1, 3, 2), (2, 3), (1, 2), (2, 1), 4),
    ((2, 3, 11), (3, 1, 4), (3,), (2,), (2,), 3),
    ((2, 2, 4, 5, 4), (2, 1, 2, 3, 2), (2, 1, 1), (1, 1, 0), (1, 2, 1), 2),
    ((1, 2, 4, 4, 5), (3, 2, 2, 2, 3), (1, 2, 1), (0, 1, 1), (2, 1, 1), 1),
    ((3, 4, 5, 13), (6, 2, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((2, 3, 5, 14), (4, 3, 2, 2), (1, 1), (0, 0), (2, 3), 1),
    ((2, 2, 3, 4, 13), (3, 2, 2, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 1), 1),
]  # fmt: skip


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def defined(x, weight, bias, stride, padding, dilation, groups):
    """Each element of the result by itself."""
    rank, of_group = weight.ndim - 2, x.shape[1] // groups
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    size = [(n - d * (k - 1) - 1) // s + 1
            for n, d, k, s in zip(x.shape[2:], dilation, weight.shape[2:], stride, strict=True)]  # fmt: skip
    made = np.zeros((len(x), len(weight), *size))
    for o, place in itertools.product(range(len(weight)), itertools.product(*map(range, size))):
        first = o // (len(weight) // groups) * of_group
        window = x[(slice(None), slice(first, first + of_group), *(
            slice(i * s, i * s + d * (k - 1) + 1, d)
            for i, s, d, k in zip(place, stride, dilation, weight.shape[2:], strict=True)))]  # fmt: skip
        made[(slice(None), o, *place)] = (window * weight[o]).sum(tuple(range(1, 2 + rank)))
    return made if bias is None else made + bias.reshape(-1, *(1,) * rank)


@pytest.fixture(params=[{}, dict(BLOCK=40, COLUMNS=40), dict(SMALL=1 << 10, LEAST=1, LANES=4), dict(LEAST=1 << 20)],
                ids=["whole", "blocks", "cuts", "joined"])  # fmt: skip
def block(request, monkeypatch):
    """The usual blocks and products, and such small ones that every loop over them takes several turns."""
    for name, value in request.param.items():
        monkeypatch.setattr(kernels, name, value)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_result_and_gradients_are_those_of_the_definition(geometry, block):
    shape, weight_shape, *steps = geometry
    x, weight, bias = (torch.from_numpy(array(*s)).requires_grad_() for s in (shape, weight_shape, weight_shape[:1]))
    result = CONV[len(shape) - 2](x, weight, bias, *steps)
    given = [t.detach().numpy() for t in (x, weight, bias)]
    np.testing.assert_allclose(result.detach().numpy(), defined(*given, *steps), atol=1e-12)
    weights = array(*result.shape)
    result.backward(torch.from_numpy(weights))
    # The result is linear in each argument, so a gradient's product with any direction is a result again.
    for i, tensor in enumerate((x, weight)):
        direction = array(*tensor.shape)
        moved = [direction if j == i else a for j, a in enumerate(given[:2])]
        expected = (defined(*moved, None, *steps) * weights).sum()
        assert (tensor.grad.numpy() * direction).sum() == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(bias.grad.numpy(), weights.sum((0, *range(2, len(shape)))))


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_transposed_is_the_adjoint(geometry, block):
    shape, weight_shape, stride, padding, dilation, groups = geometry
    rank = len(shape) - 2
    x, weight = torch.from_numpy(array(*shape)), torch.from_numpy(array(*weight_shape))
    forward = CONV[rank](x, weight, None, stride, padding, dilation, groups)
    y = torch.from_numpy(array(*forward.shape))
    smallest = TRANSPOSED[rank](y, weight, None, stride, padding, 0, groups, dilation)
    extra = [n - m for n, m in zip(shape[2:], smallest.shape[2:], strict=True)]
    back = TRANSPOSED[rank](y, weight, None, stride, padding, extra, groups, dilation)
    assert back.shape == x.shape
    assert (forward * y).sum().item() == pytest.approx((x * back).sum().item(), rel=1e-9)


@pytest.mark.parametrize("groups", [1, 4])
def test_channels_last_in_channels_last_out(groups):
    x = torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last).requires_grad_()
    weight = torch.randn(4, 4 // groups, 3, 3, requires_grad=True)
    result = F.conv2d(x, weight, padding=1, groups=groups)
    assert result.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(result, F.conv2d(x.contiguous(), weight, padding=1, groups=groups),
                               check_stride=False)  # fmt: skip
    result.sum().backward()
    assert x.grad.stride() == x.stride()
    other = F.conv2d(x.detach().contiguous(), weight.detach().to(memory_format=torch.channels_last), groups=groups)
    assert other.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("groups", [1, 4])
def test_nan_stays_where_windows_see_it(groups):
    x = torch.zeros(2, 4, 7, 20)
    x[1, 2, 3, 9] = torch.nan
    seen = F.conv2d(x, torch.ones(4, 4 // groups, 3, 3), padding=1, groups=groups).isnan()
    expected = torch.zeros_like(seen)
    expected[1, slice(None) if groups == 1 else 2, 2:5, 8:11] = True
    assert torch.equal(seen, expected)


def test_integers_wrap_around():
    x = torch.full((1, 1, 4), 100, dtype=torch.uint8)
    assert F.conv1d(x, torch.full((1, 1, 2), 2, dtype=torch.uint8)).tolist() == [[[144, 144, 144]]]
    with pytest.raises(NotImplementedError, match="\"slow_conv2d_cpu\" not implemented for 'Bool'"):
        F.conv1d(x.bool(), torch.ones(1, 1, 2, dtype=torch.bool))


def test_without_samples_the_weight_gets_zeros():
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)
    F.conv2d(torch.randn(0, 3, 5, 5), weight).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(4, 3, 3, 3))


def test_autocast_computes_in_the_lower_type():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert F.conv2d(torch.randn(1, 2, 4, 4), torch.randn(3, 2, 2, 2), torch.randn(3)).dtype is torch.bfloat16


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_same_padding_adds_at_the_end_what_cannot_be_halved():
    x, weight = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 4, 3)
    torch.testing.assert_close(F.conv2d(x, weight, padding="same"), F.conv2d(F.pad(x, (1, 1, 1, 2)), weight))


def test_fold_adds_up_what_unfold_took():
    x = torch.randn(2, 3, 5, 6)
    counted = F.fold(F.unfold(torch.ones_like(x), (3, 2), 1, (1, 0), 2), (5, 6), (3, 2), 1, (1, 0), 2)
    torch.testing.assert_close(F.fold(F.unfold(x, (3, 2), 1, (1, 0), 2), (5, 6), (3, 2), 1, (1, 0), 2), x * counted)
    columns = F.unfold(x, 3)
    assert torch.equal(columns[1, :, 0], x[1, :, :3, :3].reshape(-1))


# layers --------------------------------------------------------------------------------------------------------------


def test_parameters_have_the_numbers_of_pytorch():
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 2, 2)
    assert layer.weight.flatten()[:3].tolist() == [-0.0026469905860722065, 0.18966144323349, -0.2909903824329376]
    assert layer.bias.tolist() == [0.13977210223674774, 0.21214008331298828]
    torch.manual_seed(0)
    layer = nn.ConvTranspose1d(2, 4, 3, groups=2)
    assert layer.weight.shape == (2, 2, 3)
    assert layer.bias[:2].tolist() == [-0.39001941680908203, -0.2703755497932434]


@pytest.mark.parametrize(("layer", "expected"), [
    (lambda: nn.Conv2d(3, 4, 3), "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))"),
    (lambda: nn.Conv2d(3, 6, (3, 2), (2, 1), 1, 2, 3, False, "reflect"),
     "Conv2d(3, 6, kernel_size=(3, 2), stride=(2, 1), padding=(1, 1), dilation=(2, 2), groups=3, bias=False, "
     "padding_mode=reflect)"),
    (lambda: nn.Conv1d(3, 4, 3, padding="same"), "Conv1d(3, 4, kernel_size=(3,), stride=(1,), padding=same)"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1, bias=False, dilation=2),
     "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), output_padding=(1, 1), "
     "bias=False)"),
    (lambda: nn.LazyConv3d(4, 3), "LazyConv3d(0, 4, kernel_size=(3, 3, 3), stride=(1, 1, 1))"),
    (lambda: nn.Fold(6, (2, 3)), "Fold(output_size=6, kernel_size=(2, 3), dilation=1, padding=0, stride=1)"),
    (lambda: nn.Unfold(2, stride=2), "Unfold(kernel_size=2, dilation=1, padding=0, stride=2)"),
])  # fmt: skip
def test_repr(layer, expected):
    assert repr(layer()) == expected


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode):
    layer, x = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode), torch.randn(2, 2, 5, 6)
    torch.testing.assert_close(layer(x), F.conv2d(F.pad(x, (2, 2, 1, 1), mode), layer.weight, layer.bias))
    assert layer(x[0]).shape == (3, 5, 8)


def test_output_size_chooses_between_the_possible_ones():
    layer, x = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1), torch.randn(2, 4, 6, 6)
    assert layer(x).shape == (2, 3, 11, 11)
    assert layer(x, output_size=(12, 11)).shape == layer(x, [2, 3, 12, 11]).shape == (2, 3, 12, 11)
    with pytest.raises(ValueError, match=r"requested an output size of \(13, 11\), but valid sizes range from "
                       r"\[11, 11\] to \[12, 12\] \(for an input of torch.Size\(\[6, 6\]\)\)"):  # fmt: skip
        layer(x, output_size=(13, 11))
    with pytest.raises(ValueError, match=r"for 4D input, output_size must have 2 or 4 elements \(got 3\)"):
        layer(x, output_size=(3, 12, 12))


@pytest.mark.parametrize(("make", "text"), [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"),
    (lambda: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible by groups"),
    (lambda: nn.Conv2d(4, 4, 3, groups=0), "groups must be a positive integer"),
    (lambda: nn.Conv2d(4, 4, 3, padding="even"), "Invalid padding string 'even', should be one of"),
    (lambda: nn.Conv2d(4, 4, 3, padding="same", stride=2), "padding='same' is not supported for strided convolutions"),
    (lambda: nn.Conv2d(4, 4, 3, padding_mode="even"), "padding_mode must be one of"),
    (lambda: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"),
     'Only "zeros" padding mode is supported for ConvTranspose2d'),
])  # fmt: skip
def test_refused_settings(make, text):
    with pytest.raises(ValueError, match=text):
        make()


# lazy modules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "shape"), [
    ("Conv1d", (2, 3, 8)), ("Conv2d", (3, 8, 8)), ("Conv3d", (1, 3, 4, 4, 4)), ("ConvTranspose1d", (2, 3, 8)),
    ("ConvTranspose2d", (2, 3, 8, 8)), ("ConvTranspose3d", (1, 3, 4, 4, 4)), ("Linear", (2, 3)),
])  # fmt: skip
def test_lazy_layer_becomes_the_plain_one_with_its_numbers(name, shape):
    lazy_class, plain_class, size = getattr(nn, f"Lazy{name}"), getattr(nn, name), () if name == "Linear" else (3,)
    x = torch.ones(shape)
    lazy = lazy_class(4, *size)
    assert type(lazy.weight) is nn.UninitializedParameter and lazy.has_uninitialized_params()
    torch.manual_seed(1)
    result = lazy(x)
    torch.manual_seed(1)
    plain = plain_class(3, 4, *size)
    assert type(lazy) is plain_class and type(lazy.weight) is nn.Parameter
    assert not lazy._forward_pre_hooks and not lazy._load_state_dict_pre_hooks
    assert torch.equal(lazy.weight, plain.weight) and torch.allclose(result, plain(x))
    result.sum().backward()
    assert lazy.weight.grad.shape == plain.weight.shape


def test_parameter_without_shape():
    layer = nn.LazyLinear(4)
    assert repr(layer.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        _ = layer.weight.shape
    for use in (lambda p: p + 1, lambda p: torch.add(p, 1), lambda p: p.numel()):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            use(layer.weight)
    assert layer.double()(torch.ones(2, 3, dtype=torch.float64)).dtype is torch.float64


def test_lazy_layer_takes_shapes_from_a_state_dict():
    plain, lazy = nn.Linear(3, 4), nn.LazyLinear(4)
    lazy.load_state_dict(plain.state_dict())
    assert torch.equal(lazy.weight, plain.weight)
    with pytest.raises(AssertionError, match="The in_features inferred from input: 5 is not equal to in_features"):
        lazy(torch.ones(1, 5))
    lazy(torch.ones(1, 3))
    assert type(lazy) is nn.Linear and lazy.in_features == 3
    other = nn.LazyLinear(4)
    other.load_state_dict(nn.LazyLinear(4).state_dict())
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        plain.load_state_dict(other.state_dict())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_lazy_layer_are_lazy_by_themselves(duplicate):
    layer = nn.LazyConv2d(4, 3)
    made = duplicate(layer)
    made(torch.ones(1, 2, 5, 5))
    assert type(made) is nn.Conv2d and type(layer) is nn.LazyConv2d
    layer(torch.ones(1, 3, 5, 5))
    assert layer.in_channels == 3 and made.in_channels == 2


def test_own_lazy_module():
    class Scaled(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.UninitializedParameter()
            self.register_buffer("seen", nn.UninitializedBuffer())

        def initialize_parameters(self, x):
            self.scale.materialize(x.shape[-1:])
            if x.dim() == 2:
                self.seen.materialize((1,))

        def forward(self, x):
            return x * self.scale

    with pytest.raises(RuntimeError, match="module Scaled has not been fully initialized"):
        Scaled()(torch.ones(3))
    module = Scaled()
    module(torch.ones(2, 3))
    assert type(module) is Scaled and module.scale.shape == (3,) and type(module.seen) is torch.Tensor
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Plain"):
        type("Plain", (nn.modules.lazy.LazyModuleMixin, nn.Module), {})()(torch.ones(1))


def test_an_input_without_channels_has_gradients_of_zeros() -> None:
    weight, bias = torch.ones(4, 0, 3, requires_grad=True), torch.ones(4, requires_grad=True)
    x = torch.ones(2, 0, 7, requires_grad=True)
    out = torch.ops.aten.convolution(x, weight, bias, (1,), (0,), (1,), False, (0,), 1)
    assert out.shape == (2, 0, 5)
    out.backward(torch.ones(out.shape))
    assert (x.grad.shape, weight.grad.shape, bias.grad.tolist()) == ((2, 0, 7), (4, 0, 3), [0.0] * 4)


def test_tensors_in_the_layout_of_onednn() -> None:
    x, weight = torch.ones(1, 2, 5, 5, requires_grad=True), torch.ones(3, 2, 3, 3)
    opaque = x.to_mkldnn()
    assert opaque.layout is torch._mkldnn and opaque.is_mkldnn and not x.is_mkldnn
    assert "layout=torch._mkldnn)" in repr(opaque)
    out = torch.nn.functional.conv2d(opaque, weight)
    assert out.layout is torch._mkldnn and out.to_dense().layout is torch.strided
    out.to_dense().sum().backward()
    assert x.grad.sum().item() == 486.0
    with pytest.raises(TypeError, match="can't convert Mkldnn layout tensor to numpy"):
        opaque.numpy()
    with pytest.raises(RuntimeError, match="dense_to_mkldnn expects float"):
        torch.ones(2, dtype=torch.float64).to_mkldnn()
    names = torch._C._ConvBackend
    geometry = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    assert torch._C._select_conv_backend(opaque, weight, None, *geometry) is names.Mkldnn
    assert torch._C._select_conv_backend(x[:0], weight, None, *geometry) is names.Empty
    assert torch._C._select_conv_backend(x.double(), weight.double(), None, *geometry) is names.Slow2d
    assert torch.nn.functional.grad is torch.nn.grad
