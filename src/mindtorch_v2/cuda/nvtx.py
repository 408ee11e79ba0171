"""torch.cuda.nvtx: ranges and marks that NVIDIA's profilers show; nothing happens without CuPy."""

import contextlib
from collections.abc import Iterator
from typing import Any

from .._backends.cuda import runtime as _runtime

__all__ = ["mark", "range", "range_pop", "range_push"]

_depth = [0]


def _nvtx() -> Any:
    if not _runtime.is_available():
        return None
    import cupy

    return cupy.cuda.nvtx


def range_push(msg: str) -> int:
    """Begins a range; how many it lies in comes back."""
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.RangePush(msg)
    _depth[0] += 1
    return _depth[0] - 1


def range_pop() -> int:
    """Ends the range begun last."""
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.RangePop()
    _depth[0] -= 1
    return _depth[0]


def mark(msg: str) -> None:
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - PyTorch's name
    """A range around a block; the message is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
