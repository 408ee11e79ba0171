"""Random bad calls are refused as PyTorch refuses them (see random_bad_calls.py).

PARITY_MODULE names the library, PARITY_BAD_CALLS the number of calls, PARITY_SEED the sequence.
"""

import os
from collections import Counter

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from random_bad_calls import run  # noqa: E402

MODULE = os.environ.get("PARITY_MODULE", "mindtorch_v2")


def test_random_bad_calls_are_refused_as_in_pytorch() -> None:
    shown: list[str] = []

    def report(kind: str, call: object, theirs: object, ours: object) -> None:
        if kind in ("accepted", "internal", "numpy", "changed"):
            shown.append(f"{kind}: {call}\n    {theirs}\n    {ours}")

    count = int(os.environ.get("PARITY_BAD_CALLS", "300"))
    found: Counter = run(count, int(os.environ.get("PARITY_SEED", "0")), MODULE, report)
    assert not found["changed"] and len(shown) <= 0.01 * count, "\n".join(shown)
    assert found["same"] >= 0.97 * count, found
