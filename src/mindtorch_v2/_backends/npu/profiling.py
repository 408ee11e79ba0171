"""aclprof: CANN records what chips do into a folder, which msprof and MindStudio read."""

import ctypes
from ctypes import c_char_p, c_int32, c_size_t, c_uint32, c_uint64
from typing import Any

from .errors import NpuError
from .facts import POINTER
from .runtime import Runtime, at_stop, current_device, started

LIBRARY = "libmsprofiler.so"
PROTOTYPES: dict[str, tuple[Any, ...]] = {  # all return an error code
    "aclprofInit": (c_char_p, c_size_t),
    "aclprofStart": (POINTER,),
    "aclprofStop": (POINTER,),
    "aclprofDestroyConfig": (POINTER,),
    "aclprofFinalize": (),
}
CREATE_CONFIG = (POINTER, (ctypes.POINTER(c_uint32), c_uint32, c_int32, POINTER, c_uint64))
# What is recorded; a level is several of these together.
_API, _TASKS, _METRICS, _AICPU, _COLLECTIVES, _MARKS, _RUNTIME, _TASK_TIMES = (
    0x1, 0x2, 0x4, 0x8, 0x20, 0x80, 0x100, 0x800)  # fmt: skip
LEVELS = (0, _TASK_TIMES | _API, _TASKS | _API | _COLLECTIVES | _METRICS,
          _TASKS | _API | _COLLECTIVES | _METRICS | _RUNTIME | _AICPU)  # fmt: skip


def _functions(runtime: Runtime) -> dict[str, Any]:
    """The functions of CANN's profiler by name, typed; NpuError if this CANN has none."""
    path = next((f / LIBRARY for f in runtime.libraries.folders if (f / LIBRARY).is_file()), None)
    if path is None:
        raise NpuError("aclprofInit", 0, f"{LIBRARY} is in no folder of this CANN")
    library = ctypes.CDLL(str(path))
    functions = {}
    for name, (result, parameters) in {**{n: (c_int32, p) for n, p in PROTOTYPES.items()},
                                       "aclprofCreateConfig": CREATE_CONFIG}.items():  # fmt: skip
        functions[name] = function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return functions


class DeviceTrace:
    """A recording of the chips in use, from now until `stop`; NpuError where CANN does not begin one."""

    def __init__(self, folder: str, level: int, metrics: int, marks: bool = False) -> None:
        self.runtime = started(current_device())
        self.functions = _functions(self.runtime)
        self.config: int | None = None
        path = folder.encode()
        self._call("aclprofInit", path, len(path))
        _open.append(self)
        try:
            devices = (c_uint32 * len(self.runtime.contexts))(*self.runtime.contexts)
            wanted = LEVELS[level] | (_MARKS if marks else 0)
            self.config = self.functions["aclprofCreateConfig"](devices, len(devices), metrics, None, wanted)
            if not self.config:
                raise self.runtime.error("aclprofCreateConfig", 0)
            self._call("aclprofStart", self.config)
        except NpuError:
            self._end()
            raise

    def _call(self, name: str, *args: Any) -> None:
        code = self.functions[name](*args)
        if code:
            raise self.runtime.error(name, code)

    def stop(self) -> None:
        """Waits for the work so far, and writes what was recorded."""
        if self in _open:
            self.runtime.call("aclrtSynchronizeDevice")
            try:
                self._call("aclprofStop", self.config)
            finally:
                self._end()

    def _end(self) -> None:
        _open.remove(self)
        if self.config:
            self._call("aclprofDestroyConfig", self.config)
        self._call("aclprofFinalize")


_open: list[DeviceTrace] = []


def _stop_all(runtime: Runtime) -> None:
    for trace in list(_open):
        trace.stop()


at_stop.insert(0, _stop_all)
