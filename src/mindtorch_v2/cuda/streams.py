"""torch.cuda.streams."""

from . import Event, ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]
