"""Ways to train, each a step under torch.compile: it leaves what eager leaves, and is replayed where it can be."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2 import nn
from mindtorch_v2._pipeline.replay import Replay
from mindtorch_v2.nn import functional as F

CALLS = 10


class Method(NamedTuple):
    """A step on inputs and classes, the tensors that it trains, and what is done before a call."""

    step: Callable[..., Any]
    trained: list[Any]
    before: Callable[[int], None] = lambda number: None


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def network_and_optimizer() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    model = network()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def plain_step(scores: Callable[[Any], Any], optimizer: torch.optim.Optimizer) -> Callable[[Any, Any], Any]:
    """A step as most programs have it."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(scores(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class Trainer:
    """A class of the program around it all."""

    def __init__(self) -> None:
        self.model, self.optimizer = network_and_optimizer()
        self.smoothing = 0.1

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y, label_smoothing=self.smoothing)
        loss.backward()
        self.optimizer.step()
        return loss


def of_a_class() -> Method:
    trainer = Trainer()

    def before(number: int) -> None:
        trainer.smoothing = 0.1 if number < 6 else 0.2

    return Method(trainer.step, list(trainer.model.parameters()), before)


def in_half_precision() -> Method:
    model, optimizer = network_and_optimizer()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Method(step, list(model.parameters()))


def in_parts() -> Method:
    """A batch in two parts, whose gradients are added up."""
    model, optimizer = network_and_optimizer()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        total = 0
        for part, classes in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = F.cross_entropy(model(part), classes) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return Method(step, list(model.parameters()))


def at_the_worst_point_nearby() -> Method:
    """Sharpness-aware: parameters are moved up the gradient and back."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            parameters = list(model.parameters())
            norm = torch.stack([parameter.grad.norm() for parameter in parameters]).norm()
            moves = [parameter.grad * (0.05 / (norm + 1e-12)) for parameter in parameters]
            for parameter, move in zip(parameters, moves, strict=True):
                parameter.add_(move)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter, move in zip(parameters, moves, strict=True):
                parameter.sub_(move)
        optimizer.step()
        return loss

    return Method(step, list(model.parameters()))


def against_an_attack() -> Method:
    model, optimizer = network_and_optimizer()

    def step(x: Any, y: Any) -> Any:
        attacked = x.detach().clone().requires_grad_()
        (direction,) = torch.autograd.grad(F.cross_entropy(model(attacked), y), attacked)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + 0.1 * direction.sign()), y)
        loss.backward()
        optimizer.step()
        return loss

    return Method(step, list(model.parameters()))


def with_a_penalty_on_gradients() -> Method:
    model, optimizer = network_and_optimizer()

    def step(x: Any, y: Any) -> Any:
        given = x.detach().requires_grad_()
        scores = model(given)
        (gradient,) = torch.autograd.grad(scores.sum(), given, create_graph=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(scores, y) + ((gradient.norm(2, 1) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Method(step, list(model.parameters()))


def with_noise() -> Method:
    """A variational autoencoder."""
    encoder, decoder = nn.Linear(8, 6), nn.Linear(3, 8)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        mean, logs = encoder(x).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (logs / 2).exp()
        loss = F.mse_loss(decoder(drawn), x) - 0.5 * (1 + logs - mean * mean - logs.exp()).mean()
        loss.backward()
        optimizer.step()
        return loss

    return Method(step, parameters)


def with_memory() -> Method:
    """A recurrent network whose state goes on from call to call."""
    layer, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 4)
    parameters = [*layer.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=0.01)
    state = torch.zeros(1, 6, 8)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        made, after = layer(x[:, None], state)
        loss = F.cross_entropy(head(made[:, 0]), y)
        loss.backward()
        nn.utils.clip_grad_value_(parameters, 0.1)
        optimizer.step()
        state.copy_(after.detach())
        return loss

    return Method(step, [*parameters, state])


def without_an_optimizer() -> Method:
    """By a function's gradient."""
    model = network()
    parameters = dict(model.named_parameters())

    def step(x: Any, y: Any) -> Any:
        def loss(given: dict[str, Any]) -> Any:
            return F.cross_entropy(torch.func.functional_call(model, given, (x,)), y)

        gradients = torch.func.grad(loss)({name: value.detach() for name, value in parameters.items()})
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.sub_(0.1 * gradients[name])
        return gradients["0.weight"].sum()

    return Method(step, list(model.parameters()))


def layer_by_layer() -> Method:
    """The first layer is trained later."""
    model, optimizer = network_and_optimizer()

    def before(number: int) -> None:
        model[0].requires_grad_(number >= 6)

    return Method(plain_step(model, optimizer), list(model.parameters()), before)


def with_evaluations() -> Method:
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def before(number: int) -> None:
        model.eval()
        with torch.no_grad():
            model(torch.ones(2, 8))
        model.train()

    return Method(plain_step(model, optimizer), [*model.parameters(), *model.buffers()], before)


def from_a_checkpoint() -> Method:
    model, optimizer = network_and_optimizer()
    kept: list[Any] = []

    def before(number: int) -> None:
        if number == 4:
            kept[:] = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        if number == 7:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])

    return Method(plain_step(model, optimizer), list(model.parameters()), before)


def of_plain_tensors() -> Method:
    weights = [torch.randn(8, 8, requires_grad=True), torch.randn(8, 4, requires_grad=True)]
    optimizer = torch.optim.RMSprop(weights, lr=0.01)
    return Method(plain_step(lambda x: (x @ weights[0]).relu() @ weights[1], optimizer), weights)


def with_counts() -> Method:
    """The program counts steps itself, which a replay would leave out."""
    model, optimizer = network_and_optimizer()
    counted = {"steps": 0}

    def step(x: Any, y: Any) -> Any:
        counted["steps"] += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * counted["steps"]
        loss.backward()
        optimizer.step()
        return loss

    return Method(step, list(model.parameters()))


def with_checkpointing() -> Method:
    """Activations are computed again in the backward pass."""
    from mindtorch_v2.utils.checkpoint import checkpoint

    model, optimizer = network_and_optimizer()

    return Method(plain_step(lambda x: checkpoint(model, x, use_reentrant=False), optimizer), list(model.parameters()))


def by_trial() -> Method:
    """Policy gradients: actions are drawn, and looked at."""
    model, optimizer = network_and_optimizer()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        choice = torch.distributions.Categorical(logits=model(x))
        action = choice.sample()
        gain = (action == y).float()
        loss = -(choice.log_prob(action) * (gain - gain.mean())).mean() - 0.01 * choice.entropy().mean()
        loss.backward()
        optimizer.step()
        return loss

    return Method(step, list(model.parameters()))


REPLAYED = [of_a_class, in_half_precision, in_parts, at_the_worst_point_nearby, against_an_attack, with_noise,
            with_memory, with_a_penalty_on_gradients, without_an_optimizer, layer_by_layer, with_evaluations,
            from_a_checkpoint, of_plain_tensors]  # fmt: skip
RECORDED = [with_counts, with_checkpointing, by_trial]


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[Replay]:
    """Counts replays."""
    counted: list[Replay] = []
    run = Replay.run
    monkeypatch.setattr(Replay, "run", lambda self, tensors: (counted.append(self), run(self, tensors))[1])
    dynamo.reset()
    return counted


def follow(make: Callable[[], Method], mode: str) -> None:
    """Runs a method eagerly and compiled, side by side."""
    methods = []
    for _ in range(2):
        torch.manual_seed(0)
        methods.append(make())
    steps = methods[0].step, torch.compile(methods[1].step, mode=mode)
    for number in range(CALLS):
        results = []
        for method, step in zip(methods, steps, strict=True):
            torch.manual_seed(number)
            x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
            method.before(number)
            results.append(step(x, y))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
        for theirs, ours in zip(methods[0].trained, methods[1].trained, strict=True):
            torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)
            assert ours._version == theirs._version and (ours.grad is None) == (theirs.grad is None)
            if ours.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("make", REPLAYED)
def test_methods(replays: list[Replay], make: Callable[[], Method], mode: str) -> None:
    follow(make, mode)
    assert len(replays) >= 4


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("make", RECORDED)
def test_methods_that_need_their_python(replays: list[Replay], make: Callable[[], Method], mode: str) -> None:
    follow(make, mode)
    assert not replays
