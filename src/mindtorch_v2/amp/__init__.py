"""torch.amp: computing in lower precision where that is safe."""

from .autocast_mode import autocast, is_autocast_available

__all__ = ["autocast", "is_autocast_available"]
