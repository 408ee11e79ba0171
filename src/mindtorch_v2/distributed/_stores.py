"""Stores: values by key that processes of a group tell each other before they can talk otherwise.

`HashStore` is in the memory of one process, `FileStore` in a file, `TCPStore` in a server (`_store_server.py`) that one
of the processes runs. All keep a `Table`. Who asks for a key that is not there waits for it, up to the timeout.
"""

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from ._errors import DistNetworkError, DistStoreError, QueueEmptyError
from ._store_server import Server, Table, packed, received, shared_server

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(function: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{function}(): incompatible function arguments: a value is a str or bytes, not "
                        f"{type(value).__name__}")
    return bytes(value)


class Store:
    """Values by key. A subclass says how `set`, `get`, `add`, `check`, `delete_key` and `num_keys` are done."""

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        self._run("set", key, _bytes("set", value))

    def get(self, key: str) -> bytes:
        """The value, which is waited for."""
        self.wait([key])
        return self._run("get", key)

    def add(self, key: str, value: int) -> int:
        """The counter after `value` was added to it."""
        return int(self._run("add", key, str(int(value)).encode()))

    def append(self, key: str, value: Any) -> None:
        self._run("append", key, _bytes("append", value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """The value after the call: the desired one if the expected one was there, or there was none to expect."""
        return self._run("compare_set", key, _bytes("compare_set", expected_value),
                         _bytes("compare_set", desired_value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are one request each."""
        return True

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._run("check", key) == b"1" for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Comes back when all keys are there."""
        limit = self.timeout if timeout is None else timeout
        until, pause = time.monotonic() + limit.total_seconds(), 0.001
        while not self.check(keys):
            if time.monotonic() >= until:
                raise DistStoreError(self._too_late(keys, limit))
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _too_late(self, keys: Sequence[str], limit: timedelta) -> str:
        return "Wait timeout"

    def delete_key(self, key: str) -> bool:
        return self._run("delete_key", key) == b"1"

    def num_keys(self) -> int:
        return int(self._run("num_keys", ""))

    def list_keys(self) -> list[str]:
        return [key.decode() for key in self._run("list_keys", "").split(b"\0") if key]

    def queue_push(self, key: str, value: Any) -> None:
        self._run("queue_push", key, _bytes("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """The oldest value of a queue, which is waited for unless `block` is false."""
        until = time.monotonic() + self.timeout.total_seconds()
        while True:
            answer = self._run("queue_pop", key)
            if answer[:1] == b"1":
                return answer[1:]
            if not block:
                raise QueueEmptyError("queue is empty")
            if time.monotonic() >= until:
                raise DistStoreError(self._too_late([key], self.timeout))
            time.sleep(0.005)

    def queue_len(self, key: str) -> int:
        return int(self._run("queue_len", key))

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Comes back when so many processes have called it with the same key."""
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_members", "1")
        self.wait([f"{key}/last_members"], timeout)

    def clone(self) -> "Store":
        """The same store for another thread."""
        return self

    def _run(self, command: str, key: str, *arguments: bytes) -> bytes:
        """What the table answers to a command."""
        raise NotImplementedError(f"{type(self).__name__} has no {command}")


class HashStore(Store):
    """A store in this process's memory, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table, self._changed = Table(), threading.Condition()

    def _run(self, command: str, key: str, *arguments: bytes) -> bytes:
        with self._changed:
            answer = self._table.run(command, key, *arguments)
            self._changed.notify_all()
        return answer

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        limit = self.timeout if timeout is None else timeout
        with self._changed:
            if not self._changed.wait_for(lambda: self._table.has(keys), limit.total_seconds()):
                raise DistStoreError(self._too_late(keys, limit))


class PrefixStore(Store):
    """Another store, in which all keys begin alike."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set(self, key: str, value: Any) -> None:
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def add(self, key: str, value: int) -> int:
        return self._store.add(self._key(key), value)

    def append(self, key: str, value: Any) -> None:
        self._store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        return self._store.compare_set(self._key(key), expected_value, desired_value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get([self._key(key) for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        self._store.multi_set([self._key(key) for key in keys], values)

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check([self._key(key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._store.wait([self._key(key) for key in keys], self.timeout if timeout is None else timeout)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        start = self._key("")
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def queue_push(self, key: str, value: Any) -> None:
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key(key))

    def clone(self) -> "PrefixStore":
        return PrefixStore(self._prefix, self._store.clone())


class FileStore(Store):
    """A store in a file, to which changes are appended under a lock. The last of `world_size` processes removes it."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self._table, self._read = file_name, Table(), 0
        self._lock = threading.Lock()
        self._run("add", "efcount/", b"1")
        if world_size > 0:
            weakref.finalize(self, _leave_file, file_name, world_size)

    def has_extended_api(self) -> bool:
        return False

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        try:
            super().wait(keys, timeout)
        except DistStoreError as error:
            raise RuntimeError(str(error)) from None

    def get(self, key: str) -> bytes:
        try:
            return super().get(key)
        except RuntimeError:
            limit = round(self.timeout.total_seconds() * 1000)
            raise RuntimeError(f"Timeout waiting for key: {key} after {limit} ms") from None

    def _refuse_queues(self, key: str, *arguments: Any) -> Any:
        raise NotImplementedError("queue support is not implemented.")

    queue_push = queue_pop = queue_len = _refuse_queues  # type: ignore[assignment]

    def clone(self) -> "FileStore":
        made = FileStore.__new__(FileStore)
        Store.__init__(made)
        made.path, made._table, made._read, made._lock = self.path, Table(), 0, threading.Lock()
        return made

    def _run(self, command: str, key: str, *arguments: bytes) -> bytes:
        with self._lock, _locked(self.path) as file:
            self._catch_up(file)
            answer = self._table.run(command, key, *arguments)
            if command in Table.CHANGES:
                os.lseek(file, 0, os.SEEK_END)
                _write_all(file, packed([command.encode(), key.encode(), *arguments]))
                self._read = os.lseek(file, 0, os.SEEK_CUR)
            return answer

    def _catch_up(self, file: int) -> None:
        """Does what others have written since."""
        end = os.fstat(file).st_size
        if end <= self._read:
            return
        os.lseek(file, self._read, os.SEEK_SET)
        with os.fdopen(os.dup(file), "rb") as entries:
            while self._read < end:
                length = struct.unpack("<I", entries.read(4))[0]
                command, key, *arguments = received(entries.read(length))
                self._table.run(command.decode(), key.decode(), *arguments)
                self._read += 4 + length


@contextlib.contextmanager
def _locked(path: str) -> Iterator[int]:
    """The open file, which no other process changes meanwhile."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _leave_file(path: str, world_size: int) -> None:
    """Removes the file if all processes have left it."""
    with contextlib.suppress(OSError):
        if not os.path.exists(path):
            return
        store = FileStore(path)
        if store.add("cleanup/", 1) >= world_size:
            os.unlink(path)


class TCPStore(Store):
    """A store that one process serves and the others find by the host's name and a port."""

    def __init__(self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
                 timeout: timedelta = DEFAULT_TIMEOUT, wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True) -> None:
        super().__init__()
        self.host, self._timeout = host_name, timeout
        self._server: Server | None = None
        if is_master:
            self._server = shared_server(port, master_listen_fd, multi_tenant)
            port = self._server.port
        self.port, self.libuvBackend = port, use_libuv
        self._lock = threading.Lock()
        self._socket = self._connected()
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._await_workers(world_size, is_master)

    def _connected(self) -> socket.socket:
        """A connection to the server, which may start later than this process."""
        limit = self._timeout.total_seconds()
        until, pause = time.monotonic() + limit, 0.01
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), max(until - time.monotonic(), 0.05))
            except OSError:
                if time.monotonic() + pause >= until:
                    raise DistNetworkError(f"The client socket has timed out after {round(limit * 1000)}ms while "
                                           f"trying to connect to ({self.host}, {self.port}).") from None
                time.sleep(pause)
                pause = min(2 * pause, 0.5)
            else:
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                weakref.finalize(self, connection.close)
                return connection

    def _await_workers(self, world_size: int, is_master: bool) -> None:
        self.add("init/", 1)
        if not is_master:
            return
        began = time.monotonic()
        while (joined := self.add("init/", 0)) < world_size:
            waited = time.monotonic() - began
            if waited > self._timeout.total_seconds():
                raise DistStoreError(f"Timed out after {round(waited) + 1} seconds waiting for clients. "
                                     f"{joined}/{world_size} clients joined.")
            time.sleep(0.01)

    def _run(self, command: str, key: str, *arguments: bytes) -> bytes:
        return self._ask([command.encode(), key.encode(), *arguments])

    def _ask(self, request: list[bytes]) -> bytes:
        with self._lock:
            try:
                self._socket.sendall(packed(request))
                length = struct.unpack("<I", self._exactly(4))[0]
                answer = received(self._exactly(length))
            except OSError as error:
                raise DistNetworkError(f"The store at ({self.host}, {self.port}) cannot be reached: {error}. Did the "
                                       "remote server shutdown or crash?") from None
        if answer[0] == b"error":
            raise ValueError(answer[1].decode())
        return answer[1]

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise DistNetworkError("Failed to recv, got 0 bytes. Connection was likely closed. Did the remote "
                                       f"server shutdown or crash? (store at {self.host}, {self.port})")
            parts += part
        return bytes(parts)

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask([b"check_all", *(key.encode() for key in keys)]) == b"1"

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Comes back when all keys are there: the server answers then, or when the time is over."""
        limit = self.timeout if timeout is None else timeout
        milliseconds = str(round(limit.total_seconds() * 1000)).encode()
        if self._ask([b"wait", milliseconds, *(key.encode() for key in keys)]) != b"1":
            raise DistStoreError(self._too_late(keys, limit))

    def _too_late(self, keys: Sequence[str], limit: timedelta) -> str:
        return f"wait timeout after {round(limit.total_seconds() * 1000)}ms, keys: {', '.join(f'/{k}' for k in keys)}"

    def clone(self) -> "TCPStore":
        """The same store over a connection of its own, so that one may wait while another asks."""
        made = TCPStore.__new__(TCPStore)
        Store.__init__(made)
        made.host, made.port, made._timeout, made._server = self.host, self.port, self._timeout, self._server
        made.libuvBackend, made._lock = self.libuvBackend, threading.Lock()
        made._socket = made._connected()
        return made

    def __repr__(self) -> str:
        return f"TCPStore(host={self.host}, port={self.port}, server={self._server is not None})"
