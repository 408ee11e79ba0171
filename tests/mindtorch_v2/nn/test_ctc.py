"""The CTC loss is the sum over all alignments, and its gradient the derivative through log_softmax."""

import itertools

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn.functional import ctc_loss


def collapsed(path, blank):
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def enumerated(log_probs, target, blank):
    """-log of the sum of the probabilities of all paths that collapse to the target."""
    steps, classes = log_probs.shape
    total = sum(np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
                for path in itertools.product(range(classes), repeat=steps) if collapsed(path, blank) == tuple(target))
    return -np.log(total) if total else np.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_sum_over_all_alignments(blank):
    torch.manual_seed(1)
    log_probs = torch.randn(5, 4, 3, dtype=torch.float64).log_softmax(2)
    one, two = [label for label in range(3) if label != blank]
    targets, steps = [[one, one], [two], [], [one, two, one]], [5, 3, 4, 2]
    padded = torch.tensor([[*target, *[one] * (3 - len(target))] for target in targets])
    lengths = [len(target) for target in targets]
    found = ctc_loss(log_probs, padded, steps, lengths, blank, "none")
    expected = [enumerated(log_probs[:count, i].numpy(), target, blank)
                for i, (target, count) in enumerate(zip(targets, steps, strict=True))]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    joined = torch.tensor([label for target in targets for label in target])
    assert torch.equal(ctc_loss(log_probs, joined, torch.tensor(steps), torch.tensor(lengths), blank, "none"), found)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gradient_through_log_softmax(reduction):
    torch.manual_seed(2)
    scores = torch.randn(5, 2, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 1, 3], [2, 3, 0]])
    assert torch.autograd.gradcheck(
        lambda scores: ctc_loss(scores.log_softmax(2), targets, (5, 4), (3, 2), 0, reduction), (scores,))


def test_impossible_targets():
    scores = torch.zeros(2, 1, 3, requires_grad=True)
    target = torch.tensor([[1, 1]])
    assert ctc_loss(scores.log_softmax(2), target, (2,), (2,)).item() == float("inf")
    ctc_loss(scores.log_softmax(2), target, (2,), (2,), zero_infinity=True).backward()
    assert scores.grad.abs().sum().item() == 0


def test_second_derivative_is_refused():
    scores = torch.zeros(3, 1, 3, requires_grad=True)
    loss = ctc_loss(scores.log_softmax(2), torch.tensor([[1]]), (3,), (1,))
    (first,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        torch.autograd.grad(first.sum(), scores)
