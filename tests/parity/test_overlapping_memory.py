"""Writes into memory that is shared are refused as in PyTorch, operator by operator (see overlapping_memory.py)."""

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from overlapping_memory import Side, differences, entries_of  # noqa: E402


def test_writes_into_shared_memory_are_refused_as_in_pytorch() -> None:
    reference, candidate = Side("torch"), Side("mindtorch_v2")
    ends = [end for entry in entries_of() for end in differences(entry, reference, candidate, ["float32"], 1)]
    assert len(ends) > 2500
    found = [f"{where}: {text}" for where, text in ends if text]
    assert not found, "\n".join(found[:10])
