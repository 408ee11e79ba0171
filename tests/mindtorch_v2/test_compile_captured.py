"""Replayed calls that a device captures, launched as one: here by a stand-in that keeps arrays as a GPU does."""

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._pipeline import captured, replay


class Graph:
    """The run of a plan over arrays of its own, which each run writes over."""

    launches = 0
    refuses = False

    def __init__(self, steps, inputs, copied, given):
        self.steps, self.copied, self.given = steps, copied, given
        self.inputs = [array.copy() if at in copied else array for at, array in enumerate(inputs)]
        self.outputs = None

    def usable(self):
        return True

    def holds(self, inputs):
        return all(at in self.copied or array is self.inputs[at] for at, array in enumerate(inputs))

    def run(self, inputs):
        for at in self.copied:
            np.copyto(self.inputs[at], inputs[at])
        made = self.steps(self.inputs)
        if self.outputs is None:
            self.outputs = [np.copy(array, "K") for array in made]
        for own, array in zip(self.outputs, made, strict=True):
            np.copyto(own, array)
        Graph.launches += 1
        return [np.copy(array, "K") if i in self.given else array for i, array in enumerate(self.outputs)]


@pytest.fixture(autouse=True)
def capturing(monkeypatch):
    monkeypatch.setitem(captured.CAPTURES, "cpu", lambda *given: None if Graph.refuses else Graph(*given))
    monkeypatch.setattr(replay, "_LEAST", 0)  # functions of few calls are replayed, and captured, too
    monkeypatch.setattr(captured, "_LAUNCH", -1.0)
    monkeypatch.setattr(Graph, "launches", 0)
    dynamo.reset()
    yield
    dynamo.reset()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.first, self.norm = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6)

    def forward(self, x):
        y = self.norm(self.first(x + self.table(torch.arange(x.shape[0])))).tanh()
        return y * y.exp()


def pair():
    """A module as it is, and one like it compiled."""
    plain, other = Net(), Net()
    return plain, other, torch.compile(other, mode="reduce-overhead")


def same(plain, other):
    for (name, one), two in zip(plain.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, msg=name)
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


def samples(count):
    torch.manual_seed(1)
    return [torch.randn(5, 4) for _ in range(count)]


def test_results_are_the_callers_own():
    plain, other, compiled = pair()
    results = []
    with torch.no_grad():
        for x in samples(9):
            results.append((plain(x), compiled(x)))
    assert Graph.launches == 5  # two calls were recorded, two ran step by step
    for one, two in results:
        torch.testing.assert_close(one, two)
    same(plain, other)  # statistics were written once a call


def test_training_with_gradients_that_add_up():
    plain, other, compiled = pair()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (plain, other)]
    for number, x in enumerate(samples(12)):
        for net, optimizer in zip((plain, compiled), optimizers, strict=True):
            net(x).sum().backward()
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
        same(plain, other)
    assert Graph.launches == 16  # forward and backward


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_what_a_backward_pass_still_needs_is_not_written_over(order):
    plain, other, compiled = pair()
    for x in samples(6):
        for net in (plain, compiled):
            net(x).sum().backward()
    began = Graph.launches
    assert began
    for net in (plain, compiled):
        losses = [(net(x) * k).sum() for k, x in enumerate(samples(3), 1)]
        for k in order:
            losses[k].backward()
    same(plain, other)
    assert Graph.launches == began + 2  # the other two calls ran step by step, each in memory of its own
    for x in samples(2):  # one is never asked for its gradients
        for net in (plain, compiled):
            net(x)
            net(x).sum().backward()
    same(plain, other)
    assert Graph.launches == began + 8


def test_a_graph_that_is_kept_is_not_written_over():
    plain, other, compiled = pair()
    for x in samples(6):
        for net in (plain, compiled):
            loss = net(x).sum()
            loss.backward(retain_graph=True)
            net(x + 1)
            loss.backward()
        same(plain, other)


def test_parameters_in_another_place_are_captured_again():
    plain, other, compiled = pair()
    for number, x in enumerate(samples(12)):
        if number == 6:
            for net in (plain, other):
                net.first.weight.data = net.first.weight.data * 2
        for net in (plain, compiled):
            net(x).sum().backward()
        same(plain, other)
        if number == 5:
            before = Graph.launches
    assert Graph.launches > before + 4


def test_an_argument_that_is_written_runs_step_by_step():
    def fn(x):
        x.mul_(2).add_(1)
        return x.exp() + 1

    compiled = torch.compile(fn, mode="reduce-overhead")
    with torch.no_grad():
        for x in samples(6):
            expected = x.clone()
            result = fn(expected)
            torch.testing.assert_close(compiled(x), result)
            torch.testing.assert_close(x, expected)
    assert Graph.launches == 0


def test_what_cannot_be_captured_runs_step_by_step(monkeypatch):
    monkeypatch.setattr(Graph, "refuses", True)
    plain, other, compiled = pair()
    for x in samples(6):
        for net in (plain, compiled):
            net(x).sum().backward()
    same(plain, other)
    assert Graph.launches == 0


def test_few_steps_on_large_arrays_are_not_worth_copying(monkeypatch):
    monkeypatch.setattr(captured, "_LAUNCH", 2e-5)
    compiled = torch.compile(lambda x: (x * 2 + 1).exp(), mode="reduce-overhead")
    with torch.no_grad():
        for x in samples(6):
            torch.testing.assert_close(compiled(x), (x * 2 + 1).exp())
    assert Graph.launches == 0
