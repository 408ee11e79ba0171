"""torch.autograd.graph and torch.autograd.functional: edges, hooks over several tensors, Jacobians."""

import threading
from collections import OrderedDict

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


# what hooks on saved tensors see -------------------------------------------------------------------------------------


def test_unpacked_tensors_stand_where_the_saved_ones_stood() -> None:
    x = leaf(2.0, 3.0)
    with graph.saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda tensor: tensor):
        y = (x**3).sum()
        z = (x * 1).exp()
        chosen = torch.stack([x, x]).max(0).values
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    (slope**2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [288.0, 972.0]
    saved = y.grad_fn.next_functions[0][0]._saved_self
    assert saved.is_leaf and saved.requires_grad
    assert z.grad_fn._saved_result.grad_fn is z.grad_fn
    assert not chosen.grad_fn._saved_indices.requires_grad


def test_a_pack_hook_sees_the_saved_tensor_and_records_nothing() -> None:
    seen = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append((tensor.grad_fn is not None, tensor.dtype, (tensor * 2).requires_grad))
        return tensor

    x = leaf(1.0, 2.0)
    with graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        (x * 1).exp()[torch.tensor([0, 1])]
    assert seen == [(True, torch.float32, False), (False, torch.int64, False)]


def test_a_write_in_place_packs_what_was_there_before() -> None:
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor):
        y = x * 1
        y.mul_(y)
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [4.0]


def test_an_unpack_hook_must_give_a_tensor() -> None:
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: 3):
        y = x * x
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor but got result of"):
        y.backward()


# what is differentiated by ------------------------------------------------------------------------------------------


def test_inputs_may_come_from_a_generator_or_by_name() -> None:
    layer = torch.nn.Linear(2, 1)
    loss = layer(torch.ones(3, 2)).sum()
    weight, bias = torch.autograd.grad(loss, layer.parameters(), retain_graph=True)
    assert (weight.tolist(), bias.tolist()) == ([[3.0, 3.0]], [3.0])
    named = torch.autograd.grad(loss, dict(layer.named_parameters()), retain_graph=True)
    assert list(named) == ["weight", "bias"] and torch.equal(named["weight"], weight)
    torch.autograd.backward((t for t in [loss]), inputs={"b": layer.bias})
    assert layer.weight.grad is None and layer.bias.grad is not None and layer.bias.grad.tolist() == [3.0]
    with pytest.raises(TypeError, match="must be a dict, not OrderedDict. Other Mapping types are not supported"):
        torch.autograd.grad(loss, OrderedDict(layer.named_parameters()))
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad\\(\\)` cannot be empty"):
        torch.autograd.grad(loss, {})


def test_an_edge_tells_the_shape_of_its_gradient() -> None:
    x = leaf(2.0, 3.0)
    total = (x * x).sum()
    assert torch.autograd.grad(graph.get_gradient_edge(total), x, retain_graph=True)[0].tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        torch.autograd.grad(graph.get_gradient_edge(x * x), x)


def test_callbacks_are_called_when_the_pass_is_done() -> None:
    calls = []
    x = leaf(2.0)
    engine = torch.autograd.Variable._execution_engine
    (x * 1).register_hook(lambda grad: None)
    y = x * 2
    y.register_hook(lambda grad: engine.queue_callback(lambda: calls.append(x.grad)))
    y.backward()
    assert [grad.tolist() for grad in calls] == [[2.0]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass."):
        engine.queue_callback(lambda: None)


def test_variable_makes_leaves() -> None:
    data = torch.ones(2)
    x = torch.autograd.Variable(data, requires_grad=True)
    assert x.requires_grad and x.is_leaf and type(x) is torch.Tensor and x.data_ptr() == data.data_ptr()
    assert not torch.autograd.Variable(data).requires_grad and torch.autograd.Variable().shape == (0,)
    assert isinstance(data, torch.autograd.Variable) and not isinstance(3, torch.autograd.Variable)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        torch.autograd.Variable([1.0])
    with pytest.raises(TypeError, match="'foo' is an invalid keyword argument for this function"):
        torch.autograd.Variable(data, foo=1)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        torch.autograd.Variable(torch.ones(2, dtype=torch.int64), requires_grad=True)


def test_hooks_over_several_tensors_tell_passes_of_threads_apart() -> None:
    x, y = leaf(1.0), leaf(2.0)
    every: list[int] = []
    first: list[int] = []
    graph.register_multi_grad_hook((x, y), lambda grads: every.append(sum(g is not None for g in grads)))
    graph.register_multi_grad_hook((x, y), lambda grad: first.append(1), mode="any")

    def run() -> None:
        for _ in range(20):
            (x * y).sum().backward()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert every == [2] * 80 and len(first) == 80


STRICT = [
    ("functional.jvp(torch.clone, X, V, create_graph=True, strict=True)", "The jacobian .* is independent of input 0"),
    ("functional.hvp(lambda a, b: (a * a).sum(), (X, X), (V, V), strict=True)", "The output .* independent of input 1"),
    ("functional.vhp(lambda a: (3 * a).sum(), X, V, strict=True)", "found that the jacobian .* input 0 is independent"),
    ("functional.hvp(lambda a: (a * a).sum(), X, V, create_graph=True, strict=True)", "The hessian .* of input 0"),
]


@pytest.mark.parametrize("call, text", STRICT)
def test_strict_products_say_what_does_not_depend_on_what(call, text):
    names = {"functional": functional, "torch": torch, "X": torch.rand(4, requires_grad=True), "V": torch.rand(4)}
    with pytest.raises(RuntimeError, match=text):
        eval(call, names)
