"""PowerSGD: gradients of matrices are sent as products of two thin matrices, found by one step of power iteration.

T. Vogels, S. P. Karimireddy, M. Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
2019. What the approximation misses is added to the next gradient.
"""

from typing import Any

import numpy as np

import mindtorch_v2 as torch

from ...._core.tensor import Tensor
from ....futures import Future
from ... import _collectives as collectives
from ..._gradients import GradBucket
from ..._world import known
from . import default_hooks

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Settings, and what is kept from one iteration to the next."""

    def __init__(self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1_000,
                 min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
                 orthogonalization_epsilon: float = 0, random_seed: int = 0,
                 compression_stats_logging_frequency: int = 10_000,
                 batch_tensors_with_same_shape: bool = False) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
                             "because PowerSGD can only be applied after the first two iterations in DDP.")
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, list[Tensor]] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        if bucket.is_last():
            self.iter += 1

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, process_group=known(None))


def _orthogonalized(matrix: Tensor, epsilon: float) -> Tensor:
    """Columns at right angles and of length one, by Gram and Schmidt."""
    columns: list[Tensor] = []
    for at in range(matrix.shape[1]):
        column = matrix[:, at]
        for before in columns:
            column = column - (before @ column) * before
        length = column.norm()
        columns.append(column / (length + epsilon) if epsilon or length > 0 else torch.zeros_like(column))
    return torch.stack(columns, 1)


def _should_compress(rows: int, columns: int, rank: int, rate: float) -> bool:
    return (rows + columns) * rank * rate < rows * columns


def _mean(tensors: list[Tensor], group: Any) -> list[Tensor]:
    """The means over all ranks, sent as one tensor."""
    if not tensors:
        return []
    flat = torch.cat([each.reshape(-1) for each in tensors])
    collectives.all_reduce(flat.div_(group.size()), group=group)
    return [part.view(each.shape) for part, each in zip(flat.split([t.numel() for t in tensors]), tensors)]


@torch.no_grad()
def _approximated(state: PowerSGDState, index: int, matrices: list[Tensor], others: list[Tensor],
                  group: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Low-rank means of the matrices, and the means of what is too small to gain by it."""
    rank = state.matrix_approximation_rank
    kept = state.q_memory_dict.get(index)
    if kept is None or not state.warm_start:
        generator = torch.Generator().manual_seed(int(state.rng.randint(1_000_000_000)))
        kept = [torch.randn(m.shape[1], min(rank, *m.shape), generator=generator).to(m) for m in matrices]
    epsilon = state.orthogonalization_epsilon
    rights = [_orthogonalized(right, epsilon) for right in kept]
    sent = _mean([*others, *(m @ right for m, right in zip(matrices, rights))], group)
    lefts = [_orthogonalized(left, epsilon) for left in sent[len(others) :]]
    rights = _mean([m.t() @ left for m, left in zip(matrices, lefts)], group)
    state.p_memory_dict[index], state.q_memory_dict[index] = lefts, rights
    return [left @ right.t() for left, right in zip(lefts, rights)], sent[: len(others)]


@torch.no_grad()
def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The mean, of which matrices are approximated."""
    return _hook(state, bucket, [grad.reshape(grad.shape[0], -1) if grad.dim() > 1 else None
                                 for grad in bucket.gradients()])


@torch.no_grad()
def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The mean, of which the whole bucket is approximated as one square matrix."""
    if state.iter < state.start_powerSGD_iter:
        return _hook(state, bucket, [])
    group, buffer, index = known(state.process_group), bucket.buffer(), bucket.index()
    side = int(np.ceil(np.sqrt(buffer.numel())))
    square = torch.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    square[: buffer.numel()] = buffer
    if state.use_error_feedback and index in state.error_dict:
        square += state.error_dict[index]
    given = square.clone()
    (found,), _ = _approximated(state, index, [square.view(side, side)], [], group)
    if state.use_error_feedback:
        state.error_dict[index] = given - found.reshape(-1)
    state.maybe_increase_iter(bucket)
    buffer.copy_(found.reshape(-1)[: buffer.numel()])
    return _done(buffer)


def _hook(state: PowerSGDState, bucket: GradBucket, shaped: list[Tensor | None]) -> Future:
    group, buffer, index = known(state.process_group), bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._averaged(group, buffer)
    if state.use_error_feedback:
        if index in state.error_dict:
            buffer.add_(state.error_dict[index])
        given = buffer.clone()
    small: list[tuple[Tensor, Tensor]] = []
    large: list[tuple[Tensor, Tensor]] = []
    for grad, matrix in zip(bucket.gradients(), shaped, strict=True):
        if matrix is not None and _should_compress(matrix.shape[0], matrix.shape[1], state.matrix_approximation_rank,
                                                   state.min_compression_rate):
            large.append((grad, matrix))
        else:
            small.append((grad, grad))
    matrices, others = _approximated(state, index, [matrix for _, matrix in large],
                                     [grad for grad, _ in small], group)
    for (grad, _), found in zip(large + small, matrices + others, strict=True):
        grad.copy_(found.view(grad.shape))
    if state.use_error_feedback:
        state.error_dict[index] = given - buffer
    state.maybe_increase_iter(bucket)
    return _done(buffer)


def _done(buffer: Tensor) -> Future:
    future: Future = Future()
    future.set_result(buffer)
    return future
