"""What the engines of GPUs and NPUs share: collectives on device memory, queued on a stream of their own.

A collective that its caller waits for is queued on the current stream. One that is asynchronous goes to the engine's
own stream, after what the current one has queued so far; waiting for it makes the current stream wait, not the
processor.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import mindtorch_v2 as torch

from ..._core.tensor import Tensor
from ...futures import Future
from .. import _options as options
from .._reductions import RedOpType, kind_of
from .._stores import Store
from .._work import Work
from .interface import Engine


class DeviceWork(Work):
    """Work on a stream. It keeps its tensors, whose memory must not be given to others before it is done."""

    def __init__(self, module: Any, event: Any, result: Sequence[Tensor], kept: Sequence[Any]) -> None:
        self._module, self._event, self._result, self._kept = module, event, list(result), kept

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._event.wait(self._module.current_stream())
        return True

    synchronize = wait  # type: ignore[assignment]

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def result(self) -> list[Tensor]:
        return self._result

    def get_future(self) -> Future:
        self.wait()
        future: Future = Future()
        future.set_result(self._result)
        return future


class DeviceEngine(Engine):
    """Collectives made of the few that a library of a device has, which subclasses name with a leading `call_`."""

    kind = ""  # of the device

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta, device: Any = None) -> None:
        super().__init__(rank, size)
        self._store, self._timeout, self._bound = store, timeout, device
        self._comms: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        self._pending: list[DeviceWork] = []

    @property
    def _module(self) -> Any:
        return getattr(torch, self.kind)

    def _comm(self, index: int) -> Any:
        """The communicator of a device, which is made when first used: the first rank tells the others its name."""
        if index not in self._comms:
            with self._module.device(index):
                key = f"communicator {len(self._comms)}"
                if self._rank == 0:
                    self._store.set(key, self.new_name())
                self._comms[index] = self.connected(self._store.get(key))
        return self._comms[index]

    def shutdown(self) -> None:
        for index, comm in self._comms.items():
            with self._module.device(index):
                self._module.synchronize()
                self.disconnected(comm)
        self._comms.clear()
        self._pending.clear()

    # queueing ----------------------------------------------------------------------------------------------------

    def _queued(self, run: Callable[[Any, int], None], tensor: Tensor, result: Sequence[Tensor], kept: Sequence[Any],
                opts: Any) -> Work:
        """The work of calling `run(communicator, stream)`."""
        index = tensor.device.index or 0
        module, comm = self._module, self._comm(index)
        with module.device(index):
            current = module.current_stream()
            stream = current
            if opts is None or opts.asyncOp:
                stream = self._streams.setdefault(index, None) or module.Stream()
                self._streams[index] = stream
                stream.wait_stream(current)
            with module.stream(stream):
                run(comm, self.handle_of(stream))
            event = module.Event()
            event.record(stream)
        work = DeviceWork(module, event, result, kept)
        self._pending = [each for each in self._pending if not each.is_completed()] + [work]
        return work

    def _checked(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            if tensor.device.type != self.kind:
                raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")
            if not tensor.is_contiguous():
                raise ValueError("Tensors must be contiguous")

    def _root(self, what: str, root: int) -> int:
        if not 0 <= root < self._size:
            raise RuntimeError(f"{what}: invalid root rank: {root}")
        return root

    # collectives -------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        opts = opts or options.AllreduceOptions()
        self._checked(*tensors)

        def run(comm: Any, stream: int) -> None:
            for tensor in tensors:
                self._prepare(tensor, opts.reduceOp)
                self.call_all_reduce(comm, tensor, tensor, opts.reduceOp, stream)
                self._finish(tensor, opts.reduceOp)

        return self._queued(run, tensors[0], tensors, tensors, opts)

    allreduce_coalesced = allreduce

    def _prepare(self, tensor: Tensor, op: Any) -> None:
        """Before a sum of products with a factor."""
        if kind_of(op) is RedOpType.PREMUL_SUM:
            with torch.no_grad():
                tensor.detach().mul_(op.factor)

    def _finish(self, tensor: Tensor, op: Any) -> None:
        """After a mean."""
        if kind_of(op) is RedOpType.AVG:
            with torch.no_grad():
                tensor.detach().div_(self._size)

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        (tensor,), root = tensors, self._root("reduce", opts.rootRank)
        self._checked(tensor)

        def run(comm: Any, stream: int) -> None:
            self._prepare(tensor, opts.reduceOp)
            self.call_reduce(comm, tensor, root, opts.reduceOp, stream)
            if self._rank == root:
                self._finish(tensor, opts.reduceOp)

        return self._queued(run, tensor, tensors, tensors, opts)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        root = self._root("broadcast", opts.rootRank)
        self._checked(*tensors)

        def run(comm: Any, stream: int) -> None:
            for tensor in tensors:
                self.call_broadcast(comm, tensor, root, stream)

        return self._queued(run, tensors[0], tensors, tensors, opts)

    def allgather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        (into,), (given,) = outputs, inputs
        self._check_list(into, given)
        room = torch.empty(self._size * given.numel(), dtype=given.dtype, device=given.device)

        def run(comm: Any, stream: int) -> None:
            self.call_all_gather(comm, given, room, stream)
            self._put(into, room)

        return self._queued(run, given, into, [*into, given, room], opts)

    def _check_list(self, tensors: Sequence[Tensor], like: Tensor) -> None:
        if len(tensors) != self._size:
            raise RuntimeError(f"Tensor list input to scatter/gather must match number of collective participants: "
                               f"{len(tensors)}, not {self._size}")
        self._checked(like)
        for tensor in tensors:
            if tensor.dtype is not like.dtype or tensor.numel() != like.numel():
                raise RuntimeError("Tensors must have the same type and number of elements")

    def _put(self, outputs: Sequence[Tensor], room: Tensor) -> None:
        with torch.no_grad():
            for output, part in zip(outputs, room.split(room.numel() // max(self._size, 1)), strict=True):
                output.detach().copy_(part.view(output.shape))

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        self._checked(output, given)
        if output.dtype is not given.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if output.numel() != given.numel() * self._size:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        return self._queued(lambda comm, stream: self.call_all_gather(comm, given, output, stream), given, [output],
                            [output, given], opts)

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor],
                            opts: Any = None) -> Work:
        return [self.allgather([[each[at] for each in outputs]], [given], opts) for at, given in enumerate(inputs)][-1]

    def allgather_into_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> Work:
        return [self._allgather_base(output, given, opts) for output, given in zip(outputs, inputs, strict=True)][-1]

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        (output,), (given,) = outputs, inputs
        self._check_list(given, output)
        return self._reduce_scatter(output, torch.cat([each.detach().reshape(-1) for each in given]), opts)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        self._checked(output, given)
        if output.numel() * self._size != given.numel():
            raise ValueError("input tensor must be the same size as output size times world size")
        return self._reduce_scatter(output, given, opts or options.ReduceScatterOptions())

    def _reduce_scatter(self, output: Tensor, given: Tensor, opts: Any) -> Work:
        source = given.detach() * opts.reduceOp.factor if kind_of(opts.reduceOp) is RedOpType.PREMUL_SUM else given

        def run(comm: Any, stream: int) -> None:
            self.call_reduce_scatter(comm, source, output, opts.reduceOp, stream)
            self._finish(output, opts.reduceOp)

        return self._queued(run, output, [output], [output, source], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> Work:
        return [self._reduce_scatter_base(output, given, opts)
                for output, given in zip(outputs, inputs, strict=True)][-1]

    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        (given,), root = inputs, self._root("gather", opts.rootRank)
        into = list(outputs[0]) if self._rank == root and outputs else []
        if self._rank == root:
            self._check_list(into, given)
        return self._exchanged({root: given}, dict(enumerate(into)), given, into, opts)

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        (output,), root = outputs, self._root("scatter", opts.rootRank)
        given = list(inputs[0]) if self._rank == root and inputs else []
        if self._rank == root:
            self._check_list(given, output)
        return self._exchanged(dict(enumerate(given)), {root: output}, output, outputs, opts)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise RuntimeError(f"alltoall: lists of {len(outputs)} and {len(inputs)} tensors for {self._size} ranks")
        return self._exchanged(dict(enumerate(inputs)), dict(enumerate(outputs)), inputs[0], outputs, opts)

    def alltoall_base(self, output: Tensor, given: Tensor, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any = None) -> Work:
        self._checked(output, given)
        parts = []
        for tensor, splits in ((given, input_splits), (output, output_splits)):
            length = tensor.shape[0]
            if not splits and length % self._size:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            sizes = list(splits) or [length // self._size] * self._size
            if sum(sizes) != length:
                raise RuntimeError("Split sizes doesn't match total dim 0 size")
            parts.append(dict(enumerate(tensor.detach().split(sizes))))
        return self._exchanged(parts[0], parts[1], given, [output], opts)

    def _exchanged(self, sent: dict[int, Tensor], received: dict[int, Tensor], tensor: Tensor,
                   result: Sequence[Tensor], opts: Any) -> Work:
        """Sends and receives all at once; what a rank sends itself is copied."""
        self._checked(*sent.values(), *received.values())

        def run(comm: Any, stream: int) -> None:
            if self._rank in sent and self._rank in received:
                with torch.no_grad():
                    received[self._rank].detach().copy_(sent[self._rank])
            self.call_exchange(comm, {to: t for to, t in sent.items() if to != self._rank and t.numel()},
                               {source: t for source, t in received.items() if source != self._rank and t.numel()},
                               stream)

        return self._queued(run, tensor, result, [*sent.values(), *received.values()], opts)

    def barrier(self, opts: Any = None) -> Work:
        ids = getattr(opts, "device_ids", None)
        index = ids[0] if ids else self._bound.index if self._bound is not None else self._module.current_device()
        flag = torch.ones(1, device=f"{self.kind}:{index}")
        work = self.allreduce([flag], options.AllreduceOptions(asyncOp=False))
        self._module.synchronize()
        return work

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work:
        return self._exchanged({dstRank: tensors[0]}, {}, tensors[0], [], None)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work:
        return self._exchanged({}, {srcRank: tensors[0]}, tensors[0], tensors, None)

    # what a subclass does ----------------------------------------------------------------------------------------

    def new_name(self) -> bytes:
        """What the ranks of a new communicator know it by."""
        raise NotImplementedError

    def connected(self, name: bytes) -> Any:
        """The communicator of a name."""
        raise NotImplementedError

    def disconnected(self, comm: Any) -> None:
        raise NotImplementedError

    def handle_of(self, stream: Any) -> int:
        raise NotImplementedError

    def call_all_reduce(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        raise NotImplementedError

    def call_reduce(self, comm: Any, tensor: Tensor, root: int, op: Any, stream: int) -> None:
        raise NotImplementedError

    def call_broadcast(self, comm: Any, tensor: Tensor, root: int, stream: int) -> None:
        raise NotImplementedError

    def call_all_gather(self, comm: Any, given: Tensor, output: Tensor, stream: int) -> None:
        raise NotImplementedError

    def call_reduce_scatter(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        raise NotImplementedError

    def call_exchange(self, comm: Any, sent: dict[int, Tensor], received: dict[int, Tensor], stream: int) -> None:
        raise NotImplementedError
