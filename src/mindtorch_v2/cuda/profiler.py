"""torch.cuda.profiler: tells NVIDIA's profilers where to look."""

import contextlib
from collections.abc import Iterator

from .._backends.cuda import runtime as _runtime

__all__ = ["profile", "start", "stop"]


def start() -> None:
    _runtime.require()
    import cupy

    cupy.cuda.runtime.profilerStart()


def stop() -> None:
    _runtime.require()
    import cupy

    cupy.cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Profiles what runs inside."""
    start()
    try:
        yield
    finally:
        stop()
