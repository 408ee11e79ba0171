"""torch.backends.cudnn: switches that programs set before they train."""

from ._switches import flags_of

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    return False


def version() -> int | None:
    """The version of the cuDNN library; None without one."""
    return None


def is_acceptable(tensor: object) -> bool:
    return False


flags = flags_of(__name__, enabled="enabled", benchmark="benchmark", benchmark_limit="benchmark_limit",
                 deterministic="deterministic", allow_tf32="allow_tf32", fp32_precision="fp32_precision")
