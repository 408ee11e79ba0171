"""Random programs give the same under torch.compile as without it: values, versions, gradients, views, errors."""

import random

import pytest
from tests.mindtorch_v2.test_pipeline_fuzz import DEVICE, UNARY, differences, interpreted, run, same_values, told

import mindtorch_v2 as torch

__all__ = ["interpreted"]  # a fixture


@pytest.mark.parametrize("settings", [{}, {"backend": lambda gm, inputs: gm.forward}], ids=["plans", "graphs"])
def test_programs_under_compile(interpreted, settings):
    def way(statements, seed):
        return torch.compile(run, **settings)(statements, seed)

    found = {told(seed): wrong for seed in range(2000, 2070) if (wrong := differences(seed, way))}
    assert not found


def test_pure_programs_are_replayed():
    """Chains of operators on an argument, called again with other elements."""
    looks = {"item", "nonzero", "masked", "data"}
    ran = 0
    for seed in range(60):
        source = random.Random(seed)
        names = [source.choice(sorted(set(UNARY) - looks)) for _ in range(source.randint(4, 9))]

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
