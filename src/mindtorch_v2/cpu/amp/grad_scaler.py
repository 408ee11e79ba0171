"""The gradient scaler for the CPU."""

from ...amp._old_names import scaler_of

__all__ = ["GradScaler"]

GradScaler = scaler_of("cpu")
