"""torch.cpu.amp: torch.amp for the CPU, under old names that warn."""

from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
