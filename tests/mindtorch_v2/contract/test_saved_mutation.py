"""Writes to tensors that a graph has saved, and views that are made again of other bases."""

import pytest

import mindtorch_v2 as torch


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def test_graphs_keep_what_tensors_were() -> None:
    x = leaf(1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as known:
        y = x.clone()
        part = y[:1]
        out = (y**2).sum()
        part.mul_(10)  # also through a view
        assert len(known.cloned) == 1
        out.backward()
    assert x.grad.tolist() == [2, 4]
    y = x.clone()
    out = (y**2).sum()
    y.mul_(10)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        out.backward()


def test_written_results_and_second_derivatives() -> None:
    x = leaf(0.5)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        out = (y**3).sum()
        torch.add(torch.zeros(1), 7, out=y.detach())
        (first,) = torch.autograd.grad(out, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [0.75] and second.tolist() == [3]


def test_backward_outside_is_refused() -> None:
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        out = (leaf(1.0) ** 2).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"):
            torch.autograd.graph.allow_mutation_on_saved_tensors().__enter__()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()


def test_views_of_other_bases() -> None:
    x = torch.tensor([[0.0, 1, 2], [3, 4, 5]])
    view = x.t()[1:]
    assert view._view_func(x + 10).tolist() == [[11, 14], [12, 15]]
    shown = view.detach()
    base = view._rev_view_func_unsafe(shown)
    assert base.tolist() == x.tolist() and base._base is shown


def test_switches_around_backward() -> None:
    assert torch.autograd.is_multithreading_enabled()
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    x = torch.zeros(2)
    with torch.autograd._unsafe_preserve_version_counter(x):
        x += 1
    assert x._version == 0


def test_an_output_that_was_saved_may_be_written() -> None:
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(0.0)
        y = x.exp()
        y.add_(1)
        y.sum().backward()
    assert x.grad.tolist() == [1.0]
