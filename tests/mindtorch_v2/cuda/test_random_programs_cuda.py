"""Random tensor programs give on a CUDA device what they give on the CPU, line by line (see tests/parity).

Shapes, types, strides, versions, history, gradients, hooks and errors are equal, values up to rounding.
"""

import functools

import pytest
from random_programs import Program, differing, drawn, report

program = functools.partial(Program, "mindtorch_v2", reference="mindtorch_v2", device="cuda")
COUNT = 100


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_run_as_on_the_cpu(seed: int) -> None:
    found = differing(program, drawn(seed, COUNT, length=24))
    assert not found, f"{sum(map(len, found.values()))} of {COUNT} programs differ\n{report(program, found, show=3)}"
