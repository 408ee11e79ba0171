"""Random configurations of modules, operators, optimizers and distributions give what PyTorch gives.

See random_configurations.py. PARITY_CONFIGURATIONS is their number, PARITY_SEED another seed.
"""

import os

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from configuration import Side, difference  # noqa: E402
from random_configurations import FAMILIES, drawn  # noqa: E402

COUNT = int(os.environ.get("PARITY_CONFIGURATIONS", "1000"))
SEED = int(os.environ.get("PARITY_SEED", "0"))
# Two, and one in so many more, may differ: PyTorch's own errors, such as the entropy of an expanded Multinomial, and
# rounding that is amplified.
ALLOWED = 400


@pytest.mark.parametrize("family", FAMILIES)
def test_configurations_agree(family: str) -> None:
    reference, candidate = Side("torch"), Side("mindtorch_v2")
    count = COUNT * FAMILIES[family][0] // 100
    found = []
    for number, _, configuration in drawn(SEED, count, family):
        told = difference(configuration, reference, candidate)
        if told:
            found.append(f"{SEED} {number} {configuration.name}\n{configuration.source()}\n# {told}\n")
    assert len(found) <= 2 + count // ALLOWED, "\n".join(found)
