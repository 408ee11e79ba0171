"""The operators that torchvision has in C++, against the same arithmetic in plain loops."""

import math

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import gradcheck, gradgradcheck

vision = torch.ops.torchvision
# Image, left, top, right, bottom: inside, small, far outside on all sides, without extent, the other image.
ROIS = [[0, 0.5, 0.7, 7.3, 6.1], [1, 2, 2, 4, 4], [0, -3, -2, 30, 20], [1, 5, 5, 5, 5], [1, 1, 3, 9, 8]]
HEIGHT, WIDTH = 9, 11


def double(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64)


def regions():
    return torch.tensor(ROIS, dtype=torch.float64)


def interpolated(image, y, x):
    if not (-1 <= y <= HEIGHT and -1 <= x <= WIDTH):
        return 0.0
    y, x = min(max(y, 0), HEIGHT - 1), min(max(x, 0), WIDTH - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, HEIGHT - 1), min(left + 1, WIDTH - 1)
    above = image[top][left] * (1 - x + left) + image[top][right] * (x - left)
    below = image[bottom][left] * (1 - x + left) + image[bottom][right] * (x - left)
    return above * (1 - y + top) + below * (y - top)


def aligned_bin(image, roi, scale, height, width, samples, aligned, p, q):
    left, top, right, bottom = (edge * scale - (0.5 if aligned else 0) for edge in roi[1:])
    high, wide = bottom - top, right - left
    if not aligned:
        high, wide = max(high, 1), max(wide, 1)
    down = samples if samples > 0 else math.ceil(high / height)
    across = samples if samples > 0 else math.ceil(wide / width)
    total = sum(interpolated(image, top + (p + (i + 0.5) / down) * high / height,
                             left + (q + (j + 0.5) / across) * wide / width)
                for i in range(down) for j in range(across))
    return total, down * across


@pytest.mark.parametrize("samples", [-1, 2])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_align(samples, aligned, scale):
    input = double(2, 3, HEIGHT, WIDTH)
    made = vision.roi_align(input, regions(), scale, 3, 2, samples, aligned)
    images = input.tolist()
    expected = [[[[total / max(count, 1) for q in range(2) for total, count in [
        aligned_bin(images[roi[0]][c], roi, scale, 3, 2, samples, aligned, p, q)]]
        for p in range(3)] for c in range(3)] for roi in ROIS]
    torch.testing.assert_close(made, torch.tensor(expected, dtype=torch.float64))


def test_ps_roi_align_reads_a_channel_of_its_own_for_each_bin():
    input, rois = double(2, 12, HEIGHT, WIDTH), [roi for roi in ROIS if roi[1] != roi[3]]
    made, channels = vision.ps_roi_align(input, torch.tensor(rois, dtype=torch.float64), 1.0, 3, 2, 2)
    images = input.tolist()
    expected = [[[[aligned_bin(images[roi[0]][(c * 3 + p) * 2 + q], roi, 1.0, 3, 2, 2, True, p, q)[0] / 4
                   for q in range(2)] for p in range(3)] for c in range(2)] for roi in rois]
    torch.testing.assert_close(made, torch.tensor(expected, dtype=torch.float64))
    assert channels.dtype is torch.int32 and channels.shape == made.shape
    assert channels[0].tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]


def whole_bin(roi, closed, height, width, p, q):
    """The rows and columns of a bin; the last ones of the region belong to it if it is closed."""
    left, top, right, bottom = (math.floor(abs(edge) + 0.5) * (-1 if edge < 0 else 1) for edge in roi[1:])
    high, wide = max(bottom - top + closed, 1), max(right - left + closed, 1)
    rows = range(max(math.floor(p * high / height) + top, 0), min(math.ceil((p + 1) * high / height) + top, HEIGHT))
    columns = range(max(math.floor(q * wide / width) + left, 0), min(math.ceil((q + 1) * wide / width) + left, WIDTH))
    return [(row, column) for row in rows for column in columns]


def test_roi_pool():
    input = double(2, 3, HEIGHT, WIDTH)
    made, where = vision.roi_pool(input, regions(), 1.0, 3, 2)
    assert where.dtype is torch.int32
    for k, roi in enumerate(ROIS):
        for p in range(3):
            for q in range(2):
                places = whole_bin(roi, 1, 3, 2, p, q)
                for c in range(3):
                    values = [input[roi[0], c, row, column].item() for row, column in places]
                    assert made[k, c, p, q].item() == max(values, default=0.0)
                    index = values.index(max(values)) if values else -1
                    expected = -1 if index < 0 else places[index][0] * WIDTH + places[index][1]
                    assert where[k, c, p, q].item() == expected


def test_ps_roi_pool():
    input = double(2, 12, HEIGHT, WIDTH)
    made, _ = vision.ps_roi_pool(input, regions(), 1.0, 3, 2)
    expected = torch.zeros(len(ROIS), 2, 3, 2, dtype=torch.float64)
    for k, roi in enumerate(ROIS):
        for c, p, q in ((c, p, q) for c in range(2) for p in range(3) for q in range(2)):
            values = [input[roi[0], (c * 3 + p) * 2 + q, row, column] for row, column in whole_bin(roi, 0, 3, 2, p, q)]
            expected[k, c, p, q] = sum(values) / len(values) if values else 0
    torch.testing.assert_close(made, expected)


POOLS = {
    "roi_align": lambda x: vision.roi_align(x, regions(), 0.5, 3, 2, -1, True),
    "ps_roi_align": lambda x: vision.ps_roi_align(x, regions(), 1.0, 3, 2, 2)[0],
    "roi_pool": lambda x: vision.roi_pool(x, regions(), 1.0, 3, 2)[0],
    "ps_roi_pool": lambda x: vision.ps_roi_pool(x, regions(), 1.0, 3, 2)[0],
}


@pytest.mark.parametrize("name", POOLS)
def test_gradients_of_regions(name):
    input = double(2, 6, HEIGHT, WIDTH).requires_grad_()
    assert gradcheck(POOLS[name], input, fast_mode=True) and gradgradcheck(POOLS[name], input, fast_mode=True)


@pytest.mark.parametrize("name", POOLS)
def test_regions_in_single_precision_and_none_at_all(name):
    input = double(2, 6, HEIGHT, WIDTH)
    assert torch.ops.torchvision.roi_align(input.float(), regions().float(), 1.0, 3, 2, 2, True).dtype is torch.float32
    none = torch.zeros(0, 5, dtype=torch.float64)
    made = getattr(vision, name)(input, none, 1.0, 3, 2, *((2,) if "align" in name else ()),
                                 *((True,) if name == "roi_align" else ()))
    made = made if isinstance(made, torch.Tensor) else made[0]
    assert made.shape == (0, 1 if name.startswith("ps") else 6, 3, 2)


def test_regions_of_another_type_or_shape_are_refused():
    input = double(1, 6, HEIGHT, WIDTH)
    with pytest.raises(RuntimeError, match=r"rois must have shape as Tensor\[K, 5\]"):
        vision.roi_align(input, torch.zeros(2, 4, dtype=torch.float64), 1.0, 3, 2, 2, True)
    with pytest.raises(RuntimeError, match="Expected tensor for input to have the same type as tensor for rois"):
        vision.roi_pool(input, torch.zeros(2, 5), 1.0, 3, 2)
    with pytest.raises(RuntimeError, match="input channels must be a multiple of pooling height"):
        vision.ps_roi_pool(input, torch.zeros(2, 5, dtype=torch.float64), 1.0, 4, 2)


def test_nms():
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 9.5], [21, 21, 29, 29.0]])
    scores = torch.tensor([0.9, 0.95, 0.3, 0.8, 0.4])
    assert vision.nms(boxes, scores, 0.5).tolist() == [1, 4]
    assert vision.nms(boxes, scores, 0.9).tolist() == [1, 0, 4, 2]  # 0 and 3 overlap by 0.95
    assert vision.nms(boxes[:0], scores[:0], 0.5).tolist() == []
    assert vision.nms(boxes[[0, 0]], torch.ones(2), 0.5).tolist() == [0]
    with pytest.raises(RuntimeError, match="boxes should have 4 elements in dimension 1, got 3"):
        vision.nms(boxes[:, :3], scores, 0.5)
    with pytest.raises(RuntimeError, match="same number of elements in dimension 0, got 5 and 4"):
        vision.nms(boxes, scores[:4], 0.5)


def test_deform_conv2d():
    input, weight, bias = double(2, 4, 6, 7), double(6, 2, 3, 2), double(6)
    offset, mask = double(2, 2 * 2 * 6, 3, 4) * 2, double(2, 2 * 6, 3, 4).sigmoid()

    def run(input, weight, offset, mask, bias, use_mask=True):
        return vision.deform_conv2d(input, weight, offset, mask, bias, 2, 2, 1, 1, 1, 1, 2, 2, use_mask)

    plain = torch.nn.functional.conv2d(input, weight, bias, stride=2, padding=1, groups=2)
    torch.testing.assert_close(run(input, weight, torch.zeros_like(offset), mask, bias, use_mask=False), plain)
    made, images = run(input, weight, offset, mask, bias), torch.nn.functional.pad(input, (1, 1, 1, 1))
    expected = bias[None, :, None, None].expand(2, 6, 3, 4).clone()
    for n, row, column in ((n, row, column) for n in range(2) for row in range(3) for column in range(4)):
        for g, i, j in ((g, i, j) for g in range(2) for i in range(3) for j in range(2)):
            at = (g * 3 + i) * 2 + j
            y = row * 2 + i + offset[n, 2 * at, row, column].item()  # in the padded image, whose border is zero
            x = column * 2 + j + offset[n, 2 * at + 1, row, column].item()
            if not (0 < y < 7 and 0 < x < 8):
                continue
            top, left = int(y), int(x)
            square = images[n, 2 * g : 2 * g + 2, top : top + 2, left : left + 2]
            down, across = y - top, x - left
            corners = torch.tensor([[(1 - down) * (1 - across), (1 - down) * across],
                                    [down * (1 - across), down * across]], dtype=torch.float64)
            read = (square * corners).sum((1, 2)) * mask[n, at, row, column]
            expected[n, 3 * g : 3 * g + 3, row, column] += weight[3 * g : 3 * g + 3, :, i, j] @ read
    torch.testing.assert_close(made, expected)
    inputs = [tensor.requires_grad_() for tensor in (input, weight, offset, mask, bias)]
    assert gradcheck(run, inputs, fast_mode=True)
    with pytest.raises(RuntimeError, match="offset.shape.1. is not valid: got: 23 expected: 24"):
        run(input, weight, offset[:, 1:], mask, bias)


def test_loading_torchvisions_library_finds_them_declared():
    torch.ops.load_library("/somewhere/site-packages/torchvision/_C.so")
    assert vision._cuda_version() == -1
    with pytest.raises(OSError, match="cannot load compiled operators"):
        torch.ops.load_library("/somewhere/site-packages/torchvision/image.so")
    with pytest.raises(NotImplementedError, match="mindtorch_v2 has no torch.ops.torchvision.qnms"):
        vision.qnms(torch.ones(1, 4), torch.ones(1), 0.5)


def test_what_torchvision_registers_for_them_is_left_out():
    """Their derivatives and shapes are those of the operators that they are made of."""
    library = torch.library.Library("torchvision", "IMPL", "Meta")
    library.impl(vision.roi_align.default, lambda *args: None)
    torch.library.register_fake("torchvision::nms", lambda *args: None)
    torch.library.register_autograd("torchvision::roi_align", lambda ctx, grad: None)
    input = double(2, 6, HEIGHT, WIDTH).requires_grad_()
    vision.roi_align(input, regions(), 1.0, 3, 2, 2, True).sum().backward()
    assert input.grad.abs().sum() > 0
