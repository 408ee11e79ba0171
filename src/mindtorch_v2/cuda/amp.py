"""torch.cuda.amp: torch.amp for the device "cuda", under its old names."""

from typing import Any

from ..amp import GradScaler as _GradScaler
from ..amp import autocast as _autocast
from ..amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_autocast):
    """`torch.autocast("cuda")`."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        from .._dtype import float16

        super().__init__("cuda", enabled=enabled, dtype=dtype or float16, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """`torch.amp.GradScaler("cuda")`."""

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
