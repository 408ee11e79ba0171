"""Histograms, segments, numerical gradients and binomial numbers."""

import numpy as np
import pytest

import mindtorch_v2 as torch

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("density", [False, True])
def test_histogram_is_numpys(density: bool) -> None:
    x, weight = RNG.standard_normal(200), RNG.random(200)
    for options in ({}, {"range": (-1.0, 1.5)}):
        made = torch.histogram(torch.tensor(x), 7, weight=torch.tensor(weight), density=density, **options)
        counts, edges = np.histogram(x, 7, weights=weight, density=density, **options)
        np.testing.assert_allclose(made.hist.numpy(), counts)
        np.testing.assert_allclose(made.bin_edges.numpy(), edges)


def test_histogramdd_is_numpys() -> None:
    x = RNG.standard_normal((100, 3))
    made = torch.histogramdd(torch.tensor(x), [2, 3, 4])
    counts, edges = np.histogramdd(x, [2, 3, 4])
    np.testing.assert_array_equal(made.hist.numpy(), counts)
    for got, wanted in zip(made.bin_edges, edges, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted)
    again = torch.histogramdd(torch.tensor(x), made.bin_edges)
    np.testing.assert_array_equal(again.hist.numpy(), counts)
    assert type(made).__module__ == "torch.return_types"


@pytest.mark.parametrize("call, text", [
    (lambda x: torch.histogramdd(x, [2]), "input tensor should have at least 2 dimensions"),
    (lambda x: torch.histogramdd(x.reshape(-1, 2), [2]), "size of bins must be equal to the innermost dimension"),
    (lambda x: torch.histogram(x, 4, range=(3.0, 1.0)), "min should not exceed max, but got min 3 max 1"),
    (lambda x: torch.histogram(x, torch.tensor([0, 1])), "same dtype, but got input with dtype float and bins"),
    (lambda x: torch.histogram(x, 4, weight=torch.ones(3)), "same shape as the input tensor excluding its innermost")])
def test_histograms_refuse(call, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(torch.arange(6.0))


def test_gradient_is_numpys() -> None:
    y, at = RNG.standard_normal((5, 6)), np.array([0.0, 1.0, 2.5, 3.0, 7.0])
    for order in (1, 2):
        for got, wanted in zip(torch.gradient(torch.tensor(y), spacing=0.5, edge_order=order),
                               np.gradient(y, 0.5, edge_order=order), strict=True):  # fmt: skip
            np.testing.assert_allclose(got.numpy(), wanted)
        (made,) = torch.gradient(torch.tensor(y), spacing=[torch.tensor(at)], dim=0, edge_order=order)
        np.testing.assert_allclose(made.numpy(), np.gradient(y, at, axis=0, edge_order=order))


def test_segments() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    lengths = torch.tensor([2, 0, 3])
    for reduce, wanted in (("sum", [3, 0, 12]), ("max", [2, -np.inf, 5]), ("mean", [1.5, np.nan, 4]),
                           ("prod", [2, 1, 60]), ("min", [1, np.inf, 3])):  # fmt: skip
        np.testing.assert_array_equal(torch.segment_reduce(x, reduce, lengths=lengths).detach().numpy(), wanted)
    (grad,) = torch.autograd.grad(torch.segment_reduce(x, "max", lengths=lengths, initial=3.0).sum(), x)
    assert grad.tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum to"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 1]))


def test_binomial_draws_what_pytorch_draws() -> None:
    torch.manual_seed(3)  # the answers are PyTorch 2.13's
    counts = torch.tensor([10.0, 5.0, 100.0, 1000.0, 50.0, 30.0])
    drawn = torch.binomial(counts, torch.tensor([0.3, 0.9, 0.3, 0.7, 0.5, 0.02]))
    assert drawn.tolist() == [1.0, 4.0, 34.0, 714.0, 24.0, 0.0]
