"""Averaging gradients: buckets of parameters, whose gradients are reduced together while backward goes on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import mindtorch_v2 as torch

from .._autograd.engine import queue_callback
from .._core.tensor import Tensor, wrap
from .._dispatch.keys import CPU_MASK, VIEW_MASK
from ..futures import Future
from . import _collectives as collectives
from ._objects import all_gather_object
from ._options import AllreduceOptions

FIRST_BUCKET = 1 << 20  # bytes: a small one first, so that sending begins early
BUCKET = 25 << 20
_BROADCAST = 250 << 20
_PLAIN = frozenset((np.dtype(np.float32), np.dtype(np.float64)))  # NumPy multiplies these as the operator does


def _is_on_host(tensor: Tensor) -> bool:
    """Whether nothing is between a tensor and an array of NumPy."""
    return tensor._array.__class__ is np.ndarray and tensor._keys & ~VIEW_MASK == CPU_MASK


def _is_plain(tensor: Tensor) -> bool:
    """Whether NumPy can do with a tensor's memory what an operator would."""
    return _is_on_host(tensor) and tensor._array.dtype in _PLAIN


class GradBucket:
    """The gradients of some parameters in one flat tensor, as communication hooks see them."""

    def __init__(self, index: int, parameters: Sequence[Tensor]) -> None:
        self._index, self._parameters = index, list(parameters)
        first = parameters[0]
        self._buffer = torch.zeros(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self._is_last = False
        self.views: list[Tensor] = []
        at = 0
        for parameter in parameters:
            self.views.append(self._buffer[at : at + parameter.numel()].view(parameter.shape))
            at += parameter.numel()
        self.begin()

    def begin(self) -> None:
        """Nothing has come yet in this pass."""
        self.waiting = len(self._parameters)
        self.future: Future | None = None
        self.work: Any = None

    @torch.no_grad()
    def fill(self, factor: float) -> None:
        """Takes in the parameters' gradients, times a factor; zeros for those that have none."""
        for parameter, view in zip(self._parameters, self.views, strict=True):
            grad = parameter._grad
            if grad is None:
                view.zero_()
            elif grad is view and factor == 1:
                continue
            elif _is_plain(grad) and _is_plain(view):
                np.multiply(grad._array, factor, view._array)
                view._bump_version()
            elif factor == 1:
                view.copy_(grad)
            else:
                torch.mul(grad.detach(), factor, out=view)

    def give(self, parameter: Tensor, view: Tensor) -> None:
        """Puts what came of a parameter's gradient into it."""
        grad = parameter._grad
        if grad is None:
            parameter._grad = view.clone()
        elif _is_plain(grad) and _is_plain(view):
            np.copyto(grad._array, view._array)
            grad._bump_version()
        else:
            grad.copy_(view)

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._is_last

    def buffer(self) -> Tensor:
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        self._buffer.copy_(tensor)

    def gradients(self) -> list[Tensor]:
        return self.views

    def parameters(self) -> list[Tensor]:
        return self._parameters


def assigned(parameters: Sequence[Tensor], limits: Sequence[int]) -> list[list[int]]:
    """Which parameters go together: those next to each other of one type and device, up to a size. The first limit is
    for the first bucket of a kind, the last for all others."""
    open_ones: dict[tuple, list[int]] = {}
    sizes: dict[tuple, int] = {}
    used: dict[tuple, int] = {}
    done: list[list[int]] = []
    for at, parameter in enumerate(parameters):
        kind = parameter.dtype, parameter.device
        open_ones.setdefault(kind, []).append(at)
        sizes[kind] = sizes.get(kind, 0) + parameter.nbytes
        if sizes[kind] >= limits[min(used.get(kind, 0), len(limits) - 1)]:
            done.append(open_ones.pop(kind))
            sizes[kind], used[kind] = 0, used.get(kind, 0) + 1
    done += open_ones.values()
    return sorted(done, key=min)


class Reducer:
    """Sees to it that after backward every rank has the mean of all ranks' gradients."""

    def __init__(self, parameters: Sequence[Tensor], names: Sequence[str], group: Any, limits: Sequence[int],
                 as_views: bool, find_unused: bool) -> None:
        self.parameters, self.names, self.group, self.limits = list(parameters), list(names), group, list(limits)
        self.as_views, self.find_unused, self.static = as_views, find_unused, False
        self.divisor = group.size()
        self.hook: Callable[[GradBucket], Future] | None = None
        self._order: list[int] = []  # in which gradients became ready in the first pass
        self._rebuilt = False
        self._static_unused: list[int] | None = None
        self.waits = False  # for gradients, since a forward pass
        self._ready, self._used = bytearray(len(self.parameters)), bytearray(len(self.parameters))
        self._unused: Iterable[int] = ()
        self._queued = False
        self._make([list(reversed(each)) for each in reversed(assigned(self.parameters, self.limits))])

    def _make(self, assignment: list[list[int]]) -> None:
        self.buckets = [GradBucket(at, [self.parameters[i] for i in indices]) for at, indices in enumerate(assignment)]
        self.buckets[-1]._is_last = True
        self.places = {i: (bucket, at) for bucket, indices in zip(self.buckets, assignment, strict=True)
                       for at, i in enumerate(indices)}
        ordered = not (self._rebuilt or self.find_unused)
        for at, parameter in enumerate(self.parameters):
            parameter._arrival = self._arrival_of(at, self.places[at][0])
            parameter._arrival_is_ordered = ordered

    def close(self) -> None:
        for parameter in self.parameters:
            parameter._arrival = None

    # a pass ------------------------------------------------------------------------------------------------------

    def prepare(self, outputs: Any) -> None:
        """Called after a forward pass that a reducing backward follows."""
        self._rebuild()
        self.waits, self._queued = True, False
        self._ready = bytearray(len(self.parameters))
        self._next = 0
        for bucket in self.buckets:
            bucket.begin()
        if self.static:
            self._unused = self._static_unused or ()
        elif self.find_unused:
            reached = _leaves_under(outputs)
            self._unused = [at for at, parameter in enumerate(self.parameters) if id(parameter) not in reached]

    def _rebuild(self) -> None:
        """Puts parameters into buckets in the order in which the first pass of rank 0 brought their gradients."""
        if self._rebuilt or self.find_unused or len(self._order) < len(self.parameters):
            return
        self._rebuilt = True
        order = torch.tensor(self._order, dtype=torch.int64, device=self.parameters[0].device)
        collectives.broadcast(order, group=self.group, group_src=0)
        indices = order.tolist()
        groups = assigned([self.parameters[i] for i in indices], self.limits)
        self._make([[indices[at] for at in each] for each in groups])

    def check_finished(self) -> None:
        """Raises if the last pass left parameters without gradients."""
        if not self.waits or not self._queued:
            return
        missing = [at for at, ready in enumerate(self._ready) if not ready]
        if missing and not self.static:
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. This error "
                "indicates that your module has parameters that were not used in producing loss. You can enable unused "
                "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
                "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
                "participate in calculating loss. Parameter indices which did not receive grad for rank "
                f"{self.group.rank()}: {' '.join(map(str, missing))} "
                f"({', '.join(self.names[i] for i in missing[:20])})")

    def _arrival_of(self, at: int, bucket: GradBucket) -> Callable[[], None]:
        """What is called when a pass has brought a parameter's gradient, after all hooks of it."""
        used = self._used

        def arrived() -> None:
            used[at] = 1  # since the last reduction, also by a pass that does not reduce
            if not self.waits:
                return
            if not self._queued:
                self._begin_pass()
            ready = self._ready
            if ready[at]:
                self._came_again(at)
                return
            ready[at] = 1
            if not self._rebuilt:
                self._order.append(at)
                if self.static and self._static_unused is None:
                    return  # the first pass of a static graph is reduced as a whole
            bucket.waiting -= 1
            if not bucket.waiting:
                self._send_full_ones()

        return arrived

    def _begin_pass(self) -> None:
        """At the first gradient of a pass: those that do not come in it are as good as there."""
        self._queued = True
        queue_callback(self._finish)
        for at in self._unused:
            self._ready[at] = 1
            self.places[at][0].waiting -= 1

    def _came_again(self, at: int) -> None:
        if self.static or self.find_unused:  # in the latter case by another way than through the outputs
            return
        raise RuntimeError(
            f"Expected to mark a variable ready only once. Parameter {self.names[at]} (index {at}) was marked "
            "ready twice: it is used in several backward passes of one forward pass, or several times with "
            "reentrant checkpoints. If the graph is the same in every iteration, use static_graph=True.")

    def _send_full_ones(self) -> None:
        """Sends buckets that are full, in their order."""
        while self._next < len(self.buckets) and not self.buckets[self._next].waiting:
            bucket, self._next = self.buckets[self._next], self._next + 1
            bucket.fill(1.0 if self.hook is not None else 1.0 / self.divisor)
            self._send(bucket, self._next == len(self.buckets))

    def _send(self, bucket: GradBucket, at_the_end: bool) -> None:
        """Begins to reduce a bucket."""
        if self.hook is not None:
            bucket.future = self.hook(bucket)
            return
        bucket.work = self.group.allreduce([bucket._buffer], AllreduceOptions(lazily=at_the_end))

    @torch.no_grad()
    def _finish(self) -> None:
        """At the end of backward: waits for all buckets and puts the means into `grad`."""
        if self.static and self._static_unused is None:
            self._static_unused = [at for at, ready in enumerate(self._ready) if not ready]
            for bucket in self.buckets:
                bucket.waiting = 0
        self._send_full_ones()
        if self._next < len(self.buckets):
            return  # parameters without gradients: the next forward pass says so
        kept = set(self._static_unused or ()) | self._used_nowhere()
        for bucket in self.buckets:
            if bucket.future is not None:
                value = bucket.future.wait()
                value = value[0] if isinstance(value, (list, tuple)) else value
                if value is not bucket._buffer:
                    bucket._buffer.copy_(value.view(-1))
            else:
                bucket.work.wait()
        for at, parameter in enumerate(self.parameters):
            if at in kept:
                continue
            bucket, place = self.places[at]
            if self.as_views:
                parameter._grad = bucket.views[place]
            else:
                bucket.give(parameter, bucket.views[place])
        self.waits = False

    def _used_nowhere(self) -> set[int]:
        """The parameters that no rank has used since the last reduction, where that is asked for."""
        if not self.find_unused:
            return set()
        used = torch.tensor(list(self._used), dtype=torch.int32, device=self.parameters[0].device)
        collectives.all_reduce(used, group=self.group)
        self._used[:] = bytes(len(self._used))
        return {at for at, count in enumerate(used.tolist()) if not count}

    def shadow(self) -> None:
        """What a rank without inputs does in place of a backward pass: it adds nothing, in the same collectives."""
        self._rebuild()
        for bucket in self.buckets:
            bucket._buffer.zero_()
            self._send(bucket, bucket._is_last)
        if self.find_unused:
            nothing = torch.zeros(len(self.parameters), dtype=torch.int32, device=self.parameters[0].device)
            collectives.all_reduce(nothing, group=self.group)
        for bucket in self.buckets:
            if bucket.future is not None:
                bucket.future.wait()
            else:
                bucket.work.wait()
        if len(self._order) < len(self.parameters):  # so that this rank takes part when the others rebuild
            self._order = list(range(len(self.parameters)))


def _leaves_under(outputs: Any) -> set[int]:
    """Which leaves, by identity, the graph of some outputs reaches."""
    reached: set[int] = set()
    seen: set[int] = set()
    waiting: list[Any] = []
    for tensor in _tensors_in(outputs):
        edge = tensor._current_edge()
        if edge is not None:
            waiting.append(edge[0])
        elif tensor.requires_grad:
            reached.add(id(tensor))
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Tensor):
            reached.add(id(node))
            continue
        if hasattr(node, "variable"):
            reached.add(id(node.variable))
        waiting += [edge[0] for edge in node.edges if edge is not None and edge[0] is not None]
    return reached


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for each in value.values() for tensor in _tensors_in(each)]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors_in(each)]
    if hasattr(value, "__dataclass_fields__"):
        return [tensor for name in value.__dataclass_fields__ for tensor in _tensors_in(getattr(value, name))]
    return []


@torch.no_grad()
def _broadcast_coalesced(process_group: Any, tensors: Sequence[Tensor], buffer_size: int = _BROADCAST,
                         src: int = 0) -> None:
    """Gives everyone the values of one rank, many tensors in one broadcast."""
    receives = process_group.rank() != src
    if all(_is_on_host(each) for each in tensors) and sum(each._array.nbytes for each in tensors) <= buffer_size:
        _broadcast_bytes(process_group, tensors, src, receives)
        return
    for indices in assigned(tensors, [buffer_size]):
        together = [tensors[at] for at in indices]
        flat = torch.cat([each.detach().reshape(-1) for each in together])
        collectives.broadcast(flat, group=process_group, group_src=src)
        if not receives:
            continue
        at = 0
        for each in together:
            each.detach().copy_(flat[at : at + each.numel()].view(each.shape))
            at += each.numel()


def _broadcast_bytes(process_group: Any, tensors: Sequence[Tensor], src: int, receives: bool) -> None:
    """As above, of tensors of all types at once, whose memory is the host's."""
    arrays: list[Any] = [each._array for each in tensors]
    if receives:
        data = np.empty(sum(array.nbytes for array in arrays), np.uint8)
    else:
        data = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays])
    collectives.broadcast(wrap(data), group=process_group, group_src=src)
    at = 0
    for each, array in zip(tensors if receives else (), arrays):
        array[...] = data[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        each._bump_version()
        at += array.nbytes


def _verify_params_across_processes(process_group: Any, tensors: Sequence[Tensor], logger: Any = None) -> None:
    """Raises unless all ranks have parameters of the same shapes."""
    mine = [tuple(each.shape) for each in tensors]
    everyone: list[Any] = [None] * process_group.size()
    all_gather_object(everyone, mine, process_group)
    for rank, theirs in enumerate(everyone):
        if len(theirs) != len(mine):
            raise RuntimeError(f"DDP expects same model across all ranks, but Rank {process_group.rank()} has "
                               f"{len(mine)} params, while rank {rank} has inconsistent {len(theirs)} params.")
        for at, (here, there) in enumerate(zip(mine, theirs, strict=True)):
            if here != there:
                raise RuntimeError(f"[{process_group.rank()}]: params[{at}] in this process with sizes {list(here)} "
                                   f"appears not to match sizes of the same param in process {rank}: {list(there)}.")
