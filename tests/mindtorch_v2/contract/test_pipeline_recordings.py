"""Recordings: what one takes over from those before that were alike, and that nobody can tell."""

import contextlib
import sys
import threading
import weakref
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._ops._declare.plans import rests_on_layouts
from mindtorch_v2._pipeline import trace as tracing
from mindtorch_v2._pipeline.cache import forget_plans
from mindtorch_v2._pipeline.recipes import twins_of
from mindtorch_v2._pipeline.shortcuts import Shortcut
from mindtorch_v2._pipeline.trace import Trace


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
            assert made._pending
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
    if touch == "its fields" and sys.version_info >= (3, 13):  # where a dict that nobody holds leaves no trace
        stays = True
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
            assert target == [0, 5] and "test_pipeline_recordings.py:" in str(error)
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


VIEWS: dict[str, Any] = {
    "an operator": lambda made: made.t(), "an index": lambda made: made[1:],
    "a view of a view": lambda made: made.t()[0], "one of several": lambda made: made.unbind()[1],
    "a composite": lambda made: made.flatten(), "several of a composite": lambda made: made.chunk(2)[1],
}  # fmt: skip
TOUCHES = ("not at all", "a field", "its fields", "weakly", "held", "written", "detached", "in place", "gradients")


@pytest.mark.parametrize("touch", TOUCHES)
@pytest.mark.parametrize("derived", [True, False])
@pytest.mark.parametrize("view", VIEWS)
def test_views_that_nobody_held_are_given_again(
    monkeypatch: pytest.MonkeyPatch, view: str, derived: bool, touch: str
) -> None:
    """A view serves the next recording, of another base, as long as nothing was left on it and nobody can tell."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    forget_plans()
    x = torch.arange(6.0).reshape(2, 3)
    left: list[Any] = []

    def program(touches: bool) -> list[Any]:
        made = (x * 2) * 0.5
        shown = VIEWS[view](made)
        facts = [shown.shape, shown.stride(), shown.storage_offset(), shown._version, shown._creation,
                 shown.requires_grad, hasattr(shown, "note"), shown._base is made, len(shown._view_meta)]  # fmt: skip
        if touches and touch == "a field":
            shown.note = "seen"
        elif touches and touch == "its fields":
            assert not shown.__dict__
        elif touches and touch == "weakly":
            left.append(weakref.ref(shown))
        elif touches and touch == "held":
            left.append(shown)
        elif touches and touch == "written":
            shown.add_(1)
        elif touches and touch == "detached":
            left.append(shown.detach())
        elif touches and touch == "in place":
            shown.unsqueeze_(0)
        elif touches and touch == "gradients":
            left.append(shown.detach().requires_grad_() * 2)
        return [facts, made, (shown + 1).sum(), made * 1]

    def piped(turn: int) -> tuple[list[Any], Trace]:
        with torch.set_grad_enabled(derived), torch.pipeline() as pipe:
            facts, made, *results = program(turn == 6)
            base = weakref.ref(made)
            del made
        assert base() is None or turn == 6
        return [facts, *[result.tolist() for result in results]], pipe.history[-1][0]

    for turn in range(9):
        with torch.set_grad_enabled(derived):
            facts, _, *results = program(turn == 6)
        wanted = [facts, *[result.tolist() for result in results]]
        seen = list(left)
        left.clear()
        made, trace = piped(turn)
        assert made == wanted
        if touch != "weakly":
            assert [one.tolist() for one in left] == [one.tolist() for one in seen]
        else:
            assert all(one() is None for one in left)
        left.clear()
        views = [node for node in trace.node.path()[0] if node.recipe is not None and node.recipe.kind == "view"]
        if turn == 5:
            assert views[-1].tensor is not None  # of the view that the program sees
        lent = [node.tensor for node in views if node.tensor is not None]
        assert all(tensor._base is tensor._counter is None for tensor in lent)
        del lent


def test_views_are_told_apart_by_what_leads_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same view of the same value, by way of other tensors, and under other modes."""
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    forget_plans()
    x = torch.arange(6.0).reshape(2, 3)

    def program(turn: int) -> list[Any]:
        made = x * 2
        shown = made.t()
        if turn % 3 == 1:
            shown = shown.detach()
        with torch.set_grad_enabled(turn % 4 != 2):
            again = shown[1]
            parts = shown.unbind()
        return [again._base is made, again._base is shown, len(again._view_meta), again._creation,
                [part._creation for part in parts], [part._base is made for part in parts],
                (again * 3).tolist()]  # fmt: skip

    for turn in [0] * 6 + [1, 1, 0, 2, 2, 3, 4, 5, 6, 1, 1, 1, 0]:
        wanted = program(turn)
        with torch.pipeline():
            made = program(turn)
        assert made == wanted, turn


def test_gradients_are_added_to_in_place_under_no_grad_where_nobody_sees_it() -> None:
    """Backward passes look at who holds a tensor: they are given none again, whichever mode they are called in."""
    weight = torch.ones(3, requires_grad=True)

    def program() -> int:
        weight.grad = None
        loss = ((weight * 2) * weight.detach() + weight * 3).sum()
        with torch.no_grad():
            loss.backward()
        assert weight.grad is not None
        return weight.grad._version

    wanted = program()
    for _ in range(300):
        with torch.pipeline():
            assert program() == wanted
        assert weight.grad is not None and weight.grad.tolist() == [5.0, 5.0, 5.0]


def test_lists_parts_and_writes_to_parts_are_known_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    step = Trace.step
    monkeypatch.setattr(Trace, "step", lambda self, recipe, *args: searched.append(recipe) or step(self, recipe, *args))
    monkeypatch.setattr(tracing, "_OFTEN", 1)
    forget_plans()
    x, rows = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 0])

    def program(turn: int) -> list[torch.Tensor]:
        made = x * 2
        if turn == 5:  # as long a list, of other tensors, then a longer one
            return [torch.cat([made, x]), torch.stack([made, made, made])]
        joined = torch.cat([made, made], 1)
        made[0] = 1.5
        made[:, 1] = joined[0, :2]
        made[..., None][1] = -1
        return [joined, torch.stack([made, x]), made, made[rows], made[:, None, 1:]]

    for turn in range(8):
        wanted = program(turn)
        searched.clear()
        with torch.pipeline():
            made = program(turn)
            versions = [one._version for one in made]
        assert [one.tolist() for one in made] == [one.tolist() for one in wanted]
        assert [one.stride() for one in made] == [one.stride() for one in wanted]
        assert versions == [one._version for one in wanted]
        if turn > 1:
            assert bool(searched) == (turn in (5, 6))  # where the last recording went on otherwise, too


@pytest.mark.parametrize("value", [1.5, -0.0, 3, True, float("nan"), float("inf"), 2**60, 1e300])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64])
def test_numbers_that_fill_parts(kind: torch.dtype, value: Any) -> None:
    """They are part of a kernel with what is computed before and after, or refused as in eager calls."""
    x = torch.arange(6).reshape(2, 3).to(kind)

    def program() -> list[Any]:
        made = x + 1
        made.t()[1].fill_(value)
        made[:, 2] = value
        return [made * 2, made]

    def run(piped: bool) -> Any:
        try:
            with torch.pipeline() if piped else contextlib.nullcontext():
                made = program()
        except RuntimeError as error:
            return str(error).rpartition(": ")[2]  # after where the call was recorded
        return [one.view(torch.uint8).tolist() for one in made]

    for _ in range(10):
        assert run(True) == run(False)


@pytest.mark.parametrize("make, recorded", [
    (lambda: torch.rand(5, 3), True), (lambda: torch.randn(50), True), (lambda: torch.randint(2, 9, (4, 4)), True),
    (lambda: torch.randint(7, (3,)), True), (lambda: torch.rand(4, dtype=torch.float64), True),
    (lambda: torch.randn(33, dtype=torch.bfloat16), True), (lambda: torch.rand(()), True),
    (lambda: torch.randint(0, 2, (5,), dtype=torch.uint8), True), (lambda: torch.rand(3, device="cpu"), True),
    (lambda: torch.randn(4, dtype=torch.complex64), True), (lambda: torch.randn(2, 0), False),
    (lambda: torch.randn(3, requires_grad=True), False), (lambda: torch.randperm(9), False),
    (lambda: torch.rand(3, generator=torch.Generator().manual_seed(3)), False)])
def test_factories_that_draw(make: Any, recorded: bool) -> None:
    def run() -> list[Any]:
        torch.manual_seed(1)
        return [make(), make() * 2, torch.rand(2), make()]

    expected = run()
    with torch.pipeline() as pipe:
        found = run()
        assert (len(pipe) > 2) is recorded
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b) and a.dtype is b.dtype and a.stride() == b.stride()
        assert a._version == b._version and a.requires_grad == b.requires_grad


@pytest.mark.parametrize("make", [
    lambda: torch.rand(3, dtype=torch.int64), lambda: torch.rand(-1), lambda: torch.randint(5, 2, (3,)),
    lambda: torch.randint(0, 300, (3,), dtype=torch.uint8), lambda: torch.rand(2, layout=torch.sparse_coo)])
def test_factories_that_draw_refuse_what_they_do_elsewhere(make: Any) -> None:
    with pytest.raises(Exception) as expected:
        make()
    with pytest.raises(type(expected.value)) as found, torch.pipeline():
        make()
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("empty", [(0,), (0, 3), (2, 0)])
@pytest.mark.parametrize("join", ["cat", "hstack", "vstack", "stack"])
def test_lists_in_which_a_tensor_is_empty(join: str, empty: tuple[int, ...]) -> None:
    """What is joined with nothing stays recorded; errors and gradients are those of eager."""

    def run() -> Any:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        nothing = torch.zeros(empty, requires_grad=True)
        made = getattr(torch, join)([nothing, x.exp(), x.sin()]) * 2
        made.sum().backward()
        return made.detach(), x.grad, nothing.grad

    def outcome() -> Any:
        try:
            return run()
        except (RuntimeError, IndexError) as error:
            return type(error), str(error)

    expected = outcome()
    for _ in range(2):
        with torch.pipeline() as pipe:
            found = outcome()
        if isinstance(expected[0], type):
            assert found == expected
        else:
            assert len(pipe.history) == 1
            for a, b in zip(expected, found, strict=True):
                torch.testing.assert_close(b, a)
                assert a.stride() == b.stride()


def test_a_number_is_filled_in_by_the_kernel_that_computes_the_rest() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    with torch.pipeline() as pipe:
        made = (x + 1).fill_(2.5) * x
    assert [step.kind for step in pipe.history[-1][1].steps] == ["pointwise"]
    assert made.tolist() == [[0.0, 2.5, 5.0], [7.5, 10.0, 12.5]]
