"""Tests of CUDA devices; without one they are skipped."""

import pytest

from mindtorch_v2._backends.cuda.runtime import why_unavailable

REASON = why_unavailable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if REASON is not None:
        for item in items:
            if "mindtorch_v2/cuda/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=f"no CUDA device ({REASON})"))
