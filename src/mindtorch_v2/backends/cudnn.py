"""torch.backends.cudnn: switches that programs set before they train."""

from typing import Any

from ._switches import flags_of

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def version() -> int | None:
    """The version of the cuDNN library; None without one, or without a CUDA device."""
    from .._backends.cuda import runtime

    if not runtime.is_available():
        return None
    from .._backends.cuda import cudnn

    return cudnn.version()


def is_available() -> bool:
    return version() is not None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take the tensor."""
    return enabled and tensor.device.type == "cuda" and tensor.is_floating_point() and is_available()


flags = flags_of(__name__, enabled="enabled", benchmark="benchmark", benchmark_limit="benchmark_limit",
                 deterministic="deterministic", allow_tf32="allow_tf32", fp32_precision="fp32_precision")
