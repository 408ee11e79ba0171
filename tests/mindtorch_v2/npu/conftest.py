"""Puts the simulator on the path and starts it; without a C compiler the tests are skipped."""

import gc
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

FOLDER = str(pathlib.Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.append(FOLDER)


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A freshly started simulated machine; afterwards everything must have been given back, with no duty neglected."""
    from simulator import compiler, simulator

    if compiler() is None:
        pytest.skip("no C compiler: the simulated NPU cannot be built")
    from mindtorch_v2._backends.npu import runtime

    machine = simulator()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(machine.root))
    runtime.stop()
    machine.restart()
    yield machine
    gc.collect()  # a caught exception holds the frames it passed, and what was allocated there
    runtime.stop()
    assert machine.violations == []
    assert machine.counts() == {}
