"""Hostile files do no harm, damaged and good ones are read as PyTorch reads them (see random_files.py)."""

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from random_files import complaints  # noqa: E402


def test_random_files_are_loaded_or_refused_as_they_should_be() -> None:
    assert list(complaints(0, range(400))) == []
