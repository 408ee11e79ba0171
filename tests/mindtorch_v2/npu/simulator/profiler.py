"""aclprof on the simulated machine: the launches between start and stop, written into the folder."""

import ctypes
import json
from pathlib import Path
from typing import Any

from .machine import Fault, Machine


class Profiler(Machine):
    def restart(self) -> None:
        super().restart()
        self.profile_folder: Path | None = None
        self.recording: dict[str, Any] | None = None

    def aclprofInit(self, path: int | None, length: int) -> None:
        if not self.initialised:
            raise Fault(100001, "aclInit was not called")
        if self.profile_folder is not None:
            raise Fault(200005, "initialised twice")
        folder = Path(ctypes.string_at(path or 0, length).decode())
        if not folder.is_dir():
            raise Fault(200000, f"{folder} is no folder", duty=False)
        self.profile_folder = folder

    def aclprofCreateConfig(self, devices: int | None, count: int, metrics: int, events: int | None, kinds: int) -> int:
        given = (ctypes.c_uint32 * count).from_address(devices or 0)
        if events is not None or any(d >= self.device_count for d in given) or metrics not in (*range(7), 0xFF):
            raise Fault(107000, f"devices {list(given)}, metrics {metrics}, events {events}")
        return self.new_handle("profile", {"devices": list(given), "metrics": metrics, "kinds": kinds})

    def aclprofStart(self, config: int | None) -> None:
        if self.profile_folder is None or self.recording is not None:
            raise Fault(200003, "not initialised, or started already")
        self.recording = {**self.object("profile", config), "before": self._launched()}

    def _launched(self) -> dict[str, int]:
        return {name: n for name, n in self.calls.items()
                if name.startswith("aclnn") and not name.endswith("GetWorkspaceSize")}

    def aclprofStop(self, config: int | None) -> None:
        self.object("profile", config)
        if self.recording is None or self.profile_folder is None:
            raise Fault(200003, "not started")
        before = self.recording.pop("before")
        launches = {name: n - before.get(name, 0) for name, n in self._launched().items() if n > before.get(name, 0)}
        text = json.dumps({**self.recording, "launches": launches})
        (self.profile_folder / "PROF_000001.json").write_text(text)
        self.recording = None

    def aclprofDestroyConfig(self, config: int | None) -> None:
        self.destroy("profile", config)

    def aclprofFinalize(self) -> None:
        if self.recording is not None or self.profile_folder is None:
            raise Fault(200003, "finalised while recording, or never initialised")
        self.profile_folder = None
