"""Puts the modules that tests share on the path (with import mode importlib pytest does not), and hides GPUs."""

import pathlib
import sys

import pytest

from mindtorch_v2._backends.cuda import runtime

FOLDER = str(pathlib.Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.append(FOLDER)


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has no CUDA device."""
    monkeypatch.setattr(runtime, "why_unavailable", lambda: "hidden by the test")
    monkeypatch.setattr(runtime, "device_count", lambda: 0)
