"""Pooling against its definition, with what PyTorch does at the edges: padding, NaN, layouts, errors."""

import itertools
import math

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn

REPRS = [
    ("MaxPool1d(2)", "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
    ("MaxPool1d(3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True)",
     "MaxPool1d(kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True)"),
    ("MaxPool2d(2)", "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
    ("MaxPool2d((3, 2), stride=(2, 1), padding=(0, 1))",
     "MaxPool2d(kernel_size=(3, 2), stride=(2, 1), padding=(0, 1), dilation=1, ceil_mode=False)"),
    ("MaxUnpool1d(2)", "MaxUnpool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
    ("MaxUnpool1d(2, stride=3, padding=1)", "MaxUnpool1d(kernel_size=(2,), stride=(3,), padding=(1,))"),
    ("MaxUnpool2d(2)", "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"),
    ("MaxUnpool2d((2, 3), stride=1)", "MaxUnpool2d(kernel_size=(2, 3), stride=(1, 1), padding=(0, 0))"),
    ("AvgPool1d(2)", "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
    ("AvgPool1d(3, 2, 1, True, False)", "AvgPool1d(kernel_size=(3,), stride=(2,), padding=(1,))"),
    ("AvgPool2d(2)", "AvgPool2d(kernel_size=2, stride=2, padding=0)"),
    ("AvgPool2d((3, 2), (2, 1), (1, 0), True, False, 2)",
     "AvgPool2d(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0))"),
    ("FractionalMaxPool2d(2, output_size=3)", "FractionalMaxPool2d()"),
    ("FractionalMaxPool2d((2, 3), output_ratio=0.5)", "FractionalMaxPool2d()"),
    ("FractionalMaxPool2d(2, output_ratio=(0.5, 0.4), return_indices=True)", "FractionalMaxPool2d()"),
    ("LPPool1d(2, 3)", "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"),
    ("LPPool1d(1.2, 3, stride=2, ceil_mode=True)", "LPPool1d(norm_type=1.2, kernel_size=3, stride=2, ceil_mode=True)"),
    ("LPPool2d(2, (3, 2))", "LPPool2d(norm_type=2, kernel_size=(3, 2), stride=None, ceil_mode=False)"),
    ("AdaptiveMaxPool2d((3, None))", "AdaptiveMaxPool2d(output_size=(3, None))"),
    ("AdaptiveMaxPool2d(3, return_indices=True)", "AdaptiveMaxPool2d(output_size=3)"),
    ("AdaptiveAvgPool1d(3)", "AdaptiveAvgPool1d(output_size=3)"),
    ("AdaptiveAvgPool2d((3, None))", "AdaptiveAvgPool2d(output_size=(3, None))"),
    ("AdaptiveAvgPool2d(1)", "AdaptiveAvgPool2d(output_size=1)"),
]


@pytest.mark.parametrize(("call", "expected"), REPRS)
def test_repr(call, expected):
    assert repr(eval(f"nn.{call}")) == expected


def brute_max_pool(x, size, stride, padding, dilation):
    """Values and indices of 2-D windows, element by element; the first of equals, the last of NaNs."""
    counts = [(n + 2 * padding - dilation * (size - 1) - 1) // stride + 1 for n in x.shape[1:]]
    values, indices = np.zeros((len(x), *counts), x.dtype), np.zeros((len(x), *counts), np.int64)
    for c, i, j in np.ndindex(values.shape):
        best = None
        for a, b in itertools.product(range(size), repeat=2):
            h, w = i * stride - padding + a * dilation, j * stride - padding + b * dilation
            if 0 <= h < x.shape[1] and 0 <= w < x.shape[2]:
                value = x[c, h, w]
                if best is None or value > best[0] or math.isnan(value):
                    best = value, h * x.shape[2] + w
        values[c, i, j], indices[c, i, j] = best
    return values, indices


SETTINGS = [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (2, 3, 1, 1), (7, 2, 3, 1), (9, 9, 0, 1), (7, 7, 3, 1)]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("content", ["random", "ties", "nan", "-inf", "int8"])
def test_max_pool2d(setting, content):
    x = np.random.default_rng(0).normal(size=(2, 11, 10)).astype(np.float32)
    if content == "ties":
        x = np.round(x)
    elif content == "nan":
        x[x > 1] = np.nan
    elif content == "-inf":
        x[:] = -np.inf
        x[0, 5, 5] = 1
    elif content == "int8":
        x = np.full(x.shape, -128, np.int8)
        x[1, 3:5] = 7
    size, stride, padding, dilation = setting
    values, indices = F.max_pool2d(torch.from_numpy(x), size, stride, padding, dilation, return_indices=True)
    expected = brute_max_pool(x, *setting)
    np.testing.assert_array_equal(values.numpy(), expected[0])
    np.testing.assert_array_equal(indices.numpy(), expected[1])


def test_max_pool_of_rows_and_volumes_is_that_of_planes():
    x = torch.randn(2, 3, 9)
    plane = F.max_pool2d(x.unsqueeze(-2), (1, 3), 2, (0, 1), return_indices=True)
    for got, expected in zip(F.max_pool1d(x, 3, 2, 1, return_indices=True), plane, strict=True):
        assert torch.equal(got, expected.squeeze(-2))
    assert torch.equal(F.max_pool1d(x, 3, 2, 1), plane[0].squeeze(-2))  # without indices it takes another way
    image = torch.randn(2, 3, 6, 7)
    volume = F.max_pool3d(image.unsqueeze(2), (1, 2, 3), return_indices=True)
    for got, expected in zip(F.max_pool2d(image, (2, 3), return_indices=True), volume, strict=True):
        assert torch.equal(got, expected.squeeze(2))


def test_gradient_goes_to_the_largest_and_adds_up():
    x = torch.tensor([[[1.0, 5.0, 2.0, 3.0]]], requires_grad=True)
    F.max_pool1d(x, 2, 1).sum().backward()
    assert x.grad.tolist() == [[[0.0, 2.0, 0.0, 1.0]]]


def test_channels_last_is_kept():
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    plain = x.contiguous()
    for pool in (lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 2),
                 lambda x: F.adaptive_max_pool2d(x, 4), lambda x: F.adaptive_avg_pool2d(x, 1),
                 lambda x: F.adaptive_avg_pool2d(x, 4),
                 lambda x: F.interpolate(x, size=(4, 9), mode="bilinear")):
        assert pool(x).is_contiguous(memory_format=torch.channels_last)
        assert pool(plain).is_contiguous()
        torch.testing.assert_close(pool(x).contiguous(), pool(plain))


def test_mean_counts_padding_or_not():
    x = torch.ones(1, 1, 3, 3)
    assert F.avg_pool2d(x, 2, 2, 1).tolist() == [[[[0.25, 0.5], [0.5, 1.0]]]]
    assert F.avg_pool2d(x, 2, 2, 1, count_include_pad=False).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]
    assert F.avg_pool2d(x, 3, divisor_override=2).tolist() == [[[[4.5]]]]
    assert F.avg_pool1d(torch.tensor([[-7, 2, 1]]), 2, 1).tolist() == [[-2, 1]]  # whole numbers, towards zero


def test_ceil_mode_adds_a_window_that_begins_inside():
    x = torch.arange(6.0).reshape(1, 1, 6)
    assert F.max_pool1d(x, 3, 2).tolist() == [[[2.0, 4.0]]]
    assert F.max_pool1d(x, 3, 2, ceil_mode=True).tolist() == [[[2.0, 4.0, 5.0]]]
    assert F.avg_pool1d(x, 3, 2, ceil_mode=True).tolist() == [[[1.0, 3.0, 4.5]]]
    assert F.max_pool1d(x, 2, 3, 1, ceil_mode=True).tolist() == [[[0.0, 3.0, 5.0]]]


@pytest.mark.parametrize("counts", [(1, 1), (2, 3), (5, 4), (7, 7), (9, 2)])
def test_adaptive_windows(counts):
    x = np.random.default_rng(1).normal(size=(2, 7, 6))
    means, maxima, places = (np.zeros((2, *counts)) for _ in range(3))
    for i, j in np.ndindex(counts):
        rows = slice(i * 7 // counts[0], -(-(i + 1) * 7 // counts[0]))
        columns = slice(j * 6 // counts[1], -(-(j + 1) * 6 // counts[1]))
        part, numbers = x[:, rows, columns].reshape(2, -1), np.arange(42).reshape(7, 6)[rows, columns].reshape(-1)
        means[:, i, j], maxima[:, i, j], places[:, i, j] = part.mean(1), part.max(1), numbers[part.argmax(1)]
    given = torch.from_numpy(x)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(given, counts).numpy(), means, rtol=1e-12)
    values, indices = F.adaptive_max_pool2d(given, counts, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), maxima)
    np.testing.assert_array_equal(indices.numpy(), places)


def test_adaptive_size_of_the_input_itself():
    x = torch.randn(1, 2, 5, 6)
    assert F.adaptive_avg_pool2d(x, (3, None)).shape == (1, 2, 3, 6)
    assert nn.AdaptiveMaxPool2d((None, 2))(x).shape == (1, 2, 5, 2)


def test_unpooling_undoes_pooling():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    back = nn.MaxUnpool2d(2)(values, indices)
    assert torch.equal(back, torch.where(torch.isin(x, values), x, torch.zeros(())))
    assert F.max_unpool2d(values, indices, 2, output_size=(5, 5)).shape == (1, 1, 5, 5)
    with pytest.raises(ValueError, match=r'invalid output_size "\(9, 9\)" \(dim 0 must be between 2 and 6\)'):
        F.max_unpool2d(values, indices, 2, output_size=(9, 9))
    with pytest.raises(RuntimeError, match="Found an invalid max index: 115 .output volumes are of size 4x4."):
        F.max_unpool2d(values, indices + 100, 2)


def test_fractional_windows_follow_the_seed():
    x = torch.arange(100.0).reshape(1, 1, 10, 10)
    samples = torch.tensor([[[0.3, 0.7]]])
    values, indices = F.fractional_max_pool2d(x, 2, output_size=4, return_indices=True, _random_samples=samples)
    assert values[0, 0].tolist() == FRACTIONAL
    assert torch.equal(values, indices.to(values.dtype))
    torch.manual_seed(5)
    first = F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5))
    torch.manual_seed(5)
    assert torch.equal(F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5)), first)
    with pytest.raises(ValueError, match="requires specifying either an output_size or an output_ratio"):
        F.fractional_max_pool2d(x, 2)


FRACTIONAL = [[11.0, 14.0, 17.0, 19.0], [41.0, 44.0, 47.0, 49.0], [71.0, 74.0, 77.0, 79.0], [91.0, 94.0, 97.0, 99.0]]


def test_norm_of_windows():
    x = torch.tensor([[[3.0, 4.0, 6.0, 8.0]]])
    torch.testing.assert_close(F.lp_pool1d(x, 2, 2), torch.tensor([[[5.0, 10.0]]]))
    torch.testing.assert_close(nn.LPPool2d(1, 2)(torch.ones(1, 1, 4, 4)), torch.full((1, 1, 2, 2), 4.0))


@pytest.mark.parametrize("pool", [lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1),
                                  lambda x: F.adaptive_avg_pool2d(x, 3), lambda x: F.adaptive_max_pool2d(x, 3)])
def test_second_derivatives(pool):
    x = torch.randperm(50).reshape(1, 2, 5, 5).double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: pool(x) ** 2, (x,))


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x: F.max_pool2d(x, 2, 1, 2), RuntimeError, "pad should be at most half of effective kernel size"),
    (lambda x: F.max_pool2d(x[0, 0], 2), RuntimeError, "non-empty 3D or 4D .batch mode. tensor expected for input"),
    (lambda x: F.max_pool2d(x, 9), RuntimeError, r"Calculated output size: \(3x0x0\). Output size is too small"),
    (lambda x: F.max_pool2d(x > 0, 2), NotImplementedError, "\"max_pool2d\" not implemented for 'Bool'"),
    (lambda x: F.avg_pool2d(x, 2, (1, 1, 1)), RuntimeError, "avg_pool2d: stride must either be omitted"),
    (lambda x: F.avg_pool3d(x, 9), RuntimeError, r"input image \(T: 3 H: 6 W: 6\) smaller than kernel size"),
    (lambda x: F.adaptive_avg_pool2d(x, (1, 2, 3)), RuntimeError, "output_size must be 2"),
    (lambda x: F.max_pool1d(x[0], 0), RuntimeError, "kernel_size must be greater than zero, but got 0"),
])
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch.randn(2, 3, 6, 6))


def test_unpooling_of_the_extension_takes_sizes():
    """Where nn.functional takes windows."""
    extension, ones = torch._C._nn, torch.ones(1, 1, 1)
    places = torch.zeros(1, 1, 1, dtype=torch.int64)
    assert extension.max_unpool2d(ones, places, (2, 2)).tolist() == [[[1, 0], [0, 0]]]
    made = extension.max_unpool3d(ones[None], places[None], [2, 1, 1], [2, 1, 1], [0, 0, 0])
    assert made.tolist() == [[[[1]], [[0]]]]
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        extension.max_unpool2d(ones, places, (2, 2), (2, 2))
    assert extension.silu_(torch.zeros(2)).tolist() == [0, 0]
    with pytest.raises(AttributeError):
        extension.no_such_function  # noqa: B018


def test_a_volume_with_its_channels_last_keeps_them_there():
    x = torch.randn(1, 3, 4, 6, 6).contiguous(memory_format=torch.channels_last_3d).squeeze(0).clone()
    for _ in range(3):  # plans see no memory
        made, indices = torch.nn.functional.max_pool3d(x, 2, return_indices=True)
        assert made.stride() == indices.stride() == (1, 27, 9, 3)
        assert torch.equal(made, torch.nn.functional.max_pool3d(x.contiguous(), 2))
    assert torch.nn.functional.max_pool3d(x.to("meta"), 2).stride() == (18, 9, 3, 1)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_resized_out_takes_over_channels_that_lie_last(device):
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last).to(device)
    for call, strides in ((lambda out: torch._C._nn.upsample_nearest2d(x, (16, 16), out=out), (768, 1, 48, 3)),
                          (lambda out: torch._C._nn.avg_pool2d(x, 2, out=out), (48, 1, 12, 3))):
        out = torch.empty(0, device=device)
        call(out)
        assert out.stride() == strides


def test_maxima_of_rows_lie_in_order_where_nothing_is_recorded() -> None:
    turned = torch.arange(36.0).reshape(2, 6, 3).transpose(1, 2)
    for size in (1, 2, 5):
        assert torch.max_pool1d(turned, size).is_contiguous()
    assert torch.max_pool1d(turned.requires_grad_(), 2).stride() == (9, 1, 3)
