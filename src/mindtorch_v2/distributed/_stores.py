"""Stores: what processes of a group tell each other before they can talk. Here one process tells itself."""

import os
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .._compat.absent import refuse

DEFAULT_TIMEOUT = timedelta(seconds=300)
ONE_PROCESS = "It runs one process: use world_size=1."


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    pass


class DistNetworkError(DistError):
    pass


class DistStoreError(DistError):
    pass


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """Values by key; who asks for a key that is not there waits for it."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self.timeout = DEFAULT_TIMEOUT

    def set_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout

    def set(self, key: str, value: Any) -> None:
        self._values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """The counter after `amount` was added to it."""
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def append(self, key: str, value: Any) -> None:
        self._values[key] = self._values.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """The value after the call: the desired one if the expected one was there, or there was none to expect."""
        held = self._values.get(key)
        if held is None and expected_value:
            return expected_value.encode()
        if held is None or held == expected_value.encode():
            self._values[key] = desired_value.encode()
        return self._values[key]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Comes back when all keys are there. Another thread may bring them; another process cannot."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout).total_seconds()
        while not self.check(keys):
            if time.monotonic() >= until:
                raise DistStoreError("Wait timeout")
            time.sleep(0.01)

    def delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)


class HashStore(Store):
    """A store of this process's own."""


class FileStore(Store):
    """A store that other processes would find by a file's name."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        if world_size > 1:
            refuse("torch.distributed.FileStore of several processes", ONE_PROCESS)
        self.path = file_name


class TCPStore(Store):
    """A store that other processes would find by a host's name and a port."""

    def __init__(self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
                 timeout: timedelta = DEFAULT_TIMEOUT, wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True) -> None:
        super().__init__()
        if world_size is not None and world_size > 1:
            refuse("torch.distributed.TCPStore of several processes", ONE_PROCESS)
        if not is_master:
            refuse("torch.distributed.TCPStore that another process serves", ONE_PROCESS)
        self.host, self.port, self.timeout = host_name, port or _free_port(), timeout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PrefixStore(Store):
    """Another store, in which all keys begin alike."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        return self._store

    @property
    def _values(self) -> Any:  # type: ignore[override]
        return _Prefixed(f"{self._prefix}/", self._store._values)

    @property
    def timeout(self) -> timedelta:  # type: ignore[override]
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def num_keys(self) -> int:
        return self._store.num_keys()


class _Prefixed:
    """A dictionary seen through a prefix of its keys."""

    def __init__(self, prefix: str, values: Any) -> None:
        self._prefix, self._values = prefix, values

    def __getitem__(self, key: str) -> bytes:
        return self._values[self._prefix + key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self._values[self._prefix + key] = value

    def __contains__(self, key: str) -> bool:
        return self._prefix + key in self._values

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(self._prefix + key, default)

    def pop(self, key: str, default: Any = None) -> Any:
        return self._values.pop(self._prefix + key, default)


def from_environment(name: str) -> str:
    """A variable that a launcher sets."""
    value = os.environ.get(name)
    if value is None:
        raise ValueError("Error initializing torch.distributed using env:// rendezvous: environment variable "
                         f"{name} expected, but not set")
    return value
