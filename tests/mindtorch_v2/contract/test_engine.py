"""The backward pass: options, errors, accumulation, depth, threads, and what it keeps alive."""

import gc
import threading
import warnings
import weakref
from collections.abc import Iterator

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._core.settled import settled
from mindtorch_v2._dispatch.keys import modes


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


# backward ------------------------------------------------------------------------------------------------------------


def test_a_gradient_that_is_not_there_leaves_the_leaf_alone() -> None:
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (Stop.apply(x) * y).sum().backward()
    assert x.grad is None and y.grad.tolist() == [1.0, 2.0]
    torch.linalg.vector_norm(x, 0).backward()  # which no element changes
    assert x.grad is None or not x.grad.any()


def test_a_gradient_has_the_strides_of_its_dense_leaf() -> None:
    for x in (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.ones(1, 4, 1, 6).transpose(1, 3)):
        x.requires_grad_()
        (x.contiguous() * 2).sum().backward()
        assert x.grad.stride() == x.stride()
    gaps = torch.ones(4, 6)[:, ::2].requires_grad_()
    (gaps.contiguous() * 2).sum().backward()
    assert gaps.grad.stride() == (3, 1)


@pytest.mark.parametrize("size", [3, 90])  # formulas compute small ones of arrays
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("multiply", [
    lambda a, b: a.mm(b), lambda a, b: a @ b, lambda a, b: torch.ones(b.shape[1]).addmm(a, b, alpha=3, beta=2),
    lambda a, b: torch.nn.functional.linear(a, b.t()),
    lambda a, b: torch.nn.functional.linear(a, b.t(), b[0].detach())])
def test_gradients_of_factors_lie_as_the_factors_do(multiply, turned, size) -> None:
    torch.manual_seed(0)
    factors = [torch.randn(size, size + 1, requires_grad=True), torch.randn(size + 1, size + 2, requires_grad=True)]
    given = [x.detach().t().contiguous().t() if turn else x.detach() for x, turn in zip(factors, turned, strict=True)]
    found = torch.autograd.grad(multiply(*[x.requires_grad_() for x in given]).tanh().sum(), given)
    expected = torch.autograd.grad(multiply(*factors).tanh().sum(), factors)
    for grad, like, other in zip(found, given, expected, strict=True):
        assert grad.stride() == like.stride() and torch.allclose(grad, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape, dims, use", [
    ((3, 4), 2, lambda x, w: x @ w.T), ((4, 3), 3, lambda x, w: x @ w), ((4, 3), 3, lambda x, w: x @ w.T.T),
    ((4, 3), 2, lambda x, w: torch.nn.functional.linear(x, w.t())), ((4, 3), 2, lambda x, w: (w.t() @ x.t()).t()),
    ((3, 4), 2, lambda x, w: torch.ones(3).addmm(x, w.t()))])
def test_a_leaf_takes_the_gradient_of_its_transpose_unless_somebody_else_holds_it(shape, dims, use) -> None:
    x = torch.arange(40.0).reshape(2, 5, 4)[: 1 if dims == 2 else 2]
    x = x[0] if dims == 2 else x
    w = torch.ones(shape, requires_grad=True)
    use(x, w).sum().backward()
    assert w.grad._version == 0 and w.grad.stride() == w.stride() and w.grad._base is None
    expected, w.grad, kept = w.grad.tolist(), None, []
    view = w.view(shape)
    view.register_hook(kept.append)
    use(x, view).sum().backward()
    w.grad.zero_()
    assert [grad.tolist() for grad in kept] == [expected]


def test_gradients_add_up_over_uses_and_passes() -> None:
    x = leaf(1.0, 2.0)
    (x * x + x).sum().backward()
    assert x.grad.tolist() == [3.0, 5.0]
    (2 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    assert not x.grad.requires_grad


def test_a_gradient_is_needed_for_more_than_a_number() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="^grad can be implicitly created only for scalar outputs$"):
        (x * 2).backward()
    (x * 2).backward(torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(RuntimeError) as caught:
        (x * 2).backward(torch.ones(3))
    assert str(caught.value).startswith(
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a"
    )


def test_what_needs_no_grad_has_no_backward() -> None:
    with pytest.raises(RuntimeError, match="^element 0 of tensors does not require grad and does not have a grad_fn$"):
        torch.ones(1).backward()


def test_a_leaf_may_be_the_root() -> None:
    x = leaf(3.0)
    x.backward()
    assert x.grad.tolist() == [1.0]


def test_a_second_pass_needs_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    assert str(caught.value) == (
        "Trying to backward through the graph a second time (or directly access saved tensors after they have "
        "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
        "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if"
        " you need to access saved tensors after calling backward."
    )


def test_what_saved_nothing_can_run_again() -> None:
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_inputs_limit_where_gradients_go() -> None:
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    y.sum().backward(inputs=[w], retain_graph=True)
    assert x.grad is None and w.grad.tolist() == [2.0]
    y.sum().backward(inputs=x)
    assert x.grad.tolist() == [3.0] and w.grad.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_several_roots() -> None:
    x = leaf(2.0)
    torch.autograd.backward([x * 2, x * x], [torch.ones(1), torch.ones(1)])
    assert x.grad.tolist() == [6.0]
    with pytest.raises(RuntimeError):
        torch.autograd.backward([x * 2, x * x], [torch.ones(1)])


def test_a_root_that_is_also_inside() -> None:
    x = leaf(2.0)
    y = x * x
    z = y * 3
    torch.autograd.backward([z.sum(), y.sum()])
    assert x.grad.tolist() == [16.0]


def test_broadcasting_is_undone() -> None:
    x, b, s = torch.ones(2, 3, requires_grad=True), leaf(1.0, 2.0, 3.0), torch.tensor(2.0, requires_grad=True)
    ((x + b) * s).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    assert b.grad.tolist() == [4.0] * 3
    assert s.grad.item() == 18.0


def test_gradients_take_the_type_of_the_tensor() -> None:
    x, w = leaf(2.0), torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    (x * w).sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (torch.float32, torch.float64)


def test_gradients_of_diamonds_run_each_node_once() -> None:
    x = leaf(1.5)
    y, calls = x * 2, []
    y.register_hook(lambda grad: calls.append(grad.item()))
    (y * y + y * 3 + y.exp() * 0).sum().backward()
    assert calls == [9.0]
    assert x.grad.tolist() == [18.0]


# grad ----------------------------------------------------------------------------------------------------------------


def test_grad_returns_and_does_not_accumulate() -> None:
    x, w = leaf(2.0), leaf(3.0)
    y = (x * w).sum()
    assert [g.tolist() for g in torch.autograd.grad(y, (x, w))] == [[3.0], [2.0]]
    assert x.grad is None and w.grad is None
    assert torch.autograd.grad((x * x).sum(), x)[0].tolist() == [4.0]


def test_grad_of_unused_inputs() -> None:
    x, w = leaf(2.0), leaf(3.0)
    with pytest.raises(
        RuntimeError, match="^The differentiated Tensor at index 1 appears to not have been used in the graph"
    ):
        torch.autograd.grad((x * 2).sum(), (x, w))
    assert torch.autograd.grad((x * 2).sum(), (x, w), allow_unused=True)[1] is None
    assert torch.autograd.grad((x * 2).sum(), (x, w), materialize_grads=True)[1].tolist() == [0.0]
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        torch.autograd.grad((x * 2).sum(), torch.ones(1))


def test_grad_wants_inputs() -> None:
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty."):
        torch.autograd.grad(leaf(1.0).sum(), [])


def test_grad_with_respect_to_intermediates() -> None:
    x = leaf(2.0)
    y = x * 3
    z = y * y
    gy, gz, gx = torch.autograd.grad(z.sum(), (y, z, x))
    assert (gy.tolist(), gz.tolist(), gx.tolist()) == ([12.0], [1.0], [36.0])


def test_grad_outputs_of_several_roots() -> None:
    x = leaf(1.0, 2.0)
    (g,) = torch.autograd.grad([x * 2, x * x], x, [torch.tensor([1.0, 1.0]), torch.tensor([10.0, 100.0])])
    assert g.tolist() == [22.0, 402.0]
    (g,) = torch.autograd.grad([x.sum(), (x * x).sum()], x, [None, torch.tensor(2.0)])
    assert g.tolist() == [5.0, 9.0]


def test_is_grads_batched() -> None:
    x = leaf(1.0, 2.0)
    (rows,) = torch.autograd.grad(x * x, x, torch.eye(2), is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_create_graph_to_the_third_order() -> None:
    x = leaf(2.0)
    y = (x**4).sum()
    expected = [32.0, 48.0, 48.0, 24.0]
    for value in expected:
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.requires_grad
        assert y.tolist() == [value]
        y = y.sum()


def test_create_graph_of_backward_gives_a_differentiable_grad() -> None:
    x = leaf(3.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.tolist() == [27.0] and x.grad.requires_grad
    grad, x.grad = x.grad, None
    grad.sum().backward()
    assert x.grad.tolist() == [18.0]


def test_only_the_nodes_that_lead_to_the_inputs_run() -> None:
    x, w = leaf(2.0), leaf(3.0)
    y, calls = w * 2, []
    y.register_hook(lambda grad: calls.append("w"))
    torch.autograd.grad((x * y).sum(), x)
    assert calls == []


def test_the_graph_can_be_walked() -> None:
    x = leaf(1.0)
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    ((mul, nr),) = y.grad_fn.next_functions
    assert (mul.name(), nr) == ("MulBackward0", 0)
    accumulate = mul.next_functions[0][0]
    assert accumulate.name().endswith("AccumulateGrad")
    assert accumulate.variable is x
    assert mul.next_functions[1] == (None, 0)
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert x.grad_fn is None and x.is_leaf and not y.is_leaf and y.output_nr == 0


# accumulation --------------------------------------------------------------------------------------------------------


def test_gradients_never_alias() -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).backward(torch.ones(2))
    assert a.grad.data_ptr() != b.grad.data_ptr()
    a.grad.zero_()
    assert b.grad.tolist() == [1.0, 1.0]


def test_a_gradient_is_no_alias_of_the_one_given() -> None:
    for use in (lambda t: t * 1, lambda t: t + 0, lambda t: t.clone(), lambda t: t):
        x, given = leaf(1.0, 2.0), torch.ones(2)
        use(x).backward(given)
        x.grad.add_(5)
        assert given.tolist() == [1.0, 1.0]


def test_a_hook_that_keeps_a_gradient_keeps_its_value() -> None:
    x, kept = leaf(1.0, 2.0), []
    y = x * 2
    y.register_hook(kept.append)
    (y + 1).sum().backward()
    (x * 5).sum().backward()
    assert kept[0].tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [7.0, 7.0]


def test_accumulation_is_in_place_without_create_graph() -> None:
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first and first.tolist() == [5.0, 5.0]


def test_an_expanded_gradient_becomes_dense() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    x.sum().backward()
    assert x.grad.stride() == (3, 1)
    y = torch.ones(3, 2).t().requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.stride() == (1, 2)


def test_assigned_gradients_are_checked() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError, match="assigned grad has data of a different size|attempting to assign a gradient of size"
    ):
        x.grad = torch.ones(3)
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(2, dtype=torch.float64)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type"):
        x.grad = 1.0
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x
    x.grad = torch.ones(2)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_reading_grad_of_an_intermediate_warns() -> None:
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"):
        assert y.grad is None


# depth, memory, threads ----------------------------------------------------------------------------------------------


def test_a_chain_of_100000_operations() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y


def test_a_deep_graph_that_was_never_run_is_freed() -> None:
    y = leaf(1.0)
    for _ in range(100_000):
        y = y * 2
    del y


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the collector of cycles, memory is freed by the last reference alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_dropping_the_result_frees_the_graph(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    middle = x * 2
    ref = weakref.ref(middle)
    y = (middle * middle).exp().sum()
    del middle
    assert ref() is not None
    del y
    assert ref() is None


def test_backward_frees_what_was_saved_while_the_result_lives(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    middle = x * 2
    ref = weakref.ref(middle)
    y = (middle * middle).sum()
    del middle
    y.backward()
    assert ref() is None
    assert y.item() == 20.0


def test_a_saved_output_makes_no_cycle(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    for function in (torch.exp, torch.sigmoid, torch.tanh, torch.sqrt, lambda t: torch.softmax(t, 0)):
        y = function(x)
        refs = [weakref.ref(y), weakref.ref(y.untyped_storage())]
        del y
        assert [ref() for ref in refs] == [None, None]


def test_writes_views_and_hooks_make_no_cycle(no_collector: None) -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    view = base[1:]
    view.mul_(3)
    base.exp_()
    base.register_hook(lambda grad: grad * 2)
    base.retain_grad()
    refs = [weakref.ref(base), weakref.ref(view)]
    loss = (base.sum() + view.sum()) * 2
    loss.backward()
    del base, view, loss
    assert [ref() for ref in refs] == [None, None]


def test_a_failed_backward_keeps_nothing(no_collector: None) -> None:
    x, y = leaf(1.0), torch.ones(1)
    z = x * y
    ref = weakref.ref(z)
    y.add_(1)
    with pytest.raises(RuntimeError):
        z.sum().backward()
    del z
    assert ref() is None


def test_dropped_gradients_are_freed(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    ref = weakref.ref(x.grad)
    x.grad = None
    assert ref() is None


def train(seed: int, steps: int = 60) -> list[float]:
    """The losses of a tiny regression, which depend on nothing but the seed."""
    w = torch.tensor([[0.1 * seed, -0.2], [0.3, 0.05 * seed]], requires_grad=True)
    x = torch.tensor([[1.0, 2.0], [3.0, float(seed)], [0.5, -1.0]])
    losses = []
    for step in range(steps):
        loss = ((torch.tanh(x @ w) - 0.5) ** 2).mean()
        w.grad = None
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        if step % 7 == seed % 7:
            assert torch.is_grad_enabled()
        losses.append(loss.item())
    return losses


@settled()
def test_threads_train_independently() -> None:
    expected = {seed: train(seed) for seed in (1, 2)}
    got: dict[int, list[float]] = {}
    threads = [threading.Thread(target=lambda s=seed: got.update({s: train(s)})) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected


def test_threads_may_share_a_leaf() -> None:
    x = leaf(1.0, 2.0)

    def work() -> None:
        for _ in range(50):
            with torch.no_grad():
                x * 2
            torch.autograd.grad((x * x).sum(), x)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_backward_inside_backward() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                (result,) = torch.autograd.grad((inner * 2).sum(), inner)
            return grad * result

    x = leaf(1.0, 2.0)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_invalid_gradient_shape_is_reported() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(3)

    with pytest.raises(RuntimeError) as caught:
        Wrong.apply(leaf(1.0, 2.0)).sum().backward()
    assert str(caught.value) == (
        "Function WrongBackward returned an invalid gradient at index 0 - got [3] "
        "but expected shape compatible with [2]"
    )


def test_adding_to_a_gradient_that_lies_otherwise_than_its_leaf_warns() -> None:
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else it comes once in a process
    try:
        for layout, warns in ((torch.ones(2, 3), 0), (torch.ones(3, 2).t(), 1)):
            x = torch.ones(2, 3, requires_grad=True)
            x.grad = layout
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x.sum().backward()
            assert ["layout contract" in str(w.message) for w in caught] == [True] * warns
            assert x.grad.tolist() == [[2.0] * 3] * 2
    finally:
        torch.set_warn_always(before)


@pytest.mark.parametrize("choose", [
    lambda x: x.sort(0).values, lambda x: x.topk(1, 0).values, lambda x: x.cummax(0).values, lambda x: x.max(0).values])
@pytest.mark.parametrize("shape", [(3,), ()])
def test_the_gradient_of_chosen_elements_is_written_into_new_memory(choose, shape) -> None:
    x = torch.ones(shape, requires_grad=True)
    (grad,) = torch.autograd.grad(choose(x).sum(), x)
    assert not grad._is_view() and grad._version == 2


@pytest.mark.parametrize("use", [lambda x, c: x * c, lambda x, c: c * x, lambda x, c: torch.addcmul(c, x, c),
                                 lambda x, c: torch.where(c > 0, x, c), lambda x, c: torch.stack((c, x, c))])
def test_a_gradient_passes_nodes_whose_other_inputs_need_none(use) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    use(x.exp(), torch.tensor([1.0, 3.0])).sum().backward()
    assert torch.allclose(x.grad, torch.autograd.grad(use(x.exp(), torch.tensor([1.0, 3.0])).sum(), x)[0])
    assert (x.grad > 0).all()


_FORMULAS = {
    "clamp": lambda x, y: x.clamp(y, -y), "fmax": torch.fmax, "maximum": torch.maximum, "clip": lambda x, y: x.clip(-1),
    "pow": lambda x, y: x.abs() ** y, "copysign": torch.copysign, "xlogy": lambda x, y: x.xlogy(y.abs()),
    "atan2": torch.atan2, "elu": lambda x, y: torch.nn.functional.elu(x, 0.7), "std": lambda x, y: x.std(1),
    "var_mean": lambda x, y: sum(torch.var_mean(x, (0, 2), keepdim=True)), "norm": lambda x, y: x.norm(3, (0, 1)),
    "amax": lambda x, y: x.amax((0, 2)), "sort": lambda x, y: x.sort(1).values, "cummax": lambda x, y: x.cummax(1)[0],
    "huber": lambda x, y: torch.nn.functional.huber_loss(x, y), "logsumexp": lambda x, y: x.logsumexp((0, -1)),
    "reduced": lambda x, y: x.scatter_reduce(1, torch.tensor([[[0, 1], [0, 0], [2, 2]]]), y, "amax"),
    "as_strided": lambda x, y: x.as_strided((3, 3), (1, 2)), "polar": lambda x, y: torch.polar(x, y).real,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", _FORMULAS)
def test_formulas_give_the_same_recorded_and_unrecorded(name, dtype) -> None:
    """Nothing recorded, small arrays of the host need no operators; a pass that records itself does."""
    torch.manual_seed(0)
    if name == "polar":  # complex numbers have no parts in bfloat16
        dtype = torch.float32
    x, y = (torch.randn(2, 3, 2, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(2))
    made = _FORMULAS[name](x, y)
    weight = torch.linspace(0.5, 1.5, made.numel()).reshape(made.shape).to(made.dtype)
    plain = torch.autograd.grad(made, (x, y), weight, retain_graph=True, allow_unused=True)
    recorded = torch.autograd.grad(made, (x, y), weight, create_graph=True, allow_unused=True)
    for one, other in zip(plain, recorded, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype is other.dtype is dtype and one.shape == x.shape
            torch.testing.assert_close(one, other.detach())


def test_an_interrupt_as_a_backward_pass_begins_leaves_the_modes_as_they_were(monkeypatch):
    class Interrupting:
        def watch(self, task):
            raise KeyboardInterrupt

    loss = torch.ones(3, requires_grad=True).exp().sum()
    with monkeypatch.context() as patched:
        patched.setitem(modes.__dict__, "recorder", Interrupting())
        with pytest.raises(KeyboardInterrupt):
            loss.backward()
    assert torch.is_grad_enabled() and modes.__dict__.get("backward_pass") is None
