"""The Ascend NPU. Its keys and registrations exist; the runtime behind them does not yet."""

from collections.abc import Callable
from typing import Any

from ..._dispatch.registry import Operator

UNAVAILABLE = ("the NPU runtime (CANN's libascendcl) is not available in this build of mindtorch_v2: "
               "torch.npu.is_available() is False")  # fmt: skip


def unavailable_kernel(operator: Operator) -> Callable:
    """The kernel every operator has for NPU until the runtime is there."""

    def kernel(*args: Any) -> Any:
        raise RuntimeError(f"{operator.name} cannot run on device 'npu': {UNAVAILABLE}")

    return kernel
