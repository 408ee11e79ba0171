"""Messages between a loader and its workers: pickles through a socket, large buffers through memory both map.

All large buffers of a message lie in one anonymous file, whose descriptor travels with the pickle. The file is gone
when the receiver has dropped what lies in it, and also when either side dies: nothing has to be cleaned up.
"""

import io
import os
import pickle
import socket
import struct
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ...._core.convert import user_attributes
from ...._core.dtype import NAMES, OF_ARRAY
from ...._core.shared_memory import SharedMemory, anonymous_file
from ...._core.storage import UntypedStorage
from ...._core.tensor import Tensor, flush_pending, wrap
from ....multiprocessing.reductions import refuse_graph

_LARGE = 1 << 15  # bytes; what is smaller is copied through the socket sooner than mapped
_ALIGNMENT = 64
_CAN_MAP = os.name == "posix"


class _Pickler(pickle.Pickler):
    """Pickles tensors as buffers, and collects the large ones instead of copying them into the pickle."""

    def __init__(self, target: io.BytesIO) -> None:
        super().__init__(target, 5, buffer_callback=self._stays_inside)
        self.buffers: list[memoryview] = []

    def _stays_inside(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if not _CAN_MAP or raw.nbytes < _LARGE:
            return True
        self.buffers.append(raw)
        return False

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return NotImplemented
        refuse_graph(obj)
        flush_pending[0]()
        array = obj._array
        plain = obj.__class__ is Tensor and array.__class__ is np.ndarray and not obj.requires_grad
        if not plain or user_attributes(obj):
            return NotImplemented
        span: Any = UntypedStorage.of_array(array).data
        if span.nbytes > 2 * array.nbytes:  # a few columns of a wide table: the rest stays here
            array = np.ascontiguousarray(array)
            span = UntypedStorage.of_array(array).data
        strides = None if array.flags.c_contiguous else array.strides
        return _tensor, (pickle.PickleBuffer(span), OF_ARRAY[array.dtype].name, array.shape, strides)


def _tensor(buffer: Any, kind: str, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Tensor:
    if memoryview(buffer).readonly:
        buffer = bytearray(buffer)
    return wrap(np.ndarray(shape, NAMES[kind].np, buffer, 0, strides))


def packed(message: Any) -> tuple[bytes, list]:
    """The bytes and buffers to send for an object; raises what pickling it raises."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(message)
    sizes = [buffer.nbytes for buffer in pickler.buffers]
    return struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes) + stream.getvalue(), pickler.buffers


def send(connection: Connection, message: tuple[bytes, list]) -> None:
    """Sends what `packed` made."""
    head, buffers = message
    connection.send_bytes(head)
    if buffers:
        file = anonymous_file()
        try:
            _write(file, buffers)
            reduction.send_handle(connection, file, None)
        finally:
            os.close(file)


def _write(file: int, buffers: list[memoryview]) -> None:
    """Writes the buffers one behind the other, each at a multiple of the alignment."""
    place = 0
    for buffer in buffers:
        done = 0
        while done < buffer.nbytes:  # one call writes 2 GiB at most
            done += os.pwrite(file, buffer[done:], place + done)
        place += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT


def receive(connection: Connection) -> Any:
    """The next object that the other side sent; EOFError or OSError if it is gone."""
    data = connection.recv_bytes()
    (count,) = struct.unpack_from("<I", data)
    sizes = struct.unpack_from(f"<{count}Q", data, 4)
    buffers: list[np.ndarray] = []
    if count:
        file = reduction.recv_handle(connection)
        try:
            memory = SharedMemory(file, os.fstat(file).st_size).array()
        finally:
            os.close(file)
        place = 0
        for size in sizes:
            buffers.append(memory[place : place + size])
            place += -(-size // _ALIGNMENT) * _ALIGNMENT
    return pickle.loads(memoryview(data)[4 + 8 * count :], buffers=buffers)


def hang_up(connection: Connection) -> None:
    """Ends the conversation: the other side sees it at once, even if a forked process still has this end open."""
    if _CAN_MAP and not connection.closed:
        with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            try:
                channel.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other side was first
                pass
    connection.close()
