"""Modules whose use needs more than one tensor, and what constructors refuse."""

import os
import subprocess
import sys

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn

SCORES = torch.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 0.3]])
CLASSES = torch.tensor([0, 2])
WEIGHT = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        (nn.MSELoss(), SCORES * 2, 0.8983333706855774),
        (nn.MSELoss(reduction="sum"), SCORES * 2, 5.390000343322754),
        (nn.L1Loss(), SCORES + 1, 1.0),
        (nn.CrossEntropyLoss(), CLASSES, 1.2331558465957642),
        (nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.1), CLASSES, 1.1282767057418823),
        (nn.CrossEntropyLoss(ignore_index=2, reduction="sum"), CLASSES, 1.4643688201904297),
        (nn.NLLLoss(WEIGHT), CLASSES, -0.4750000238418579),
        (nn.BCEWithLogitsLoss(), torch.ones(2, 3), 0.45185956358909607),
        (nn.BCEWithLogitsLoss(WEIGHT, pos_weight=WEIGHT), torch.ones(2, 3), 2.185636043548584),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_losses(loss, target, expected):
    assert loss(SCORES, target).item() == pytest.approx(expected, rel=1e-5)


def test_class_weights_are_buffers():
    assert list(nn.CrossEntropyLoss(WEIGHT).state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=WEIGHT).state_dict()) == ["pos_weight"]


def test_old_reduction_arguments():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead."):
        assert nn.MSELoss(size_average=False).reduction == "sum"


def test_embedding():
    torch.manual_seed(0)
    table = nn.Embedding(5, 3, padding_idx=1)
    assert table.weight[1].tolist() == [0.0, 0.0, 0.0]
    index = torch.tensor([[0, 1], [2, 0]])
    assert torch.equal(table(index)[1, 0], table.weight[2])
    table(index).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [2.0, 0.0, 1.0, 0.0, 0.0]


def test_embedding_from_pretrained_and_max_norm():
    values = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    frozen = nn.Embedding.from_pretrained(values)
    assert not frozen.weight.requires_grad and frozen.weight.data_ptr() == values.data_ptr()
    limited = nn.Embedding.from_pretrained(values.clone(), freeze=False, max_norm=1.0)
    assert limited(torch.tensor([0, 1])).reshape(-1).tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4], rel=1e-5)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.Dropout(2), ValueError, "dropout probability has to be between 0 and 1, but got 2"),
        (lambda: nn.Embedding(3, 4, 5), AssertionError, "Padding_idx must be within num_embeddings"),
        (
            lambda: nn.Embedding.from_pretrained(torch.ones(3)),
            AssertionError,
            "Embeddings parameter is expected to be 2-dimensional",
        ),
    ],
)
def test_errors(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(
    "module", [nn.ReLU(True), nn.SiLU(True), nn.LeakyReLU(0.1, True), nn.ELU(1.0, True), nn.Mish(True)]
)
def test_inplace_activations_write_into_their_input(module):
    values = torch.tensor([-1.0, 2.0])
    assert module(values) is values
    assert values[0].item() != -1.0


def test_factory_arguments():
    layer = nn.Linear(2, 3, dtype=torch.float64)
    assert layer.weight.dtype == layer.bias.dtype == torch.float64
    assert nn.LayerNorm(3, device="meta").weight.is_meta


def test_group_norm_of_nothing_has_gradients() -> None:
    x = torch.ones(0, 4, 3, requires_grad=True)
    layer = nn.GroupNorm(2, 4)
    layer(x).sum().backward()
    assert x.grad.shape == x.shape and layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("loss", "follows"),
    [("huber_loss", 0), ("soft_margin_loss", 0), ("binary_cross_entropy_with_logits", 1), ("mse_loss", None)],
)
def test_type_of_a_loss_of_two_types(loss, follows):
    """PyTorch writes some losses into memory of one argument's type; others are promoted."""
    function, types = getattr(nn.functional, loss), (torch.float32, torch.float64)
    for kinds in (types, types[::-1]):
        a, b = torch.full((3,), 0.25, dtype=kinds[0]), torch.full((3,), 0.75, dtype=kinds[1])
        for reduction in ("none", "mean", "sum"):
            expected = torch.float64 if follows is None else kinds[follows]
            assert function(a, b, reduction=reduction).dtype is expected
    if follows is not None:
        values = [torch.ones(3), torch.ones(3)]
        values[follows] = values[follows].long()
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            function(*values)


def test_distances_of_two_types_are_refused():
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.cdist(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64))
    with pytest.raises(NotImplementedError, match="\"searchsorted_out_cpu\" not implemented for 'ComplexFloat'"):
        torch.searchsorted(torch.arange(3.0), torch.tensor([1j]))


def test_silu_of_complex_numbers_has_its_derivatives() -> None:
    z = torch.tensor([0.5 + 1j, -1 - 0.25j], dtype=torch.complex128, requires_grad=True)
    silu = torch.nn.functional.silu
    assert torch.autograd.gradcheck(silu, z) and torch.autograd.gradgradcheck(silu, z)


_FIRST_STEP = """
import sys
import mindtorch_v2 as torch

table = torch.nn.Embedding(7, 3)
places = torch.arange(40) % 5
(table(places) * torch.arange(40.0)[:, None]).sum().backward()
print("scipy" in sys.modules, table.weight.grad[:, 0].tolist())
from mindtorch_v2._backends.cpu import row_sums

row_sums._WORTH_SCIPY = 0
table.weight.grad = None
(table(places) * torch.arange(40.0)[:, None]).sum().backward()
print("scipy" in sys.modules, table.weight.grad[:, 0].tolist())
"""


def test_a_first_step_with_an_embedding_does_not_wait_for_scipy() -> None:
    made = subprocess.run([sys.executable, "-c", _FIRST_STEP], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "MINDTORCH_JIT": "0"})  # fmt: skip
    sums = [140.0, 148.0, 156.0, 164.0, 172.0, 0.0, 0.0]
    assert made.stdout.splitlines() == [f"False {sums}", f"True {sums}"], made.stderr


@pytest.mark.parametrize("kind", ("plain", "view", "data of a parameter"))
def test_running_statistics_move_and_keep_their_versions(kind):
    """A call in eval mode that saved them can still be differentiated after one in training."""
    norm, input = nn.BatchNorm1d(3), torch.randn(4, 3, requires_grad=True)
    if kind == "view":
        both = torch.zeros(2, 3)
        norm.running_mean, norm.running_var = both.unbind()
    elif kind == "data of a parameter":
        norm.running_mean, norm.running_var = (nn.Parameter(torch.zeros(3)).data for _ in range(2))
    output = norm.eval()(input)
    versions = norm.running_mean._version, norm.running_var._version
    norm.train()(input)
    assert torch.allclose(norm.running_mean, 0.1 * input.detach().mean(0))
    assert norm.running_var.abs().sum() > 0
    assert (norm.running_mean._version, norm.running_var._version) == versions
    output.sum().backward()
    assert input.grad is not None


def test_batch_norm_wants_both_running_statistics_or_none():
    for statistics in ((torch.zeros(3), None), (None, torch.ones(3))):
        with pytest.raises(ValueError, match="must either both be None or neither be None"):
            nn.functional.batch_norm(torch.randn(4, 3), *statistics, training=True)


@pytest.mark.parametrize("training", (True, False))
def test_batch_norm_of_no_channels(training):
    input = torch.zeros(2, 0, requires_grad=True)
    output = nn.functional.batch_norm(input, torch.zeros(0), torch.ones(0), training=training)
    output.sum().backward()
    assert output.shape == input.grad.shape == (2, 0)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_types_of_statistics(kind):
    """On the CPU those of the parameters; without data as on a GPU: float32 of layer norm and batch norm."""
    for where, own in (("cpu", kind), ("meta", torch.float32)):
        x = torch.ones(2, 4, 6, dtype=kind, device=where)
        for made in (
            torch.native_layer_norm(x, (6,), None, None, 1e-5),
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        ):
            assert [t.dtype for t in made] == [kind, own, own]
        assert [t.dtype for t in torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5)] == [kind] * 3
