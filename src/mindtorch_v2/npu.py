"""torch.npu: what can be asked of the Ascend NPU before its runtime is there."""

import sys
from typing import Any

from ._backends.npu import UNAVAILABLE


def is_available(verbose: bool = False) -> bool:
    """Whether CANN's runtime can be used; with `verbose`, says why not."""
    if verbose:
        print(f"NPU: {UNAVAILABLE}", file=sys.stderr)
    return False


def device_count() -> int:
    return 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"torch.npu.{name} needs the NPU runtime: {UNAVAILABLE}")
