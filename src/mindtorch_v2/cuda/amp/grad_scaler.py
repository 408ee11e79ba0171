"""The gradient scaler for CUDA."""

from ...amp._old_names import scaler_of
from ...amp.grad_scaler import OptState

__all__ = ["GradScaler", "OptState"]

GradScaler = scaler_of("cuda")
