"""Meta objects and the two phases: arguments decoded by their declared kinds, checked, and run with NumPy."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import chips
from .build import operator_kinds
from .kernels import DATA_DEPENDENT, KERNELS
from .machine import DEVICE_BASE, Fault, Machine, Queue, _store

DATA_TYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.uint8, 6: np.int16, 7: np.uint16,
              8: np.uint32, 9: np.int64, 10: np.uint64, 11: np.float64, 12: np.bool_, 16: np.complex64,
              17: np.complex128,
              27: ml_dtypes.bfloat16, 35: ml_dtypes.float8_e5m2, 36: ml_dtypes.float8_e4m3fn}  # fmt: skip
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
FORMATS = {3: 47, 4: 0, 5: 30}
_LOOKS_AT_FORMAT = ("aclnnConv", "aclnnAvgPool", "aclnnMaxPool", "aclnnBatchNorm")
BY_FORMAT = frozenset(symbol for symbol in operator_kinds() if symbol.startswith(_LOOKS_AT_FORMAT))
WORKSPACE = 2048


class Tensor:
    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...], offset: int, format_: int,
                 count: int, address: int | None) -> None:  # fmt: skip
        self.shape, self.dtype, self.strides, self.offset = shape, dtype, strides, offset
        self.format, self.count, self.address, self.destroyed = format_, count, address, False

    def check(self, name: str) -> None:
        if len(self.shape) > 8:
            raise Fault(161002, f"{name} has {len(self.shape)} dimensions", duty=False)
        if 0 in self.shape:
            return
        last = self.offset + sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))
        if self.offset < 0 or min(self.strides, default=0) < 0 or last >= self.count:
            raise Fault(161002, f"{name}: element {last} of a storage of {self.count}")
        if self.address is None or self.address % 32:
            raise Fault(161002, f"{name}: address {self.address} is not aligned to 32 bytes")

    def view(self, machine: Machine) -> np.ndarray:
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        data = machine.device_bytes(self.address or 0, self.count * self.dtype.itemsize)
        size = self.dtype.itemsize
        return np.ndarray(self.shape, self.dtype, data.data, self.offset * size, [s * size for s in self.strides])

    def copy(self) -> "Tensor":
        return Tensor(self.shape, self.dtype, self.strides, self.offset, self.format, self.count, self.address)


class Executor(NamedTuple):
    symbol: str
    values: list[Any]
    workspace: int
    state: dict[str, bool]


class Operators(Machine):
    """The machine with descriptors and operators."""

    def restart(self) -> None:
        super().restart()
        self.kinds = operator_kinds()
        self.unrepeatable: set[str] = set()
        self.refuses_strided: set[str] = set()
        self.chip = "A2"

    @property
    def chip(self) -> str:
        return self._chip

    @chip.setter
    def chip(self, name: str) -> None:
        """The machine as one of another chip, for programs that have not started it yet."""
        self._chip, self.records_nothing = name, name == "910A"
        self.soc_name = ctypes.create_string_buffer(chips.SOC_NAMES[name])

    # meta objects ----------------------------------------------------------------------------------------------

    def aclCreateTensor(self, dims: int | None, ndim: int, dtype: int, strides: int | None, offset: int, format_: int,
                        storage: int | None, storage_ndim: int, data: int | None) -> int:  # fmt: skip
        shape, kind = _numbers(dims, ndim), DATA_TYPES.get(dtype)
        if kind is None:
            raise Fault(161002, f"data type {dtype}")
        steps = _numbers(strides, ndim) if strides is not None else _packed(shape)
        count = int(np.prod(_numbers(storage, storage_ndim), dtype=np.int64))
        return self.new_handle("tensor", Tensor(shape, np.dtype(kind), steps, offset, format_, count, data))

    def aclCreateScalar(self, value: int, dtype: int) -> int:
        kind = np.dtype(DATA_TYPES[dtype])
        number = np.frombuffer(ctypes.string_at(value, kind.itemsize), kind)[0]
        return self.new_handle("scalar", number.item() if kind.num < 256 else float(number))

    def aclCreateIntArray(self, values: int | None, count: int) -> int:
        return self.new_handle("int_array", _numbers(values, count))

    def aclCreateBoolArray(self, values: int | None, count: int) -> int:
        return self.new_handle("bool_array", tuple((ctypes.c_bool * count).from_address(values)) if values else ())

    def aclCreateTensorList(self, values: int | None, count: int) -> int:
        handles = [h & (1 << 64) - 1 for h in _numbers(values, count)]
        for handle in handles:
            self.object("tensor", handle)
        return self.new_handle("tensor_list", handles)

    def aclDestroyTensor(self, handle: int | None) -> None:
        if any(handle in handles for handles in self.live.get("tensor_list", {}).values()):
            raise Fault(107017, "a tensor that a list owns was destroyed by itself")
        self._destroy_tensor(handle)

    def _destroy_tensor(self, handle: int | None) -> None:
        tensor = self.destroy("tensor", handle)
        if tensor is not None:
            tensor.destroyed = True

    def aclDestroyScalar(self, handle: int | None) -> None:
        self.destroy("scalar", handle)

    def aclDestroyIntArray(self, handle: int | None) -> None:
        self.destroy("int_array", handle)

    def aclDestroyBoolArray(self, handle: int | None) -> None:
        self.destroy("bool_array", handle)

    def aclDestroyTensorList(self, handle: int | None) -> None:
        for tensor in self.destroy("tensor_list", handle) or ():
            self._destroy_tensor(tensor)

    def aclDestroyAclOpExecutor(self, handle: int | None) -> None:
        self.destroy("executor", handle)

    def aclSetAclOpExecutorRepeatable(self, handle: int | None) -> None:
        executor = self.object("executor", handle)
        if executor.symbol in self.unrepeatable:
            raise Fault(561103, f"{executor.symbol} copies inside and cannot be repeated", duty=False)
        if executor.state["from cache"]:
            raise Fault(561000, f"an executor of {executor.symbol} from the cache cannot be repeated", duty=False)
        executor.state["repeatable"] = True

    def _set_address(self, handle: int | None, index: int, tensor: int | None, address: int | None,
                     wanted: tuple[str, ...]) -> None:  # fmt: skip
        executor = self.object("executor", handle)
        if not executor.state.get("repeatable"):
            raise Fault(161002, "address set for an executor that is not repeatable")
        if address is None or address % 32:
            raise Fault(161002, f"address {address} is not aligned to 32 bytes")
        found = [v for (_, kind), v in zip(self.kinds[executor.symbol], executor.values, strict=True)
                 if kind.rstrip("?") in wanted]  # fmt: skip
        if index >= len(found) or found[index] is not self.object("tensor", tensor):
            raise Fault(161002, f"tensor number {index} of {executor.symbol} is another one")
        found[index].address = address

    def aclSetInputTensorAddr(self, executor: int | None, index: int, tensor: int | None, address: int | None) -> None:
        self._set_address(executor, index, tensor, address, ("tensor", "inout_tensor"))

    def aclSetOutputTensorAddr(self, executor: int | None, index: int, tensor: int | None, address: int | None) -> None:
        self._set_address(executor, index, tensor, address, ("out_tensor", "inout_tensor"))

    def aclGetViewShape(self, tensor: int | None, dims: int, count: int) -> None:
        shape = self.object("tensor", tensor).shape
        malloc = ctypes.CDLL(None).malloc
        malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
        memory = malloc(8 * max(len(shape), 1))
        (ctypes.c_int64 * len(shape)).from_address(memory)[:] = shape
        _store(dims, ctypes.c_uint64, memory)
        _store(count, ctypes.c_uint64, len(shape))

    # the two phases --------------------------------------------------------------------------------------------

    def first_phase(self, symbol: str, raw: list[Any]) -> None:
        self.device()
        *given, size, out = raw
        values = [self._decoded(*parameter, value) for parameter, value in zip(self.kinds[symbol], given, strict=True)]
        tensors = [t for v in values for t in (v if isinstance(v, list) else [v]) if isinstance(t, Tensor)]
        if symbol not in KERNELS:
            raise Fault(561003, f"the simulator has no kernel for {symbol}", duty=False)
        chips.check(self.chip, symbol, self.kinds[symbol], values)
        if symbol in BY_FORMAT and any(t.format != FORMATS.get(len(t.shape), t.format) for t in tensors):
            raise Fault(161002, f"{symbol}: format of a plain tensor expected, got {[t.format for t in tensors]}")
        if symbol in self.refuses_strided and any(t.strides != _packed(t.shape) for t in tensors):
            raise Fault(561103, f"{symbol} does not take strided tensors", duty=False)
        plain = ("tensor", "out_tensor", "inout_tensor", "scalar")
        workspace = 0 if all(kind.rstrip("?") in plain for _, kind in self.kinds[symbol]) else WORKSPACE
        _store(size, ctypes.c_uint64, workspace)
        state = {"from cache": self._seen(symbol, values)}
        _store(out, ctypes.c_uint64, self.new_handle("executor", Executor(symbol, values, workspace, state)))

    def _seen(self, symbol: str, values: list[Any]) -> bool:
        """Whether this thread made such a call before; CANN then answers from a cache."""
        seen = self.threads.__dict__.setdefault("seen", set())
        call = (symbol, *(_geometry(value) for value in values))
        if call in seen:
            return True
        seen.add(call)
        return False

    def _decoded(self, name: str, kind: str, value: Any) -> Any:
        optional, kind = kind.endswith("?"), kind.rstrip("?")
        if kind in ("int64", "uint64", "int32", "int8", "bool", "float", "double", "dtype"):
            return value
        if value is None:
            if optional:
                return None
            raise Fault(161001, f"{name} is NULL")
        if kind == "char*":
            return ctypes.string_at(value).decode()
        kind = kind.removeprefix("inout_").removeprefix("out_")
        found = self.object(kind, value)
        if kind == "tensor":
            found.check(name)
        elif kind == "tensor_list":
            found = [self.object("tensor", handle) for handle in found]
            for tensor in found:
                tensor.check(name)
        return found

    def spend_executor(self, handle: int | None) -> None:
        """What a second phase does to its executor: only a repeatable one stays."""
        if not self.object("executor", handle).state.get("repeatable"):
            self.destroy("executor", handle)

    def second_phase(self, symbol: str, workspace: int | None, size: int, handle: int | None,
                     stream: int | None) -> None:  # fmt: skip
        executor: Executor = self.object("executor", handle)
        queue = self.queue(stream)
        if executor.symbol != symbol:
            raise Fault(161002, f"executor of {executor.symbol} given to {symbol}")
        if size < executor.workspace or (size and workspace is None):
            raise Fault(161002, f"workspace of {size} bytes, {executor.workspace} wanted")
        self.spend_executor(handle)
        tensors = [t for v in executor.values for t in (v if isinstance(v, list) else [v]) if isinstance(t, Tensor)]
        if any(t.destroyed for t in tensors):
            raise Fault(107017, f"{symbol}: a tensor was destroyed before the second phase")
        for tensor in tensors:
            if 0 not in tensor.shape:
                if (tensor.address or 0) // DEVICE_BASE - 1 != queue.device:
                    raise Fault(107000, f"{symbol}: address {tensor.address} is not of device {queue.device}")
                tensor.view(self)
        self.enqueue(queue, self._task(executor, workspace, size, queue))

    def _task(self, executor: Executor, workspace: int | None, size: int, queue: Queue) -> Callable[[], None]:
        symbol, values = executor.symbol, executor.values
        frozen = [_frozen(value) for value in values]

        def run() -> None:
            if size:
                self.device_bytes(workspace or 0, size, queue.device)[:] = 0x5C  # as if it had been worked with
            shapes = compute(self, symbol, self.kinds[symbol], frozen, self.chip)
            for value, shape in zip(values, shapes, strict=True):
                if shape is not None:
                    value.shape = shape

        return run


def compute(machine: Machine, symbol: str, kinds: tuple, values: list[Any],
            chip: str) -> list[tuple[int, ...] | None]:  # fmt: skip
    """Runs an operator on device memory; gives the real shapes of outputs whose size depends on data."""
    inputs, outputs = [], []
    for (_, kind), value in zip(kinds, values, strict=True):
        kind = kind.rstrip("?")
        if kind.startswith("out_"):
            outputs.append(value)
        elif kind.startswith("inout_"):
            views = [t.view(machine) for t in value] if isinstance(value, list) else value and value.view(machine)
            inputs.append(views)
        elif isinstance(value, Tensor):
            inputs.append(_widened(value.view(machine)))
        elif isinstance(value, list):
            inputs.append([_widened(t.view(machine)) for t in value])
        else:
            inputs.append(np.dtype(DATA_TYPES[value]) if kind == "dtype" and value in DATA_TYPES else value)
    with np.errstate(all="ignore"):
        inputs = chips.prepared(chip, symbol, kinds, inputs)
        results = chips.finished(chip, symbol, inputs, KERNELS[symbol](*inputs))
    if len(outputs) == 1 and not isinstance(results, tuple):
        results = (results,)
    shapes: list[tuple[int, ...] | None] = [None] * len(values)
    places = [i for i, (_, kind) in enumerate(kinds) if kind.startswith("out_")]
    for place, tensor, result in zip(places, outputs, results or (), strict=True):
        for one, array in zip(tensor, result, strict=True) if isinstance(tensor, list) else [(tensor, result)]:
            if one is not None and array is not None:
                shapes[place] = _write(machine, symbol, one, np.asanyarray(array))
    return shapes


def _write(machine: Machine, symbol: str, tensor: Tensor, result: np.ndarray) -> tuple[int, ...] | None:
    target = tensor.view(machine)
    if symbol in DATA_DEPENDENT:
        target.reshape(-1)[: result.size] = result.reshape(-1)
        return result.shape
    if result.shape != target.shape and not (result.size == target.size == 1):
        raise Fault(161002, f"{symbol}: the result has shape {result.shape}, the output {target.shape}")
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}  # V: the half types that NumPy does not know
    if ranks[result.dtype.kind] > ranks[target.dtype.kind]:
        raise Fault(161002, f"{symbol}: a result of {result.dtype} does not go into {target.dtype}")
    touched = ~np.ma.getmaskarray(result).reshape(target.shape)  # a masked result leaves memory as it was
    np.copyto(target, np.asarray(result).reshape(target.shape), casting="unsafe", where=touched)
    return None


def _geometry(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_geometry, value))
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.strides, value.offset, value.format, value.count
    return value.__class__, repr(value)


def _frozen(value: Any) -> Any:
    """A value as it is now, whatever becomes of the tensor objects in it."""
    if isinstance(value, list):
        return [tensor.copy() for tensor in value]
    return value.copy() if isinstance(value, Tensor) else value


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype in HALVES else array


def _numbers(address: int | None, count: int) -> tuple[int, ...]:
    if count and address is None:
        raise Fault(161001, "a count without an array")
    return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))
