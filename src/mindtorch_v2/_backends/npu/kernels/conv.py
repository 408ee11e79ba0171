"""NPU kernels of convolutions."""

from collections.abc import Callable
from typing import Any

from ..families import given


@given("row")
def convolution(row: Callable, *args: Any) -> Any:
    """A single number for all dimensions is written out, as ACLNN wants it."""
    at = 2 if len(args) == 11 else 1  # the weight; one more argument, and then the numbers
    rank = args[at].dim() - 2
    return row(*args[: at + 2], *(v * rank if v.__class__ is tuple and len(v) == 1 else v for v in args[at + 2 :]))
