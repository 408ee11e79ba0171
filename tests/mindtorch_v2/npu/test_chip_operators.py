"""Samples of the operators on simulated chips, one in forty; `tools/npu_chips.py` runs all of them."""

from typing import Any

import chip_cases
import operator_cases as samples
import pytest

STEP = 40
CHOSEN = list(samples.sampled().values())


@pytest.mark.parametrize("what", chip_cases.WHAT)
@pytest.mark.parametrize("chip", chip_cases.SWEPT)
def test_equal_or_refused(on_chip: Any, chip: str, what: str) -> None:
    first = (chip_cases.SWEPT.index(chip) + 3 * len(what)) % STEP  # other operators for each
    with on_chip(chip) as machine:
        sweep = chip_cases.sweep_of(machine, CHOSEN[first::STEP], what)
        assert not sweep.different
        assert sweep.equal
