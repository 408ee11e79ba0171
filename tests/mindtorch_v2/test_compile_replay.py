"""torch.compile(mode="reduce-overhead"): what is replayed without Python, and every guard that prevents it."""

import importlib.util
import random
import sys
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._pipeline import replay
from mindtorch_v2._pipeline.replay import Replay
from mindtorch_v2.nn import functional as F

FACTOR = 2.0
TABLE = {"scale": 3.0}
SHIFT = torch.ones(3)


@pytest.fixture
def replays(monkeypatch):
    """Counts replays."""
    counted = []
    run = Replay.run

    def counting(self, tensors):
        counted.append(self)
        return run(self, tensors)

    monkeypatch.setattr(Replay, "run", counting)
    monkeypatch.setattr(replay, "_LEAST", 0)  # functions of one call are replayed too
    dynamo.reset()
    return counted


def compiled(fn):
    return torch.compile(fn, mode="reduce-overhead")


def settled(fn, *args, times=4, **kwargs):
    """Calls until a replay would come."""
    for _ in range(times):
        result = fn(*args, **kwargs)
    return result


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.5)
        self.factor = 2.0
        self.options = {"shift": 1.0}
        self.config = Options()

    def forward(self, x):
        y = self.drop(self.norm(self.first(x).relu()))
        return y * self.factor + self.options["shift"] + self.config.extra


class Options:
    extra = 0.0

    def __init__(self):
        self.extra = 0.5


x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])


# what is replayed ----------------------------------------------------------------------------------------------------


def test_looking_for_a_module_is_nothing_that_the_function_does(replays, monkeypatch):
    """As the library does while it makes a kernel; finders of the program note what they were asked for."""

    class Finder:
        asked = 0

        def find_spec(self, name, path=None, target=None):
            self.asked += 1

    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    run = compiled(lambda x: (importlib.util.find_spec("no_such_module"), (x * 2).exp())[1])
    for _ in range(4):
        assert torch.allclose(run(x), (x * 2).exp(), rtol=1e-6)
    assert finder.asked
    assert len(replays) == 2


def test_calls_are_replayed_from_the_third_on(replays):
    run = compiled(lambda x, y: (x * 2 + y).exp().sum(0))
    for number in range(5):
        a, b = x + number, x - number
        with torch.no_grad():
            assert torch.allclose(run(a, b), (a * 2 + b).exp().sum(0), rtol=1e-6)
        assert len(replays) == max(0, number - 1)
    first, second = run(x, x), run(x, x)
    assert first.data_ptr() != second.data_ptr() and type(first) is torch.Tensor
    first.add_(1)
    assert not torch.equal(first, second)


def test_results_keep_their_structure(replays):
    def fn(x):
        y = x.relu()
        return {"y": y, "both": (y + 1, [x, None]), "n": 3, "s": "text"}

    run = compiled(fn)
    with torch.no_grad():
        settled(run, x)
        result = run(x)
    assert replays and list(result) == ["y", "both", "n", "s"]
    assert torch.equal(result["y"], x.relu()) and torch.equal(result["both"][0], x.relu() + 1)
    assert result["both"][1][0] is x and result["both"][1][1] is None and (result["n"], result["s"]) == (3, "text")


def test_modules_are_replayed(replays):
    net = Net().eval()
    run = compiled(net)
    with torch.no_grad():
        expected = net(x)
        assert torch.allclose(settled(run, x), expected, atol=1e-6) and replays


def test_inference_mode(replays):
    run = compiled(lambda x: x.exp() + 1)
    with torch.inference_mode():
        made = settled(run, x)
    assert replays and made.is_inference()
    count = len(replays)
    with torch.no_grad():
        assert not run(x).is_inference()
    assert len(replays) == count


def test_views_of_arguments_and_weights(replays):
    weight = torch.randn(3, 3)

    def fn(x):
        return x[:, 1:] @ weight.t()[:2] + x.t()[0, 0]

    run = compiled(fn)
    with torch.no_grad():
        for number in range(6):
            given = x * (number + 1)
            assert torch.allclose(run(given), fn(given), atol=1e-5)
            weight.add_(1)
    assert replays


def test_constants_made_in_a_call(replays):
    def fn(x):
        mask = torch.arange(3) > 0
        total = torch.zeros(3)
        total += x.sum(0)
        return x * mask + torch.tensor([1.0, 2.0, 3.0]) + total

    run = compiled(fn)
    with torch.no_grad():
        for number in range(5):
            assert torch.allclose(run(x + number), fn(x + number))
    assert replays


def test_half_precision_and_empty_tensors(replays):
    run = compiled(lambda x: (x * 2).relu())
    with torch.no_grad():
        for kind in (torch.bfloat16, torch.float16, torch.int64):
            given = x.to(kind)
            assert torch.equal(settled(run, given), (given * 2).relu())
        assert settled(run, torch.zeros(0, 3)).shape == (0, 3)


# writes --------------------------------------------------------------------------------------------------------------


def test_writes_into_buffers_are_repeated(replays):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            return self.total * 1

    ours, theirs = Counter(), Counter()
    run = compiled(ours)
    with torch.no_grad():
        for number in range(6):
            assert torch.allclose(run(x + number), theirs(x + number))
            assert ours.total._version == theirs.total._version
    assert replays


def test_running_statistics(replays):
    ours, theirs = torch.nn.BatchNorm1d(3, affine=False), torch.nn.BatchNorm1d(3, affine=False)
    run = compiled(ours)
    for number in range(6):
        assert torch.allclose(run(x * (number + 1)), theirs(x * (number + 1)), atol=1e-5)
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert torch.allclose(a, b)


def test_arguments_that_are_written(replays):
    def fn(x):
        x.mul_(2)
        return x + 1

    run = compiled(fn)
    given = torch.ones(3)
    for number in range(1, 6):
        assert run(given).tolist() == [2.0**number + 1] * 3 and given._version == number

    def two(x, y):
        x.add_(y)
        return x * 1

    run = compiled(two)
    given = torch.ones(3)
    settled(run, given, torch.ones(3))
    given.fill_(1)
    assert run(given, given).tolist() == [2, 2, 2]


# gradients -----------------------------------------------------------------------------------------------------------


def test_training_is_replayed(replays):
    net, same = Net(), Net()
    run = compiled(net)
    ours, theirs = (torch.optim.AdamW(module.parameters(), lr=0.01) for module in (net, same))
    for number in range(6):
        outcome = []
        for call, optimizer in ((run, ours), (same, theirs)):
            torch.manual_seed(number)  # of the dropout
            given = (x + number).requires_grad_()
            optimizer.zero_grad()
            call(given * 2).square().sum().backward()  # an argument that is no leaf
            optimizer.step()
            outcome.append(given.grad)
        assert torch.allclose(*outcome, rtol=1e-4, atol=1e-4)
    for one, other in zip(net.state_dict().values(), same.state_dict().values(), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
    assert len(replays) == 4


def test_a_replayed_result_in_the_graph(replays):
    weight = torch.ones(3, requires_grad=True)
    run = compiled(lambda x: (x * weight * weight).tanh() * 2)
    settled(run, x)
    made = run(x)
    assert replays and made.requires_grad and not made.is_leaf
    assert type(made.grad_fn).__name__ == "CompiledFunctionBackward"
    made.sum().backward(retain_graph=True)
    once = weight.grad.clone()
    made.sum().backward()
    assert torch.allclose(weight.grad, 2 * once)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        made.sum().backward()
    (gradient,) = torch.autograd.grad(run(x).sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()
    made = run(x)
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match=r"\[torch.FloatTensor \[3\]\] is at version 1; expected version 0"):
        made.sum().backward()


def test_a_replayed_result_that_is_written(replays):
    weight = torch.ones(3, requires_grad=True)
    run = compiled(lambda x: (x * weight).tanh())
    settled(run, x)
    made = run(x)
    made.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()
    plain = compiled(lambda x: x * weight * 2)
    settled(plain, x)
    made = plain(x)
    made.mul_(2)  # which backward does not read
    weight.grad = None
    made.sum().backward()
    assert torch.allclose(weight.grad, 4 * x.sum(0)) and len(replays) == 6


def test_several_results_and_gradients_that_are_one(replays):
    first, second, third = (torch.ones(2, 3, requires_grad=True) for _ in range(3))
    run = compiled(lambda x: ((first + second + x).t(), (first * third).sum(), x.argmax()))
    for number in range(5):
        for tensor in (first, second, third):
            tensor.grad = None
        turned, total, place = run(x)
        assert turned.shape == (3, 2) and place.item() == 2 and not place.requires_grad
        if number < 4:
            torch.autograd.backward([turned, total], [torch.ones(3, 2), torch.tensor(2.0)])
            second.grad.add_(5)
            assert first.grad.tolist() == [[3.0] * 3] * 2 and second.grad.tolist() == [[6.0] * 3] * 2
        else:
            turned.sum().backward()
            second.grad.add_(5)
            assert first.grad.tolist() == [[1.0] * 3] * 2 and second.grad.tolist() == [[6.0] * 3] * 2
    assert third.grad.tolist() == [[0.0] * 3] * 2  # as in PyTorch, where a call is one node
    assert len(replays) == 3


def test_hooks_of_tensors_around_a_replay(replays):
    weight, seen = torch.ones(3, requires_grad=True), []
    run = compiled(lambda x: (x * weight).exp().sum())
    settled(run, x)
    handle = weight.register_hook(lambda g: seen.append("hook") or g * 2)
    weight.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
    made = run(x)
    made.register_hook(lambda g: seen.append("result") or g * 3)
    made.backward()
    assert seen == ["result", "hook", "after"] and len(replays) == 3
    assert torch.allclose(weight.grad, 6 * (x * x.exp()).sum(0), rtol=1e-5)
    handle.remove()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append("pack") or t, lambda t: t):
        run(x).backward()
    assert "pack" in seen and len(replays) == 3


def test_functions_of_the_program_in_backward_are_called(replays):
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(1)
            return grad * 2

    weight = torch.ones(3, requires_grad=True)
    run = compiled(lambda x: Twice.apply(x * weight) + 1)
    for _ in range(5):
        run(x).sum().backward()
    assert len(seen) == 5 and not replays


@pytest.mark.parametrize("draw", [
    torch.rand_like, lambda x: torch.rand(3), lambda x: torch.randn(3, 2).sum(1),
    lambda x: torch.randint(9, (3,)).exp(), lambda x: torch.rand(3, dtype=torch.float64) * torch.randint(1, 9, (1,))])
def test_recorded_draws_are_drawn_anew(replays, draw):
    def plain(x):
        return F.dropout(x, 0.5) + draw(x)

    run = compiled(plain)
    torch.manual_seed(0)
    expected = [plain(x) for _ in range(5)]
    torch.manual_seed(0)
    found = [run(x) for _ in range(5)]
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(b, a)
    assert len(replays) == 3


# what is not ---------------------------------------------------------------------------------------------------------


def test_backward_inside(replays):
    net, same = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    same.load_state_dict(net.state_dict())

    def step(net, x):
        loss = (net(x) ** 2).sum()
        loss.backward()
        return loss.detach()

    for clears in (True, False):
        run = compiled(lambda x: step(net, x))
        for number in range(5):
            if clears:
                net.zero_grad()
                same.zero_grad()
            assert torch.allclose(run(x + number), step(same, x + number), atol=1e-5)
            assert torch.allclose(net.weight.grad, same.weight.grad, atol=1e-4)
    assert len(replays) == 6
    replays.clear()
    # gradients that are results are replayed
    run = compiled(lambda x: torch.autograd.grad((net(x) ** 2).sum(), [net.weight, net.bias]))
    for number in range(5):
        expected = torch.autograd.grad((same(x + number) ** 2).sum(), [same.weight, same.bias])
        for ours, theirs in zip(run(x + number), expected, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-4)
    assert replays


def test_flags_and_memory_of_arguments(replays):
    def marks(x):
        x.requires_grad_()
        return (x * 2).detach()

    def moves(x):
        x.data = x.data + 1
        return x * 2

    run, again = compiled(marks), compiled(moves)
    for _ in range(5):
        given = torch.ones(3)
        run(given)
        assert given.requires_grad
        given = torch.ones(3)
        assert again(given).tolist() == [4, 4, 4] and given.tolist() == [2, 2, 2]
    assert not replays


def test_random_numbers(replays):
    run = compiled(lambda x: F.dropout(x, 0.5)[:, torch.randperm(3)])
    seen = {tuple(run(x).flatten().tolist()) for _ in range(8)}
    assert len(seen) == 8 and not replays
    stream = torch.Generator().manual_seed(0)
    run = compiled(lambda x: x + torch.rand(3, generator=stream))
    assert len({run(x)[0, 0].item() for _ in range(5)}) == 5 and not replays
    run = compiled(lambda x: x * random.random())
    assert len({run(x)[0, 0].item() for _ in range(5)}) == 5 and not replays


def test_data_dependent_calls(replays):
    def branches(x):
        return x * 2 if x[0, 0] > 0 else x * 3

    def reads(x):
        return x * x.max().item()

    def reads_an_argument(x, at):
        return x + at.item()

    def selects(x):
        return x[x > 0] * 2

    def counts(x):
        return torch.nonzero(x).sum() + 0 * x

    with torch.no_grad():
        for fn in (branches, reads, selects, counts):
            run = compiled(fn)
            settled(run, x)
            assert torch.equal(run(-x.relu()), fn(-x.relu()))
        run = compiled(reads_an_argument)
        settled(run, x, torch.tensor(1.0))
        assert torch.equal(run(x, torch.tensor(5.0)), x + 5)
    assert not replays


def test_prints_and_changes_of_python_objects(replays, capsys):
    seen = []

    class Stateful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.list = []

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    class Appends(Stateful):
        def forward(self, x):
            self.list.append(1)
            return x + 1

    def prints(x):
        print("called")
        return x + 1

    def appends(x):
        seen.append(1)
        return x + 1

    def sets(x):
        global FACTOR
        FACTOR = FACTOR + 0
        return x + 1

    holder = Options()
    holder.inner = Options()

    def counts_deep_inside(x):
        holder.inner.extra = holder.inner.extra + 1
        return x + 1

    net, other = Stateful(), Appends()
    with torch.no_grad():
        for fn in (compiled(net), compiled(other), compiled(prints), compiled(appends), compiled(sets),
                   compiled(counts_deep_inside)):  # fmt: skip
            settled(fn, x, times=5)
    assert holder.inner.extra == 5.5
    assert net.calls == 5 and len(other.list) == 5 and len(seen) == 5
    assert capsys.readouterr().out == "called\n" * 5 and not replays


def test_hooks(replays):
    net = torch.nn.Linear(3, 2)
    seen = []
    run = compiled(net)
    with torch.no_grad():
        settled(run, x)
        count = len(replays)
        assert count
        handle = net.register_forward_hook(lambda m, args, out: seen.append(1))
        settled(run, x, times=3)
        assert len(seen) == 3 and len(replays) == count
        handle.remove()
        settled(run, x)
        assert len(seen) == 3 and len(replays) > count
        with torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append(2)):
            settled(run, x, times=3)
        assert len(seen) == 6


def test_tensors_in_objects_and_containers(replays):
    class Holder:
        pass

    holder = Holder()
    holder.inner = Holder()
    holder.inner.shift, holder.inner.others = torch.ones(3), [torch.zeros(3), {"last": torch.zeros(3)}]

    def fn(x):
        return x + holder.inner.shift + holder.inner.others[0] + holder.inner.others[1]["last"]

    run = compiled(fn)
    with torch.no_grad():
        settled(run, x)
        count = len(replays)
        assert count == 2
        holder.inner.shift.add_(1)
        assert torch.equal(run(x), x + 2) and len(replays) == count + 1
        holder.inner.shift = torch.zeros(3)
        assert torch.equal(run(x), x)
        holder.inner.others[0] = torch.ones(3)
        assert torch.equal(run(x), x + 1)
        holder.inner.others[1]["last"] = torch.ones(3)
        assert torch.equal(run(x), x + 2)
    assert len(replays) == count + 1


def test_tensors_from_unknown_places(replays):
    held = {number: torch.full((3,), float(number)) for number in range(300)}  # more than is looked at
    run = compiled(lambda x: x + held[7])
    with torch.no_grad():
        settled(run, x)
        held[7] = torch.zeros(3)
        assert torch.equal(run(x), x)
    assert not replays


# guards, one by one --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [
    torch.ones(1, 3), torch.ones(2, 3, dtype=torch.int32), torch.empty_strided((2, 3), (1, 2)).copy_(x), torch.ones(3),
    x[:1], x.double(), torch.nn.Parameter(x),
], ids=["shape", "type", "strides", "dimensions", "view", "size of elements", "parameter"])  # fmt: skip
def test_layouts_of_arguments(replays, other):
    def fn(x):
        return x.sum(-1) * 2

    run = compiled(fn)
    with torch.no_grad():
        settled(run, x)
        count = len(replays)
        assert count
        ours = run(other)
        assert torch.equal(ours, fn(other)) and ours.dtype == fn(other).dtype and len(replays) == count


@pytest.mark.parametrize("values", [(2, 3), (2, 2.0), (True, 1), (1.0, float("nan")), (0.0, -0.0), ("a", "ab"),
                                    (None, 2), ((1, 2), (1, 3)), ([1], (1,)), ({"k": 1}, {"k": 2}),
                                    (torch.float32, torch.float64)])  # fmt: skip
def test_values_of_arguments(replays, values):
    def fn(x, value):
        if value is None or isinstance(value, (str, list, tuple, dict)):
            return (
                x * len(str(value))
                + (value.get("k", 0) if isinstance(value, dict) else 0)
                + (sum(value) if isinstance(value, (list, tuple)) else 0)
                + isinstance(value, list)
            )
        return x.to(value) if isinstance(value, torch.dtype) else x * value

    run = compiled(fn)
    with torch.no_grad():
        for value in (*values, *values):
            assert torch.equal(settled(run, x, value).nan_to_num(7), fn(x, value).nan_to_num(7))
            assert run(x, value).dtype == fn(x, value).dtype
            assert torch.equal(run(x, value).signbit(), fn(x, value).signbit())
    assert replays


def test_keywords_and_containers(replays):
    def fn(x, *, scale=1, extra=()):
        for t in extra:
            x = x + t
        return x * scale

    run = compiled(fn)
    with torch.no_grad():
        assert torch.equal(settled(run, x, scale=2), x * 2) and replays
        assert torch.equal(settled(run, x, scale=3), x * 3)
        assert torch.equal(settled(run, x, extra=[x, SHIFT]), x + x + SHIFT)
        assert torch.equal(run(x, extra=[SHIFT, x]), x + x + SHIFT)


def test_one_tensor_given_twice(replays):
    def fn(a, b):
        return (a + 1) if a is b else (a + b)

    run = compiled(fn)
    with torch.no_grad():
        settled(run, x, x.clone())
        assert torch.equal(run(x, x), x + 1)


def test_objects_that_are_not_understood(replays):
    class Thing:
        scale = 2

    thing = Thing()
    run = compiled(lambda x, thing: x * thing.scale)
    with torch.no_grad():
        settled(run, x, thing)
        thing.scale = 3
        assert torch.equal(run(x, thing), x * 3)


def test_flags_of_modules(replays):
    net = Net().eval()
    run = compiled(net)
    with torch.no_grad():
        settled(run, x)
        count = len(replays)
        assert count
        net.train()
        assert len({tuple(run(x).flatten().tolist()) for _ in range(4)}) > 1
        net.eval()
        net.first.eval()
        expected = net(x)
        assert torch.allclose(run(x), expected, atol=1e-6)


@pytest.mark.parametrize("change", [
    lambda net: setattr(net, "factor", 5.0), lambda net: net.options.update(shift=7.0),
    lambda net: setattr(net.config, "extra", 9.0), lambda net: setattr(net, "first", torch.nn.Linear(3, 3)),
    lambda net: setattr(net.first, "weight", torch.nn.Parameter(torch.ones(3, 3))),
    lambda net: net.first._parameters.update(bias=torch.nn.Parameter(torch.ones(3))),
    lambda net: setattr(net.first.weight, "data", torch.ones(3, 3)), lambda net: net.first.weight.fill_(0.5),
    lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    lambda net: setattr(net.norm, "eps", 1.0), lambda net: net.norm.running_var.mul_(4), lambda net: net.double(),
    lambda net: net.register_buffer("unused", torch.ones(1)),
], ids=["number", "dict", "object", "module", "parameter", "parameter dict", "data", "write", "load", "eps", "buffer",
        "double", "unused"])  # fmt: skip
def test_state_of_modules(replays, change):
    net = Net().eval()
    run = compiled(net)
    with torch.no_grad():
        settled(run, x)
        assert replays
        change(net)
        given = x.to(net.first.weight.dtype)
        assert torch.allclose(run(given), net(given), atol=1e-6)
        assert torch.allclose(settled(run, given), net(given), atol=1e-6)


def test_globals_and_closures(replays):
    global FACTOR, SHIFT
    factor, items = 2.0, [1.0]

    def fn(x):
        return x * FACTOR * factor + TABLE["scale"] + items[0] + SHIFT

    run = compiled(fn)
    before = FACTOR, SHIFT
    try:
        with torch.no_grad():
            settled(run, x)
            assert replays
            FACTOR = 11.0
            assert torch.equal(settled(run, x), fn(x))
            factor = 13.0
            assert torch.equal(settled(run, x), fn(x))
            TABLE["scale"] = 17.0
            assert torch.equal(settled(run, x), fn(x))
            items[0] = 19.0
            assert torch.equal(settled(run, x), fn(x))
            SHIFT = SHIFT * 23
            assert torch.equal(settled(run, x), fn(x))
            SHIFT.mul_(2)
            assert torch.equal(run(x), fn(x))
    finally:
        FACTOR, SHIFT = before
        TABLE["scale"] = 3.0


def test_memory_of_tensors_in_their_places(replays):
    scale = torch.ones(3)
    run = compiled(lambda x: x * scale + 1)
    with torch.no_grad():
        settled(run, x)
        assert replays
        for data in (torch.tensor([2.0, 3.0, 4.0]), torch.tensor([5.0]), torch.tensor([6, 7, 8])):
            scale.data, count = data, len(replays)
            assert torch.equal(run(x), x * data + 1)
            assert (len(replays) > count) is (data.shape == (3,) and data.dtype == torch.float32)


def test_grad_mode(replays):
    net = torch.nn.Linear(3, 2)
    run = compiled(net)
    with torch.no_grad():
        settled(run, x)
    count = len(replays)
    assert count and run(x).requires_grad and len(replays) == count
    with torch.no_grad():
        assert not run(x).requires_grad and len(replays) == count + 1


def test_autocast(replays):
    run = compiled(lambda x: x @ x.t())
    with torch.no_grad():
        settled(run, x)
        for kind in (torch.bfloat16, torch.float16, torch.bfloat16):
            count = len(replays)
            with torch.autocast("cpu", dtype=kind):
                assert settled(run, x).dtype == kind and len(replays) > count
        assert run(x).dtype == torch.float32


def test_default_type_and_device(replays):
    run = compiled(lambda x: x + torch.ones(3))
    with torch.no_grad():
        settled(run, x)
        torch.set_default_dtype(torch.float64)
        try:
            assert run(x).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        run = compiled(lambda n: torch.ones(n) + 1)
        assert settled(run, 3).device.type == "cpu" and replays
        with torch.device("meta"):
            assert run(3).device.type == "meta"


def test_modes_see_every_call(replays):
    run = compiled(lambda x: x.relu() + 1)
    seen = []

    class Watches(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with torch.no_grad():
        settled(run, x)
        assert replays
        with Watches():
            settled(run, x, times=3)
    assert seen.count("relu") == 3


def test_errors_stay_errors(replays):
    def fn(x, fails):
        if fails:
            raise KeyError("mine")
        return x + 1

    run = compiled(fn)
    with torch.no_grad():
        settled(run, x, False)
        with pytest.raises(KeyError):
            run(x, True)
        assert torch.equal(run(x, False), x + 1)


def test_short_functions_and_hopeless_ones_are_called_as_they_are(monkeypatch):
    monkeypatch.setattr(replay, "_HOPELESS", 6)
    run = compiled(lambda x: x + 1)
    with torch.no_grad():
        assert torch.equal(settled(run, x), x + 1)
        assert [known.why for known in run._region.replays.known.values()] == ["it is too short"]
        settled(run, x)
        assert run._region.replays is None and torch.equal(settled(run, x), x + 1)
        dynamo.reset()
        settled(run, x, times=1)
        assert run._region.replays is not None


def test_calls_that_cannot_be_replayed_are_recorded_only_where_that_gains_something():
    recorded = []

    def program(x):
        made = (x * 2 + 1).tanh().exp()
        recorded.append(made._pending)  # which is why it cannot be replayed
        return made

    run = compiled(program)
    for _ in range(10):
        assert torch.equal(run(x), (x * 2 + 1).tanh().exp())
    assert recorded[0] and not recorded[-1]


NESTED = {"list": [1.0, {"inner": 2.0}], "object": SimpleNamespace(part=SimpleNamespace(value=3.0))}
QUEUE = deque([1.0])
NUMBERS = np.array([1.0])


@pytest.mark.parametrize("read, change", [
    (lambda: NESTED["list"][1]["inner"], lambda: NESTED["list"][1].update(inner=NESTED["list"][1]["inner"] + 1)),
    (lambda: NESTED["object"].part.value, lambda: vars(NESTED["object"].part).update(value=random.randrange(9, 99))),
    (lambda: QUEUE[0], lambda: QUEUE.appendleft(QUEUE[0] + 1)),
])  # fmt: skip
def test_what_lies_in_other_containers_and_objects(replays, read, change):
    x = torch.ones(3)
    f = compiled(lambda: (x * read() + 1).sin())
    settled(f)
    assert replays
    for _ in range(3):
        change()
        assert torch.allclose(f(), (x * read() + 1).sin())


def test_numbers_in_arrays_of_numpy_are_read_each_time(replays):
    x = torch.ones(3)
    f = compiled(lambda: x * float(NUMBERS[0]) + 1)
    settled(f)
    NUMBERS[0] += 1
    assert f().tolist() == [1 + NUMBERS[0]] * 3 and not replays
