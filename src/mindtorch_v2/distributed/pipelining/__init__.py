"""torch.distributed.pipelining: a model's layers in stages on processes, and microbatches that go through them."""

from ..._compat.absent import absent_class, absent_function
from .schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
    _ScheduleForwardOnly,
)
from .stage import PipelineStage

__all__ = ["Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
           "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage",
           "pipe_split", "pipeline"]

_BY_HAND = "It needs torch.export. Cut the model by hand: PipelineStage(part, index, number, device)."
_UNSPLIT = "Backward is not split into that of inputs and that of weights. Use ScheduleInterleaved1F1B."
_PLACE = "torch.distributed.pipelining"
Pipe, SplitPoint = (absent_class(f"{_PLACE}.{name}", _BY_HAND) for name in ("Pipe", "SplitPoint"))
pipeline, pipe_split, build_stage = (absent_function(f"{_PLACE}.{name}", _BY_HAND)
                                     for name in ("pipeline", "pipe_split", "build_stage"))
ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble, ScheduleDualPipeV = (
    absent_class(f"{_PLACE}.{name}", _UNSPLIT)
    for name in ("ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"))
