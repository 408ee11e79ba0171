"""torch.pipeline: operations are recorded, run together when something needs them, and give what eager mode gives."""

import contextlib
import itertools
import threading
import weakref
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._dispatch.pipeline import pipeline_context
from mindtorch_v2._ops._declare.plans import rests_on_layouts
from mindtorch_v2._pipeline import trace as tracing
from mindtorch_v2._pipeline.cache import forget_plans
from mindtorch_v2._pipeline.recipes import twins_of
from mindtorch_v2._pipeline.run import code_of
from mindtorch_v2._pipeline.shortcuts import Shortcut
from mindtorch_v2._pipeline.trace import Trace


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


def test_recordings_that_begin_alike() -> None:
    """What was recorded before is known again, up to the first call that is another one."""
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])

    def program(a: torch.Tensor, which: int, number: float) -> torch.Tensor:
        b = a * w + number
        if which == 1:
            return (b - a).abs() * number
        return b.clamp(0, 20) if which == 2 else (b + w) * b

    kept = []
    for turn in range(12):
        which, number = turn % 3, 1.0 + turn % 4
        with torch.pipeline():
            made = program(x + turn, which, number)
            assert pending(made)
        kept.append((made, program(x + turn, which, number)))
    for made, expected in kept:
        assert made.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_results_of_earlier_recordings_stay_as_they_were() -> None:
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    seen, losses = [], []
    for turn in range(6):
        with torch.pipeline():
            hidden = (w * float(turn)).exp()
            shown = hidden.detach() if turn % 2 else hidden[:1]
            losses.append((hidden * hidden).sum())
            seen.append((shown, hidden if turn % 3 else None))
    for turn, ((shown, hidden), loss) in enumerate(zip(seen, losses, strict=True)):
        expected = (torch.tensor([2.0, 3.0]) * turn).exp()
        assert shown.tolist() == pytest.approx(expected.tolist()[: shown.numel()], rel=1e-4)
        assert hidden is None or hidden.tolist() == pytest.approx(expected.tolist(), rel=1e-4)
        (grad,) = torch.autograd.grad(loss, w)
        assert grad.tolist() == pytest.approx((2 * turn * expected * expected).tolist(), rel=1e-4)


def test_what_recordings_rest_on_changes_within_one() -> None:
    """A default type that is set anew counts for the next call, though the call before was recorded as earlier ones."""
    i = torch.tensor([1, 2])
    before = torch.get_default_dtype()
    for kind in (torch.float32, torch.float32, torch.float64, torch.float32):
        try:
            with torch.pipeline():
                first = i / 2
                torch.set_default_dtype(kind)
                second = i / 2
        finally:
            torch.set_default_dtype(before)
        assert (first.dtype, second.dtype) == (before, kind)
        assert (first.tolist(), second.tolist()) == ([0.5, 1.0], [0.5, 1.0])


def test_an_error_leaves_later_recordings_alone() -> None:
    x, where = torch.ones(3), torch.tensor([0, 7])
    for turn in range(4):
        with pytest.raises(IndexError, match="recorded at"), torch.pipeline():
            lost = (x + 1).index_select(0, where)
        with torch.pipeline():
            made = (x + 1).index_select(0, torch.tensor([0, turn % 3])) * 2
        assert made.tolist() == [4.0, 4.0]
        with pytest.raises(RuntimeError, match="never computed"):
            lost.tolist()


def test_the_same_is_recorded_by_several_threads() -> None:
    found: dict[int, list] = {}
    ready = threading.Barrier(3)

    def work(number: int) -> None:
        x = torch.full((4,), float(number))
        ready.wait(60)
        rows = []
        for turn in range(40):
            with torch.pipeline():
                y = x
                for _ in range(5):
                    y = y * 2.0 + turn
            rows.append(y.tolist())
        found[number] = rows

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for number in range(3):
        assert found[number] == [[number * 32.0 + turn * 31.0] * 4 for turn in range(40)]


def test_writes_through_two_tensors_on_one_memory() -> None:
    """They are one kernel, or run one by one until there is machine code."""
    for _ in range(12):
        x = torch.tensor([1.0, 2.0])
        shown = x.view_as(x)
        with torch.pipeline():
            shown.mul_(0.5)
            x.add_(x)
            shown.add_(1)
        assert x.tolist() == shown.tolist() == [2.0, 3.0]


def test_calls_that_are_as_the_last_time_are_known_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that read arrays for the first time, that write, views, and calls with several results."""
    searched = []
    step = Trace.step
    monkeypatch.setattr(Trace, "step", lambda self, recipe, *args: searched.append(recipe) or step(self, recipe, *args))
    bias = torch.arange(4.0)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = x + bias
        y.add_(x).mul_(0.5)
        x.sub_(y)
        shown = y.t()
        shown.mul_(3)
        mean, scale = torch.native_layer_norm(y, (4,), None, None, 1e-5)[1:]
        return [x, y, shown, mean, scale]

    wanted = [t.tolist() for t in program(torch.ones(3, 4))]
    for _ in range(3):
        searched.clear()
        x = torch.ones(3, 4)
        with torch.pipeline():
            made = program(x)
        assert [t.tolist() for t in made] == wanted
        assert [x._version, made[1]._version, made[2]._version] == [1, 3, 3]
    assert not searched


@pytest.mark.parametrize("touch", ["not at all", "a field", "its fields", "weakly", "held", "held for a while"])
def test_tensors_that_nobody_held_are_given_again(monkeypatch: pytest.MonkeyPatch, touch: str) -> None:
    """A tensor serves the next recording as long as nothing was left on it, and nobody can tell."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    forget_plans()
    x = torch.arange(3.0)
    left: list[Any] = []

    def program(touches: bool) -> torch.Tensor:
        made = (x * 2) * 0.5
        if touches and touch == "a field":
            made.note = "seen"
        elif touches and touch == "its fields":
            assert not made.__dict__
        elif touches and touch == "weakly":
            left.append(weakref.ref(made))
        elif touches and touch.startswith("held"):
            left.append(made)
        made = made + 1
        if touch == "held for a while":
            left.clear()
        return made

    def lent(turn: int) -> list[bool]:
        with torch.pipeline() as pipe:
            made = program(turn == 4)
            if turn == 5 and left and touch == "weakly":
                assert left[0]() is None
        assert made.tolist() == [1.0, 2.0, 3.0] and not hasattr(made, "note")
        return [node.tensor is not None for node in pipe.history[-1][0].node.path()[0] if node.recipe is not None][1:]

    usual = [lent(turn) for turn in range(4)][-1]
    assert usual == [True, False]  # the call after the one that brings an array from outside; the result was held
    stays = touch in ("not at all", "held for a while")
    assert [lent(turn) for turn in range(4, 6)] == [[stays, False]] * 2
    if touch == "held":
        assert left[0].tolist() == [0.0, 1.0, 2.0]


def test_results_of_a_mode_in_which_tensors_are_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording without gradients after many with, whose tensors nobody held."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    x = torch.arange(3.0)

    def program(held: list[torch.Tensor]) -> torch.Tensor:
        made = x
        for factor in (2, 3, 4):
            made = made * factor
            held.append(made)
        return made + 1

    class Nothing(list):
        def append(self, item: Any) -> None:
            """Holds nothing."""

    for _ in range(4):
        with torch.pipeline():
            program(Nothing())
    held: list[torch.Tensor] = []
    with torch.pipeline(), torch.no_grad():
        program(held)
    assert [made.tolist() for made in held] == [[0.0, 2.0, 4.0], [0.0, 6.0, 12.0], [0.0, 24.0, 48.0]]


def test_composites_that_are_as_the_last_time_are_known_without_their_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that are new, views of an argument, of something new, and several views."""
    recorded = []
    learn = Trace.learn
    monkeypatch.setattr(Trace, "learn", lambda self, *args: recorded.append(args) or learn(self, *args))
    taken: list[Shortcut] = []
    take = Shortcut.take
    monkeypatch.setattr(Shortcut, "take", lambda self, *args: taken.append(self) or take(self, *args))
    weight, bias = torch.arange(4.0), torch.ones(4)

    def program(x: torch.Tensor, eps: float) -> list[torch.Tensor]:
        y = torch.nn.functional.layer_norm(x * 2, (4,), weight, bias, eps)
        flat = y.flatten()
        turned = y.t().reshape(-1)
        left, right = y.chunk(2, 1)
        left.add_(1)
        return [y, flat, turned, left, right]

    for eps, count in ((1e-5, None), (1e-5, None), (1e-5, 4), (0.5, 0), (0.5, 4)):
        wanted = program(torch.arange(12.0).view(3, 4), eps)
        taken.clear(), recorded.clear()
        with torch.pipeline():
            made = program(torch.arange(12.0).view(3, 4), eps)
        assert [t.tolist() for t in made] == [t.tolist() for t in wanted]
        assert [t._version for t in made] == [t._version for t in wanted]
        assert [t._base is made[0] for t in made] == [t._base is wanted[0] for t in wanted]
        assert [t.storage_offset() for t in made] == [t.storage_offset() for t in wanted]
        if count is not None:
            assert len(taken) == count and (not recorded) is (count > 0)


@pytest.mark.parametrize(("function", "known"), [
    (lambda x: (x * 2).view(-1).sum(), True),
    (lambda x: x * 2 if x.shape[0] > 1 else x, True),
    (lambda x: x * 2 if x.sum() > 0 else x, False),
    (lambda x: x * x.max().item(), False),
    (torch.rand_like, False),
    (lambda x: x.add_(1), False),
])  # fmt: skip
def test_what_looks_at_more_than_layouts_is_no_composite_to_remember(function: Any, known: bool) -> None:
    x = torch.ones(2, 3)
    assert rests_on_layouts(function, twins_of((x,), {})) is known
    assert x.tolist() == [[1.0] * 3] * 2 and x._version == 0


def test_an_error_in_a_known_composite_names_the_line() -> None:
    x = torch.ones(2, 3)
    for target in ([0, 1], [0, 1], [0, 1], [0, 5]):
        try:
            with torch.pipeline():
                made = torch.nn.functional.nll_loss(x * 2, torch.tensor(target))
        except IndexError as error:
            assert target == [0, 5] and "test_pipeline.py:" in str(error)
        else:
            assert target == [0, 1] and made.item() == -2


def test_a_known_write_looks_again_at_what_lies_where() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = x * 2
        x.add_(y)
        return made + x

    for _ in range(3):
        with torch.pipeline():
            assert program(torch.ones(2, 2), torch.ones(2)).tolist() == [[4, 4], [4, 4]]
    x = torch.ones(2, 2)
    with torch.pipeline(), pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        program(x, x[1])
    assert x._version == 0
    with torch.pipeline():
        assert program(x, torch.ones(2)).tolist() == [[4, 4], [4, 4]]


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


def test_results_of_operators_that_are_recorded_often_are_told_apart_from_those_let_go() -> None:
    """Their public functions record them, and hold tensors for a while."""

    def program(x: torch.Tensor, weight: torch.Tensor, turns: int) -> list[Any]:
        kept, let_go, made = [], [], x
        for turn in range(turns):
            made = torch.add(made * 0.5, x)
            if turn % 100 == 7:
                kept.append(made)
                let_go.append(weakref.ref(made * 2))
            if turn % 100 == 9:
                made.add_(turn)
        kept += [made.detach(), made[1:], (made * weight).exp() * 2, let_go]
        return kept

    x = torch.arange(4.0)
    for turns in (70, 700, 700, 300):
        weight, others = (torch.full((4,), 1e-3, requires_grad=True) for _ in range(2))
        *wanted, _ = program(x, weight, turns)
        with torch.pipeline() as pipe:
            *made, let_go = program(x, others, turns)
            assert len(pipe) > turns
        assert [ref() for ref in let_go] == [None] * len(let_go)
        for one, other in zip(made, wanted, strict=True):
            torch.testing.assert_close(one, other)
            assert one._version == other._version
        made[-1].sum().backward()
        wanted[-1].sum().backward()
        torch.testing.assert_close(others.grad, weight.grad)
        assert made[-2].untyped_storage().data_ptr() == made[-3].untyped_storage().data_ptr()


def test_tensors_that_one_recording_has_from_the_last_are_as_new() -> None:
    """What was written on them, and who watches them, stays with those who had them."""
    x, watched, seen = torch.arange(4.0), [], []

    def program(turn: int) -> torch.Tensor:
        made = x
        for at in range(80):
            made = made * 0.5 + x
            if at == 70 and turn == 3:
                made.mark = turn
            if at == 71 and turn == 3:
                watched.append(weakref.ref(made))
            if at == 72 and turn == 3:
                seen.append(made.requires_grad_())
                made = made.detach()
            if at == 73 and turn == 3:
                made.add_(0)
            if at == 74 and turn == 3:
                made.data = made * 1
            assert turn == 3 or not hasattr(made, "mark")
            assert turn == 3 or made._version == 0 and not made.requires_grad
        return made

    wanted = program(0)
    made, names = [], set()
    for turn in range(8):
        with torch.pipeline() as pipe:
            made.append(program(turn))
            names = {id(tensor) for tensor in made}
        assert pipe.history[-1][0].outputs
    assert len(names) == 8
    assert watched[0]() is None
    assert seen[0].requires_grad
    for one in made:
        torch.testing.assert_close(one, wanted)


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


def test_memory_is_shared_as_long_as_a_view_of_it_is_there() -> None:
    """A gradient is added to in place if nobody else sees it, as in eager calls."""
    x = torch.arange(4.0).reshape(2, 2)
    for _ in range(3):
        with torch.pipeline():
            made = x * 2
            assert made._array.is_alone()
            view = made.t()
            other = view[0]
            assert not made._array.is_alone() and not view._array.is_alone()
            del view
            assert not made._array.is_alone()
            del other
            assert made._array.is_alone()
            kept = made.view(4)
        assert kept.tolist() == [0.0, 2.0, 4.0, 6.0]


class _Index:
    """A number that is none of Python's own."""

    def __index__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "_Index()"


PARTS: list[Any] = [
    1, -1, slice(1, None), slice(None, None, 2), slice(0, 2), (1, 0), (slice(None), 1), (Ellipsis, 0), (0, Ellipsis),
    (), Ellipsis, (slice(1, 3), slice(None, None, 3)), (slice(-2, None), -1), slice(5, 9), None, (None, 1), True,
    (True, 0), (1, True), _Index(), (_Index(), 0), slice(_Index(), None), [0, 2], (slice(None), [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("index", PARTS, ids=str)
def test_parts_of_recorded_tensors(index: Any) -> None:
    """An index is the view that it is in eager calls, also where it follows one that compares equal and is another."""
    x = torch.arange(12.0).reshape(3, 4)

    def program(at: Any) -> list[torch.Tensor]:
        whole = x * 2
        part = whole[at]
        again = part[..., None] if part.dim() else part
        part += 1
        return [whole, part, again]

    for at in (1, (1, 0), index, (1, 1), index):
        expected = program(at)
        with torch.pipeline():
            made = program(at)
            shown = [(t.shape, t.stride(), t.storage_offset(), t._is_view(), t._version) for t in made]
        assert shown == [(t.shape, t.stride(), t.storage_offset(), t._is_view(), t._version) for t in expected]
        assert all(map(torch.equal, made, expected))
        assert [t._base is made[0] for t in made] == [t._base is expected[0] for t in expected]


def test_indices_that_hold_tensors_are_not_compared() -> None:
    x, one = torch.arange(12.0).reshape(3, 4), torch.tensor(1)
    for _ in range(3):
        with torch.pipeline():
            made = x * 2
            parts = [made[1:], made[one:], made[one], made[(one, 0)], made[1], made[0, :one]]
        wanted = [made[1:], made[1:], made[1], made[1, 0], made[1], made[0, :1]]
        assert all(map(torch.equal, parts, wanted))


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


def test_results_that_are_written_to_recorded_tensors() -> None:
    """out= that is recorded, or a part of it, and one from outside that recorded calls have yet to read."""
    x, outside = torch.arange(4.0), torch.arange(4.0)
    for _ in range(3):
        outside.copy_(x)
        before = outside._version
        with torch.pipeline():
            made = x * 2
            read = made + outside
            torch.add(x, 1, out=made)
            torch.mul(x[:2], 10, out=made[2:])
            torch.exp(made, out=outside)
            torch.arange(2, out=(total := x.new_zeros(2)))
        assert read.tolist() == [0.0, 3.0, 6.0, 9.0] and made.tolist() == [1.0, 2.0, 0.0, 10.0]
        assert torch.allclose(outside, made.exp()) and total.tolist() == [0.0, 1.0]
        assert (made._version, outside._version - before) == (2, 1)


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


def test_writes_to_tensors_that_were_given_other_memory() -> None:
    """Whether memory is shared is told without a flush in the middle of what records a call."""
    results = []
    for block in (contextlib.nullcontext(), torch.pipeline()):
        x = torch.arange(6.0)
        view = x.view(2, 3)
        x.data = torch.ones(6)
        with block:
            view[view > 2] = 0.5
            view.add_(x.view(2, 3) * 2)
            x.mul_(view.view(6))
        results.append((x.tolist(), view.tolist(), x._version, view._version))
    assert results[0] == results[1]
