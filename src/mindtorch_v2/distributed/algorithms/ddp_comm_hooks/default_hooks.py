"""Hooks that average a bucket, as it is or in a smaller type."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ...._core.tensor import Tensor
from ....futures import Future
from ... import _collectives as collectives
from ..._gradients import GradBucket
from ..._world import known

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
           "fp16_compress_wrapper"]


def _averaged(group: Any, tensor: Tensor) -> Future:
    """A future of the mean of all ranks' tensors, which takes the tensor's place."""
    found = known(group)
    work = collectives.all_reduce(tensor.div_(found.size()), group=found, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    return _averaged(process_group, bucket.buffer())


def _in_type(process_group: Any, bucket: GradBucket, kind: Any) -> Future:
    buffer = bucket.buffer()
    small = buffer.to(kind)

    def back(done: Future) -> Tensor:
        with torch.no_grad():
            buffer.copy_(done.value())
        return buffer

    return _averaged(process_group, small).then(back)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, computed and sent in float16."""
    return _in_type(process_group, bucket, torch.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, computed and sent in bfloat16."""
    return _in_type(process_group, bucket, torch.bfloat16)


def _wrapped(hook: Callable[[Any, GradBucket], Future], kind: Any) -> Callable[[Any, GradBucket], Future]:
    def smaller(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        own, bucket._buffer = buffer, buffer.to(kind)
        future = hook(state, bucket)

        def back(done: Future) -> Tensor:
            value = done.value()
            with torch.no_grad():
                own.copy_(value[0] if isinstance(value, (list, tuple)) else value)
            bucket._buffer = own
            return own

        return future.then(back)

    return smaller


def fp16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[[Any, GradBucket], Future]:
    """A hook that another one's bucket reaches in float16."""
    return _wrapped(hook, torch.float16)


def bf16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[[Any, GradBucket], Future]:
    """A hook that another one's bucket reaches in bfloat16."""
    return _wrapped(hook, torch.bfloat16)
