"""Settings of modules and functions, and inputs, of which random configurations found other answers than PyTorch's."""

import math

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F

CHANNELS_LAST = torch.channels_last


def image(*shape: int) -> torch.Tensor:
    """Numbers from 0 up, with the channels innermost."""
    return torch.arange(float(math.prod(shape))).reshape(shape).to(memory_format=CHANNELS_LAST)


def shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


# memory and layout ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle])
def test_shuffling_by_one_is_a_copy(shuffle):
    x = torch.arange(16.0).reshape(1, 4, 2, 2).transpose(2, 3)
    made = shuffle(x, 1)
    assert not shares(made, x) and not made._is_view()
    assert made.stride() == (16, 4, 2, 1)
    assert torch.equal(made, x)


@pytest.mark.parametrize("shuffle, strides", [(F.pixel_shuffle, (64, 1, 8, 1)), (F.pixel_unshuffle, (64, 1, 32, 16)),
                                              (F.channel_shuffle, (64, 1, 16, 4))])
def test_shuffled_images_keep_their_channels_innermost(shuffle, strides):
    assert shuffle(image(1, 4, 4, 4), 2).stride() == strides


def test_pixels_of_volumes_with_innermost_channels_are_refused():
    x = torch.zeros(1, 2, 4, 2, 2).to(memory_format=torch.channels_last_3d)
    with pytest.raises(RuntimeError, match="Supports only ChannelsLast, Contiguous"):
        F.pixel_shuffle(x, 2)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("pad", [(0, 0, 0, 0), (1, 1, 0, 0)])
def test_padded_images_keep_their_channels_innermost(mode, pad):
    assert F.pad(image(2, 3, 4, 4), pad, mode=mode).stride()[1] == 1


def test_padding_with_nothing_keeps_the_layout():
    x = torch.zeros(2, 3, 4, 5).transpose(2, 3)
    assert F.pad(x, (0, 0)).stride() == (60, 20, 1, 5)
    assert F.pad(x, (0, -1)).stride() == (45, 15, 1, 5)
    assert F.pad(x, (0, 1)).stride() == (75, 25, 5, 1)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("shape, pad", [((0, 3), (1, 1)), ((2, 0, 3), (1, 1)), ((2, 0, 3, 3), (1, 1, 1, 1))])
def test_only_the_batch_that_is_padded_may_be_empty(mode, shape, pad):
    with pytest.raises(RuntimeError, match="possibly 0 batch size and other non-zero dimensions"):
        F.pad(torch.zeros(shape), pad, mode=mode)
    assert F.pad(torch.zeros(0, 2, 3), (1, 1), mode=mode).shape == (0, 2, 5)


def test_elementwise_losses_lie_as_their_input():
    x, y = torch.arange(12.0).reshape(4, 3).t(), torch.ones(3, 4)
    for loss in (F.mse_loss, F.huber_loss, F.smooth_l1_loss):
        assert loss(x, y, reduction="none").stride() == (1, 3)
        assert loss(y, x, reduction="none").stride() == (4, 1)


def test_gradients_on_meta_lie_as_their_leaf():
    x = torch.zeros(3, 4, device="meta").t().requires_grad_()
    F.softmin(x, 0).sum().backward()
    assert x.grad.stride() == (1, 4)


def test_gumbel_noise_is_drawn_row_by_row():
    x = torch.zeros(3, 2).t()
    torch.manual_seed(0)
    soft = F.gumbel_softmax(x)
    torch.manual_seed(0)
    assert torch.equal(soft, F.gumbel_softmax(x.contiguous()))


# numbers -------------------------------------------------------------------------------------------------------------


def test_weighted_huber_loss_is_a_mean_over_elements():
    x, y, weight = torch.tensor([1.0, 3.0]), torch.zeros(2), torch.tensor([1.0, 3.0])
    assert F.huber_loss(x, y, weight=weight).item() == 4.0
    assert F.mse_loss(x, y, weight=weight).item() == 7.0


def test_infinite_norms_of_windows_are_largest_elements():
    x = torch.tensor([[1.0, -3.0, 2.0]])
    assert nn.LPPool1d(math.inf, 2)(x).tolist() == [[3.0]]
    assert nn.LPPool1d(-math.inf, 2)(x).tolist() == [[1.0]]


@pytest.mark.parametrize("mode, dtype, last", [("sum", torch.float32, [4, 5]), ("sum", torch.float64, [10, 12]),
                                               ("mean", torch.float32, [2, 2.5]), ("mean", torch.float64, [5, 6]),
                                               ("max", torch.float32, [6, 7])])
def test_the_last_bag_reaches_to_the_end(mode, dtype, last):
    weight = torch.arange(10.0).reshape(5, 2).to(dtype)
    bag = nn.EmbeddingBag(5, 2, mode=mode, include_last_offset=True, _weight=weight)
    assert bag(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 3]))[1].tolist() == last


def test_bag_sizes_count_what_lies_behind_the_last_offset():
    weight = torch.arange(10.0).reshape(5, 2)
    _, bags, sizes, _ = torch.embedding_bag(
        weight, torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 3]), False, 1, False, None, True)
    assert (bags.tolist(), sizes.tolist()) == ([0, 0, 1, 1], [2, 2])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_point_that_is_no_number_is_nan_among_zeros(mode, value):
    grid = torch.tensor([[[[value, 0.25], [0.25, value]]]])
    made = F.grid_sample(torch.ones(1, 1, 3, 4), grid, mode=mode, padding_mode="zeros", align_corners=True)
    assert made.isnan().all()


def test_a_point_of_nan_at_the_border_of_images_and_volumes():
    plane, volume = torch.arange(12.0).reshape(1, 1, 3, 4), torch.arange(24.0).reshape(1, 1, 2, 3, 4)
    at = dict(padding_mode="border", align_corners=True, mode="nearest")
    assert F.grid_sample(plane, torch.tensor([[[[math.nan, -1.0]]]]), **at).item() == 0  # the first
    assert F.grid_sample(volume, torch.tensor([[[[[math.nan, -1.0, -1.0]]]]]), **at).item() == 3  # the last


def test_no_point_gives_gradients_of_zeros():
    x, grid = torch.zeros(0, 2, 3, 3, requires_grad=True), torch.zeros(0, 2, 2, 2, requires_grad=True)
    F.grid_sample(x, grid, align_corners=True).sum().backward()
    assert x.grad.shape == x.shape and grid.grad.shape == grid.shape


def test_gradients_at_nan():
    x = torch.tensor([math.nan, 0.5], requires_grad=True)
    F.relu6(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    x.grad = None
    F.hardsigmoid(x).sum().backward()
    assert x.grad[0].item() == 0


# empty ---------------------------------------------------------------------------------------------------------------


def test_instance_norm_of_no_sample():
    x, mean = torch.zeros(0, 3, 4), torch.zeros(3)
    assert F.instance_norm(x).shape == (0, 3, 4)
    F.instance_norm(x, mean, torch.ones(3), use_input_stats=False)
    assert mean.tolist() == [0, 0, 0]
    with pytest.raises(IndexError):
        F.instance_norm(x, weight=torch.ones(3))


def test_no_output_cannot_be_differentiated():
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        x = torch.zeros(1, 2, 4, 4, requires_grad=True)
        with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size for non-batch dimensions"):
            pool(x, (1, 0)).sum().backward()


def test_output_padding_of_an_empty_batch_is_free():
    weight = torch.zeros(2, 2, 2)
    assert F.conv_transpose1d(torch.zeros(0, 2, 4), weight, output_padding=3).shape == (0, 2, 8)
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        F.conv_transpose1d(torch.zeros(1, 2, 4), weight, output_padding=3)


def test_margin_losses_of_no_sample():
    x, y = torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int64)
    assert F.multilabel_margin_loss(x, y, reduction="none").shape == (0,)
    with pytest.raises(RuntimeError, match="Expected non-empty vector or matrix"):
        F.multilabel_margin_loss(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.int64))


# types ---------------------------------------------------------------------------------------------------------------


def test_running_statistics_of_another_type():
    x = torch.zeros(2, 3, 4)
    F.instance_norm(x, torch.zeros(3).double(), torch.ones(3).double())
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.batch_norm(x, torch.zeros(3).double(), torch.ones(3).double(), torch.ones(3), torch.zeros(3))
    with pytest.raises(RuntimeError, match="all inputs must share same datatype"):
        F.batch_norm(x.double(), None, None, torch.ones(3), torch.zeros(3), training=True)
    with pytest.raises(RuntimeError, match="expect parameter to have scalar type of Float"):
        F.batch_norm(x.bfloat16(), torch.zeros(3).bfloat16(), torch.ones(3).bfloat16(), torch.ones(3), torch.zeros(3))


def test_numpy_integers_are_sizes():
    two = np.int64(2)
    assert nn.Upsample(scale_factor=two)(torch.zeros(1, 1, 2, 2)).shape == (1, 1, 4, 4)
    assert nn.Conv2d(two, np.int64(4), (two, 2), stride=two)(torch.zeros(1, 2, 4, 4)).shape == (1, 4, 2, 2)


# refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call, kind", [
    (lambda: nn.LSTM(2, 2, bias=1), TypeError),
    (lambda: nn.RNN(2, 2, batch_first="x"), TypeError),
    (lambda: F.batch_norm(torch.zeros(2, 3), None, None, training=True, eps=-1.0), ValueError),
    (lambda: F.max_unpool3d(torch.zeros(1, 1, 2, 2, 2), torch.zeros(1, 1, 2, 2, 2).long(), 2, output_size=(4, 4)),
     ValueError),
    (lambda: nn.MaxPool3d(2)(torch.zeros(2, 3, 4, 4).to(memory_format=CHANNELS_LAST)), RuntimeError),
    (lambda: F.softmax(3, 1), AttributeError),
    (lambda: F.glu((1, 2)), AttributeError),
    (lambda: F.margin_ranking_loss(torch.zeros(2), [1], torch.zeros(2)), AttributeError),
    (lambda: F.poisson_nll_loss(torch.zeros(2), torch.zeros(2), reduction=(1,)), TypeError),
    (lambda: nn.utils.clip_grad_value_([torch.zeros(2)], 1.0), RuntimeError),
    (lambda: nn.Linear(2, 2).get_submodule([]), AttributeError),
    (lambda: nn.Linear(2**62, 4), RuntimeError),
    (lambda: nn.MultiMarginLoss(weight=1.5), TypeError),
    (lambda: nn.MultiheadAttention(4, 2)(*[torch.zeros(2, 1, 4)] * 3, key_padding_mask=0), TypeError),
    (lambda: F.rrelu(torch.zeros(2).half(), training=True), NotImplementedError),
])
def test_bad_settings_raise_what_pytorch_raises(call, kind):
    with pytest.raises(kind) as raised:
        call()
    assert raised.type is kind
