"""The names of recorded nodes are those that PyTorch prints."""

import pytest

import mindtorch_v2 as torch

F = torch.nn.functional


def written(x, index, value):
    x[index] = value
    return x


NAMES = {
    "AddmmBackward0": lambda x, w: F.linear(x, w, torch.ones(4)),
    "MmBackward0": lambda x, w: F.linear(x, w),
    "ViewBackward0": lambda x, w: F.linear(x.unsqueeze(0), w, torch.ones(4)),
    "UnsafeViewBackward0": lambda x, w: F.linear(x.unsqueeze(0), w),
    "NllLossBackward0": lambda x, w: F.cross_entropy(x, torch.tensor([0, 1])),
    "NativeBatchNormBackward0": lambda x, w: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
    "SumBackward0": lambda x, w: x.sum(),
    "SumBackward1": lambda x, w: x.sum(1),
    "MeanBackward1": lambda x, w: x.mean(0),
    "MaxBackward1": lambda x, w: x.max(),
    "MaxBackward0": lambda x, w: x.max(1).values,
    "ClampBackward1": lambda x, w: x.clamp(0, 1),
    "ClampBackward0": lambda x, w: x.clamp(torch.zeros(3), None),
    "AvgPool2DBackward0": lambda x, w: F.avg_pool2d(x.reshape(1, 1, 2, 3), 2),
    "MaxPool2DWithIndicesBackward0": lambda x, w: F.max_pool2d(x.reshape(1, 1, 2, 3), 2),
    "FftR2CBackward0": lambda x, w: torch.fft.rfft(x),
    "SqueezeBackward1": lambda x, w: x[:1].squeeze(0),
    "AddBackward0": lambda x, w: x.clone().add_(1),
    "IndexPutBackward0": lambda x, w: written(x.clone(), x > 0, 0),
    "ScaledDotProductFlashAttentionForCpuBackward0": lambda x, w: F.scaled_dot_product_attention(
        *(x.reshape(1, 1, 2, 3),) * 3),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
    result = NAMES[name](x, w)
    assert result.grad_fn.name() == name and repr(result.grad_fn).startswith(f"<{name} object")
    assert f"grad_fn=<{name}>" in repr(result)


def test_batch_norm_by_running_statistics_is_named_as_that_by_those_of_the_batch() -> None:
    made = F.batch_norm(torch.ones(2, 3, requires_grad=True), torch.zeros(3), torch.ones(3))
    assert made.grad_fn.name() == "NativeBatchNormBackward0"


def test_a_copy_is_named_in_full_where_it_is_spoken_of() -> None:
    x = torch.ones(3, requires_grad=True)
    copied = torch.zeros(3).copy_(x)
    assert copied.grad_fn.name() == "torch::autograd::CopyBackwards"
    assert repr(copied.grad_fn).startswith("<CopyBackwards object")
    squared = copied.pow(2)
    copied.copy_(x)
    with pytest.raises(RuntimeError, match="which is output 0 of torch::autograd::CopyBackwards, is at version 2"):
        squared.sum().backward()


@pytest.mark.parametrize("name", ["Plain", "WithBackward1", "Backwards", "WithBackward"])
def test_a_custom_function_is_spoken_of_by_its_own_name(name):
    function = type(name, (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x.view_as(x)), "backward": staticmethod(lambda ctx, grad: grad)})
    made = function.apply(torch.ones(3, requires_grad=True) * 1)
    with pytest.raises(RuntimeError, match=f"Output 0 of {name} is a view and is being modified inplace"):
        made.mul_(2)


def test_a_name_stays_after_the_graph_is_freed():
    x = torch.ones(2, 3, requires_grad=True)
    result = F.linear(x, torch.ones(4, 3), torch.ones(4))
    result.sum().backward()
    assert result.grad_fn.name() == "AddmmBackward0"
