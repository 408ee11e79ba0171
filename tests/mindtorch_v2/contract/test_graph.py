"""torch.autograd.graph and torch.autograd.functional: edges, hooks over several tensors, Jacobians."""

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import functional, graph


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


# graph ---------------------------------------------------------------------------------------------------------------


def test_gradient_edges_stand_for_tensors() -> None:
    x = leaf(2.0)
    y = x * 3
    z = (y * y).sum()
    edge = graph.get_gradient_edge(y)
    assert (edge.node, edge.output_nr) == (y.grad_fn, 0)
    assert torch.autograd.grad(z, edge, retain_graph=True)[0].tolist() == [12.0]
    assert torch.autograd.grad(graph.get_gradient_edge(z), x, torch.tensor(1.0))[0].tolist() == [36.0]
    assert graph.get_gradient_edge(x).node.variable is x
    with pytest.raises(
        RuntimeError, match="It is not possible to get the gradient edge for a Tensor that does not require gradients"
    ):
        graph.get_gradient_edge(torch.ones(1))


def test_a_multi_grad_hook_waits_for_all() -> None:
    a, b, unused = leaf(1.0), leaf(2.0), leaf(3.0)
    seen = []
    handle = graph.register_multi_grad_hook(
        (a, b, unused), lambda grads: seen.append([None if g is None else g.item() for g in grads])
    )
    (a * b).sum().backward()
    assert seen == [[2.0, 1.0, None]]
    (a * 5).sum().backward()
    assert seen[1:] == [[5.0, None, None]]
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 2


def test_a_multi_grad_hook_for_any_runs_once_a_pass() -> None:
    a, b = leaf(1.0), leaf(2.0)
    seen = []
    graph.register_multi_grad_hook((a, b), lambda grad: seen.append(grad.item()), mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_increment_version() -> None:
    x, y = leaf(1.0), torch.ones(1)
    z = x * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        z.sum().backward()


def test_saved_tensors_hooks_can_be_forbidden() -> None:
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"), hooks:
        leaf(1.0).exp()


def test_a_pack_hook_must_not_write() -> None:
    hooks = graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t)
    with pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"), hooks:
        torch.ones(1) * leaf(1.0)


def test_saved_tensors_hooks_see_custom_functions() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x, packed = leaf(3.0), []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, lambda i: packed[i] * 10):
        y = Square.apply(x)
    y.sum().backward()
    assert len(packed) == 1
    assert x.grad.tolist() == [60.0]


def test_a_node_has_metadata_of_its_own() -> None:
    y = leaf(1.0) * 2
    y.grad_fn.metadata["key"] = "value"
    assert y.grad_fn.metadata == {"key": "value"}
    assert isinstance(y.grad_fn, graph.Node)


def test_nodes_know_their_order() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 2
    assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()


# functional ----------------------------------------------------------------------------------------------------------


def test_jacobian() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert functional.jacobian(lambda t: t * t, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    first, second = functional.jacobian(lambda a, b: a * b, (x, y))
    assert (first.tolist(), second.tolist()) == ([[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]])
    matrix = functional.jacobian(lambda t: torch.stack([t.sum(), (t * t).sum()]), x)
    assert matrix.tolist() == [[1.0, 1.0], [2.0, 4.0]]
    assert functional.jacobian(lambda t: t * t, x, vectorize=True).tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_hessian() -> None:
    x = torch.tensor([1.0, 2.0])
    assert functional.hessian(lambda t: (t**3).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    blocks = functional.hessian(lambda a, b: (a * b).sum(), (x, x))
    assert blocks[0][1].tolist() == [[1.0, 0.0], [0.0, 1.0]] and blocks[0][0].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_products_with_jacobians() -> None:
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 100.0])
    value, product = functional.vjp(lambda t: t**2, x, v)
    assert (value.tolist(), product.tolist()) == ([1.0, 4.0], [20.0, 400.0])
    value, product = functional.jvp(lambda t: t**2, x, v)
    assert (value.tolist(), product.tolist()) == ([1.0, 4.0], [20.0, 400.0])
    assert functional.vhp(lambda t: (t**3).sum(), x, v)[1].tolist() == [60.0, 1200.0]
    assert functional.hvp(lambda t: (t**3).sum(), x, v)[1].tolist() == [60.0, 1200.0]


def test_results_are_detached_unless_the_graph_is_wanted() -> None:
    x = leaf(1.0, 2.0)
    assert not functional.jacobian(lambda t: t**3, x).requires_grad
    made = functional.jacobian(lambda t: t**3, x, create_graph=True)
    assert made.requires_grad
    made.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_strict_refuses_what_does_not_depend() -> None:
    with pytest.raises(RuntimeError):
        functional.jacobian(lambda t: torch.ones(2), torch.ones(2), strict=True)
    assert functional.jacobian(lambda t: torch.ones(2), torch.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


# gradcheck -----------------------------------------------------------------------------------------------------------


def test_gradcheck_of_complex_and_several_inputs() -> None:
    z = torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)
    w = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: a * a * b, (z, w))
    assert torch.autograd.gradcheck(lambda a: a.abs(), (z,))
    assert torch.autograd.gradgradcheck(lambda a, b: a * b, (z, w))


def test_gradcheck_wants_an_input_that_requires_grad() -> None:
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        torch.autograd.gradcheck(lambda t: t * 2, (torch.ones(1, dtype=torch.float64),))


def test_gradcheck_in_fast_mode() -> None:
    x = torch.tensor([[0.3, 0.7]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: t.exp() @ t.t(), (x,), fast_mode=True)
