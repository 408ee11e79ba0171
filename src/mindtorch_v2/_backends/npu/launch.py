"""The two-phase call of any ACLNN operator: descriptions of the arguments, workspace, executor, errors."""

import ctypes
import math
import operator as python_operator
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_int64, c_uint64
from typing import Any

import numpy as np

from .array import NpuArray, empty
from .chips import Types, refusal, way, way_of
from .errors import NpuError
from .facts import DATA_TYPES, INNER_STEP_FAILED, INTEGERS, MAX_DIMS, POINTER, Parameter, signature
from .memory import pool_of
from .runtime import Runtime, at_stop, noting, started, thread
from .streams import Stream, current_stream

PHASE_ONE = "GetWorkspaceSize"


class AclnnOperator:
    """The two functions of an operator in the loaded libraries."""

    __slots__ = ("execute", "on_matrix_units", "parameters", "prepare", "symbol")

    def __init__(self, symbol: str, parameters: tuple[Parameter, ...], prepare: Any, execute: Any) -> None:
        self.symbol, self.parameters, self.prepare, self.execute = symbol, parameters, prepare, execute
        places = [i for i, p in enumerate(parameters) if p.name == "cubeMathType"]
        self.on_matrix_units = places[0] if places else None  # where the precision of products is told
        prepare.restype = execute.restype = ctypes.c_int32
        outputs = ctypes.POINTER(c_uint64), ctypes.POINTER(POINTER)
        prepare.argtypes = (*(p.ctype for p in parameters), *outputs)
        execute.argtypes = (POINTER, c_uint64, POINTER, POINTER)


_operators: dict[str, AclnnOperator] = {}


def operator_of(runtime: Runtime, symbol: str, op: str = "") -> AclnnOperator:
    """An operator by its symbol; NotImplementedError if this CANN does not have it."""
    known = _operators.get(symbol)
    if known is None:
        prepare = runtime.libraries.operator_symbol(symbol + PHASE_ONE)
        execute = runtime.libraries.operator_symbol(symbol)
        if prepare is None or execute is None:
            raise NotImplementedError(f"{op or symbol} cannot run on device 'npu': the installed CANN has no {symbol}")
        known = _operators[symbol] = AclnnOperator(symbol, signature(symbol), prepare, execute)
    return known


def is_offered(symbol: str, index: int, types: Types) -> bool:
    """Whether a device's chip and the installed CANN have an operator for tensors of these types, without casts."""
    runtime = started(index)
    return way(symbol, runtime.chip, types) is None and runtime.libraries.operator_symbol(symbol) is not None


# descriptions --------------------------------------------------------------------------------------------------------


class Descriptions:
    """CANN's objects for one call's arguments. Each is destroyed exactly once, elements of a list by the list."""

    __slots__ = ("functions", "made", "tensors")

    def __init__(self, functions: dict[str, Any]) -> None:
        self.functions = functions
        self.made: list[tuple[str, int]] = []
        self.tensors: list[int] = []  # one for each tensor argument, in order

    def _keep(self, name: str, handle: int | None) -> int:
        if not handle:
            raise NpuError(f"aclCreate{name}", 0, "it returned NULL")
        self.made.append((f"aclDestroy{name}", handle))
        return handle

    def tensor(self, array: NpuArray) -> int:
        handle = self.functions["aclCreateTensor"](*array.layout.arguments, array.storage.address)
        self.tensors.append(self._keep("Tensor", handle))
        return handle

    def tensor_list(self, arrays: Sequence[NpuArray]) -> int:
        first = len(self.made)
        handles = [self.tensor(array) for array in arrays]
        made = self.functions["aclCreateTensorList"]((POINTER * len(handles))(*handles), len(handles))
        if made:
            del self.made[first:]
        return self._keep("TensorList", made)

    def scalar(self, value: Any) -> int:
        if isinstance(value, np.generic):
            code, raw = DATA_TYPES[value.dtype], ctypes.create_string_buffer(value.tobytes())
        else:
            code, raw = _number(value)
        return self._keep("Scalar", self.functions["aclCreateScalar"](byref(raw), code))

    def int_array(self, values: Sequence[int]) -> int:
        made = self.functions["aclCreateIntArray"]((c_int64 * len(values))(*values), len(values))
        return self._keep("IntArray", made)

    def bool_array(self, values: Sequence[bool]) -> int:
        made = self.functions["aclCreateBoolArray"]((ctypes.c_bool * len(values))(*values), len(values))
        return self._keep("BoolArray", made)

    def argument(self, parameter: Parameter, value: Any) -> Any:
        """The C value of one parameter."""
        kind = parameter.kind
        if value is None and kind != "dtype":
            if not parameter.optional:
                raise TypeError(f"{parameter.name} must not be None: CANN takes no NULL there")
            return None
        if kind in INTEGERS:
            return python_operator.index(value)
        if kind in ("bool", "float", "double"):
            return value
        if kind == "dtype":
            return -1 if value is None else DATA_TYPES[getattr(value, "np", value)]
        if kind == "char*":
            return value.encode()
        return getattr(self, kind.removeprefix("inout_").removeprefix("out_"))(value)

    def destroy(self) -> None:
        made, self.made = self.made, []
        for name, handle in made:
            self.functions[name](handle)


def _number(value: Any) -> tuple[int, Any]:
    """The type and bytes of a Python number, in the widest type of its kind."""
    if value.__class__ is bool:
        return 12, ctypes.c_bool(value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        return 9, c_int64(value)
    if isinstance(value, complex):
        return 17, (ctypes.c_double * 2)(value.real, value.imag)
    return 11, ctypes.c_double(value)


# the call ------------------------------------------------------------------------------------------------------------


def launch(symbol: str, values: Mapping[str, Any], *, op: str = "",
           shapes_of: Sequence[str] = ()) -> list[tuple[int, ...]]:  # fmt: skip
    """Runs an operator with values by the names of its C parameters; a missing one is NULL.

    `shapes_of` names outputs whose size depends on data: the call waits for the stream and gives their real shapes.
    """
    parameters = signature(symbol)
    unknown = values.keys() - {p.name for p in parameters}
    if unknown:
        raise TypeError(f"{symbol} has no parameter {', '.join(sorted(unknown))}")
    return run(symbol, [values.get(p.name) for p in parameters], op, shapes_of)


def run(symbol: str, arguments: Sequence[Any], op: str = "", shapes_of: Sequence[str] = ()) -> list[tuple[int, ...]]:
    """Runs an operator with its parameters in C order."""
    parameters = signature(symbol)
    arrays = arrays_of(parameters, arguments)
    written = [array for parameter, array in arrays if parameter.is_written]
    if written and all(0 in array.shape for array in written):
        return [array.shape for parameter, array in arrays if parameter.name in shapes_of]
    index = common_device([array for _, array in arrays], op or symbol)
    if any(len(array.shape) > MAX_DIMS for _, array in arrays):
        arguments = with_merged_dims(symbol, arguments, op)
    runtime, stream = started(index), current_stream(index)
    casts = way_of(symbol, runtime.chip, arguments)
    if casts is not None:
        if isinstance(casts, str):
            raise refusal(op, symbol, runtime.soc_name, casts)
        return _run_cast(parameters, symbol, arguments, casts, op, shapes_of)
    try:
        return _run(runtime, stream, symbol, arguments, op, shapes_of)
    except NpuError as error:
        strided = [a for p, a in arrays if not p.is_written and not a.is_contiguous]
        if error.code != INNER_STEP_FAILED or not strided or not error.call.endswith(PHASE_ONE):
            raise
    # Some operators do not take strided inputs on some chips: once more with packed copies.
    packed = [_packed(p, value) for p, value in zip(parameters, arguments, strict=True)]
    return _run(runtime, stream, symbol, packed, op, shapes_of)


def _run_cast(parameters: Sequence[Parameter], symbol: str, arguments: Sequence[Any], casts: Types, op: str,
              shapes_of: Sequence[str]) -> list[tuple[int, ...]]:  # fmt: skip
    """Runs a call with some tensors in other types: copies before, and after for what is written."""
    values, written = list(arguments), []
    for i, (parameter, kind) in enumerate(zip(parameters, casts, strict=True)):
        if kind is None:
            continue
        some = values[i] if parameter.is_tensor_list else [values[i]]
        made = [empty(array.shape, kind, array.device_index) for array in some]
        for new, array in zip(made, some, strict=True):
            if not parameter.kind.startswith("out_") and array.size:
                run("aclnnCast", (array, kind, new), op)
            if parameter.is_written:
                written.append((array, new))
        values[i] = made if parameter.is_tensor_list else made[0]
    shapes = run(symbol, values, op, shapes_of)
    for array, new in written:
        if array.size:
            run("aclnnInplaceCopy", (array, new), op)
    return shapes


def _run(runtime: Runtime, stream: Stream, symbol: str, arguments: Sequence[Any], op: str,
         shapes_of: Sequence[str]) -> list[tuple[int, ...]]:  # fmt: skip
    operator = operator_of(runtime, symbol, op)
    notes = noting.get(threading.get_ident()) if noting else None
    if notes is not None:
        if not shapes_of:
            notes.run(runtime, operator, stream, arguments, op)
            return []
        notes.refuse()
    descriptions = Descriptions(runtime.functions)
    try:
        executor, size = first_phase(runtime, operator, arguments, descriptions, op)
        second_phase(runtime, operator, executor, size, stream, lambda: described(symbol, arguments, op))
        if not shapes_of:
            return []
        stream.synchronize()
        named = [p.name for p, _ in arrays_of(operator.parameters, arguments)]
        return [view_shape(runtime, descriptions.tensors[named.index(name)]) for name in shapes_of]
    finally:
        descriptions.destroy()


def first_phase(runtime: Runtime, operator: AclnnOperator, arguments: Sequence[Any], descriptions: Descriptions,
                op: str) -> tuple[int, int]:  # fmt: skip
    """The executor of a call and the size of the workspace it wants."""
    values = [descriptions.argument(p, value) for p, value in zip(operator.parameters, arguments, strict=True)]
    if operator.on_matrix_units is not None:
        values[operator.on_matrix_units] = runtime.precision_of_products(operator.symbol)
    size, executor = c_uint64(), POINTER()
    code = operator.prepare(*values, byref(size), byref(executor))
    if code:
        raise runtime.error(operator.symbol + PHASE_ONE, code, described(operator.symbol, arguments, op))
    return executor.value or 0, size.value


def second_phase(runtime: Runtime, operator: AclnnOperator, executor: int, size: int, stream: Stream,
                 doing: Callable[[], str]) -> None:  # fmt: skip
    """Queues the work. CANN then deletes the executor, also if this fails; only one that never ran is destroyed here.

    The workspace goes back to the stream's free list at once: whoever gets it next is queued behind this work.
    """
    block = None
    if size:
        pool = pool_of(stream.device_index)
        try:
            block = pool.allocate(size, stream.handle or 0)
        except RuntimeError:
            runtime.functions["aclDestroyAclOpExecutor"](executor)
            raise
    code = operator.execute(block and block.address, size, executor, stream.handle)
    if block is not None:
        pool.returned.append(block)
    if code:
        raise runtime.error(operator.symbol, code, doing())
    if runtime.blocking:
        code = runtime.functions["aclrtSynchronizeStream"](stream.handle)
        if code:
            raise runtime.error("aclrtSynchronizeStream", code, doing())


def view_shape(runtime: Runtime, tensor: int) -> tuple[int, ...]:
    """The shape an operator gave its output."""
    dims, count = ctypes.POINTER(c_int64)(), c_uint64()
    runtime.call("aclGetViewShape", tensor, byref(dims), byref(count))
    shape = tuple(dims[: count.value])
    delete = getattr(runtime.libraries.core["libnnopbase.so"], "_ZdaPv", None)  # delete[], as CANN made it with new[]
    if delete is not None and dims:
        delete.argtypes, delete.restype = (POINTER,), None
        delete(ctypes.cast(dims, POINTER))
    return shape


# arguments -----------------------------------------------------------------------------------------------------------


def arrays_of(parameters: Sequence[Parameter], arguments: Sequence[Any]) -> list[tuple[Parameter, NpuArray]]:
    """All arrays of a call with the parameters they belong to."""
    found = []
    for parameter, value in zip(parameters, arguments, strict=True):
        if value is None:
            continue
        if parameter.is_tensor:
            found.append((parameter, value))
        elif parameter.is_tensor_list:
            found += [(parameter, array) for array in value]
    for parameter, array in found:
        if array.__class__ is not NpuArray:
            raise TypeError(f"{parameter.name} must be an array on the NPU, not {type(array).__name__}")
    return found


def common_device(arrays: Sequence[NpuArray], name: str) -> int:
    indices = {array.device_index for array in arrays}
    if len(indices) > 1:
        shown = " and ".join(f"npu:{i}" for i in sorted(indices))
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
                           f"{shown}!")  # fmt: skip
    return indices.pop() if indices else thread.device


def described(symbol: str, arguments: Sequence[Any], op: str = "") -> str:
    """A call in words: operator, types, shapes, numbers."""

    def shown(value: Any) -> str:
        if isinstance(value, NpuArray):
            return f"{value.dtype}{list(value.shape)}"
        return f"[{', '.join(map(shown, value))}]" if isinstance(value, (list, tuple)) else repr(value)

    pairs = zip(signature(symbol), arguments, strict=True)
    return f"{f'{op}, ' if op else ''}{symbol}({', '.join(f'{p.name}={shown(v)}' for p, v in pairs)})"


def packed_copy(array: NpuArray) -> NpuArray:
    """A contiguous copy on the device."""
    made = empty(array.shape, array.dtype, array.device_index)
    run("aclnnInplaceCopy", (made, array))
    return made


def _packed(parameter: Parameter, value: Any) -> Any:
    if value is None or parameter.is_written:
        return value
    if parameter.is_tensor:
        return value if value.is_contiguous else packed_copy(value)
    if parameter.is_tensor_list:
        return [array if array.is_contiguous else packed_copy(array) for array in value]
    return value


def with_merged_dims(symbol: str, arguments: Sequence[Any], op: str = "") -> list[Any]:
    """The call with fewer dimensions, where CANN's limit is passed. Only elementwise calls have that freedom."""
    parameters = signature(symbol)
    arrays = [array for _, array in arrays_of(parameters, arguments)]
    shape = max((array.shape for array in arrays), key=len)
    elementwise = all(p.is_tensor or p.kind in ("scalar", "double", "float") for p in parameters)
    if not elementwise or any(array.shape not in (shape, ()) for array in arrays):
        raise RuntimeError(f"{described(symbol, arguments, op)}: the NPU takes at most {MAX_DIMS} dimensions")
    groups = _mergeable(shape, [array.strides for array in arrays if array.shape])
    if len(groups) > MAX_DIMS:
        raise RuntimeError(f"{described(symbol, arguments, op)}: the NPU takes at most {MAX_DIMS} dimensions, and "
                           f"merging leaves {len(groups)}")  # fmt: skip
    new_shape = tuple([math.prod(shape[first : last + 1]) for first, last in groups])

    def merged(array: NpuArray) -> NpuArray:
        strides = tuple([array.strides[last] for _, last in groups])
        return NpuArray(new_shape, array.dtype, strides, array.storage, array.offset)

    return [merged(value) if p.is_tensor and value is not None and value.shape else value
            for p, value in zip(parameters, arguments, strict=True)]  # fmt: skip


def _mergeable(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Runs (first, last) of dimensions that lie packed in every array."""
    groups: list[tuple[int, int]] = []
    for d, size in enumerate(shape):
        if groups and all(s[d - 1] == s[d] * size for s in strides):
            groups[-1] = (groups[-1][0], d)
        else:
            groups.append((d, d))
    return groups


at_stop.append(lambda runtime: _operators.clear())
