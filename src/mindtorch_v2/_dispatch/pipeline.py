"""`torch.pipeline()`: the package that records (_pipeline/) is imported when the first block is entered."""

from collections.abc import Callable
from typing import Any

from .keys import DispatchKey
from .registry import Around, Operator, registry


def pipeline(explain: bool = False) -> Any:
    """A context in which operations are recorded and run together at a flush; with `explain`, explain() tells all."""
    return (_kind or _imported())(explain)


_kind: Any = None  # the class of a block, once it is imported


def _imported() -> Any:
    global _kind
    from .._pipeline.record import Pipeline

    _kind = Pipeline
    return Pipeline


def _recording(operator: Operator, below: Callable, mask: int) -> Callable:
    from .._pipeline.record import kernel_of

    return kernel_of(operator, below, mask)


pipeline_context = pipeline  # the name in this module; `pipeline` is the public one
registry.register_for_all(DispatchKey.Pipeline, Around(_recording))
