"""Averaging gradients: buckets of parameters, whose gradients are reduced together while backward goes on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .._autograd.engine import queue_callback
from .._core.tensor import Tensor
from ..futures import Future
from . import _collectives as collectives
from ._objects import all_gather_object

FIRST_BUCKET = 1 << 20  # bytes: a small one first, so that sending begins early
BUCKET = 25 << 20
_BROADCAST = 250 << 20


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
        self.waiting = len(self._parameters)
        self.future: Future | None = None
        self.work: Any = None

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
        self.places: dict[int, tuple[GradBucket, int]] = {}
        self._order: list[int] = []  # in which gradients became ready in the first pass
        self._rebuilt = False
        self._static_unused: list[int] | None = None
        self._make([list(reversed(each)) for each in reversed(assigned(self.parameters, self.limits))])
        self.waits = False  # for gradients, since a forward pass
        self._ready: set[int] = set()
        self._queued = False
        self._used: Tensor | None = None
        self._handles = [parameter.register_post_accumulate_grad_hook(self._hook_of(at))
                         for at, parameter in enumerate(self.parameters)]

    def _make(self, assignment: list[list[int]]) -> None:
        self.buckets = [GradBucket(at, [self.parameters[i] for i in indices]) for at, indices in enumerate(assignment)]
        self.buckets[-1]._is_last = True
        self.places = {i: (bucket, at) for bucket, indices in zip(self.buckets, assignment, strict=True)
                       for at, i in enumerate(indices)}

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    # a pass ------------------------------------------------------------------------------------------------------

    def prepare(self, outputs: Any) -> None:
        """Called after a forward pass that a reducing backward follows."""
        self._rebuild()
        self.waits, self._queued = True, False
        self._ready.clear()
        self._next = 0
        for bucket in self.buckets:
            bucket.waiting, bucket.future, bucket.work = len(bucket.views), None, None
        unused: Iterable[int] = ()
        if self.static:
            unused = self._static_unused or ()
        elif self.find_unused:
            reached = _leaves_under(outputs)
            unused = [at for at, parameter in enumerate(self.parameters) if id(parameter) not in reached]
        if self.find_unused:
            self._used = torch.ones(len(self.parameters), dtype=torch.int32, device=self.parameters[0].device)
            self._used[list(unused)] = 0
        for at in unused:
            self._mark(at, None)

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
        missing = [at for at in range(len(self.parameters)) if at not in self._ready]
        if missing and not self.static:
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. This error "
                "indicates that your module has parameters that were not used in producing loss. You can enable unused "
                "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
                "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
                "participate in calculating loss. Parameter indices which did not receive grad for rank "
                f"{self.group.rank()}: {' '.join(map(str, missing))} "
                f"({', '.join(self.names[i] for i in missing[:20])})")

    def _hook_of(self, at: int) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            if not self.waits:
                return
            if not self._queued:
                self._queued = True
                queue_callback(self._finish)
            if at in self._ready and not self.static:
                if self.find_unused:
                    return  # found by another way than through the outputs
                raise RuntimeError(
                    f"Expected to mark a variable ready only once. Parameter {self.names[at]} (index {at}) was marked "
                    "ready twice: it is used in several backward passes of one forward pass, or several times with "
                    "reentrant checkpoints. If the graph is the same in every iteration, use static_graph=True.")
            if not self._rebuilt and at not in self._ready:
                self._order.append(at)
            if self.static and self._static_unused is None:
                self._ready.add(at)  # the first pass of a static graph is reduced as a whole
                return
            self._mark(at, parameter.grad)

        return hook

    @torch.no_grad()
    def _mark(self, at: int, grad: Tensor | None) -> None:
        """Takes a parameter's gradient into its bucket; a full bucket is sent when those before it are."""
        self._ready.add(at)
        bucket, place = self.places[at]
        view = bucket.views[place]
        if grad is None:
            view.zero_()
        elif self.hook is not None or self.divisor == 1:
            if grad is not view:
                view.copy_(grad)
        else:
            torch.mul(grad.detach(), 1.0 / self.divisor, out=view)
        bucket.waiting -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].waiting == 0:
            self._send(self.buckets[self._next])
            self._next += 1

    def _send(self, bucket: GradBucket) -> None:
        if self.hook is not None:
            bucket.future = self.hook(bucket)
            return
        bucket.work = collectives.all_reduce(bucket._buffer, group=self.group, async_op=True)

    @torch.no_grad()
    def _finish(self) -> None:
        """At the end of backward: waits for all buckets and puts the means into `grad`."""
        if self.static and self._static_unused is None:
            self._static_unused = [at for at in range(len(self.parameters)) if at not in self._ready]
            for at, parameter in enumerate(self.parameters):
                self._mark(at, parameter.grad if at not in self._static_unused else None)
        if self._next < len(self.buckets):
            return  # parameters without gradients: the next forward pass says so
        if self._used is not None and self.find_unused:
            collectives.all_reduce(self._used, group=self.group)
        used = None if self._used is None or not self.find_unused else self._used.tolist()
        unused = set(self._static_unused or ())
        for bucket in self.buckets:
            if bucket.future is not None:
                value = bucket.future.wait()
                value = value[0] if isinstance(value, (list, tuple)) else value
                if value is not bucket._buffer:
                    bucket._buffer.copy_(value.view(-1))
            else:
                bucket.work.wait()
        for at, parameter in enumerate(self.parameters):
            bucket, place = self.places[at]
            if (used is None or used[at]) and at not in unused:
                self._put(parameter, bucket.views[place])
        self.waits = False

    def _put(self, parameter: Tensor, view: Tensor) -> None:
        if self.as_views:
            if parameter.grad is not view:
                parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.clone()
        else:
            parameter.grad.copy_(view)

    def shadow(self) -> None:
        """What a rank without inputs does in place of a backward pass: it adds nothing, in the same collectives."""
        self._rebuild()
        for bucket in self.buckets:
            bucket._buffer.zero_()
            self._send(bucket)
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
    for indices in assigned(tensors, [buffer_size]):
        together = [tensors[at] for at in indices]
        flat = torch.cat([each.detach().reshape(-1) for each in together])
        collectives.broadcast(flat, group=process_group, group_src=src)
        if process_group.rank() == src:
            continue
        at = 0
        for each in together:
            each.detach().copy_(flat[at : at + each.numel()].view(each.shape))
            at += each.numel()


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
