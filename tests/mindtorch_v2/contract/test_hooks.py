"""Hooks on tensors, nodes and saved tensors; retain_grad; anomaly detection."""

import warnings

import pytest

import mindtorch_v2 as torch


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


# tensors -------------------------------------------------------------------------------------------------------------


def test_a_tensor_hook_sees_and_replaces_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    y, seen = x * 3, []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.register_hook(lambda grad: grad * 10)
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    (y * 2).sum().backward()
    assert seen == [[2.0, 2.0], [20.0, 20.0]]
    assert x.grad.tolist() == [60.0, 60.0]


def test_a_leaf_hook_runs_before_accumulation() -> None:
    x = leaf(1.0)
    handle = x.register_hook(lambda grad: grad + 1)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0]
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0]


def test_a_hook_runs_once_on_the_whole_sum() -> None:
    x, seen = leaf(1.0), []
    x.register_hook(lambda grad: seen.append(grad.item()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [5.0]


def test_a_hook_serves_grad_too() -> None:
    x = leaf(1.0)
    x.register_hook(lambda grad: grad * 2)
    assert torch.autograd.grad((x * 3).sum(), x)[0].tolist() == [6.0]


def test_handles_are_context_managers() -> None:
    x = leaf(1.0)
    with x.register_hook(lambda grad: grad * 5):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_hooks_need_a_tensor_that_requires_grad() -> None:
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)


def test_a_post_accumulate_hook_sees_the_sum() -> None:
    x, seen = leaf(1.0), []

    def hook(tensor: torch.Tensor) -> None:
        seen.append(tensor.grad.item())
        tensor.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [2.0, 3.0] and x.grad is None
    handle.remove()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_post_accumulate_hooks_do_not_run_for_grad() -> None:
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(1))
    torch.autograd.grad((x * 2).sum(), x)
    assert seen == []


def test_hooks_of_one_tensor_run_in_order_with_retain_grad_last() -> None:
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0]


def test_a_hook_under_create_graph_is_differentiated() -> None:
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda grad: grad * x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [18.0]
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [12.0]


# retain_grad ---------------------------------------------------------------------------------------------------------


def test_retain_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match=r"can't retain_grad on Tensor that has requires_grad=False"):
        torch.ones(1).retain_grad()


def test_retained_grads_add_up() -> None:
    y = leaf(1.0) * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert y.grad.tolist() == [2.0]


# nodes ---------------------------------------------------------------------------------------------------------------


def test_node_hooks_see_both_sides() -> None:
    x = leaf(1.0, 2.0)
    y, seen = x * 3, []
    y.grad_fn.register_prehook(lambda grad_outputs: seen.append(("pre", grad_outputs[0].tolist())))
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: seen.append(
        ("post", grad_inputs[0].tolist(), grad_outputs[0].tolist())))  # fmt: skip
    y.sum().backward()
    assert seen == [("pre", [1.0, 1.0]), ("post", [3.0, 3.0], [1.0, 1.0])]


def test_node_hooks_replace_gradients() -> None:
    x = leaf(1.0)
    y = x * 3
    pre = y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 10,))
    post = y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0] + 1, *grad_inputs[1:]))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [31.0]
    pre.remove()
    post.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_hooks_on_the_accumulator() -> None:
    x, seen = leaf(1.0), []
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    accumulator.register_hook(
        lambda grad_inputs, grad_outputs: seen.append((len(grad_inputs), grad_outputs[0].tolist(), x.grad.tolist()))
    )
    (x * 5).sum().backward()
    assert seen == [(0, [5.0], [5.0])]


def test_tensor_hooks_run_before_node_prehooks() -> None:
    x, order = leaf(1.0), []
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: order.append("node"))
    y.register_hook(lambda grad: order.append("tensor"))
    y.sum().backward()
    assert order == ["tensor", "node"]


# saved tensors -------------------------------------------------------------------------------------------------------


def test_saved_tensors_hooks_pack_and_unpack() -> None:
    x = leaf(2.0, 3.0)
    packed, unpacked = [], []

    def pack(tensor: torch.Tensor) -> int:
        packed.append(tensor.detach().clone())
        return len(packed) - 1

    def unpack(at: int) -> torch.Tensor:
        unpacked.append(at)
        return packed[at]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
        z = y.exp()
    assert [t.tolist() for t in packed[:2]] == [[2.0, 3.0], [2.0, 3.0]] and len(packed) == 3
    assert unpacked == []
    z.sum().backward()
    assert sorted(unpacked) == [0, 1, 2]
    assert x.grad.tolist() == pytest.approx([4 * 54.598150, 6 * 8103.0839], rel=1e-4)


def test_the_innermost_saved_tensors_hooks_serve() -> None:
    x, seen = leaf(2.0), []
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_what_is_unpacked_may_be_changed() -> None:
    x = leaf(2.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = x * torch.tensor([3.0])
    y.sum().backward()
    assert x.grad.tolist() == [30.0]


def test_save_on_cpu() -> None:
    x = leaf(2.0)
    with torch.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([4 * 54.598150], rel=1e-5)


def test_saved_values_can_be_looked_at_until_they_are_freed() -> None:
    x = leaf(2.0)
    y = x * x
    assert y.grad_fn._saved_self is x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn._saved_self


# anomalies -----------------------------------------------------------------------------------------------------------


def test_detect_anomaly_shows_the_forward_call() -> None:
    x = leaf(0.0)
    with (
        warnings.catch_warnings(record=True) as caught,
        pytest.raises(RuntimeError, match="Function 'DivBackward0' returned nan values in its 1th output"),
    ):
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            y = (x * 0) / (x * 0)
            y.sum().backward()
    texts = [str(w.message) for w in caught]
    assert any("Anomaly Detection has been enabled" in text for text in texts)
    assert any("Error detected in DivBackward0. Traceback of forward call that caused the error" in text
               and "test_hooks.py" in text for text in texts)  # fmt: skip


def test_set_detect_anomaly_is_a_switch_and_a_context() -> None:
    x = leaf(0.0)
    with torch.autograd.set_detect_anomaly(False):
        ((x * 0) / (x * 0)).sum().backward()
    assert x.grad.isnan().all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            ((x * 0) / (x * 0)).sum().backward()
    assert not torch.is_anomaly_enabled()


def test_a_modified_tensor_under_detect_anomaly_names_its_writer() -> None:
    x = leaf(1.0)
    with (
        warnings.catch_warnings(record=True) as caught,
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
    ):
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            y = x.exp()
            y.add_(1)
            y.sum().backward()
    assert any("Error detected in ExpBackward0" in str(w.message) for w in caught)


# what hooks return ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hook", "kind", "text"), [
    (lambda grad: "text", TypeError, "expected Variable, but hook returned 'str'"),
    (lambda grad: torch.ones(3), RuntimeError, "hook '<lambda>' has changed the size of value"),
    (lambda grad: grad.double(), RuntimeError, "changed the type of value .was torch.FloatTensor got torch.Double"),
])  # fmt: skip
@pytest.mark.parametrize("of_leaf", [True, False])
def test_a_tensor_hook_returns_a_gradient_or_nothing(hook, kind: type, text: str, of_leaf: bool) -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    (x if of_leaf else y).register_hook(hook)
    with pytest.raises(kind, match=text):
        y.sum().backward()


def test_node_hooks_return_tuples_of_the_right_length() -> None:
    def run(register: str, hook) -> None:
        y = leaf(1.0) * 2
        getattr(y.grad_fn, register)(hook)
        y.sum().backward()

    with pytest.raises(TypeError, match="expected tuple, but hook returned 'Tensor'"):
        run("register_prehook", lambda grads: grads[0])
    with pytest.raises(
        RuntimeError, match=r"hook '<lambda>' has returned an incorrect number of values \(got 2, but expected 1\)"
    ):
        run("register_prehook", lambda grads: (grads[0], grads[0]))
    with pytest.raises(TypeError, match="expected tuple, but hook returned 'Tensor'"):
        run("register_hook", lambda inputs, outputs: inputs[0])
    with pytest.raises(
        RuntimeError, match=r"hook '<lambda>' has returned an incorrect number of values \(got 1, but expected 2\)"
    ):
        run("register_hook", lambda inputs, outputs: inputs[:1])


# order ---------------------------------------------------------------------------------------------------------------


def test_retained_gradients_are_taken_before_hooks_of_the_node() -> None:
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 7,))
    y.backward()
    assert y.grad is not None and x.grad is not None and (y.grad.tolist(), x.grad.tolist()) == ([10.0], [140.0])


def test_grad_gives_what_came_to_a_tensor_on_the_way() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    y.register_hook(lambda grad: grad * 10)
    of_both = torch.autograd.grad(z, (y, x), retain_graph=True)
    assert [grad.tolist() for grad in of_both] == [[3.0], [60.0]]
    assert torch.autograd.grad(z, y)[0].tolist() == [30.0]


ORDERS = {3: [0, 1, 2], 4: [0, 2, 1, 3], 6: [0, 2, 5, 4, 1, 3], 8: [0, 2, 6, 5, 7, 4, 1, 3]}


@pytest.mark.parametrize("count", ORDERS)
def test_leaves_come_in_the_order_of_a_binary_heap(count: int) -> None:
    calls: list[int] = []
    leaves = [leaf(float(i)) for i in range(count)]
    for i, tensor in enumerate(leaves):
        tensor.register_hook(lambda grad, i=i: calls.append(i))
    torch.stack(leaves).sum().backward()
    assert calls == ORDERS[count]


def test_the_bias_of_a_linear_layer_comes_before_its_weight() -> None:
    calls = []
    layer = torch.nn.Linear(3, 2)
    for name, parameter in layer.named_parameters():
        parameter.register_hook(lambda grad, name=name: calls.append(name))
    layer(torch.ones(4, 3)).sum().backward()
    assert calls == ["bias", "weight"]


def test_a_post_accumulate_hook_runs_before_those_of_the_accumulator_and_returns_nothing() -> None:
    calls = []
    x = leaf(1.0)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda grads, came: calls.append("node"))
    handle = x.register_post_accumulate_grad_hook(lambda tensor: calls.append("tensor"))
    y.backward(retain_graph=True)
    assert calls == ["tensor", "node"]
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda tensor: 3)
    with pytest.raises(RuntimeError, match="Tensor post accumulate grad hooks should return None."):
        y.backward()


class _Stops(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


def test_hooks_are_called_with_none_for_a_gradient_that_is_missing() -> None:
    seen: list[object] = []
    x = torch.ones(2, requires_grad=True)
    first, second = x.unbind()
    first.register_hook(lambda grad: seen.append(("unused", grad)))
    second.backward()
    inner, leaf = x * 2, torch.ones(2, requires_grad=True)
    inner.register_hook(lambda grad: seen.append(("inner", grad)))
    _Stops.apply(inner).sum().backward()
    leaf.register_hook(lambda grad: seen.append(("leaf", grad)))
    leaf.register_post_accumulate_grad_hook(lambda leaf: seen.append(("accumulated", leaf.grad)))
    accumulator = leaf.view_as(leaf).grad_fn.next_functions[0][0]
    accumulator.register_prehook(lambda grads: seen.append(("before", *grads)))
    accumulator.register_hook(lambda made, grads: seen.append(("after", *grads)))
    _Stops.apply(leaf).sum().backward()
    names = ["unused", "inner", "leaf", "before", "accumulated", "after"]
    assert seen == [(name, None) for name in names]
    assert leaf.grad is None


def test_a_missing_gradient_cannot_be_replaced() -> None:
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: torch.ones(2))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        _Stops.apply(leaf).sum().backward()


def test_a_multi_grad_hook_counts_outputs_without_a_gradient() -> None:
    first, second = torch.ones(2, 3, requires_grad=True).clone().split(1)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((first, second), seen.append)
    second.sum().backward()
    assert len(seen) == 1
    assert seen[0][0] is None
    assert seen[0][1].tolist() == [[1.0, 1.0, 1.0]]


def test_a_hook_behind_a_leaf_sees_what_the_one_before_it_wrote_to_grad():
    x = torch.zeros(3, requires_grad=True)
    accumulator = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_hook(lambda grad: grad.sub(2.0))
    accumulator.register_prehook(lambda grads: (grads[0].div(5.0),))
    x.register_post_accumulate_grad_hook(lambda leaf: (leaf.grad.add_(0.5), None)[1])

    def after(_, grads):
        x.grad = grads[0].mul(10)

    accumulator.register_hook(after)
    x.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 3.0))
