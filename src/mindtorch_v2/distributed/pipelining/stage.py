"""A part of a model on a process: its forward and backward passes of microbatches, and the messages to its neighbours.

Whoever sends a first activation says what it is like: shapes are not asked for, and no pass is run to find them.
"""

import contextlib
from typing import Any, NamedTuple

import mindtorch_v2 as torch
from mindtorch_v2 import distributed as dist

from ...nn.parallel import DistributedDataParallel
from .._objects import _object_to_tensor, _tensor_to_object

__all__ = ["PipelineStage"]

_META_TAG = 1 << 20  # of what activations are like; theirs and those of gradients are below


class PipeliningMetadataError(RuntimeError):
    """An activation has other sizes than those before it."""


class _Meta(NamedTuple):
    """What an activation is like."""

    shape: tuple[int, ...]
    dtype: Any
    requires_grad: bool


class _Passed(NamedTuple):
    """What backward needs of a microbatch's forward pass."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def _as_tuple(output: Any) -> tuple[Any, ...]:
    return tuple(output) if isinstance(output, (list, tuple)) else (output,)


class PipelineStage:
    """The stage of an index, whose neighbours are on the processes before and after this one in the group.

    Stages beyond the group's size go round: stage i is on process i % size. What a stage's module gives, one tensor or
    several, are the positional arguments of the next one's.
    """

    def __init__(self, submodule: Any, stage_index: int, num_stages: int, device: Any, input_args: Any = None,
                 output_args: Any = None, output_grads: Any = None, input_grads: Any = None, group: Any = None,
                 dw_builder: Any = None, **kwargs: Any) -> None:
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None:
            raise NotImplementedError("mindtorch_v2 does not split backward, which dw_builder is for")
        self.submod, self.stage_index, self.num_stages, self.group = submodule, stage_index, num_stages, group
        self.device = torch.device(device)
        self.group_rank, self.group_size = dist.get_rank(group), dist.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages "
                               f"{num_stages}")
        self.stage_index_to_group_rank = {index: index % self.group_size for index in range(num_stages)}
        self.has_backward = False
        self.output_chunks: list[Any] = []
        # With backward passes and without, as without none needs a gradient.
        self._received_like: dict[bool, tuple[_Meta, ...]] = {}
        self._sent_like: dict[bool, tuple[_Meta, ...]] = {}
        self._passed: dict[int, _Passed] = {}
        self._local_inputs: dict[int, tuple[Any, ...]] = {}
        self._local_grads: dict[int, tuple[Any, ...]] = {}
        self._sending: list[tuple[Any, Any]] = []
        self.submod.to(self.device)

    @property
    def is_first(self) -> bool:
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forgets the microbatches of the last step."""
        for kept in (self._passed, self._local_inputs, self._local_grads):
            kept.clear()
        self.output_chunks = []

    def end_sending(self) -> None:
        """All that was sent has left; the tensors may be freed."""
        for work, _ in self._sending:
            work.wait()
        self._sending.clear()

    # messages ---------------------------------------------------------------------------------------------------------

    def _is_here(self, stage: int) -> bool:
        return self.stage_index_to_group_rank[stage] == self.group_rank

    def _tag(self, sender: int, microbatch: int, at: int, backward: bool) -> int:
        """Tells messages between the same two processes apart."""
        return ((microbatch * self.num_stages + sender) * 2 + backward) * 8 + min(at, 7)

    def _send(self, tensor: Any, stage: int, tag: int) -> None:
        data = tensor.detach().contiguous()
        work = dist.isend(data, group=self.group, group_dst=self.stage_index_to_group_rank[stage], tag=tag)
        self._sending.append((work, data))
        self._sending = [each for each in self._sending if not each[0].is_completed()]

    def _receive(self, like: _Meta, stage: int, tag: int) -> Any:
        made = torch.empty(like.shape, dtype=like.dtype, device=self.device)
        dist.recv(made, group=self.group, group_src=self.stage_index_to_group_rank[stage], tag=tag)
        return made

    def send_forward(self, microbatch: int, neighbour: "PipelineStage | None") -> None:
        """Gives a microbatch's activations to the next stage, with what they are like the first time."""
        if self.is_last:
            return
        outputs = self._passed[microbatch].outputs
        if neighbour is not None:
            neighbour._local_inputs[microbatch] = outputs
            return
        like = tuple(_Meta(tuple(each.shape), each.dtype, each.requires_grad) for each in outputs)
        stage = self.stage_index + 1
        if self.has_backward not in self._sent_like:
            for at, part in enumerate(reversed(_object_to_tensor(like, self.device))):
                self._send(part, stage, _META_TAG + 2 * self.stage_index + at)
            self._sent_like[self.has_backward] = like
        _check_alike(self._sent_like[self.has_backward], like, f"Stage {self.stage_index} forward outputs")
        for at, output in enumerate(outputs):
            self._send(output, stage, self._tag(self.stage_index, microbatch, at, False))

    def receive_forward(self, microbatch: int) -> tuple[Any, ...]:
        """A microbatch's activations of the stage before, as leaves of a graph of their own."""
        before = self.stage_index - 1
        if self._is_here(before):
            given = self._local_inputs.pop(microbatch)
            return tuple(each.detach().requires_grad_(each.requires_grad) for each in given)
        if self.has_backward not in self._received_like:
            tag = _META_TAG + 2 * before
            size = self._receive(_Meta((1,), torch.int64, False), before, tag)
            data = self._receive(_Meta((int(size),), torch.uint8, False), before, tag + 1)
            self._received_like[self.has_backward] = _tensor_to_object(data, size)
        return tuple(self._receive(like, before, self._tag(before, microbatch, at, False)).requires_grad_(
            like.requires_grad) for at, like in enumerate(self._received_like[self.has_backward]))

    def send_backward(self, microbatch: int, grads: tuple[Any, ...], neighbour: "PipelineStage | None") -> None:
        """Gives the gradients of a microbatch's inputs to the stage before."""
        if self.is_first:
            return
        if neighbour is not None:
            neighbour._local_grads[microbatch] = grads
            return
        for at, grad in enumerate(grads):
            if grad is not None:
                self._send(grad, self.stage_index - 1, self._tag(self.stage_index, microbatch, at, True))

    def receive_backward(self, microbatch: int) -> tuple[Any, ...]:
        """The gradients of a microbatch's outputs, from the next stage."""
        if self._is_here(self.stage_index + 1):
            return self._local_grads.pop(microbatch)
        outputs, after = self._passed[microbatch].outputs, self.stage_index + 1
        return tuple(self._receive(_Meta(tuple(each.shape), each.dtype, False), after,
                                   self._tag(after, microbatch, at, True)) if each.requires_grad else None
                     for at, each in enumerate(outputs))

    # computation ------------------------------------------------------------------------------------------------------

    def forward_one_chunk(self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                          save_forward_output: bool = True) -> Any:
        """What the module makes of a microbatch: of the step's arguments on the first stage, else of activations."""
        inputs = args if self.is_first else self.receive_forward(microbatch)
        output = self._forward(*inputs, **(kwargs or {}))
        outputs = _as_tuple(output)
        self._passed[microbatch] = _Passed(inputs, outputs)
        if self.is_last and save_forward_output:
            self.output_chunks.append(output)
        return output

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        try:
            apart = self.has_backward and isinstance(self.submod, DistributedDataParallel)
            with self.submod.no_sync() if apart else contextlib.nullcontext():
                return self.submod(*args, **kwargs)
        except Exception as error:
            shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in args]
            raise RuntimeError(f"stage {self.stage_index} failed in forward with arguments {shapes} and "
                               f"{sorted(kwargs)}: {error}") from error

    def backward_one_chunk(self, microbatch: int, loss: Any = None, last_backward: bool = False) -> tuple[Any, ...]:
        """The gradients of a microbatch's inputs; those of parameters are added to theirs."""
        grads = () if self.is_last else self.receive_backward(microbatch)
        inputs, outputs = self._passed.pop(microbatch)
        if hasattr(self.submod, "set_requires_gradient_sync"):  # fully_shard
            self.submod.set_requires_gradient_sync(last_backward)
            self.submod.set_is_last_backward(last_backward)
        if isinstance(self.submod, DistributedDataParallel) and last_backward:
            self.submod.reducer.prepare(outputs)  # gradients of replicas are joined with the last microbatch's
        if self.is_last:
            torch.autograd.backward(loss)
        else:
            pairs = [(each, grad) for each, grad in zip(outputs, grads, strict=True) if each.requires_grad]
            if pairs:
                torch.autograd.backward([each for each, _ in pairs], [grad for _, grad in pairs])
        if self.is_first:
            return ()
        return tuple((each.grad if each.grad is not None else torch.zeros_like(each)) if each.requires_grad else None
                     for each in inputs)

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divides gradients that are sums over microbatches."""
        if grad_scale_factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)


def _check_alike(expected: tuple[_Meta, ...], found: tuple[_Meta, ...], what: str) -> None:
    """Raises unless activations are as those before: the next stage counts on it."""
    if [each[:2] for each in expected] != [each[:2] for each in found]:
        raise PipeliningMetadataError(f"{what}: expected {[(e.shape, e.dtype) for e in expected]}, got "
                                   f"{[(e.shape, e.dtype) for e in found]}")
