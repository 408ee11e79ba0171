"""torch.cpu: the host as a device, with the interface of the accelerators' modules."""

import functools
import os
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from . import amp as amp

__all__ = ["Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "get_capabilities",
           "is_available", "is_initialized", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: calls return when they are done."""


class Stream:
    """The order of calls, which on the CPU is the program's."""

    def __init__(self, priority: int = -1) -> None:
        """All streams are one."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing: there is nothing to wait for."""

    def record_event(self) -> None:
        """Nothing: every event is over."""

    def wait_event(self, event: Any) -> None:
        """Nothing: every event is over."""


class Event:
    """A point in the order of calls, which is always past."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to note."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_default = Stream()
_current = [_default]


def current_stream(device: Any = None) -> Stream:
    return _current[-1]


class StreamContext:
    """Context in which a stream is the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _current.append(_current[-1] if self.stream is None else self.stream)

    def __exit__(self, *exception: Any) -> None:
        _current.pop()


def stream(stream: Stream | None) -> StreamContext:
    return StreamContext(stream)


# names of features -> the flags by which Linux knows them, where the two differ
_FLAGS = {"avx512_f": "avx512f", "avx512_bw": "avx512bw", "avx512_cd": "avx512cd", "avx512_dq": "avx512dq",
          "avx512_vl": "avx512vl", "avx512_vbmi": "avx512vbmi", "avx512_ifma": "avx512ifma", "sse3": "pni",
          "bmi": "bmi1", "fma3": "fma", "lzcnt": "abm", "sha": "sha_ni"}
_FEATURES = """sse sse2 sse3 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx512_f avx512_bw avx512_cd avx512_dq
    avx512_vl avx512_vbmi avx512_vbmi2 avx512_ifma avx512_bitalg avx512_vnni avx512_vpopcntdq avx512_bf16 avx512_fp16
    avx512_vp2intersect amx_tile amx_int8 amx_bf16 amx_fp16 bmi bmi2 fma3 fma4 f16c lzcnt popcnt aes sha clflush
    clflushopt clwb""".split()


@functools.lru_cache(None)
def get_capabilities() -> Mapping[str, Any]:
    """What the processor can do, by Linux's account of it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            rows = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
    except OSError:
        rows = {}
    known = {name.strip(): value.strip() for name, value in rows.items()}
    flags = set(known.get("flags", "").split())
    cores = os.cpu_count() or 1
    return MappingProxyType({
        "architecture": platform.machine(), "cpu_name": known.get("model name", platform.processor()),
        "num_logical_cores": cores, "num_physical_cores": int(known.get("cpu cores", cores)),
        **{name: _FLAGS.get(name, name) in flags for name in _FEATURES}})


def _is_avx2_supported() -> bool:
    return get_capabilities()["avx2"]


def _is_avx512_supported() -> bool:
    return get_capabilities()["avx512_f"]


def _is_avx512_bf16_supported() -> bool:
    return get_capabilities()["avx512_bf16"]


def _is_vnni_supported() -> bool:
    return get_capabilities()["avx512_vnni"]


def _is_amx_tile_supported() -> bool:
    return get_capabilities()["amx_tile"]


def _is_amx_fp16_supported() -> bool:
    return get_capabilities()["amx_fp16"]
