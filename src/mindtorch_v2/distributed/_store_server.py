"""The server of a TCPStore: one thread that keeps a table and answers all connections.

A message is its length, then fields, each with its length: no objects travel, so that nothing is run that a stranger
sends.
"""

import errno
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence

from ._errors import DistNetworkError

_LONGEST = 1 << 30


def packed(fields: Sequence[bytes]) -> bytes:
    """A message of some fields."""
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<I", len(body)) + body


def received(body: bytes) -> list[bytes]:
    """The fields of a message without its length."""
    fields, at = [], 0
    while at < len(body):
        end = at + 4 + struct.unpack_from("<I", body, at)[0]
        fields.append(body[at + 4 : end])
        at = end
    return fields


class Table:
    """Values and queues by key."""

    CHANGES = frozenset(("set", "add", "append", "compare_set", "delete_key", "queue_push", "queue_pop"))

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, keys: Iterable[str]) -> bool:
        return all(key in self.values for key in keys)

    def run(self, command: str, key: str, *arguments: bytes) -> bytes:
        """The answer to a command."""
        return getattr(self, f"_{command}")(key, *arguments)

    def _set(self, key: str, value: bytes) -> bytes:
        self.values[key] = value
        return b""

    def _get(self, key: str) -> bytes:
        return self.values[key]

    def _add(self, key: str, amount: bytes) -> bytes:
        held = self.values.get(key, b"0")
        try:
            total = str(int(held) + int(amount)).encode()
        except ValueError:
            raise ValueError(f"add(): the value of '{key}' is no number: {held[:40]!r}") from None
        self.values[key] = total
        return total

    def _append(self, key: str, value: bytes) -> bytes:
        self.values[key] = self.values.get(key, b"") + value
        return b""

    def _compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        held = self.values.get(key)
        if held is None and expected:
            return expected
        if held is None or held == expected:
            self.values[key] = desired
        return self.values[key]

    def _check(self, key: str) -> bytes:
        return b"1" if key in self.values else b"0"

    def _delete_key(self, key: str) -> bytes:
        return b"0" if self.values.pop(key, None) is None else b"1"

    def _num_keys(self, key: str) -> bytes:
        return str(len(self.values)).encode()

    def _list_keys(self, key: str) -> bytes:
        return b"\0".join(each.encode() for each in self.values)

    def _queue_push(self, key: str, value: bytes) -> bytes:
        self.queues.setdefault(key, deque()).append(value)
        return b""

    def _queue_pop(self, key: str) -> bytes:
        queue = self.queues.get(key)
        return b"1" + queue.popleft() if queue else b"0"

    def _queue_len(self, key: str) -> bytes:
        return str(len(self.queues.get(key, ()))).encode()


class _Client:
    """A connection: what came and is not yet a message, what is to be sent, and the keys it waits for."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.came, self.leaving = connection, bytearray(), bytearray()
        self.awaited: list[str] | None = None
        self.until = 0.0


class Server:
    """Serves a table on a port for as long as somebody holds it."""

    def __init__(self, port: int, listening: int | None = None) -> None:
        self._listener = _listener(port) if listening is None else socket.socket(fileno=os.dup(listening))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._waker, waked = socket.socketpair()
        loop = _Loop(self._listener, waked)
        self._thread = threading.Thread(target=loop.run, name="TCPStore server", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._waker, self._thread)
        self._finalizer.atexit = False  # the other processes may still ask while this one ends


def _stop(waker: socket.socket, thread: threading.Thread) -> None:
    waker.close()
    if thread is not threading.current_thread():
        thread.join(5)


class _Loop:
    """What the server's thread does."""

    def __init__(self, listener: socket.socket, waked: socket.socket) -> None:
        self._table, self._clients, self._waiting = Table(), dict[int, _Client](), set[_Client]()
        self._listener, self._waked = listener, waked
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(waked, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            for key, events in self._selector.select(self._pause()):
                if key.fileobj is self._waked:
                    self._close()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._serve(self._clients[key.fd], events)
            self._end_waiting()

    def _close(self) -> None:
        for client in self._clients.values():
            client.socket.close()
        self._listener.close()
        self._waked.close()
        self._selector.close()

    def _pause(self) -> float | None:
        """How long until the first one has waited long enough."""
        return max(0.0, min(client.until for client in self._waiting) - time.monotonic()) if self._waiting else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the other side went away meanwhile
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients[connection.fileno()] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                part = client.socket.recv(1 << 16)
                if not part:
                    return self._drop(client)
                client.came += part
                while self._message(client):
                    pass
            self._send(client)
        except BlockingIOError:
            pass
        except (OSError, ValueError, IndexError, struct.error, AttributeError):  # gone, or no client of ours
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._selector.unregister(client.socket)
        self._clients.pop(client.socket.fileno())
        self._waiting.discard(client)
        client.socket.close()

    def _send(self, client: _Client) -> None:
        if client.leaving:
            del client.leaving[: client.socket.send(client.leaving)]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.leaving else 0)
        self._selector.modify(client.socket, wanted)

    def _message(self, client: _Client) -> bool:
        """Answers the next message; False if it has not come in full."""
        if len(client.came) < 4:
            return False
        length = struct.unpack_from("<I", client.came)[0]
        if length > _LONGEST:
            raise ValueError("a message of this length is none")
        if len(client.came) < 4 + length:
            return False
        command, *fields = received(bytes(client.came[4 : 4 + length]))
        del client.came[: 4 + length]
        answer = self._answer(client, command.decode(), fields)
        if answer is not None:
            client.leaving += packed(answer)
        return True

    def _answer(self, client: _Client, command: str, fields: list[bytes]) -> list[bytes] | None:
        """What is said at once; None to one who waits."""
        if command == "check_all":
            return [b"ok", b"1" if self._table.has(field.decode() for field in fields) else b"0"]
        if command == "wait":
            client.awaited = [field.decode() for field in fields[1:]]
            client.until = time.monotonic() + int(fields[0]) / 1000
            self._waiting.add(client)
            return None
        try:
            return [b"ok", self._table.run(command, fields[0].decode(), *fields[1:])]
        except ValueError as error:
            return [b"error", str(error).encode()]

    def _end_waiting(self) -> None:
        """Answers those whose keys are there, and those whose time is over."""
        for client in list(self._waiting):
            found = self._table.has(client.awaited or ())
            if found or time.monotonic() >= client.until:
                self._waiting.discard(client)
                client.awaited = None
                client.leaving += packed([b"ok", b"1" if found else b"0"])
                self._serve(client, 0)


def _listener(port: int) -> socket.socket:
    """A socket that takes connections of both internet protocols where there are both."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048)
        return socket.create_server(("", port), backlog=2048)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        raise DistNetworkError("The server socket has failed to listen on any local network address. port: "
                               f"{port}, useIpv6: false, code: -{error.errno}, name: {name}, message: "
                               f"{os.strerror(error.errno or 0).lower()}") from None


_by_port: "weakref.WeakValueDictionary[int, Server]" = weakref.WeakValueDictionary()


def shared_server(port: int, listening: int | None, multi_tenant: bool) -> Server:
    """A server of a port; with `multi_tenant` the one that this process has there already."""
    if multi_tenant and port in _by_port:
        return _by_port[port]
    made = Server(port, listening)
    if multi_tenant:
        _by_port[made.port] = made
    return made
