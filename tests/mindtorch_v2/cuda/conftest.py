"""Tests of CUDA devices; without one they are skipped."""

import pathlib
import sys

import pytest

from mindtorch_v2._backends.cuda.runtime import why_unavailable

FOLDER = str(pathlib.Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
REASON = why_unavailable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if REASON is not None:
        for item in items:
            if "mindtorch_v2/cuda/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=f"no CUDA device ({REASON})"))


@pytest.fixture(autouse=True)
def exact_convolutions():
    """PyTorch's default lets cuDNN round factors to TF32, which the comparison with the CPU must not."""
    from mindtorch_v2.backends import cudnn

    before, cudnn.allow_tf32 = cudnn.allow_tf32, False
    yield
    cudnn.allow_tf32 = before
