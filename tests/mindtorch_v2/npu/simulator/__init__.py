"""A simulated NPU behind CANN's C interface, for tests only."""

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .build import Prototype, compiler, prototypes, toolkit
from .collectives import Collectives
from .machine import Fault
from .operators import Operators
from .profiler import Profiler

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64))
_SIGNED = {"int8_t": 8, "int32_t": 32, "int64_t": 64}


class Simulator(Operators, Collectives, Profiler):
    """Answers the calls that come through the compiled library."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root, self.prototypes = root, prototypes()
        self.library = ctypes.CDLL(str(root / "lib64" / "libascendcl.so"))
        self.library.simulator_spent_ns.restype = self.library.simulator_calls.restype = ctypes.c_uint64
        self._handler = _HANDLER(self._handle)  # must live as long as the library may call it
        self.library.simulator_set_handler(self._handler)

    def restart(self) -> None:
        super().restart()
        self._failing: dict[str, list[int]] = {}

    def _handle(self, number: int, raw: "ctypes._Pointer[ctypes.c_uint64]") -> int:
        prototype = self.prototypes[number]
        with self.lock:
            try:
                return self._answer(prototype, raw)
            except Fault as fault:
                self.recent = f"{prototype.name}: {fault}"
                if fault.duty:
                    self.violations.append(self.recent)
                code = fault.code
            except Exception as error:  # nothing may pass through C: every mistake becomes a violation that tests see
                self.recent = f"{prototype.name}: {type(error).__name__}: {error}"
                self.violations.append(self.recent)
                code = 507000
        return 0 if prototype.result == "void*" else code

    def _answer(self, prototype: Prototype, raw: "ctypes._Pointer[ctypes.c_uint64]") -> int:
        name = prototype.name
        self.calls[name] += 1
        values = [_decoded(kind, raw[i]) for i, kind in enumerate(prototype.types)]
        is_second_phase = name.startswith("aclnn") and not name.endswith("GetWorkspaceSize")
        planned = self._failing.get(name)
        if planned:
            code = planned.pop(0)
            if code:
                if is_second_phase:  # deletes the executor whether it fails or not
                    self.spend_executor(values[2])
                if name == "aclmdlRICaptureEnd":  # likewise, nothing is recorded any more
                    self.queue(values[0]).captured = None
                raise Fault(code, "told to fail", duty=False)
        if name.startswith("aclnn"):
            if not is_second_phase:
                self.first_phase(name.removesuffix("GetWorkspaceSize"), values)
            else:
                self.second_phase(name, *values)
            return 0
        return getattr(self, name)(*values) or 0

    def fail(self, name: str, code: int = 507000, after: int = 0, times: int = 1) -> None:
        """The call `name` fails `times` times with a code, after `after` calls that succeed."""
        self._failing[name] = [0] * after + [code] * times

    def spent(self) -> float:
        """Seconds spent in the simulator so far."""
        return self.library.simulator_spent_ns() / 1e9

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Calls return success at once, without doing anything: what is left is the caller's cost."""
        self.library.simulator_mute(1)
        try:
            yield
        finally:
            self.library.simulator_mute(0)


def _decoded(kind: str, value: int) -> int | float | None:
    if kind.endswith("*"):
        return value or None
    if kind == "float":
        return struct.unpack("<f", struct.pack("<Q", value)[:4])[0]
    if kind == "double":
        return struct.unpack("<d", struct.pack("<Q", value))[0]
    bits = _SIGNED.get(kind)
    if bits is None:
        return bool(value & 1) if kind == "bool" else value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


_simulator: list[Simulator] = []


def simulator() -> Simulator:
    """The one simulator of this process; ASCEND_HOME_PATH set to its `root` makes the library find it."""
    if not _simulator:
        _simulator.append(Simulator(toolkit()))
    return _simulator[0]


__all__ = ["Fault", "Simulator", "compiler", "simulator"]
