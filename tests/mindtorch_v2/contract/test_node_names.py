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


# Where an operator has overloads, the number is that of the one PyTorch calls.
ZEROS = torch.zeros(3, 3, dtype=torch.int64)
OVERLOADS = [
    ("RsubBackward1", lambda x: 1 - x), ("RsubBackward1", lambda x: torch.rsub(x, 1)),
    ("RsubBackward0", lambda x: torch.rsub(x, x)), ("SubBackward0", lambda x: x - 1),
    ("DivBackward2", lambda x: x.div(2, rounding_mode="floor")), ("DivBackward0", lambda x: x / 2),
    ("DivBackward0", lambda x: torch.true_divide(x, 2)), ("torch::autograd::NotImplemented", lambda x: x // 2),
    ("RemainderBackward0", lambda x: x % 2), ("RemainderBackward1", lambda x: x % torch.ones(3)),
    ("torch::autograd::NotImplemented", lambda x: 2 % x),
    ("FmodBackward0", lambda x: x.fmod(2)), ("FmodBackward1", lambda x: x.fmod(torch.ones(3))),
    ("PowBackward0", lambda x: x**2), ("PowBackward1", lambda x: x**torch.ones(3)), ("PowBackward2", lambda x: 2**x),
    ("PowBackward1", lambda x: x.clone().pow_(torch.ones(3))), ("PowBackward0", lambda x: x.square()),
    ("MaskedFillBackward0", lambda x: x.masked_fill(x > 1, 0)),
    ("MaskedFillBackward1", lambda x: x.masked_fill(x > 1, torch.tensor(0.0))),
    ("ClampMinBackward0", lambda x: x.clamp_min(0)), ("ClampMinBackward1", lambda x: x.clamp_min(torch.ones(3))),
    ("CopysignBackward1", lambda x: x.copysign(1)), ("CopysignBackward0", lambda x: x.copysign(torch.ones(3))),
    ("LerpBackward0", lambda x: x.lerp(x, 0.5)), ("LerpBackward1", lambda x: x.lerp(x, torch.ones(3))),
    ("IndexFillBackward1", lambda x: x.index_fill(0, torch.tensor([0]), torch.tensor(1.0))),
    ("ScatterBackward0", lambda x: x.scatter(0, ZEROS, torch.ones(3, 3))),
    ("ScatterBackward1", lambda x: x.scatter(0, ZEROS, 1.0)),
    ("torch::autograd::NotImplemented", lambda x: x.scatter(0, ZEROS, torch.ones(3, 3), reduce="add")),
    ("RoundBackward0", lambda x: x.round()), ("RoundBackward1", lambda x: x.round(decimals=1)),
    ("MedianBackward0", lambda x: x.median()), ("MedianBackward1", lambda x: x.median(0)[0]),
    ("SortBackward0", lambda x: x.sort()[0]), ("SortBackward1", lambda x: x.sort(stable=True)[0]),
    ("XlogyBackward1", lambda x: torch.xlogy(2.0, x)), ("XlogyBackward2", lambda x: torch.xlogy(x, 2.0)),
    ("FillBackward2", lambda x: x.clone().fill_(1)), ("FillBackward1", lambda x: torch.fill(x, torch.tensor(1.0))),
    ("TBackward1", lambda x: x.clone().t_()), ("SqueezeBackward4", lambda x: x.clone().squeeze_(0)),
    ("LtBackward1", lambda x: x.clone().lt_(torch.ones(3))), ("LtBackward0", lambda x: x.clone().lt_(1)),
    ("EluBackward0", F.selu), ("HardtanhBackward0", F.relu6),
    ("UnsafeViewBackward0", lambda x: x[None] @ x[None]), ("SqueezeBackward4", lambda x: torch.ones(3) @ x),
    ("DiagonalBackward0_copy", lambda x: x.diag()), ("ExpandBackward0_copy", lambda x: torch.expand_copy(x, (3, 3))),
    ("ReflectionPad1DBackward0", lambda x: F.pad(x, (1, 1), "reflect")),
    ("torch::autograd::CopySlices", lambda x: F.pad(x, (1, 1), "circular")),
    ("NllLoss2DBackward0", lambda x: F.cross_entropy(x[None, :, :, None], torch.zeros(1, 3, 1, dtype=torch.int64))),
    ("ViewBackward0", lambda x: F.nll_loss(x[None], ZEROS[:1], reduction="none")),
    ("DivBackward1", lambda x: F.cross_entropy(x, torch.ones(3, 3))),
    ("MeanBackward0", lambda x: F.smooth_l1_loss(x, torch.ones(3, 3), beta=0)),
    # one node there, several here, of which the last has the name
    ("BinaryCrossEntropyWithLogitsBackward0", lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(3, 3))),
    ("PixelShuffleBackward0", lambda x: F.pixel_shuffle(x.expand(4, 3, 3), 2)), ("Rot90Backward0", torch.rot90),
    ("LinalgLuBackward0", lambda x: torch.linalg.lu(x + torch.eye(3))[1]),
    ("SelectScatterBackward0", lambda x: x.select_scatter(torch.ones(3), 0, 0)),
]


@pytest.mark.parametrize(("name", "call"), OVERLOADS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(OVERLOADS)])
def test_names_of_overloads(name, call):
    node = call(torch.ones(3, 3, requires_grad=True)).grad_fn
    assert node.name() == name and type(node).__name__ == name.rpartition("::")[2]
    node.release()
    assert node.name() == name


def test_a_composite_that_records_nothing_renames_nothing():
    x = torch.ones(4, 1, 1, requires_grad=True)
    y = x * 1
    F.binary_cross_entropy_with_logits(y.detach(), torch.ones(4, 1, 1), weight=torch.ones(1))
    assert y.rot90(0, (0, 1)).grad_fn.name() == "Rot90Backward0" and y.grad_fn.name() == "MulBackward0"


def test_legacy_reductions_of_scatter_are_recorded_and_refused():
    x = torch.ones(3, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for aten::scatter is not implemented"):
        x.scatter(0, ZEROS, torch.ones(3, 3), reduce="add").sum().backward()


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
