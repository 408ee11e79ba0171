"""Groups of the pipeline (_pipeline/fuse.py) on a GPU: the expressions of several calls in one kernel."""

from collections.abc import Callable
from typing import Any

from .array import layout_of, quick_empty
from .group_sources import Written
from .launch import Launch, compiled


def allocation(layout: Any) -> Callable[[], Any]:
    """What makes arrays of a layout of the pipeline's."""
    own, where = layout_of(layout.shape, layout.dtype, layout.strides), layout.device
    return lambda: quick_empty(own, where)


def launch_of(written: Written) -> Launch:
    """What launches the kernel of a group."""
    return Launch(compiled(written.text, written.name), written.format, written.grid, written.block, written.fixed)
