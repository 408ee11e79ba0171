"""Random tensor programs behave in the library as in PyTorch, line by line (see random_programs.py).

PARITY_MODULE names the library, PARITY_PROGRAMS the number of programs; PARITY_RANDOM=1 tries new ones every time, and
PARITY_ERROR_TEXTS=0 compares only the types of errors.
"""

import os

import pytest

pytest.importorskip("torch", reason="compares with the real PyTorch")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from random_programs import STEP_BYTES, Program  # noqa: E402

MODULE = os.environ.get("PARITY_MODULE", "mindtorch_v2")
ERROR_TEXTS = os.environ.get("PARITY_ERROR_TEXTS", "1") == "1"


@settings(
    max_examples=int(os.environ.get("PARITY_PROGRAMS", "300")),
    derandomize=os.environ.get("PARITY_RANDOM", "0") != "1",
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES), min_size=8, max_size=24))
def test_random_programs_behave_as_in_pytorch(steps: list[bytes]) -> None:
    program = Program(MODULE, ERROR_TEXTS)
    try:
        program.run(steps)
    finally:
        program.leave()
