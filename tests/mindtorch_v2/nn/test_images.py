"""Resampling, grids, padding and pixels: values that PyTorch gives, laws, and errors."""

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn

REPRS = [
    ("Upsample(scale_factor=2)", "Upsample(scale_factor=2.0, mode='nearest')"),
    ('Upsample(size=5, mode="nearest")', "Upsample(size=5, mode='nearest')"),
    ('Upsample(size=(5, 6), mode="bilinear", align_corners=True)', "Upsample(size=(5, 6), mode='bilinear')"),
    ('Upsample(scale_factor=(2, 3), mode="bilinear")', "Upsample(scale_factor=(2.0, 3.0), mode='bilinear')"),
    ('Upsample(scale_factor=1.5, mode="bicubic", recompute_scale_factor=True)',
     "Upsample(scale_factor=1.5, mode='bicubic')"),
    ("UpsamplingNearest2d(scale_factor=2)", "UpsamplingNearest2d(scale_factor=2.0, mode='nearest')"),
    ("UpsamplingBilinear2d(size=(3, 4))", "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')"),
    ("UpsamplingNearest2d(size=4)", "UpsamplingNearest2d(size=4, mode='nearest')"),
    ("ConstantPad1d(2, 3.5)", "ConstantPad1d(padding=(2, 2), value=3.5)"),
    ("ConstantPad1d((1, 2), 0)", "ConstantPad1d(padding=(1, 2), value=0)"),
    ("ConstantPad2d(2, 1)", "ConstantPad2d(padding=(2, 2, 2, 2), value=1)"),
    ("ZeroPad2d((1, 2, 3, 4))", "ZeroPad2d((1, 2, 3, 4))"),
    ("ReflectionPad1d(2)", "ReflectionPad1d((2, 2))"),
    ("ReflectionPad3d(1)", "ReflectionPad3d((1, 1, 1, 1, 1, 1))"),
    ("ReplicationPad2d(2)", "ReplicationPad2d((2, 2, 2, 2))"),
    ("CircularPad3d(1)", "CircularPad3d((1, 1, 1, 1, 1, 1))"),
    ("PixelShuffle(2)", "PixelShuffle(upscale_factor=2)"),
    ("PixelUnshuffle(3)", "PixelUnshuffle(downscale_factor=3)"),
    ("ChannelShuffle(2)", "ChannelShuffle(groups=2)"),
    ("CosineSimilarity()", "CosineSimilarity()"),
    ("CosineSimilarity(dim=0, eps=1e-6)", "CosineSimilarity()"),
    ("PairwiseDistance()", "PairwiseDistance()"),
    ("PairwiseDistance(p=1, eps=1e-3, keepdim=True)", "PairwiseDistance()"),
]
SMALL = torch.arange(1.0, 5.0).reshape(1, 1, 2, 2)
SQUARE = torch.arange(16.0).reshape(1, 1, 4, 4)
BYTES = torch.tensor([[[[0, 60], [200, 255]]]], dtype=torch.uint8)


@pytest.mark.parametrize(("call", "expected"), REPRS)
def test_repr(call, expected):
    assert repr(eval(f"nn.{call}")) == expected


@pytest.mark.parametrize(("image", "settings", "expected"), [
    (SMALL, dict(scale_factor=2, mode="bilinear"),
     [[1.0, 1.25, 1.75, 2.0], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3.0, 3.25, 3.75, 4.0]]),
    (SMALL, dict(size=3, mode="bilinear", align_corners=True), [[1.0, 1.5, 2.0], [2.0, 2.5, 3.0], [3.0, 3.5, 4.0]]),
    (SMALL, dict(size=3, mode="bicubic"), [[0.7395836, 1.3263891, 1.9131949], [1.9131947, 2.5, 3.0868058],
                                           [3.0868061, 3.6736112, 4.2604165]]),
    (SQUARE, dict(size=2, mode="bilinear", antialias=True), [[3.5714288, 5.1428576], [9.8571434, 11.4285717]]),
    (SQUARE, dict(size=(3, 2), mode="lanczos", antialias=True),
     [[1.1756986, 3.0994442], [6.5381269, 8.4618731], [11.9005575, 13.8243027]]),
    (SQUARE, dict(size=3, mode="nearest"), [[0.0, 1.0, 2.0], [4.0, 5.0, 6.0], [8.0, 9.0, 10.0]]),
    (SQUARE, dict(size=3, mode="nearest-exact"), [[0.0, 2.0, 3.0], [8.0, 10.0, 11.0], [12.0, 14.0, 15.0]]),
    (SQUARE, dict(size=3, mode="area"), [[2.5, 3.5, 4.5], [6.5, 7.5, 8.5], [10.5, 11.5, 12.5]]),
    (BYTES, dict(size=(3, 4), mode="bilinear"), [[0, 15, 45, 60], [100, 115, 143, 158], [200, 214, 241, 255]]),
    (BYTES, dict(size=(3, 4), mode="bicubic"), [[0, 0, 29, 50], [97, 113, 145, 161], [211, 229, 255, 255]]),
    ((SQUARE * 15).to(torch.uint8), dict(size=2, mode="bicubic", antialias=True), [[44, 71], [154, 181]]),
])
def test_interpolate(image, settings, expected):
    torch.testing.assert_close(F.interpolate(image, **settings)[0, 0], torch.tensor(expected, dtype=image.dtype))


def test_given_scale_is_used_unless_recomputed():
    x = torch.arange(10.0).reshape(1, 1, 10)
    given, recomputed = (F.interpolate(x, scale_factor=1.26, mode="linear", recompute_scale_factor=again)
                         for again in (False, True))
    assert given.shape == recomputed.shape == (1, 1, 12)
    assert not torch.equal(given, recomputed)
    torch.testing.assert_close(recomputed, F.interpolate(x, size=12, mode="linear"))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_resampling_is_linear_and_backward_its_transpose(mode):
    x, y = (torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weights = torch.randn(1, 2, 7, 3, dtype=torch.float64)
    made = F.interpolate(x, size=(7, 3), mode=mode)
    (grad,) = torch.autograd.grad(made, x, weights)
    torch.testing.assert_close((F.interpolate(y, size=(7, 3), mode=mode) * weights).sum(), (grad * y).sum())


def test_infinities_stay_where_they_are():
    x = torch.zeros(1, 1, 6)
    x[0, 0, 0] = float("inf")
    assert F.interpolate(x, size=12, mode="linear").isfinite().sum() == 9  # results 0, 1 and 2 touch the first element
    assert F.adaptive_avg_pool1d(x, 4).isfinite().tolist() == [[[False, True, True, True]]]


def test_sizes_are_integers_of_any_kind():
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    for size in ((torch.tensor(3), torch.tensor(2)), (np.int64(3), 2), [torch.tensor([3]), 2]):
        assert torch.nn.functional.interpolate(image, size).flatten().tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


@pytest.mark.parametrize(("settings", "kind", "text"), [
    (dict(), ValueError, "either size or scale_factor should be defined"),
    (dict(size=2, scale_factor=2), ValueError, "only one of size or scale_factor should be defined"),
    (dict(size=(1, 2, 3)), ValueError, "Input and output must have the same number of spatial dimensions"),
    (dict(size=2, align_corners=True), ValueError, "align_corners option can only be set with the interpolating modes"),
    (dict(size=2, mode="linear"), NotImplementedError, "Got 4D input, but linear mode needs 3D input"),
    (dict(size=2, antialias=True), ValueError, "Anti-alias option is restricted to bilinear, bicubic, and lanczos"),
    (dict(size=0), RuntimeError, r"sizes should be greater than 0, but got input \(H: 2, W: 2\) output \(H: 0, W: 0\)"),
    (dict(size=2, recompute_scale_factor=True), ValueError, "not meaningful with an explicit size"),
])
def test_interpolate_errors(settings, kind, text):
    with pytest.raises(kind, match=text):
        F.interpolate(SMALL, **settings)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_identity_grid_gives_the_image(mode, align_corners):
    x = torch.randn(2, 3, 4, 5)
    grid = F.affine_grid(torch.eye(2, 3).expand(2, 2, 3), (2, 3, 4, 5), align_corners=align_corners)
    torch.testing.assert_close(F.grid_sample(x, grid, mode, align_corners=align_corners), x, rtol=1e-4, atol=1e-5)


def test_points_outside():
    x = torch.arange(1.0, 5.0).reshape(1, 1, 1, 4)
    points = torch.tensor([-3.0, -1.0, 1.0, 3.0])
    grid = torch.stack([points, torch.zeros(4)], -1).reshape(1, 1, 4, 2)
    sampled = {mode: F.grid_sample(x, grid, padding_mode=mode, align_corners=True).reshape(-1).tolist()
               for mode in ("zeros", "border", "reflection")}
    assert sampled == {"zeros": [0.0, 1.0, 4.0, 0.0], "border": [1.0, 1.0, 4.0, 4.0],
                       "reflection": [4.0, 1.0, 4.0, 1.0]}


def test_grid_has_second_derivatives():
    x = torch.randn(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    grid = (torch.rand(1, 2, 2, 2, dtype=torch.float64) * 1.6 - 0.8).requires_grad_()
    sample = lambda x, grid: F.grid_sample(x, grid, "bicubic", align_corners=False)  # noqa: E731
    assert torch.autograd.gradgradcheck(sample, (x, grid))


@pytest.mark.parametrize(("module", "mode"), [("ReflectionPad", "reflect"), ("ReplicationPad", "edge"),
                                              ("CircularPad", "wrap"), ("ZeroPad", "constant")])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding(module, mode, rank):
    x = np.random.default_rng(0).normal(size=(1, 2, *(4, 3, 5)[:rank]))
    around = [(1, 2), (2, 0), (1, 1)][:rank]
    flat = tuple(n for pair in reversed(around) for n in pair)
    made = getattr(nn, f"{module}{rank}d")(flat)(torch.from_numpy(x))
    np.testing.assert_array_equal(made.numpy(), np.pad(x, [(0, 0), (0, 0), *around], mode=mode))


def test_pixels_and_channels():
    x = torch.arange(48.0).reshape(1, 12, 2, 2)
    large = nn.PixelShuffle(2)(x)
    assert large.shape == (1, 3, 4, 4)
    assert large[0, 0, 0].tolist() == [0.0, 4.0, 1.0, 5.0]
    assert torch.equal(nn.PixelUnshuffle(2)(large), x)
    assert nn.ChannelShuffle(3)(x)[0, :, 0, 0].tolist() == [0.0, 16.0, 32.0, 4.0, 20.0, 36.0, 8.0, 24.0, 40.0, 12.0,
                                                            28.0, 44.0]


def test_distances():
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 1.0]])
    assert nn.PairwiseDistance(p=1, eps=0)(a, b).tolist() == [6.0]
    assert nn.CosineSimilarity()(a, b).item() == pytest.approx(0.8)


def test_upsampling_modules():
    assert torch.equal(nn.Upsample(scale_factor=2)(SMALL), SMALL.repeat_interleave(2, 2).repeat_interleave(2, 3))
    assert torch.equal(nn.UpsamplingNearest2d(size=4)(SMALL), nn.Upsample(scale_factor=2)(SMALL))
    assert torch.equal(nn.UpsamplingBilinear2d(size=3)(SMALL), F.interpolate(SMALL, 3, mode="bilinear",
                                                                             align_corners=True))
