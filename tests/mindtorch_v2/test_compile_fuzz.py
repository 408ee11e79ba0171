"""Random programs give the same under torch.compile as without it: values, versions, gradients, views, errors."""

import random

import pytest
from tests.mindtorch_v2.test_pipeline_fuzz import (
    BINARY,
    DEVICE,
    DRAWN,
    UNARY,
    VIEWS,
    differences,
    interpreted,
    run,
    same_values,
    told,
)

import mindtorch_v2 as torch

__all__ = ["interpreted"]  # a fixture
LOOKS = {"item", "nonzero", "masked", "data", "state", "seed"}


@pytest.mark.parametrize("settings", [{}, {"backend": lambda gm, inputs: gm.forward}], ids=["plans", "graphs"])
def test_programs_under_compile(interpreted, settings):
    def way(statements, seed):
        return torch.compile(run, **settings)(statements, seed)

    found = {told(seed): wrong for seed in range(2000, 2070) if (wrong := differences(seed, way))}
    assert not found


def test_pure_programs_are_replayed():
    """Chains of operators on an argument, called again with other elements."""
    ran = 0
    for seed in range(60):
        source = random.Random(seed)
        names = [source.choice(sorted(set(UNARY) - LOOKS)) for _ in range(source.randint(4, 9))]

        def chain(x, names=names):
            for name in names:
                x = UNARY[name](x)
            return x

        compiled = torch.compile(chain, mode="reduce-overhead")
        with torch.no_grad():
            for number in range(4):
                given = torch.linspace(-2, 2 + number, 12, device=DEVICE[0]).reshape(3, 4)
                outcome = []
                for fn in (chain, compiled):
                    try:
                        outcome.append(fn(given))
                    except Exception as error:
                        outcome.append(f"{type(error).__name__}: {error}")
                if isinstance(outcome[0], str):
                    assert outcome[0] == outcome[1], names
                else:
                    assert outcome[0].dtype == outcome[1].dtype and same_values(*outcome), names
        ran += any(type(k).__name__ == "Replay" for k in compiled._region.replays.known.values())
    assert ran > 20


def _trained(fn, number, inputs):
    """The result, or the error, and the gradients of a call and of what came before and comes after it."""
    torch.manual_seed(number)
    leaves = [torch.linspace(-2, 2 + number, 12).reshape(3, 4).requires_grad_(), *inputs]
    try:
        made = fn(leaves[0] * 1.5)
        if made.requires_grad:
            (made * made).double().sum().backward()
        return [made.detach(), *(t.grad for t in leaves)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        for tensor in inputs:
            tensor.grad = None


def _stepped(step, x, first, second):
    table, name, at = step
    return table[name](x, second if at else first) if table is BINARY else table[name](x)


def _random_steps(source, count, left_out, first, second):
    """Operators that fit one after the other, and give numbers that have gradients."""
    steps, shown = [], torch.ones(3, 4)
    while len(steps) < count:
        table = source.choices([UNARY, VIEWS, BINARY, DRAWN], [4, 2, 4, 1])[0]
        step = table, source.choice(sorted(set(table) - left_out)), source.randrange(2)
        try:
            next_one = _stepped(step, shown, first, second).detach()
        except Exception:  # what does not fit is left out
            continue
        if next_one.is_floating_point():
            shown = next_one
            steps.append(step)
    return steps


def gradients_differ(seed):
    """How gradients through a compiled chain of operators differ, and whether its calls were replayed."""
    source = random.Random(seed)
    inputs = [torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(), torch.full((4,), 0.5, requires_grad=True)]
    first, second = inputs
    steps = _random_steps(source, 7, LOOKS, first, second)

    def chain(x):
        for step in steps:
            x = _stepped(step, x, first, second)
        return x

    compiled = torch.compile(chain, mode="reduce-overhead")
    for number in range(4):
        expected, found = _trained(chain, number, inputs), _trained(compiled, number, inputs)
        alike = [type(expected) is type(found)] if isinstance(expected, str) or isinstance(found, str) else [
            (a is None) is (b is None) and (a is None or a.dtype == b.dtype and same_values(a, b))
            for a, b in zip(expected, found, strict=True)]  # fmt: skip
        if not all(alike) or isinstance(expected, str) and expected != found:
            return f"{seed}: {[(n, at) for _, n, at in steps]} call {number}: {expected} and {found}", False
    return "", any(type(k).__name__ == "Replay" for k in compiled._region.replays.known.values())


@pytest.mark.filterwarnings("ignore")
def test_gradients_of_replayed_programs():
    outcome = [gradients_differ(seed) for seed in range(80)]
    assert not [wrong for wrong, _ in outcome if wrong]
    assert sum(replayed for _, replayed in outcome) > 20


OPTIMIZERS = [
    lambda params: torch.optim.SGD(params, lr=0.01, momentum=0.9), lambda params: torch.optim.AdamW(params, lr=0.01),
    lambda params: torch.optim.RMSprop(params, lr=0.01), lambda params: torch.optim.Adam(params, lr=0.01, amsgrad=True),
    lambda params: torch.optim.SGD([{"params": params[:1], "lr": 0.1}, {"params": params[1:]}], lr=0.01),
]  # fmt: skip
JUMPS = {"floor", "sign", "where", "less", "bfloat16", "half", "poisson", "bernoulli"}  # by more than a rounding
KEPT = ("buffer", "statistics", "clipped", "none", "mean")  # what a step does besides


def _program(seed):
    """A random step with parameters, an optimizer and a buffer, what is done between calls, and what all state is."""
    source = random.Random(seed)
    first, second = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(), torch.full((4,), 0.5, requires_grad=True)
    spare = torch.ones(3, requires_grad=True)  # which nothing is computed with
    buffer = torch.zeros(4)
    optimizer = source.choice(OPTIMIZERS)([first, second, spare])
    steps = _random_steps(source, 6, LOOKS | JUMPS, first, second)
    drops, does = source.choice(("before", "after", "zeros", "outside", "never")), source.sample(KEPT, 2)
    gives, rates = source.choice(("loss", "detached", "gradient", "both")), source.random() < 0.4

    def step(x):
        if drops in ("before", "zeros"):
            optimizer.zero_grad(set_to_none=drops == "before")
        made = x * first + second
        for one in steps:
            made = _stepped(one, made, first, second)
        loss = (made * made).double().mean() + (first * 0.1).square().sum() + second.sum() * 0.01
        loss.backward()
        if "clipped" in does:
            torch.nn.utils.clip_grad_norm_([first, second], 1.0)
        if "statistics" in does:
            buffer.mul_(0.9).add_(first.detach().mean(0))
        optimizer.step()
        if "buffer" in does:
            buffer.copy_(second.detach())
        extra = first.grad.sum() if gives == "gradient" else None
        if drops == "after":
            optimizer.zero_grad()
        return {"loss": loss, "detached": loss.detach(), "gradient": extra, "both": (loss, made.detach())}[gives]

    def between(number):
        if drops == "outside" or drops == "never" and number % 4 == 0:
            optimizer.zero_grad()
        for group in optimizer.param_groups if rates else ():
            group["lr"] *= 0.9
        if number == 9:
            first.grad = None

    def state():
        kept = [value for own in optimizer.state.values() for value in own.values()]
        tensors = [first, second, spare, buffer, *kept, first.grad, second.grad, spare.grad]
        return [(t is None or (t.detach(), t._version, t.requires_grad)) for t in tensors]

    return step, between, state


def steps_differ(seed, mode):
    """How a compiled training step differs from an eager one, and whether it was replayed."""
    (step, between, state), (same, other_between, other_state) = _program(seed), _program(seed)
    compiled = torch.compile(same, mode=mode)
    for number in range(12):
        between(number)
        other_between(number)
        outcome = []
        for fn in (step, compiled):
            torch.manual_seed(number)
            try:
                outcome.append(fn(torch.linspace(-2, 2 + number, 12).reshape(3, 4)))
            except Exception as error:
                outcome.append(f"{type(error).__name__}: {error}")
        if any(isinstance(one, str) for one in outcome):
            return "" if outcome[0] == outcome[1] else f"{seed}: {outcome}", False
        pairs = list(zip(*[torch.utils._pytree.tree_leaves([one, now()]) for one, now in
                           zip(outcome, (state, other_state), strict=True)], strict=True))  # fmt: skip
        for a, b in pairs:
            fits = a is b or (same_values(a, b) and a.requires_grad == b.requires_grad if isinstance(a, torch.Tensor)
                              else a == b)  # fmt: skip
            if not fits:
                return f"{seed}, call {number}: {a} and {b}", False
            if isinstance(a, torch.Tensor) and a is not b:
                b._array[...] = a._array  # so that another rounding does not grow from call to call
    return "", any(type(k).__name__ == "Replay" for k in compiled._region.replays.known.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_random_training_steps(mode):
    outcome = [steps_differ(seed, mode) for seed in range(60)]
    assert not [wrong for wrong, _ in outcome if wrong]
    assert sum(replayed for _, replayed in outcome) > 30
