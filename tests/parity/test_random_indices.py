"""Random indices read and write the same elements as in PyTorch (see random_indices.py)."""

import pytest

torch = pytest.importorskip("torch", reason="compares with the real PyTorch")

from random_indices import run  # noqa: E402

import mindtorch_v2  # noqa: E402


def test_random_indices_read_and_write_as_in_pytorch() -> None:
    found, outcomes = run(4000, 0, torch, mindtorch_v2)
    assert outcomes["done"] > 1000  # most of the others are refused by both
    assert not found, "\n".join(found[:5])
