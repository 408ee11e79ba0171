"""Negative log likelihood and cross entropy where the plain formula would lose digits or divide by zero."""

import math

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

IGNORED = -100


def _gradients(loss, scores, *arguments, **options):
    scores = scores.detach().requires_grad_()
    made = loss(scores, *arguments, **options)
    made.sum().backward()
    return made.detach(), scores.grad


@pytest.mark.parametrize("offset", [0.0, 1e6, 2.0**26])
@pytest.mark.parametrize("shape", ["rows", "spatial"])
def test_cross_entropy_of_large_scores_has_all_its_digits(offset, shape):
    scores = torch.tensor([[8.0, 16.0, 8.0], [24.0, 16.0, 32.0]]) + offset
    classes = torch.tensor([1, 0])
    if shape == "spatial":
        scores, classes = scores[..., None], classes[..., None]
    loss, grad = _gradients(F.cross_entropy, scores, classes)
    assert loss.item() == pytest.approx(4.000503063, rel=1e-6)
    expected = [[0.00016762, -0.00033522, 0.00016762], [-0.49983233, 5.6e-8, 0.49983227]]
    assert torch.allclose(grad.reshape(2, 3), torch.tensor(expected), atol=1e-6)
    assert torch.equal(_gradients(F.cross_entropy, scores, classes, reduction="none")[0],
                       _gradients(F.cross_entropy, scores - offset, classes, reduction="none")[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_targets_ignored_give_gradients_of_zero(shape, dtype, smoothing, weighted):
    scores = torch.linspace(-1, 1, math.prod(shape)).reshape(shape).to(dtype)
    target = torch.full(shape[:0] if len(shape) == 1 else (shape[0], *shape[2:]), IGNORED)
    weight = torch.tensor([0.5, 1.0, 2.0], dtype=dtype) if weighted else None
    calls = {"cross_entropy": {"label_smoothing": smoothing}}
    if not smoothing:
        calls["nll_loss"] = {}
    for name, options in calls.items():
        for reduction in ("mean", "sum", "none"):
            loss, grad = _gradients(getattr(F, name), scores, target, weight, reduction=reduction, **options)
            assert torch.equal(grad, torch.zeros(shape, dtype=dtype)), (name, reduction)
            assert loss.isnan().all() if reduction == "mean" else (loss == 0).all(), (name, reduction)


def test_weights_that_sum_to_zero_leave_ignored_elements_alone():
    scores = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    target = torch.tensor([0, IGNORED])
    _, grad = _gradients(F.cross_entropy, scores, target, torch.zeros(3))
    assert grad[0].isnan().all() and grad[1].tolist() == [0.0, 0.0, 0.0]
    _, grad = _gradients(F.nll_loss, scores, target, torch.zeros(3))
    assert grad[0].isnan().tolist() == [True, False, False] and grad[1].tolist() == [0.0, 0.0, 0.0]


def test_an_infinite_score_counts_unless_its_element_is_ignored():
    scores = torch.tensor([[math.inf, 2.0], [math.inf, 2.0]])
    loss = F.nll_loss(scores, torch.tensor([0, IGNORED]), torch.tensor([0.0, 1.0]), reduction="none")
    assert loss.isnan().tolist() == [True, False] and loss[1].item() == 0


def test_label_smoothing_of_an_infinite_score_spoils_its_own_row_only():
    scores = torch.tensor([[math.inf, 2.0], [1.0, 2.0]])
    _, grad = _gradients(F.cross_entropy, scores, torch.tensor([0, 1]), label_smoothing=0.2)
    assert grad[0].isnan().all() and grad[1].tolist() == pytest.approx([0.08447071, -0.08447071], rel=1e-5)


def test_second_derivative_of_an_ignored_element_is_zero():
    scores = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(F.cross_entropy(scores, torch.full((2,), IGNORED)), scores, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), scores)
    assert torch.equal(second, torch.zeros(2, 3))


def test_per_sample_losses_that_ignore_their_target_have_gradients_of_zero():
    scores, target = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), torch.tensor([IGNORED, 2])

    def loss(row, own):
        return F.cross_entropy(row[None], own[None])

    grads = torch.func.vmap(torch.func.grad(loss))(scores + 2.0**22, target)
    assert grads[0].tolist() == [0.0, 0.0, 0.0]
    assert grads[1].tolist() == pytest.approx([0.66524094, 0.24472848, -0.90996945], rel=1e-5)


def test_the_mean_of_a_loss_without_classes_is_nan():
    made = torch.nn.functional.cross_entropy(torch.ones(5, 0), torch.ones(5, 0))
    assert made.isnan().item()
    assert torch.nn.functional.cross_entropy(torch.ones(5, 0), torch.ones(5, 0), reduction="sum").item() == 0


def test_packed_scalars_of_foreach_lie_contiguously_on_the_cpu():
    tensors = [torch.ones(2), torch.ones(2)]
    with pytest.raises(RuntimeError, match="Expected scalars to be contiguous"):
        torch._foreach_addcmul(tensors, tensors, tensors, torch.ones(4)[::2])
    with pytest.raises(RuntimeError, match="Expected scalars to be on CPU, got meta instead"):
        torch._foreach_addcmul(tensors, tensors, tensors, torch.ones(2, device="meta"))
