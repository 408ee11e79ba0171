"""Calls of classes and modules with one argument broken raise the class that PyTorch raises (random_bad_classes.py)."""

import os
from collections import Counter

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from configuration import Side, told  # noqa: E402
from random_bad_classes import drawn, outcomes, verdict  # noqa: E402

COUNT = int(os.environ.get("PARITY_BAD_CLASSES", "300"))


def test_broken_calls_raise_the_same() -> None:
    reference, candidate = Side("torch"), Side("mindtorch_v2")
    counts: Counter[str] = Counter()
    shown = []
    for number, configuration in drawn(0, COUNT):
        results = outcomes(configuration, (reference, candidate))
        said = verdict(*results)
        counts[said] += 1
        if said not in ("same", "both accept"):
            shown.append(f"{number} {said}: {configuration.source()}\n# {told(results[0])}, here {told(results[1])}\n")
    refused = COUNT - counts["both accept"] - counts["refused here only"]
    assert counts["accepted"] + counts["internal error"] + counts["numpy text"] <= 0.005 * refused, "\n".join(shown)
    assert counts["same"] >= 0.98 * refused, "\n".join(shown)
