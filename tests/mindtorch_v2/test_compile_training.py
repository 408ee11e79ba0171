"""torch.compile around training steps: replayed, they leave what eager leaves in parameters, gradients and state."""

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
import mindtorch_v2._dynamo as dynamo
from mindtorch_v2._pipeline import replay
from mindtorch_v2._pipeline.replay import Replay
from mindtorch_v2.nn import functional as F

CALLS = 15
DEVICE = ["cpu"]  # tests of other devices change it


class Program:
    """A model, its optimizer, and a step of it on inputs; `before` is done before each call."""

    drops = True  # gradients, before a step

    def __init__(self, optimizer: Callable[..., Any], model: Callable[[], Any] | None = None) -> None:
        torch.manual_seed(0)
        self.model = (plain() if model is None else model()).to(DEVICE[0])
        self.optimizer = optimizer(self.model.parameters())
        self.kept: dict[str, Any] = {}

    def step(self) -> Callable:
        model, optimizer, drops = self.model, self.optimizer, self.drops

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=drops)
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def before(self, number: int) -> None:
        """What the program does between steps."""

    def given(self, number: int) -> tuple:
        torch.manual_seed(number)
        return torch.randn(6, 4).to(DEVICE[0]), torch.randn(6, 3).to(DEVICE[0])


def plain() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def adamw(params: Any, **options: Any) -> Any:
    return torch.optim.AdamW(params, lr=0.01, **options)


def momentum(params: Any) -> Any:
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


class Clears(Program):
    """Gradients are dropped between steps."""

    def step(self) -> Callable:
        model, optimizer = self.model, self.optimizer

        def step(x: Any, y: Any) -> Any:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def before(self, number: int) -> None:
        self.optimizer.zero_grad()


class ClearsLast(Program):
    """Gradients are dropped at the end: none is left."""

    def step(self) -> Callable:
        model, optimizer = self.model, self.optimizer

        def step(x: Any, y: Any) -> None:
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step


class FillsWithZeros(Program):
    """Gradients are filled, not dropped."""

    drops = False


class Accumulates(Program):
    """The optimizer steps at every third call, outside."""

    def step(self) -> Callable:
        model = self.model

        def step(x: Any, y: Any) -> Any:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return step

    def before(self, number: int) -> None:
        if number and number % 3 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


class Clips(Program):
    def step(self) -> Callable:
        model, optimizer = self.model, self.optimizer

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return {"loss": loss, "norm": norm}

        return step


class Schedules(Program):
    """A scheduler steps between calls."""

    def __init__(self, optimizer: Callable[..., Any], schedule: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(optimizer, **options)
        self.schedule = schedule(self.optimizer)

    def before(self, number: int) -> None:
        if number:
            self.schedule.step()


class ShowsRates(Schedules):
    """The program reads the rate itself."""

    def step(self) -> Callable:
        inner, optimizer = super().step(), self.optimizer

        def step(x: Any, y: Any) -> Any:
            group = optimizer.param_groups[0]
            loss = inner(x, y)
            return loss, group["lr"], loss.detach() * group["lr"], "high" if group["lr"] > 0.005 else "low"

        return step


class ShowsAGroup(Schedules):
    """The same by a group that it keeps."""

    def step(self) -> Callable:
        inner, group = super().step(), self.optimizer.param_groups[0]

        def step(x: Any, y: Any) -> Any:
            return inner(x, y), group["lr"]

        return step


class Scaled(torch.nn.Module):
    """Reads attributes that are called as options of optimizers are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.eps, self.weight_decay = torch.nn.Linear(4, 3), 1e-3, 0.5

    def forward(self, x: Any) -> Any:
        made = self.layer(x)
        return made / (made.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight_decay


class SchedulesInside(Schedules):
    def step(self) -> Callable:
        inner, schedule = super().step(), self.schedule

        def step(x: Any, y: Any) -> Any:
            loss = inner(x, y)
            schedule.step()
            return loss

        return step

    def before(self, number: int) -> None:
        pass


class TwoOptimizers(Program):
    """Two models, one against the other."""

    def __init__(self, optimizer: Callable[..., Any]) -> None:
        super().__init__(optimizer)
        self.judge = torch.nn.Linear(3, 1).to(DEVICE[0])
        self.other = optimizer(self.judge.parameters())

    def step(self) -> Callable:
        model, judge, first, second = self.model, self.judge, self.optimizer, self.other

        def step(x: Any, y: Any) -> Any:
            made = model(x)
            second.zero_grad()
            apart = F.softplus(judge(made.detach())).mean() + F.softplus(-judge(y)).mean()
            apart.backward()
            second.step()
            first.zero_grad()
            near = F.softplus(-judge(made)).mean()
            near.backward()
            first.step()
            return apart, near

        return step


class Averages(Program):
    """A running mean of the parameters is kept."""

    def __init__(self, optimizer: Callable[..., Any]) -> None:
        super().__init__(optimizer)
        self.means = [parameter.detach().clone() for parameter in self.model.parameters()]

    def step(self) -> Callable:
        inner, means, params = super().step(), self.means, list(self.model.parameters())

        def step(x: Any, y: Any) -> Any:
            loss = inner(x, y)
            with torch.no_grad():
                for mean, parameter in zip(means, params, strict=True):
                    mean.lerp_(parameter, 0.1)
            return loss, [mean.sum() for mean in means]

        return step


class GivesElements(Program):
    """Numbers, which it looks at for nothing else."""

    def step(self) -> Callable:
        model, optimizer, name = self.model, self.optimizer, "tanh"

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            made = model(x)
            loss = F.mse_loss(made, y)
            above, count = (made > y).sum(), x.shape[0]
            loss.backward()
            optimizer.step()
            return loss.item(), [name, {"above": above.item(), "count": count}], made

        return step


class ByHand(Program):
    """No optimizer."""

    def step(self) -> Callable:
        model = self.model

        def step(x: Any, y: Any) -> Any:
            model.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            return loss

        return step


class SetsGradients(Program):
    """The program drops gradients itself, and gives parameters some that it has computed."""

    def step(self) -> Callable:
        model, optimizer = self.model, self.optimizer

        def step(x: Any, y: Any) -> Any:
            for parameter in model.parameters():
                parameter.grad = None
            made, parameters = model(x), list(model.parameters())
            loss = F.mse_loss(made, y)
            first = torch.autograd.grad(loss, parameters, retain_graph=True)
            made.abs().mean().backward()
            for parameter, gradient in zip(parameters, first, strict=True):
                parameter.grad = parameter.grad / 2 + gradient
                parameter.grad *= 0.5
            optimizer.step()
            return loss.detach()

        return step


class FreezesForAWhile(Program):
    def step(self) -> Callable:
        inner, first = super().step(), self.model[0]

        def step(x: Any, y: Any) -> Any:
            for parameter in first.parameters():
                parameter.requires_grad = False
            loss = inner(x, y)
            for parameter in first.parameters():
                parameter.requires_grad = True
            return loss

        return step


class GivesUnknownsGradients(Program):
    """To a tensor that no guard sees."""

    def step(self) -> Callable:
        inner, held = super().step(), torch.zeros(1)
        held.note = self.kept["hidden"] = torch.zeros(3)

        def step(x: Any, y: Any) -> Any:
            loss = inner(x, y)
            tensor = held.note
            tensor.grad = loss.detach().expand(3) * 2
            return loss

        return step


class OfArguments(Program):
    """The gradient of an argument, which is another tensor each time."""

    def step(self) -> Callable:
        inner, self.seen = super().step(), []

        def step(x: Any, y: Any) -> Any:
            return inner(x, y)

        return step

    def given(self, number: int) -> tuple:
        x, y = super().given(number)
        self.kept["x"] = x.requires_grad_()
        return x, y


class OfTheProgram(torch.optim.Optimizer):
    """An optimizer that the program wrote, which counts in Python's numbers."""

    def __init__(self, params: Any, counts: bool = True) -> None:
        super().__init__(params, {"lr": 0.1, "counts": counts})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state, rate = self.state[parameter], group["lr"]
                if group["counts"]:
                    state["step"] = state.get("step", 0) + 1
                    rate = rate / state["step"]
                parameter.add_(parameter.grad, alpha=-rate)


def noisy() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )


class OfViews(torch.nn.Module):
    """Parameters are used as parts of others, reshaped, permuted and transposed: so come their gradients."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {"above": (2, 8), "below": (16,), "turned": (3, 8), "several": (2, 3, 4), "tied": (4, 4)}
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.randn(shape)))

    def forward(self, x: Any) -> Any:
        x = (x @ self.tied).tanh() @ self.tied.T
        joined = torch.cat([self.above, self.below.reshape(2, 8)])
        return (x @ joined).tanh() @ self.turned.T + (x[None] @ self.several.permute(0, 2, 1)).sum(0)


def groups(params: Any) -> Any:
    first, *others = list(params)
    return torch.optim.AdamW([{"params": [first], "lr": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.01)


def apart(params: Any) -> Any:
    first, *others = list(params)
    return torch.optim.RMSprop([{"params": [first]}, {"params": others, "momentum": 0.5}], lr=0.01)


def parting(optimizer: Any) -> Any:
    """Rates that are the same at first."""
    each = [lambda number: (number + 1) / 10, lambda number: (number + 1) / (10 if number < 8 else 20)]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, each)


def warm(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: (number + 1) / 10)


def cycle(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)


def stairs(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 4)


OPTIMIZERS = {
    "Adam": torch.optim.Adam, "AdamW": adamw, "amsgrad": lambda p: adamw(p, amsgrad=True), "groups": groups,
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1), "momentum": momentum,
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "RMSprop": torch.optim.RMSprop, "Adagrad": torch.optim.Adagrad, "Adamax": torch.optim.Adamax,
    "NAdam": torch.optim.NAdam, "RAdam": torch.optim.RAdam, "ASGD": torch.optim.ASGD, "Rprop": torch.optim.Rprop,
    "Adadelta": torch.optim.Adadelta, "fused": lambda p: adamw(p, fused=True),
    "foreach": lambda p: adamw(p, foreach=True),
    "maximize": lambda p: torch.optim.SGD(p, lr=1e-3, maximize=True),
    "a tensor as rate": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01)),
    "its own": lambda p: OfTheProgram(p, counts=False), "its own, counting": OfTheProgram,
}  # fmt: skip
PROGRAMS: dict[str, tuple[Callable[[], Program], int]] = {
    # how many of 9 calls are replayed at least, in the default mode
    "outside": (lambda: Clears(adamw), 5),
    "at the end": (lambda: ClearsLast(momentum), 5),
    "zeros": (lambda: FillsWithZeros(adamw), 4),
    "accumulated": (lambda: Accumulates(adamw), 1),
    "clipped": (lambda: Clips(adamw), 6),
    "noisy": (lambda: Program(adamw, noisy), 6),
    "views": (lambda: Program(adamw, OfViews), 6),
    "views, added to": (lambda: Accumulates(adamw, OfViews), 1),
    "warm": (lambda: Schedules(adamw, warm), 5),
    "cycle of AdamW": (lambda: Schedules(adamw, cycle), 5),
    "cycle of SGD": (lambda: Schedules(momentum, cycle), 5),
    "cycle of groups": (lambda: Schedules(groups, cycle), 5),
    "stairs": (lambda: Schedules(momentum, stairs), 4),
    "warm Adadelta": (lambda: Schedules(torch.optim.Adadelta, warm), 5),
    "warm groups of RMSprop": (lambda: Schedules(apart, warm), 5),
    "groups that part": (lambda: Schedules(apart, parting), 5),
    "warm Adagrad": (lambda: Schedules(torch.optim.Adagrad, warm), 5),
    "rates that it reads": (lambda: ShowsRates(adamw, warm), 0),
    "a group that it reads": (lambda: ShowsAGroup(adamw, warm), 0),
    "rates that stay for a while": (lambda: ShowsRates(momentum, stairs), 1),
    "attributes called as options": (lambda: Schedules(adamw, warm, model=Scaled), 5),
    "schedule inside": (lambda: SchedulesInside(adamw, warm), 0),
    "two": (lambda: TwoOptimizers(adamw), 6),
    "elements": (lambda: GivesElements(adamw), 6),
    "averages": (lambda: Averages(adamw), 6),
    "by hand": (lambda: ByHand(adamw), 5),
    "of arguments": (lambda: OfArguments(adamw), 6),
    "gradients that it sets": (lambda: SetsGradients(adamw), 6),
    "frozen for a while": (lambda: FreezesForAWhile(adamw), 6),
    "gradients of unknown tensors": (lambda: GivesUnknownsGradients(adamw), 0),
}


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[Replay]:
    """Counts replays."""
    counted: list[Replay] = []
    run = Replay.run

    def counting(self: Replay, tensors: Any) -> Any:
        counted.append(self)
        return run(self, tensors)

    monkeypatch.setattr(Replay, "run", counting)
    monkeypatch.setattr(replay, "_LEAST", 0)
    dynamo.reset()
    return counted


def left(program: Program, result: Any) -> list[Any]:
    """All that a call leaves: results, parameters, gradients, buffers and state, with their versions."""
    tensors = [*torch.utils._pytree.tree_leaves(result), *program.model.parameters(), *program.model.buffers()]
    tensors += [tensor.grad for tensor in program.model.parameters()]
    tensors += [getattr(tensor, "grad", None) for tensor in program.kept.values()]
    for optimizer in (program.optimizer, getattr(program, "other", None)):
        for state in optimizer.state.values() if optimizer is not None else ():
            tensors += state.values()
    return tensors


def check(theirs: Program, theirs_result: Any, ours: Program, result: Any) -> None:
    expected, found = left(theirs, theirs_result), left(ours, result)
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        if not isinstance(a, torch.Tensor):
            assert a == b or abs(a - b) < 1e-5
            continue
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6), (a, b)
        assert a.stride() == b.stride() and a.dtype == b.dtype and a.requires_grad == b.requires_grad
        assert a._version == b._version and a.is_leaf == b.is_leaf
        assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__


def follow(make: Callable[[], Program], mode: str, changes: dict[int, Callable[[Program], Any]] | None = None) -> None:
    """Runs a program eagerly and compiled, side by side."""
    theirs, ours = make(), make()
    eager, compiled = theirs.step(), torch.compile(ours.step(), mode=mode)
    for number in range(CALLS):
        for program in (theirs, ours):
            program.before(number)
            if changes and number in changes:
                changes[number](program)
        given, same = theirs.given(number), ours.given(number)
        torch.manual_seed(100 + number)
        expected = eager(*given)
        torch.manual_seed(100 + number)
        check(theirs, expected, ours, compiled(*same))


MODES = ["default", "reduce-overhead"]
LOOKS = {"NAdam", "RAdam", "ASGD", "Adamax", "a tensor as rate"}  # at elements


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(replays: list[Replay], name: str, mode: str) -> None:
    follow(lambda: Program(OPTIMIZERS[name]), mode)
    assert len(replays) == (0 if name in LOOKS or "counting" in name else CALLS - 3 + (mode != "default"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(replays: list[Replay], name: str, mode: str) -> None:
    make, least = PROGRAMS[name]
    follow(make, mode)
    assert len(replays) >= least and bool(replays) == bool(least)


# what may change between two steps -----------------------------------------------------------------------------------


def rates(**options: Any) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        for group in program.optimizer.param_groups:
            group.update(options)

    return change


def adds_a_group(program: Program) -> None:
    program.kept["more"] = torch.nn.Parameter(torch.ones(3, device=DEVICE[0]))
    program.kept["more"].grad = torch.ones(3, device=DEVICE[0])
    program.optimizer.add_param_group({"params": [program.kept["more"]]})


def loads(program: Program) -> None:
    program.optimizer.load_state_dict(program.optimizer.state_dict())


def forgets(program: Program) -> None:
    program.optimizer.state.clear()


def counts_anew(program: Program) -> None:
    for state in program.optimizer.state.values():
        state["step"].zero_()


def has_another_mean(program: Program) -> None:
    state = next(iter(program.optimizer.state.values()))
    state["exp_avg"] = torch.ones_like(state["exp_avg"])


def doubled(parameter: Any) -> None:
    parameter.grad.mul_(2)


def hooks_a_parameter(program: Program) -> None:
    program.model[0].weight.register_hook(lambda gradient: gradient * 2)


def hooks_a_gradient(program: Program) -> None:
    program.model[0].weight.register_post_accumulate_grad_hook(doubled)


def hooks_an_accumulator(program: Program) -> None:
    node = program.kept["node"] = (
        program.model[0].weight.expand_as(program.model[0].weight).grad_fn.next_functions[0][0]
    )
    node.register_prehook(lambda gradients: (gradients[0] * 2,))


def hooks_a_module(program: Program) -> None:
    program.model[1].register_forward_hook(lambda module, args, result: result * 2)


def hooks_a_step(program: Program) -> None:
    program.optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: doubled(program.model[0].weight))


def freezes(program: Program) -> None:
    program.model[0].weight.requires_grad_(False)


def swaps_memory(program: Program) -> None:
    program.model[0].weight.data = program.model[0].weight.data * 2


def has_another_parameter(program: Program) -> None:
    program.model[0].weight = torch.nn.Parameter(program.model[0].weight.detach() * 2)


def leaves_a_gradient(program: Program) -> None:
    for parameter in program.model.parameters():
        parameter.grad = torch.ones_like(parameter)


def leaves_none(program: Program) -> None:
    program.optimizer.zero_grad()


def sets_a_class(program: Program) -> None:
    type(program.optimizer).extra = 1


CHANGES = {
    "rate": rates(lr=0.5), "no rate": rates(lr=0.0), "decay": rates(weight_decay=0.3),
    "no decay": rates(weight_decay=0.0),
    "betas": rates(betas=(0.5, 0.9)), "maximize": rates(maximize=True),
    "number of another type": rates(lr=1), "rate and betas": rates(lr=0.03, betas=(0.8, 0.99), eps=1e-3),
    "group": adds_a_group, "loaded": loads, "forgotten": forgets, "counted anew": counts_anew, "mean": has_another_mean,
    "hook": hooks_a_parameter, "hook after": hooks_a_gradient, "hook before": hooks_an_accumulator,
    "hook of a module": hooks_a_module, "hook of a step": hooks_a_step, "frozen": freezes, "memory": swaps_memory,
    "parameter": has_another_parameter, "gradient": leaves_a_gradient, "none": leaves_none,
    "eval": lambda program: program.model.eval(), "half": lambda program: program.model.requires_grad_(True),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Program, Clears, Clips, FillsWithZeros, Accumulates], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_changes_between_steps(replays: list[Replay], name: str, kind: type[Program], mode: str) -> None:
    """Each change is made in the midst of replays, and a second time, when the first may be known."""
    follow(lambda: kind(adamw), mode, {8: CHANGES[name], 11: CHANGES[name]})
    assert replays


def test_hooks_of_all_optimizers(replays: list[Replay]) -> None:
    handles = []

    def hooked(program: Program) -> None:
        if not handles:
            handles.append(
                torch.optim.optimizer.register_optimizer_step_pre_hook(
                    lambda optimizer, args, kwargs: doubled(optimizer.param_groups[0]["params"][0])
                )
            )

    try:
        follow(lambda: Program(adamw), "default", {8: hooked})
    finally:
        handles[0].remove()
    assert len(replays) == 8 - 3


@pytest.mark.filterwarnings("ignore")  # of anomaly mode
@pytest.mark.parametrize("mode", MODES)
def test_modes_that_see_a_step(replays: list[Replay], mode: str) -> None:
    """Hooks of saved tensors, anomaly mode and deterministic mode count at every call."""
    program, packed = Program(adamw), []
    step = torch.compile(program.step(), mode=mode)
    for number in range(6):
        step(*program.given(number))
    count = len(replays)
    assert count
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(0) or tensor, lambda tensor: tensor):
        step(*program.given(6))
    assert packed and len(replays) == count
    x, y = program.given(7)
    with pytest.raises(RuntimeError, match="returned nan values"), torch.autograd.detect_anomaly():
        step(x * float("nan"), y)
    assert len(replays) == count
    torch.use_deterministic_algorithms(True)
    try:
        step(*program.given(8))
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(replays) == count


# arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_arguments_in_memory_that_is_written(replays: list[Replay], mode: str) -> None:
    """What a step reads after it has written is what it wrote."""

    def run(compiles: Callable[[Callable], Callable]) -> list[Any]:
        weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()
            return x * 2

        call = compiles(step)
        apart = [call(torch.full((3,), float(number))) for number in range(5)]
        return [*apart, *(call(weight.detach()[1]) for _ in range(5)), call(torch.ones(3)), weight.detach().clone()]

    for a, b in zip(run(lambda f: f), run(lambda f: torch.compile(f, mode=mode)), strict=True):
        assert torch.allclose(a, b)
    assert replays


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_go_on_beyond_the_arguments(replays: list[Replay], mode: str) -> None:
    def run(compiles: Callable[[Callable], Callable]) -> list[Any]:
        torch.manual_seed(0)
        first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def step(x: Any) -> Any:
            loss = second(x.tanh()).square().mean()
            loss.backward()
            return loss.detach()

        call, found = compiles(step), []
        for number in range(6):
            found.append(call(first(torch.full((2, 4), float(number)))))
        return [*found, first.weight.grad, second.weight.grad]

    for a, b in zip(run(lambda f: f), run(lambda f: torch.compile(f, mode=mode)), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert not replays


def test_a_graph_that_was_kept_is_that_of_the_call(replays: list[Replay]) -> None:
    """`retain_graph` leaves a graph that can be gone through again."""
    weight = torch.nn.Parameter(torch.ones(3))

    def step(x: Any) -> Any:
        loss = (weight * x).square().sum()
        loss.backward(retain_graph=True)
        return loss

    call = torch.compile(step)
    for number in range(6):
        weight.grad = None
        loss = call(torch.full((3,), float(number)))
        loss.backward()
        assert torch.equal(weight.grad, torch.full((3,), 4.0 * number**2))
    assert not replays


def gives_one(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    return loss.item()


def gives_several(x: Any) -> Any:
    least, most = x.min(), x.max()
    total = (x * 3).tanh().sum()
    return {"range": (least.item(), most.item()), "total": total.item(), "kind": "tanh"}


def branches(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    return loss.item() if x.sum() > 10 else 0.0


def computes(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    return loss.item() + 1


def looks_again(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    return loss.item(), loss.item() > 2


def looks_before(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    if loss.item() > 5:
        return 0.0
    return loss.item()


def of_a_call(x: Any) -> Any:
    return gives_one(x), 2


def cleans_up(x: Any) -> Any:
    loss = (x * 2 + 1).exp().mean()
    with torch.no_grad():
        return loss.item()


def of_an_argument(x: Any) -> Any:
    (x * 2 + 1).exp().mean()
    first = x[0, 0]
    return first.item()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("fn", "replayed"), [
    (gives_one, True), (gives_several, True), (branches, False), (computes, False), (looks_again, False),
    (looks_before, False), (of_a_call, False), (cleans_up, False), (of_an_argument, False),
])  # fmt: skip
def test_elements_that_are_only_returned(replays: list[Replay], fn: Callable, replayed: bool, mode: str) -> None:
    compiled = torch.compile(fn, mode=mode)
    for number in range(7):
        x = torch.linspace(-1, number - 1, 12).reshape(3, 4)
        expected, found = (torch.utils._pytree.tree_flatten(one(x)) for one in (fn, compiled))
        assert expected[1] == found[1] and [*map(type, expected[0])] == [*map(type, found[0])]
        for a, b in zip(expected[0], found[0], strict=True):
            assert a == b or abs(a - b) < 1e-5
    assert bool(replays) is replayed, compiled._region.replays.reasons()


def test_spent_graphs_are_refused_as_in_eager(replays: list[Replay]) -> None:
    program = Program(adamw)
    call = torch.compile(program.step())
    for number in range(6):
        loss = call(*program.given(number))
    assert replays and loss.grad_fn is not call(*program.given(7)).grad_fn
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


def test_gradients_are_no_ones_but_their_parameters(replays: list[Replay]) -> None:
    """A replay writes over nothing that was given before."""
    program = Clears(adamw)
    call = torch.compile(program.step())
    kept: list[Any] = []
    for number in range(8):
        program.before(number)
        call(*program.given(number))
        gradient = program.model[0].weight.grad
        kept.append((gradient, gradient.clone()))
    assert replays and all(torch.equal(now, then) for now, then in kept)
    assert len({gradient.data_ptr() for gradient, _ in kept}) == len(kept)


def test_memory_of_a_replayed_step_is_not_more_than_that_of_eager() -> None:
    """The gradients of the step before are gone when it computes."""
    import tracemalloc

    def peak(call: Callable, program: Program) -> int:
        given = program.given(0)
        call(*given)
        tracemalloc.start()
        try:
            call(*given)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            call(*given)
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    def wide() -> Any:
        return torch.nn.Sequential(
            torch.nn.Linear(4, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Linear(512, 3)
        )

    dynamo.reset()
    eager, compiled = Program(adamw, wide), Program(adamw, wide)
    step = torch.compile(compiled.step())
    for _ in range(6):
        step(*compiled.given(0))
    assert peak(step, compiled) < peak(eager.step(), eager) + (1 << 17)
