"""torch.pipeline: operations are recorded, run together when something needs them, and give what eager mode gives."""

import contextlib
import itertools
import threading
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.pipeline import pipeline_context
from mindtorch_v2._pipeline.run import code_of


def pending(tensor: torch.Tensor) -> bool:
    assert tensor._pending in (True, False)
    return tensor._pending


def test_operations_wait_until_the_context_ends() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    with torch.pipeline():
        y = (x * 2).exp()
        z = y.sum()
        assert pending(y) and pending(z) and not pending(x)
    assert not pending(y) and not pending(z)
    assert z.item() == pytest.approx(7.389056 + 54.59815 + 403.42879, rel=1e-5)


def test_the_context_by_its_own_name() -> None:
    with pipeline_context() as pipe:
        y = torch.ones(2) + torch.ones(2)
        assert y._pending is True and len(pipe) > 0
    assert y._pending is False and torch.ones(2)._pending is False


def test_metadata_is_known_at_once() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with torch.pipeline():
        y = (x @ torch.ones(3, 4)).to(torch.float64)
        assert pending(y)
        assert (y.shape, y.dtype, y.device.type, y.dim(), y.numel()) == ((2, 4), torch.float64, "cpu", 2, 8)
        assert y.requires_grad and not y.is_leaf and y.stride() == (4, 1)
        assert pending(y)
    assert y.tolist() == [[3.0] * 4] * 2


def test_flush() -> None:
    x = torch.ones(2)
    with torch.pipeline() as pipe:
        y = x + 1
        assert pending(y)
        pipe.flush()
        assert not pending(y)
        z = y + 1
        assert pending(z)
    assert (y.tolist(), z.tolist()) == ([2.0, 2.0], [3.0, 3.0])


@pytest.mark.parametrize("read", [
    lambda t: t.tolist(), lambda t: t.numpy(), lambda t: t[0].item(), repr, lambda t: bool(t[0] > 0),
    lambda t: float(t[0]), lambda t: t.data_ptr(), lambda t: list(t.unbind())[0].item(),
])  # fmt: skip
def test_reading_data_flushes(read) -> None:
    with torch.pipeline():
        y = torch.ones(2) + 1
        assert pending(y)
        read(y)
        assert not pending(y)


def test_backward_flushes_and_gradients_are_right() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.pipeline():
        loss = (x * x).sum()
        assert pending(loss)
        loss.backward()
        assert x.grad.tolist() == [2.0, 4.0]
        (grad,) = torch.autograd.grad((x**3).sum(), x)
    assert grad.tolist() == [3.0, 12.0]


def test_backward_after_the_context() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.pipeline():
        loss = (x.exp() * x).sum()
    loss.backward()
    eager = torch.tensor([1.0, 2.0], requires_grad=True)
    (eager.exp() * eager).sum().backward()
    assert x.grad.tolist() == pytest.approx(eager.grad.tolist(), rel=1e-6)


def test_writes_happen_in_order() -> None:
    x = torch.tensor([1.0, 2.0])
    with torch.pipeline():
        y = x * 2
        x.add_(10)
        z = x * 2
        view = z[:1]
        view.zero_()
        w = z + 0
    assert (y.tolist(), z.tolist(), w.tolist(), x.tolist()) == ([2.0, 4.0], [0.0, 24.0], [0.0, 24.0], [11.0, 12.0])


def test_nothing_is_pending_outside() -> None:
    assert not pending(torch.ones(1) + 1)
    with torch.pipeline():
        pass
    assert not pending(torch.ones(1) + 1)


def test_contexts_nest() -> None:
    x = torch.ones(1)
    with torch.pipeline():
        y = x + 1
        with torch.pipeline():
            z = y + 1
        assert z.tolist() == [3.0]
        w = z + 1
    assert w.tolist() == [4.0]


def test_an_argument_error_is_raised_where_it_is_made() -> None:
    with torch.pipeline():
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            torch.ones(2) + torch.ones(3)
        y = torch.ones(2) + 1
    assert y.tolist() == [2.0, 2.0]


def test_an_error_at_flush_names_the_operator_and_the_place() -> None:
    weight, index = torch.ones(2, 3), torch.tensor([0, 5])
    pipe = torch.pipeline()
    with pytest.raises(IndexError) as caught, pipe:
        broken = torch.index_select(weight, 0, index)
        later = broken + 1
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "index_select" in text and "test_pipeline.py" in text
    for tensor in (broken, later):
        with pytest.raises((IndexError, RuntimeError)):
            tensor.tolist()
    with torch.pipeline():
        fine = torch.ones(1) + 1
    assert fine.tolist() == [2.0]


def test_an_exception_in_the_context_leaves_a_clean_queue() -> None:
    with pytest.raises(ZeroDivisionError), torch.pipeline():
        y = torch.ones(1) + 1
        1 / 0
    assert (torch.ones(1) * 3).tolist() == [3.0]
    with torch.pipeline():
        z = torch.ones(1) + 5
    assert z.tolist() == [6.0]
    del y


def test_the_pipeline_is_of_the_thread() -> None:
    seen = []
    with torch.pipeline():
        thread = threading.Thread(target=lambda: seen.append(pending(torch.ones(1) + 1)))
        thread.start()
        thread.join()
    assert seen == [False]


def test_no_grad_inside() -> None:
    x = torch.ones(1, requires_grad=True)
    with torch.pipeline(), torch.no_grad():
        y = x * 2
        assert not y.requires_grad
    assert y.tolist() == [2.0]


def test_a_long_chain() -> None:
    x = torch.zeros(4)
    with torch.pipeline():
        y = x
        for _ in range(2000):
            y = y + 1
    assert y.tolist() == [2000.0] * 4


def steps_of(pipe) -> list[str]:
    return [step.kind for step in pipe.history[-1][1].steps if step.kind != "view"]


def test_pointwise_calls_become_one_step() -> None:
    x, bias = torch.arange(12.0).reshape(3, 4), torch.arange(4.0)
    with torch.pipeline() as pipe:
        y = torch.tanh(x * 2 + bias) * x
        y.add_(1)
    assert steps_of(pipe) == ["pointwise"]
    expected = torch.tanh(x * 2 + bias) * x + 1
    assert torch.allclose(y, expected) and y._version == 1


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_sums_join_the_step_that_computes_what_they_add(kind: torch.dtype) -> None:
    x = torch.arange(3 * 5000, dtype=torch.float64).reshape(3, 5000).mul(1e-4).to(kind)

    def run() -> tuple:
        y = (x - 1) * x
        return y.sum(-1), y.mean(1, keepdim=True), y.sum(), (y + 1).mean()

    eager = run()
    with torch.pipeline() as pipe:
        made = run()
    assert (steps_of(pipe)[0] == "reduction") is (kind is not torch.bfloat16)
    for one, other in zip(eager, made, strict=True):
        assert one.shape == other.shape and one.dtype is other.dtype
        assert torch.allclose(one, other, rtol=1e-2 if kind is torch.bfloat16 else 1e-5)


def test_a_known_trace_reuses_its_plan_for_other_numbers() -> None:
    plans = []
    for factor in (0.5, 0.25):
        x = torch.ones(3)
        with torch.pipeline() as pipe:
            y = (x * factor).exp() - factor
        plans.append(pipe.history[-1][1])
        assert torch.allclose(y, (x * factor).exp() - factor)
    assert plans[0] is plans[1]


def test_results_that_nobody_holds_are_left_out() -> None:
    x = torch.ones(4)
    with torch.pipeline() as pipe:
        kept = x + 1
        dropped = (x * 3).exp()
        del dropped
    assert [len(step.entries) for step in pipe.history[-1][1].steps] == [1]
    assert kept.tolist() == [2.0] * 4


def test_backward_is_recorded() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    with torch.pipeline():
        y = x * x
        y.register_hook(lambda grad: seen.append(grad._pending))
        y.exp().sum().backward()
        assert x.grad._pending
    assert seen == [True] and not x.grad._pending
    assert x.grad.tolist() == pytest.approx([2 * 2.7182817, 4 * 54.59815], rel=1e-5)


def test_writes_before_a_failure_are_done_and_those_after_it_are_not() -> None:
    first, second, index = torch.zeros(2), torch.zeros(2), torch.tensor([7])
    with pytest.raises(IndexError, match="index_select, recorded at .*test_pipeline.py"), torch.pipeline():
        first.add_(1)
        lost = torch.index_select(first, 0, index)
        second.add_(1)
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    with pytest.raises(RuntimeError, match="never computed"):
        lost.tolist()


def test_inputs_that_share_memory_see_each_others_writes() -> None:
    x = torch.arange(6.0)
    part, same = x[2:5], x.data
    with torch.pipeline():
        before = same * 1
        x.mul_(10)
        after = part + same[:3]
        part.add_(1)
        last = same * 1
    assert before.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert after.tolist() == [20.0, 40.0, 60.0]
    assert last.tolist() == [0.0, 10.0, 21.0, 31.0, 41.0, 50.0] == x.tolist()


def test_a_tensor_of_a_pipeline_can_be_used_in_another_thread() -> None:
    found = []
    with torch.pipeline():
        y = torch.ones(3) + 1
        thread = threading.Thread(target=lambda: found.append((y * 2).tolist()))
        thread.start()
        thread.join()
    assert found == [[4.0, 4.0, 4.0]] and y.tolist() == [2.0, 2.0, 2.0]


def _trained(optimizer: type, options: dict, piped: bool) -> tuple[list, list, list]:
    """Numbers, versions, and the plans of steps whose rate changes."""
    torch.manual_seed(3)
    layers = torch.nn
    model = layers.Sequential(layers.Linear(8, 16), layers.ReLU(), layers.Dropout(0.3), layers.Linear(16, 4))
    made = optimizer(model.parameters(), lr=0.01, **options)
    schedule = torch.optim.lr_scheduler.StepLR(made, 1, 0.9)
    x, target, plans = torch.randn(5, 8), torch.randint(0, 4, (5,)), []

    def step() -> torch.Tensor:
        made.zero_grad()
        loss = layers.functional.cross_entropy(model(x), target)
        loss.backward()
        made.step()
        return loss

    for _ in range(4):
        if piped:
            with torch.pipeline() as pipe:
                pipe.keeps = True
                loss = step()
            plans.append([plan for _, plan in pipe.history])
        else:
            loss = step()
        schedule.step()
    states = [s for state in made.state.values() for s in state.values() if isinstance(s, torch.Tensor)]
    tensors = [loss, torch.rand(3), *model.parameters(), *states]
    return [t.detach().clone() for t in tensors], [t._version for t in tensors], plans


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.AdamW, {}), (torch.optim.AdamW, {"fused": True}), (torch.optim.Adam, {"amsgrad": True}),
     (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.SGD, {"foreach": True}), (torch.optim.Adagrad, {})],
)  # fmt: skip
def test_a_training_step_with_dropout_is_one_plan(optimizer: type, options: dict) -> None:
    numbers, versions, _ = _trained(optimizer, options, piped=False)
    piped, piped_versions, plans = _trained(optimizer, options, piped=True)
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(numbers, piped, strict=True))
    assert versions == piped_versions
    assert [len(own) for own in plans] == [1] * 4
    assert plans[2][0] is plans[3][0]  # other rates, the same plan


def test_draws_keep_their_order() -> None:
    torch.manual_seed(1)
    wanted = [torch.ones(3).bernoulli_(0.5), torch.rand(2), torch.rand_like(torch.ones(2))]
    state = torch.get_rng_state()
    torch.manual_seed(1)
    with torch.pipeline():
        first = torch.ones(3).bernoulli_(0.5)
        second = torch.rand(2)
        assert not pending(first)
        third = torch.rand_like(second)
        assert pending(third)
        assert torch.get_rng_state().tolist() == state.tolist() and not pending(third)
        torch.rand_like(third)  # nobody holds it: the stream moves on all the same
    assert [first.tolist(), second.tolist(), third.tolist()] == [t.tolist() for t in wanted]
    assert torch.get_rng_state().tolist() != state.tolist()


def test_work_around_rows_is_one_step() -> None:
    x, y, weight = torch.randn(6, 40), torch.randn(6, 40), torch.randn(40)
    norm = torch.nn.functional.layer_norm

    def programs() -> list:
        shifted = (x - x.amax(-1, keepdim=True)).exp()
        return [
            lambda: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight,
            lambda: shifted / shifted.sum(-1, keepdim=True),
            lambda: torch.softmax(x * 0.5 + y, -1) + 1,
            lambda: torch.log_softmax(x * y, -1) * 2,
            lambda: norm(x + y, (40,), weight, weight).relu(),
        ]

    for eager, recorded in zip(programs(), programs(), strict=True):
        with torch.pipeline() as pipe:
            made = recorded()
        assert torch.allclose(made, eager(), rtol=1e-4, atol=1e-5)
        assert [step.kind for step in pipe.history[-1][1].steps] == ["row"]


def test_not_a_number_in_rows() -> None:
    x = torch.ones(3, 8)
    x[1, 2], x[2] = float("nan"), float("-inf")
    for _ in range(2):
        with torch.pipeline():
            top, soft = (x + 0).amax(-1, keepdim=True) * 1, torch.softmax(x + 0, -1) * 1
        assert torch.equal(top.isnan().flatten(), torch.tensor([False, True, False]))
        assert torch.equal(soft.isnan().all(1), torch.tensor([False, True, True]))


def test_memory_that_nobody_reads_any_more_is_used_again() -> None:
    x, weight = torch.randn(32, 32), torch.randn(32, 32)
    expected = torch.tanh(x @ weight) + x
    kept = torch.tanh(x @ weight)
    for _ in range(3):
        with torch.pipeline() as pipe:
            made = torch.tanh(x @ weight) + x
        plan = pipe.history[-1][1]
        assert plan.peak == x.nbytes and plan.steps[-1].group.reused
        assert torch.allclose(made, expected, atol=1e-5)
        with torch.pipeline() as pipe:
            product = x @ weight
            later = torch.tanh(product)
        assert not pipe.history[-1][1].steps[-1].group.reused  # the product is held
        assert torch.allclose(torch.tanh(product), later, atol=1e-5) and torch.allclose(later, kept, atol=1e-5)


def _writes_over_what_it_read(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
    grown = (x * 2).exp() * y.exp() + z.tanh()
    x.copy_(y.exp().tanh() + 1)
    return [grown, x]


def _writes_before_it_uses_what_it_read(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
    before = x + 0
    x.copy_(z.exp())
    return [(before * y).tanh(), x]


def _keeps_results_that_do_not_need_a_product(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
    product, kept = x @ y, z.exp().tanh()
    return [kept, kept * 3, kept + product]


@pytest.mark.parametrize("program", [
    _writes_over_what_it_read, _writes_before_it_uses_what_it_read, _keeps_results_that_do_not_need_a_product,
])  # fmt: skip
@pytest.mark.parametrize("size", [3, 20, 300])
def test_memory_is_read_before_a_result_is_written_there(program: Any, size: int) -> None:
    for _ in range(12):  # the first calls run without a kernel
        given = [torch.randn(size, size) * 0.3 for _ in range(3)]
        copies = [tensor.clone() for tensor in given]
        expected = program(*given)
        with torch.pipeline():
            made = program(*copies)
        for one, other in zip(made, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_steps_that_compute_the_same_share_their_code() -> None:
    """Whatever was recorded before them, and whichever numbers a run brings."""
    x, columns = torch.ones(6), torch.ones(2, 5).t()
    with torch.pipeline() as pipe:
        one = x * 2 + 1
        others = [one.cumsum(0), columns.t().cumsum(1) * 4]
        other = one.cumsum(0) * 3 + 5
    steps = [step for step in pipe.history[-1][1].steps if step.kind == "pointwise"]
    assert [len(step.entries) for step in steps] == [2, 1, 2]
    assert code_of(steps[0].kernel) is code_of(steps[2].kernel) is not code_of(steps[1].kernel)
    assert other.tolist() == [14, 23, 32, 41, 50, 59] and others[1][0].tolist() == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("length", [255, 256, 291, 1000])
def test_costly_steps_over_long_rows_compute_several_elements_side_by_side(length: int) -> None:
    x = torch.linspace(-2, 2, length)

    def program() -> torch.Tensor:
        return torch.tanh(x * 2 + 1).exp() * torch.sigmoid(x)

    for _ in range(10):  # call by call at first, then by machine code
        with torch.pipeline() as pipe:
            made = program()
        assert torch.allclose(made, program(), rtol=1e-5, atol=1e-6)
    (step,) = pipe.history[-1][1].steps
    assert ("llvm.loop.interleave.count" in step.source()) is (length >= 256)


def test_other_sizes_have_the_kernels_of_those_that_were_planned_before() -> None:
    """A kernel is told sizes when it runs: planning for others makes no kernel, and nothing is compiled."""
    weight = torch.randn(24)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm((x * 2 + weight).tanh(), (24,)).exp() * x

    kernels = []
    for count in (3, 5, 8):
        x = torch.randn(count, 24)
        with torch.pipeline() as pipe:
            made = program(x)
        torch.testing.assert_close(made, program(x))
        kernels.append([step.kernel for step in pipe.history[-1][1].steps])
    assert len(kernels[0]) == 1
    assert kernels[0][0] is kernels[1][0] is kernels[2][0]


FORMULAS: dict[str, Any] = {
    "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2, "logaddexp": torch.logaddexp,
    "clamp": lambda a, b: a.clamp(0.3, 0.8), "sinc": lambda a, b: torch.sinc(a), "erf": lambda a, b: torch.erf(a),
    "softplus": lambda a, b: torch.nn.functional.softplus(a), "mish": lambda a, b: torch.nn.functional.mish(a),
    "logit": lambda a, b: torch.logit(a), "xlogy": torch.xlogy, "sqrt": lambda a, b: a.sqrt(),
    "hardswish": lambda a, b: torch.nn.functional.hardswish(a), "sin": lambda a, b: a.sin(),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_lie_as_those_of_eager_calls(name: str) -> None:
    """Formulas of derivatives run as one kernel in eager calls, and as operators in a pipeline."""

    def laid(turned: bool, first: float) -> torch.Tensor:
        made = torch.linspace(first, 0.9, 12)
        return (made.reshape(4, 3).t() if turned else made.reshape(3, 4)).detach()

    for own, others, gradients in itertools.product((False, True), repeat=3):
        found = []
        for block in (contextlib.nullcontext(), torch.pipeline()):
            x, y = laid(own, 0.1).requires_grad_(), laid(others, 0.2).requires_grad_()
            with block:
                result = FORMULAS[name](x, y)
                grads = torch.autograd.grad(result, (x, y), laid(gradients, 0.3), retain_graph=True, allow_unused=True)
                result.backward(laid(gradients, 0.3))
            made = [g for g in (*grads, x.grad, y.grad) if g is not None]
            found.append(([(g._version, g.stride()) for g in made], made))
        assert found[0][0] == found[1][0]
        assert all(map(torch.allclose, found[0][1], found[1][1]))
        if name in ("maximum", "minimum"):  # whose gradient PyTorch writes to, and lays out as the first operand
            assert found[0][0][:2] == [(1, (1, 3) if own else (4, 1))] * 2


def test_bytes_of_recorded_tensors() -> None:
    x = torch.tensor([1.0, -1.0])
    with torch.pipeline():
        made = x * 2
        bits, outside = made.view(torch.int32), x.view(torch.int32)
        made.neg_()
    assert bits.tolist() == made.view(torch.int32).tolist() and outside.tolist() == [0x3F800000, -0x40800000]


@pytest.mark.parametrize(("shape", "indices", "given"), [
    ((3, 4), ([0],), (3, 4)), ((), ([0],), ()), ((3, 4), ([0, 1], [0, 1, 2]), ()), ((3, 4), ([0], [0], [0]), (1,)),
])  # fmt: skip
def test_shapes_of_index_put_are_looked_at_where_it_is_called(shape: tuple, indices: tuple, given: tuple) -> None:
    x, values = torch.ones(shape), torch.ones(given)
    places = tuple(map(torch.tensor, indices))
    with pytest.raises((RuntimeError, IndexError)) as eager:
        (x * 2).index_put_(places, values, accumulate=True)
    with torch.pipeline():
        made = x * 2
        with pytest.raises(eager.type) as recorded:
            made.index_put_(places, values, accumulate=True)
        assert str(recorded.value) == str(eager.value)
    assert torch.equal(made, x * 2) and made._version == 0
