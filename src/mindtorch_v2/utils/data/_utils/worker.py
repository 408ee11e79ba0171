"""What runs in a DataLoader's worker process."""

import multiprocessing
import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import mindtorch_v2 as torch

from . import MP_STATUS_CHECK_INTERVAL, ExceptionWrapper, transfer
from .fetch import _BaseDatasetFetcher, _IterableDatasetFetcher

RESUME = "resume"  # asks a worker that outlives the epoch to begin the next one


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this process is; the same for every call in it."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """Sent once by a worker whose iterable dataset has no more samples."""

    worker_id: int


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker process this is; None outside of one."""
    return _worker_info


def _generate_state(base_seed: int, worker_id: int) -> Any:
    """Four words that seed NumPy in a worker."""
    return np.random.SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)


def _seed(base_seed: int, worker_id: int) -> None:
    """Seeds all three sources of random numbers as PyTorch does: differently in every worker."""
    random.seed(base_seed + worker_id)
    torch.manual_seed(base_seed + worker_id)
    np.random.seed(_generate_state(base_seed, worker_id))


def _read(connection: Connection, orders: queue.SimpleQueue, hung_up: threading.Event) -> None:
    """Keeps reading, so that the loader never waits to send while this process waits to be read from."""
    try:
        while True:
            orders.put(transfer.receive(connection))
    except (EOFError, OSError):
        hung_up.set()
        orders.put(None)


def _next_order(orders: queue.SimpleQueue) -> Any:
    """What the loader asks for; None when it asks no more or is dead."""
    while True:
        try:
            return orders.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and not parent.is_alive():
                return None


class _Worker:
    """A dataset, and how far it has been read."""

    def __init__(self, kind: type[_BaseDatasetFetcher], dataset: Any, options: tuple, worker_id: int) -> None:
        self.kind, self.dataset, self.options, self.id = kind, dataset, options, worker_id
        self.where = f"in DataLoader worker process {worker_id}"

    def begin(self, init_fn: Callable | None = None) -> None:
        """Starts an epoch. What goes wrong with that is the answer to the first order."""
        self.exhausted, self.failure = False, None
        try:
            if init_fn is not None:
                init_fn(self.id)
            self.fetcher = self.kind(self.dataset, *self.options)
        except Exception:  # the loader raises it, whatever it is
            self.failure = ExceptionWrapper(where=self.where)

    def batch(self, order: Any) -> Any:
        """The batch, or what says that there is none and why."""
        if self.failure is not None:
            return self.failure
        try:
            return self.fetcher.fetch(order)
        except Exception as error:  # the loader raises it, whatever it is
            if isinstance(error, StopIteration) and self.kind is _IterableDatasetFetcher:
                self.exhausted = True
                return _IterableDatasetStopIteration(self.id)
            return ExceptionWrapper(where=self.where)

    def answer(self, connection: Connection, result: Any) -> None:
        """Sends a result; if it cannot be pickled, what pickling it raised."""
        try:
            message = transfer.packed(result)
        except Exception:  # pickling runs the users' code
            if isinstance(result, ExceptionWrapper):
                result.exc_type = RuntimeError  # the type is defined where the loader cannot import it
            else:
                result = ExceptionWrapper(where=self.where)
            message = transfer.packed(result)
        transfer.send(connection, message)


def _worker_loop(kind: type[_BaseDatasetFetcher], dataset: Any, options: tuple, connection: Connection, base_seed: int,
                 init_fn: Callable | None, worker_id: int, num_workers: int) -> None:
    """Fetches a batch for each order that comes, until the loader hangs up."""
    global _worker_info
    orders: queue.SimpleQueue = queue.SimpleQueue()
    hung_up = threading.Event()
    threading.Thread(target=_read, args=(connection, orders, hung_up), daemon=True).start()
    try:
        torch.set_num_threads(1)
        _seed(base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, num_workers, base_seed + worker_id, dataset)
        worker = _Worker(kind, dataset, options, worker_id)
        worker.begin(init_fn)
        while (order := _next_order(orders)) is not None and not hung_up.is_set():
            if order == RESUME:
                worker.begin()
                worker.answer(connection, RESUME)
            elif not worker.exhausted:
                worker.answer(connection, worker.batch(order[0]))
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the loader's process has it too, or is gone
