"""CANN's runtime: prototypes, start and end of life, the current device of each thread, checked calls."""

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from ctypes import byref, c_bool, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from typing import Any

from ..._core.determinism import determinism
from .chips import ALLOW_LOWER_PRECISION, WITHOUT_FLOAT32_PRODUCTS, chip_of
from .errors import NpuError
from .facts import ALREADY_INITIALISED, POINTER
from .libraries import Libraries, LibrariesMissing

USE_HF32 = 3
DETERMINISTIC = 0  # of CANN's options of a context
allow_hf32 = {"matmul": False, "conv": False}  # whether float32 products may be computed with shorter mantissas
_OUT = ctypes.POINTER  # an address that the callee writes to
_address, _count, _number, _index = _OUT(POINTER), _OUT(c_uint64), _OUT(c_int32), c_size_t

# Functions that return an error code, by their parameters.
CHECKED: dict[str, tuple[Any, ...]] = {
    "aclInit": (c_char_p,),
    "aclFinalize": (),
    "aclrtGetDeviceCount": (_OUT(c_uint32),),
    "aclrtSetDevice": (c_int32,),
    "aclrtResetDevice": (c_int32,),
    "aclrtSynchronizeDevice": (),
    "aclrtGetCurrentContext": (_address,),
    "aclrtSetCurrentContext": (POINTER,),
    "aclrtDeviceCanAccessPeer": (_number, c_int32, c_int32),
    "aclrtDeviceEnablePeerAccess": (c_int32, c_uint32),
    "aclrtGetMemInfo": (c_int32, _OUT(c_size_t), _OUT(c_size_t)),
    "aclrtMalloc": (_address, c_size_t, c_int32),
    "aclrtFree": (POINTER,),
    "aclrtMallocHost": (_address, c_size_t),
    "aclrtFreeHost": (POINTER,),
    "aclrtMemcpy": (POINTER, c_size_t, POINTER, c_size_t, c_int32),
    "aclrtMemcpyAsync": (POINTER, c_size_t, POINTER, c_size_t, c_int32, POINTER),
    "aclrtMemsetAsync": (POINTER, c_size_t, c_int32, c_size_t, POINTER),
    "aclrtCreateStreamWithConfig": (_address, c_uint32, c_uint32),
    "aclrtDestroyStream": (POINTER,),
    "aclrtSynchronizeStream": (POINTER,),
    "aclrtStreamQuery": (POINTER, _number),
    "aclrtStreamWaitEvent": (POINTER, POINTER),
    "aclrtCreateEventExWithFlag": (_address, c_uint32),
    "aclrtDestroyEvent": (POINTER,),
    "aclrtRecordEvent": (POINTER, POINTER),
    "aclrtSynchronizeEvent": (POINTER,),
    "aclrtQueryEventStatus": (POINTER, _number),
    "aclrtEventElapsedTime": (_OUT(c_float), POINTER, POINTER),
    "aclDestroyTensor": (POINTER,),
    "aclDestroyScalar": (POINTER,),
    "aclDestroyIntArray": (POINTER,),
    "aclDestroyBoolArray": (POINTER,),
    "aclDestroyTensorList": (POINTER,),
    "aclDestroyAclOpExecutor": (POINTER,),
    "aclSetAclOpExecutorRepeatable": (POINTER,),
    "aclSetInputTensorAddr": (POINTER, _index, POINTER, POINTER),
    "aclSetOutputTensorAddr": (POINTER, _index, POINTER, POINTER),
    "aclGetViewShape": (POINTER, _OUT(_OUT(c_int64)), _count),
}
# The same for functions that an older CANN may lack.
OPTIONAL: dict[str, tuple[Any, ...]] = {
    "aclrtCtxSetSysParamOpt": (c_int32, c_int64),
    "aclmdlRICaptureBegin": (POINTER, c_int32),
    "aclmdlRICaptureEnd": (POINTER, _address),
    "aclmdlRIExecuteAsync": (POINTER, POINTER),
    "aclmdlRIDestroy": (POINTER,),
}
# Functions that return something else.
OTHERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "aclGetRecentErrMsg": (c_char_p, ()),
    "aclrtGetSocName": (c_char_p, ()),
    "aclCreateTensor": (POINTER, (POINTER, c_uint64, c_int32, POINTER, c_int64, c_int32, POINTER, c_uint64, POINTER)),
    "aclCreateScalar": (POINTER, (POINTER, c_int32)),
    "aclCreateIntArray": (POINTER, (_OUT(c_int64), c_uint64)),
    "aclCreateBoolArray": (POINTER, (_OUT(c_bool), c_uint64)),
    "aclCreateTensorList": (POINTER, (_address, c_uint64)),
}


# Work, and waiting for work, that is no launch: who notes what is to be launched again cannot repeat it.
UNREPEATABLE = frozenset(("aclrtMemcpy", "aclrtMemcpyAsync", "aclrtMemsetAsync", "aclrtSynchronizeStream",
                          "aclrtSynchronizeDevice", "aclrtSynchronizeEvent", "aclrtRecordEvent",
                          "aclrtStreamWaitEvent", "aclmdlRIExecuteAsync"))  # fmt: skip
noting: dict[int, Any] = {}  # by thread, the Notes (plans.py) of what it launches


class Runtime:
    """The loaded libraries with typed functions. `functions[name]` is the bare C function, `call` a checked one."""

    def __init__(self, libraries: Libraries) -> None:
        self.libraries = libraries
        self.functions: dict[str, Any] = {}
        for name, parameters in CHECKED.items():
            self._add(name, c_int32, parameters)
        for name, (result, parameters) in OTHERS.items():
            self._add(name, result, parameters)
        for name, parameters in OPTIONAL.items():
            if self.libraries.has_runtime_symbol(name):
                self._add(name, c_int32, parameters)
        self.contexts: dict[int, int] = {}  # of each device in use
        self.lock = threading.RLock()
        self.blocking = os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1"
        self.initialised = False
        self.owner = False  # whether this library initialised CANN, and so may finalise it
        self.soc_name = ""  # told by CANN once it runs
        self.chip: str | None = None

    def _add(self, name: str, result: Any, parameters: tuple[Any, ...]) -> None:
        function = self.libraries.runtime_symbol(name)
        function.restype, function.argtypes = result, parameters
        self.functions[name] = function

    def call(self, name: str, *args: Any) -> None:
        """Calls a function that returns an error code; NpuError unless it is 0."""
        if noting and name in UNREPEATABLE and threading.get_ident() in noting:
            noting[threading.get_ident()].refuse()
        code = self.functions[name](*args)
        if code:
            raise self.error(name, code)

    def error(self, name: str, code: int, doing: str = "") -> NpuError:
        """The exception for a failed call, with CANN's text, which reading clears."""
        text = self.functions["aclGetRecentErrMsg"]()
        return NpuError(name, code, text.decode(errors="replace").strip() if text else "", doing)

    def device_count(self) -> int:
        count = c_uint32()
        self.call("aclrtGetDeviceCount", byref(count))
        return count.value

    def initialise(self) -> None:
        with self.lock:
            if not self.initialised:
                code = self.functions["aclInit"](None)
                if code and code != ALREADY_INITIALISED:
                    raise self.error("aclInit", code)
                self.initialised, self.owner = True, not code
                self.soc_name = (self.functions["aclrtGetSocName"]() or b"").decode()
                self.chip = chip_of(self.soc_name)

    def precision_of_products(self, symbol: str) -> int:
        """The cubeMathType of a product or convolution: the type's own precision where the chip has it."""
        if self.chip in WITHOUT_FLOAT32_PRODUCTS:
            return ALLOW_LOWER_PRECISION
        return USE_HF32 if allow_hf32["conv" if "Conv" in symbol else "matmul"] else 0

    def context(self, index: int) -> int:
        """The device's context, made at its first use. One set and one reset a device, however many threads use it."""
        with self.lock:
            context = self.contexts.get(index)
            if context is None:
                self.initialise()
                self.call("aclrtSetDevice", index)
                handle = POINTER()
                try:
                    self.call("aclrtGetCurrentContext", byref(handle))
                except NpuError:
                    self.functions["aclrtResetDevice"](index)
                    raise
                context = self.contexts[index] = handle.value or 0
                if determinism.mode:
                    self.set_determinism(determinism.mode)
            return context

    def set_determinism(self, mode: int) -> None:
        """Tells the current context whether results have to repeat; a CANN that knows no such option keeps its way."""
        if "aclrtCtxSetSysParamOpt" in self.functions:
            self.call("aclrtCtxSetSysParamOpt", DETERMINISTIC, int(mode > 0))


class _State:
    runtime: Runtime | None = None
    why_not: str | None = None  # why loading failed; it is not tried again
    ended = False  # the interpreter exits: late destructors must not touch CANN
    forked = False


class _Thread(threading.local):
    device = 0  # chosen by set_device
    ready = -1  # whose context is current in CANN


_state, thread = _State(), _Thread()
_loading = threading.Lock()  # two threads that begin together share one runtime
at_stop: list[Callable[[Runtime], None]] = []  # what other modules give back before the devices are reset
_FORKED = ("Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
           "start method")  # fmt: skip


def loaded() -> Runtime:
    """The libraries, loaded at the first call; LibrariesMissing if there are none."""
    runtime = _state.runtime
    if runtime is None:
        with _loading:
            runtime = _state.runtime or _load()
    if _state.forked:
        raise RuntimeError(_FORKED)
    return runtime


def _load() -> Runtime:
    if _state.ended or _state.why_not is not None:
        raise LibrariesMissing(_state.why_not or "the interpreter is exiting")
    try:
        _state.runtime = runtime = Runtime(Libraries())
    except (LibrariesMissing, AttributeError) as error:
        _state.why_not = str(error)
        raise LibrariesMissing(_state.why_not) from error
    return runtime


def why_unavailable() -> str | None:
    """None if the NPU can be used, else the reason. Starts no device, so that a later fork stays possible."""
    try:
        count = loaded().device_count()
    except RuntimeError as error:
        return str(error)
    return None if count else "CANN is there, but it finds no device"


def device_count() -> int:
    """The number of devices; 0 where CANN is not there."""
    try:
        return loaded().device_count()
    except (LibrariesMissing, NpuError):
        return 0


def started(index: int | None = None) -> Runtime:
    """The runtime with a device (the current one) made current in this thread."""
    runtime = _state.runtime
    if index is None:
        index = thread.device
    if runtime is None or thread.ready != index:
        runtime = loaded()
        context = runtime.context(index)
        runtime.call("aclrtSetCurrentContext", context)
        thread.ready = index
    return runtime


def running() -> Runtime | None:
    """The runtime if it was started and may still be called; what destructors ask."""
    return None if _state.ended or _state.forked else _state.runtime


def ended() -> bool:
    """Whether CANN may not be called any more."""
    return _state.ended or _state.forked or _state.runtime is None


def set_device(index: int) -> None:
    """Makes a device the current one of this thread."""
    count = loaded().device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"invalid device ordinal {index}: there are {count} NPU devices")
    started(index)
    thread.device = index


def current_device() -> int:
    return thread.device


def _closed(*args: Any) -> int:
    raise RuntimeError("CANN was finalised: the NPU cannot be used any more")


def stop() -> None:
    """Gives everything back and finalises CANN. A later use starts anew."""
    runtime, _state.runtime, _state.why_not = _state.runtime, None, None
    if runtime is None or _state.forked:
        return
    for index in list(runtime.contexts):
        if not runtime.functions["aclrtSetCurrentContext"](runtime.contexts[index]):
            runtime.functions["aclrtSynchronizeDevice"]()
    for give_back in at_stop:
        give_back(runtime)
    for index in runtime.contexts:
        runtime.functions["aclrtResetDevice"](index)
    if runtime.owner:
        runtime.functions["aclFinalize"]()
    for name in runtime.functions:  # another thread may still hold this runtime
        runtime.functions[name] = _closed
    thread.__dict__.clear()


def _determinism_changed(mode: int) -> None:
    runtime = running()
    for index in () if runtime is None else tuple(runtime.contexts):
        started(index).set_determinism(mode)


determinism.watchers.append(_determinism_changed)


def _stop_at_exit() -> None:
    _state.ended = True
    stop()


def _after_fork() -> None:
    _state.forked = _state.runtime is not None and _state.runtime.initialised
    thread.__dict__.clear()  # so that the next use asks for the device, and is told


atexit.register(_stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
