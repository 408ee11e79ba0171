"""torch.nn.attention: which kernel computes attention, and biases for it."""

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from ...backends import cuda as _switches

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Kernels of scaled_dot_product_attention."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = -1, 0, 1, 2, 3, 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Allows only these kernels inside a with block; all give the same values."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    with _switches.sdp_kernel(SDPBackend.FLASH_ATTENTION in chosen, SDPBackend.MATH in chosen,
                              SDPBackend.EFFICIENT_ATTENTION in chosen, SDPBackend.CUDNN_ATTENTION in chosen):
        yield


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("bias", "flex_attention"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
