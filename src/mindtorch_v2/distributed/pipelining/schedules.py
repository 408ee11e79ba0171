"""In which order a process runs its stages' passes of microbatches, and the one loop that runs them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from .microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks
from .stage import PipelineStage

__all__ = ["PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe",
           "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "get_schedule_class"]


class Pass(NamedTuple):
    """A pass of a microbatch through a stage."""

    stage: int
    is_backward: bool
    microbatch: int


class _PipelineSchedule(ABC):
    """Runs steps on batches: cut into microbatches, which go through the stages in the schedule's order."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None,
                 args_chunk_spec: tuple[TensorChunkSpec, ...] | None,
                 kwargs_chunk_spec: dict[str, TensorChunkSpec] | None, output_merge_spec: Any,
                 scale_grads: bool) -> None:
        self._stages, self._n_microbatches, self._loss_fn = stages, n_microbatches, loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._has_backward = loss_fn is not None
        self._num_stages, self.rank = stages[0].num_stages, stages[0].group_rank
        self.pp_group_size = stages[0].group_size
        self._losses: list[Any] = []
        for stage in stages:
            stage.has_backward = self._has_backward

    @abstractmethod
    def _order(self) -> list[Pass]:
        """What this process does in a step."""

    def _forward_order(self) -> list[Pass]:
        """What it does without backward passes."""
        return [each for each in self._order() if not each.is_backward]

    def step(self, *args: Any, target: Any = None, losses: list | None = None, return_outputs: bool = True,
             loss_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        """Forward and backward passes of a batch; the outputs where the last stage is.

        The first stage takes `args`, every one its own process's `kwargs`, the last one `target`; `losses` is filled
        with those of the microbatches.
        """
        if self._has_backward and not torch.is_grad_enabled():
            raise RuntimeError("step() requires gradients to be enabled for backward computation; it should not be "
                               "used under torch.no_grad() context. Please call eval() instead.")
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs)

    def eval(self, *args: Any, target: Any = None, losses: list | None = None, **kwargs: Any) -> Any:
        """Forward passes of a batch only."""
        had_backward = self._has_backward
        self._set_backward(False)
        try:
            with torch.no_grad():
                return self._run(args, kwargs, target, losses, True, None)
        finally:
            self._set_backward(had_backward)

    def _set_backward(self, has_backward: bool) -> None:
        self._has_backward = has_backward
        for stage in self._stages:
            stage.has_backward = has_backward

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, losses: list | None,
             return_outputs: bool, loss_kwargs: dict[str, Any] | None) -> Any:
        for stage in self._stages:
            stage.clear_runtime_states()
        arg_mbs: list[tuple] = [()] * self._n_microbatches
        kwarg_mbs: list[dict] = [{}] * self._n_microbatches
        if args or kwargs:
            arg_mbs, kwarg_mbs = split_args_kwargs_into_chunks(args, kwargs, self._n_microbatches,
                                                               self._args_chunk_spec, self._kwargs_chunk_spec)
        targets = None if target is None else list(torch.tensor_split(target, self._n_microbatches))
        self._step_microbatches(arg_mbs, kwarg_mbs, targets, losses, return_outputs, loss_kwargs)
        last = self._stages[-1]
        if not last.is_last or not return_outputs:
            return None
        return merge_chunks(last.output_chunks, self._output_merge_spec)

    def _check_inputs(self, arg_mbs: list | None, kwarg_mbs: list | None, target_mbs: list | None,
                      losses: list | None) -> tuple[list, list]:
        for name, given in (("arg_mbs", arg_mbs), ("kwarg_mbs", kwarg_mbs), ("target_mbs", target_mbs)):
            if given is not None and not isinstance(given, list):
                raise TypeError(f"{name} must be a list but got a {type(given)}")
            if given is not None and len(given) != self._n_microbatches:
                raise ValueError(f"Expecting {self._n_microbatches} {name} but got {len(given)}")
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        return (arg_mbs if arg_mbs is not None else [()] * self._n_microbatches,
                kwarg_mbs if kwarg_mbs is not None else [{}] * self._n_microbatches)

    def _step_microbatches(self, arg_mbs: list | None = None, kwarg_mbs: list | None = None,
                           target_mbs: list | None = None, losses: list | None = None, return_outputs: bool = True,
                           loss_kwargs: dict[str, Any] | None = None) -> None:
        """Runs this process's passes: each waits for what it needs, and sends what it made without waiting."""
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        here = {stage.stage_index: stage for stage in self._stages}
        left = dict.fromkeys(here, self._n_microbatches)
        found: dict[int, Any] = {}
        for index, is_backward, microbatch in self._order() if self._has_backward else self._forward_order():
            stage = here[index]
            if is_backward:
                left[index] -= 1
                grads = stage.backward_one_chunk(microbatch, found.get(microbatch) if stage.is_last else None,
                                                 last_backward=left[index] == 0)
                stage.send_backward(microbatch, grads, here.get(index - 1))
                if left[index] == 0 and self.scale_grads:
                    stage.scale_grads(self._n_microbatches)
                continue
            output = stage.forward_one_chunk(microbatch, arg_mbs[microbatch], kwarg_mbs[microbatch], return_outputs)
            if stage.is_last and self._loss_fn is not None and target_mbs is not None:
                found[microbatch] = self._loss_fn(output, target_mbs[microbatch], **(loss_kwargs or {}))
            stage.send_forward(microbatch, here.get(index + 1))
        for stage in self._stages:
            stage.end_sending()
        if losses is not None and self._stages[-1].is_last and self._loss_fn is not None:
            if len(found) != self._n_microbatches:
                raise RuntimeError(f"Expecting {self._n_microbatches} losses but got {len(found)}")
            losses[:] = [found[microbatch] for microbatch in range(self._n_microbatches)]


class PipelineScheduleSingle(_PipelineSchedule):
    """Schedules of one stage a process."""

    def __init__(self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable | None = None,
                 args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
                 kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None, output_merge_spec: Any = None,
                 scale_grads: bool = True) -> None:
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        self._stage = stage

    def _passes(self, is_backward: bool) -> list[Pass]:
        return [Pass(self._stage.stage_index, is_backward, each) for each in range(self._n_microbatches)]


class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes, then all backward passes."""

    def _order(self) -> list[Pass]:
        return self._passes(False) + self._passes(True)


class Schedule1F1B(PipelineScheduleSingle):
    """As soon as a microbatch has come through, a backward pass for each forward pass: fewer activations are kept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self._n_microbatches < self._num_stages:
            raise ValueError(f"Number of microbatches ({self._n_microbatches}) must be greater than or equal to the "
                             f"number of stages ({self._num_stages}).")

    def _order(self) -> list[Pass]:
        forward, backward = self._passes(False), self._passes(True)
        ahead = min(self._n_microbatches, self._num_stages - self._stage.stage_index)
        made = forward[:ahead]
        for at, each in enumerate(backward):
            made += [each, *forward[ahead + at : ahead + at + 1]]
        return made


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forward passes only."""

    def _order(self) -> list[Pass]:
        if self._loss_fn is not None:
            raise RuntimeError("Forward-only schedule does not support loss computation")
        return self._passes(False)


class PipelineScheduleMulti(_PipelineSchedule):
    """Schedules of several stages a process, which go round: stage i is on process i % size."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable | None = None,
                 args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
                 kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None, output_merge_spec: Any = None,
                 use_full_backward: bool | None = None, scale_grads: bool = True,
                 backward_requires_autograd: bool = True, defer_pp_recv: bool = False) -> None:
        super().__init__(sorted(stages, key=lambda stage: stage.stage_index), n_microbatches, loss_fn, args_chunk_spec,
                         kwargs_chunk_spec, output_merge_spec, scale_grads)
        self.n_local_stages = len(stages)
        for at, stage in enumerate(self._stages):
            if stage.stage_index != at * self.pp_group_size + self.rank:
                raise ValueError(f"process {self.rank} of {self.pp_group_size} must have the stages "
                                 f"{self.rank}, {self.rank + self.pp_group_size}, ..., not {stage.stage_index}")


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a stage, then through the process's next one; backward in the opposite order."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable | None = None,
                 output_merge_spec: Any = None, scale_grads: bool = True, backward_requires_autograd: bool = True,
                 defer_pp_recv: bool = False) -> None:
        super().__init__(stages, n_microbatches, loss_fn, output_merge_spec=output_merge_spec, scale_grads=scale_grads)

    def _order(self) -> list[Pass]:
        forward = [Pass(stage.stage_index, False, each) for stage in self._stages
                   for each in range(self._n_microbatches)]
        return forward + [Pass(index, True, microbatch) for index, _, microbatch in reversed(forward)]


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages a process: rounds of microbatches go through one stage after another."""

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable | None = None,
                 args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
                 kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None, output_merge_spec: Any = None,
                 scale_grads: bool = True, backward_requires_autograd: bool = True,
                 defer_pp_recv: bool = False) -> None:
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads=scale_grads)
        self.number_of_rounds = max(1, n_microbatches // self.pp_group_size)
        self.microbatches_per_round = n_microbatches // self.number_of_rounds
        if n_microbatches % self.number_of_rounds != 0:
            raise ValueError("Interleaved 1F1B requires the number of microbatches to be a multiple of the number of "
                             f"rounds ({self.number_of_rounds}), but got {n_microbatches}.")

    def _rounds(self, is_backward: bool) -> list[Pass]:
        """All passes: of each round of microbatches through every stage, first to last, or last to first."""
        stages = self._stages[::-1] if is_backward else self._stages
        size = self.microbatches_per_round
        return [Pass(stage.stage_index, is_backward, begin + at) for begin in range(0, self._n_microbatches, size)
                for stage in stages for at in range(size)]

    def _order(self) -> list[Pass]:
        forward, backward = self._rounds(False), self._rounds(True)
        ahead = (self.n_local_stages - 1) * self.microbatches_per_round + 2 * (self.pp_group_size - 1 - self.rank)
        ahead = min(ahead, len(forward))
        made = forward[:ahead]
        for at, each in enumerate(backward):
            made += [*forward[ahead + at : ahead + at + 1], each]
        return made


_CLASSES: dict[str, Any] = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti}


def get_schedule_class(schedule_name: str) -> Any:
    """The schedule of a name, in letters of any case."""
    for name, found in _CLASSES.items():
        if name.lower() == schedule_name.lower():
            return found
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_CLASSES)}")
