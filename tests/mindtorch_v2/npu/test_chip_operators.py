"""Samples of the operators on simulated chips: one in forty, or all with MINDTORCH_NPU_SAMPLES=all."""

import os
from typing import Any

import chip_cases
import operator_cases as samples
import pytest
from test_operators_npu import gradients

ALL = os.environ.get("MINDTORCH_NPU_SAMPLES") == "all"
STEP = 1 if ALL else 40
CHOSEN = list(samples.sampled().values())


@pytest.mark.parametrize("what", ["backward", "in_place", *chip_cases.TYPES])
@pytest.mark.parametrize("chip", chip_cases.SWEPT)
def test_equal_or_refused(on_chip: Any, chip: str, what: str) -> None:
    first = 0 if ALL else (chip_cases.SWEPT.index(chip) + 3 * len(what)) % STEP  # other operators for each
    chosen = CHOSEN[first::STEP]
    with on_chip(chip) as machine:
        sweep = chip_cases.Sweep(machine)
        if what == "backward":
            chip_cases.backward(sweep, chosen, gradients)
        elif what == "in_place":
            chip_cases.in_place(sweep, chosen)
        else:
            chip_cases.forward(sweep, chosen, what)
        print(f"\n{chip}, {what}: {sweep.equal} equal, {len(sweep.refused)} operators refused")
        assert not sweep.different
        assert sweep.equal
