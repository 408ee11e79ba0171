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


def gradients_differ(seed):
    """How gradients through a compiled chain of operators differ, and whether its calls were replayed."""
    source = random.Random(seed)
    inputs = [torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(), torch.full((4,), 0.5, requires_grad=True)]
    first, second = inputs
    steps, shown = [], torch.ones(3, 4)
    while len(steps) < 7:
        table = source.choices([UNARY, VIEWS, BINARY, DRAWN], [4, 2, 4, 1])[0]
        step = table, source.choice(sorted(set(table) - LOOKS)), source.randrange(2)
        try:
            next_one = _stepped(step, shown, first, second).detach()
        except Exception:  # what does not fit is left out
            continue
        if next_one.is_floating_point():
            shown = next_one
            steps.append(step)

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
