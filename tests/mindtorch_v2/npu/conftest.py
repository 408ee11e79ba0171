"""Puts the simulator on the path and starts it; without a C compiler the tests are skipped.

With MINDTORCH_NPU=real the same tests run on the hardware of this machine, as far as they do not look into the
simulator.
"""

import gc
import os
import pathlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FOLDER = str(pathlib.Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
REAL = os.environ.get("MINDTORCH_NPU") == "real"


class Hardware:
    """Stands for the simulator on a machine with an NPU: a test that asks it for anything is left out."""

    violations: tuple = ()

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"needs the simulator ({name})")


@contextmanager
def running(chip: str = "A2") -> Iterator[Any]:
    """A freshly started machine with a chip; afterwards everything must have been given back."""
    from mindtorch_v2._backends.npu import runtime

    if REAL:
        reason = runtime.why_unavailable()
        assert reason is None, f"MINDTORCH_NPU=real, but {reason}"
        yield Hardware()
        return
    from simulator import compiler, simulator

    if compiler() is None:
        pytest.skip("no C compiler: the simulated NPU cannot be built")
    machine = simulator()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ASCEND_HOME_PATH", str(machine.root))
        runtime.stop()
        machine.restart()
        machine.chip = chip
        yield machine
        gc.collect()  # a caught exception holds the frames it passed, and what was allocated there
        runtime.stop()
    assert machine.violations == []
    assert machine.counts() == {}


@pytest.fixture(scope="session", autouse=True)
def old_objects_apart() -> Iterator[None]:
    """What was there before these tests is not gone through after each of them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def npu() -> Iterator[Any]:
    """A machine of a test's own: no duty may be neglected, and nothing left behind."""
    with running() as machine:
        yield machine


@pytest.fixture
def on_chip() -> Any:
    """`on_chip("310P")` is a machine with that chip, for a `with`."""
    if REAL:
        pytest.skip("needs the simulator (chips)")
    return running


@pytest.fixture(scope="module")
def machine_of_module() -> Iterator[Any]:
    with running() as machine:
        yield machine


@pytest.fixture
def shared_npu(machine_of_module: Any) -> Iterator[Any]:
    """A machine that the tests of a module share; what they leave behind is looked for at its end."""
    yield machine_of_module
    neglected, machine_of_module.violations = machine_of_module.violations, []
    assert not neglected
