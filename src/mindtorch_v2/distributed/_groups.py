"""Groups of processes: for each kind of device an engine that moves its tensors."""

import enum
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from .._core.device import device as _device
from .._core.tensor import Tensor
from . import _options as options
from ._stores import Store
from ._work import DoneWork, Work

__all__ = ["Backend", "BackendConfig", "GroupMember", "ProcessGroup", "default_pg_timeout", "group"]

default_pg_timeout = timedelta(minutes=30)


class ProcessGroup:
    """Processes that work together; each has a rank in it. Programs may derive from it."""

    class BackendType(enum.Enum):
        UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = range(7)

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = BackendType

    def __init__(self, *arguments: Any) -> None:
        """From a rank and a size, which a store may precede."""
        self._rank, self._size = arguments[-2:]
        self.store: Store | None = arguments[0] if len(arguments) == 3 else None
        self._ranks = list(range(self._size))
        self._engines: dict[str, Any] = {}
        self._config, self._backend = "", "undefined"
        self.group_name, self.group_desc, self.bound_device_id = "", "undefined", None
        self.timeout = default_pg_timeout

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return self._backend

    _get_backend_name = name

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, text: str) -> None:
        self.group_desc = text

    def get_group_store(self) -> Store | None:
        return self.store

    # engines -----------------------------------------------------------------------------------------------------

    @property
    def _device_types(self) -> list[Any]:
        return [_device(kind) for kind in self._engines]

    def _register_backend(self, device: Any, backend_type: Any, backend: Any = None) -> None:
        self._engines[_device(device).type] = backend

    def _get_backend(self, device: Any) -> Any:
        """The engine of a kind of device."""
        kind = _device(device).type
        if kind not in self._engines:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self._engines[kind]

    def _of(self, tensors: Any) -> Any:
        """The engine of some tensors."""
        first = tensors
        while not isinstance(first, Tensor):
            first = first[0]
        engine = self._engines.get(first._device.type)
        return engine if engine is not None else self._get_backend(first.device)

    def _any(self) -> Any:
        """The engine for what has no tensors: the CPU's if there is one."""
        if not self._engines:
            raise RuntimeError("this group has no engine")
        return self._engines.get("cpu") or next(iter(self._engines.values()))

    def _unique(self) -> list[Any]:
        return list({id(each): each for each in self._engines.values()}.values())

    def set_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout
        for engine in self._unique():
            if hasattr(engine, "_set_default_timeout"):
                engine._set_default_timeout(timeout)

    def shutdown(self) -> None:
        for engine in self._unique():
            if hasattr(engine, "shutdown"):
                engine.shutdown()

    def abort(self) -> None:
        for engine in self._unique():
            if hasattr(engine, "abort"):
                engine.abort()

    def _start_coalescing(self, device: Any) -> None:
        engine = self._get_backend(device)
        if getattr(engine, "supports_coalescing", False):
            engine._start_coalescing()

    def _end_coalescing(self, device: Any) -> Work:
        engine = self._get_backend(device)
        return engine._end_coalescing() if getattr(engine, "supports_coalescing", False) else DoneWork()

    # collectives -------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None, *, op: Any = None) -> Work:
        return self._of(tensors).allreduce(_list(tensors), _reducing(options.AllreduceOptions, opts, op))

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        return self._of(tensors).allreduce_coalesced(tensors, opts or options.AllreduceCoalescedOptions())

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, *, root: int | None = None) -> Work:
        return self._of(tensors).reduce(_list(tensors), _rooted(options.ReduceOptions, opts, root, op))

    def broadcast(self, tensors: Any, opts: Any = None, *, root: int | None = None) -> Work:
        return self._of(tensors).broadcast(_list(tensors), _rooted(options.BroadcastOptions, opts, root))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        if isinstance(inputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._of(inputs).allgather(outputs, inputs, opts or options.AllgatherOptions())

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        return self._of(given)._allgather_base(output, given, opts or options.AllgatherOptions())

    all_gather_single = _allgather_base

    def allgather_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        return self._of(inputs).allgather_coalesced(outputs, inputs, opts or options.AllgatherOptions())

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        engine = self._of(inputs)
        return engine.allgather_into_tensor_coalesced(outputs, inputs, opts or options.AllgatherOptions())

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, *, root: int | None = None) -> Work:
        if isinstance(inputs, Tensor):
            outputs, inputs = [outputs] if outputs else [], [inputs]
        return self._of(inputs).gather(outputs, inputs, _rooted(options.GatherOptions, opts, root))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, *, root: int | None = None) -> Work:
        if isinstance(outputs, Tensor):
            outputs, inputs = [outputs], [inputs] if inputs else []
        return self._of(outputs).scatter(outputs, inputs, _rooted(options.ScatterOptions, opts, root))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, *, op: Any = None) -> Work:
        if isinstance(outputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        engine = self._of(outputs)
        return engine.reduce_scatter(outputs, inputs, _reducing(options.ReduceScatterOptions, opts, op))

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        return self._of(given)._reduce_scatter_base(output, given, opts or options.ReduceScatterOptions())

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Sequence[Tensor], opts: Any = None) -> Work:
        engine = self._of(inputs)
        return engine.reduce_scatter_tensor_coalesced(outputs, inputs, opts or options.ReduceScatterOptions())

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        return self._of(inputs).alltoall(outputs, inputs, opts or options.AllToAllOptions())

    def alltoall_base(self, output: Tensor, given: Tensor, output_splits: Sequence[int] = (),
                      input_splits: Sequence[int] = (), opts: Any = None) -> Work:
        engine = self._of(given)
        return engine.alltoall_base(output, given, output_splits, input_splits, opts or options.AllToAllOptions())

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Work:
        device = getattr(opts, "device", None)
        engine = self._any() if device is None else self._get_backend(device)
        return engine.barrier(opts or options.BarrierOptions())

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        engine = self._get_backend("cpu")
        return engine.monitored_barrier(self.timeout if timeout is None else timeout, wait_all_ranks)

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work:
        return self._of(tensors).send(tensors, dstRank, tag)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work:
        return self._of(tensors).recv(tensors, srcRank, tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:
        return self._of(tensors).recv_anysource(tensors, tag)


def _list(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else tensors


def _reducing(kind: type, opts: Any, op: Any) -> Any:
    """The options of a reduction, given as such or as the reduction alone."""
    if isinstance(opts, kind):
        return opts
    chosen = op if op is not None else opts
    return kind() if chosen is None else kind(reduceOp=chosen)


def _rooted(kind: type, opts: Any, root: int | None, op: Any = None) -> Any:
    """The options of a collective with a root, given as such or as the rank alone."""
    if isinstance(opts, kind):
        return opts
    made = kind(rootRank=root if root is not None else opts or 0)
    if op is not None:
        made.reduceOp = op
    return made


class GroupMember:
    """The default group, and what stands for a group that this process is not in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _Groups(type):
    """Makes `group.WORLD` the default group, also after it was made."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return GroupMember.WORLD

    @WORLD.setter
    def WORLD(cls, made: ProcessGroup | None) -> None:
        GroupMember.WORLD = made


class group(metaclass=_Groups):
    """The default group by its older name."""


class _BackendPlugin(NamedTuple):
    creator_fn: Callable
    extended_api: bool


class Backend(str):
    """The name of a communication library."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, HCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "hccl"
    _plugins: dict[str, _BackendPlugin] = {}
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, HCCL]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "npu": HCCL}
    backend_capability = {GLOO: ["cpu"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"], MPI: ["cpu"],
                          HCCL: ["npu"]}
    backend_type_map = {
        UNDEFINED: ProcessGroup.BackendType.UNDEFINED, GLOO: ProcessGroup.BackendType.GLOO,
        NCCL: ProcessGroup.BackendType.NCCL, XCCL: ProcessGroup.BackendType.XCCL, UCC: ProcessGroup.BackendType.UCC,
        MPI: ProcessGroup.BackendType.MPI, HCCL: ProcessGroup.BackendType.CUSTOM}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return getattr(Backend, name.upper(), Backend.UNDEFINED) if name.upper() in cls._plugins else name.lower()

    @classmethod
    def register_backend(cls, name: str, func: Callable, extended_api: bool = False,
                         devices: str | list[str] | None = None) -> None:
        """Makes `func` build the engines of a name: `func(store, rank, size, timeout)`, or, with `extended_api`,
        `func(options, pg_options)`."""
        if name.upper() in cls._plugins:
            raise RuntimeError(f"{name.upper()} c10d backend creator function already exist")
        setattr(cls, name.upper(), name.lower())
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        kinds = [devices] if isinstance(devices, str) else devices
        for device in kinds or ():
            if device not in ("cpu", "cuda"):
                cls.default_device_backend_map[device] = name.lower()
        cls.backend_type_map[name.lower()] = ProcessGroup.BackendType.CUSTOM
        cls.backend_capability[name.lower()] = kinds or ["cpu", "cuda"]
        cls._plugins[name.upper()] = _BackendPlugin(func, extended_api)


class BackendConfig:
    """Which library serves which kind of device: "cpu:gloo,cuda:nccl"."""

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, str] = {}
        name = str(backend)
        if name == Backend.UNDEFINED:
            self.device_backend_map = {device: each for device, each in Backend.default_device_backend_map.items()
                                       if device == "cpu"}
        elif ":" in name:
            self._read_pairs(name.lower())
        elif name.lower() in Backend.backend_list:
            self.device_backend_map = dict.fromkeys(Backend.backend_capability[name.lower()], Backend(name))
        else:
            raise AssertionError(f"Unknown backend type {backend}")

    def _read_pairs(self, text: str) -> None:
        form = (f"The custom backend string argument is invalid: {text}.\n                Custom backend string is an "
                "experimental feature where the backend string must be in the format:\n                "
                "\"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl'")
        for pair in text.split(","):
            device, separator, name = pair.partition(":")
            if not separator or ":" in name:
                raise ValueError("Invalid device:backend pairing:                                      "
                                 f"{pair}. {form}")
            if device in self.device_backend_map:
                raise ValueError(f"Duplicate device type {device}                                      "
                                 f"in backend string: {name}. {form}")
            self.device_backend_map[device] = Backend(name)

    def get_device_backend_map(self) -> dict[str, str]:
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


