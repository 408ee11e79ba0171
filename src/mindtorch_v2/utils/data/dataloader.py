"""DataLoader: batches of a dataset, fetched here or by worker processes, in PyTorch's order for the same seed."""

import itertools
import multiprocessing as python_multiprocessing
import os
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.util import register_after_fork
from typing import Any, Generic, TypeAlias, TypeVar

from ... import accelerator
from . import _utils
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from ._utils.worker import get_worker_info
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_worker_init_fn_t: TypeAlias = Callable[[int], None]
_collate_fn_t: TypeAlias = Callable[[list], Any]
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class _DatasetKind:
    Map, Iterable = 0, 1
    fetchers = (_MapDatasetFetcher, _IterableDatasetFetcher)

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> Any:
        return _DatasetKind.fetchers[kind](dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """None, again and again: the order of an iterable dataset is its own."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _refuse(wrong: Any, text: str) -> None:
    if wrong:
        raise ValueError(text)


class DataLoader(Generic[_T_co]):
    """Iterable over batches of a dataset."""

    __initialized = False

    def __init__(self, dataset: Dataset[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler | Iterable | None = None, batch_sampler: Sampler[list] | Iterable[list] | None = None,
                 num_workers: int = 0, collate_fn: Callable | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn: Callable | None = None,
                 multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
                 persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True) -> None:
        _refuse(num_workers < 0,
                "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        _refuse(timeout < 0, "timeout option should be non-negative")
        _refuse(num_workers == 0 and prefetch_factor is not None,
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        _refuse(prefetch_factor is not None and prefetch_factor < 0, "prefetch_factor option should be non-negative")
        _refuse(persistent_workers and num_workers == 0, "persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.prefetch_factor = dataset, num_workers, prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.in_order = in_order
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            for name, given in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                _refuse(given is not None, f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                                           f"got {name}={given}")
        else:
            self._dataset_kind = _DatasetKind.Map
        _refuse(sampler is not None and shuffle, "sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            _refuse(batch_size != 1 or shuffle or sampler is not None or drop_last,
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size = None
        else:
            _refuse(batch_size is None and drop_last,
                    "batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler = batch_size, drop_last, sampler
        self.batch_sampler, self.generator = batch_sampler, generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: _BaseDataLoaderIter | None = None  # kept if its workers persist
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            _refuse(self.num_workers <= 0, "multiprocessing_context can only be used with multi-process loading "
                                           f"(num_workers > 0), but got num_workers={self.num_workers}")
            if isinstance(context, str):
                methods = python_multiprocessing.get_all_start_methods()
                _refuse(context not in methods, "multiprocessing_context option should specify a valid start method in "
                                                f"{methods!r}, but got multiprocessing_context={context!r}")
                context = python_multiprocessing.get_context(context)
            if not isinstance(context, python_multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string "
                                f"specifying the start method, but got multiprocessing_context={context}")
        self.__multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse(self.__initialized and name in _FIXED,
                f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def _get_iterator(self) -> "_BaseDataLoaderIter":
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> "_BaseDataLoaderIter":
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than processors this process may use."""
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if usable is not None and self.num_workers > usable:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {usable}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.", stacklevel=3)


class _BaseDataLoaderIter:
    """What goes over a loader's batches once, or again and again if its workers persist."""

    def __init__(self, loader: DataLoader) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._collate_fn, self._drop_last = loader.collate_fn, loader.drop_last
        self._auto_collation, self._index_sampler = loader._auto_collation, loader._index_sampler
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._pin_memory = loader.pin_memory and accelerator.is_available()
        if loader.pin_memory:
            if loader.pin_memory_device:
                warnings.warn("pin_memory_device is deprecated, the current accelerator will be used as the device,"
                              f"ignore pin_memory_device='{loader.pin_memory_device}'.", stacklevel=4)
            if not self._pin_memory:
                warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned "
                              "memory won't be used.", stacklevel=4)
        self._begin(loader)
        self._base_seed = drawn_seed(loader.generator)

    def _begin(self, loader: DataLoader) -> None:
        self._sampler_iter, self._num_yielded = iter(self._index_sampler), 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    _reset = _begin

    def __iter__(self) -> "_BaseDataLoaderIter":
        return self

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        if self._pin_memory:
            data = _utils.pin_memory.pin_memory(data)
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if expected is not None and self._num_yielded > expected:
            several = ("For multiprocessing data-loading, this could be caused by not properly configuring the "
                       "IterableDataset replica at each worker. Please see "
                       "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.")
            warnings.warn(f"Length of IterableDataset {self._dataset} was reported to be {expected}(when accessing "
                          f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
                          f"{several if self._num_workers else ''}", stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last)

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Has worker processes fetch batches ahead.

    Each worker has a connection of its own and answers its orders in turn. So the next batch is always the next answer
    of the worker that got the oldest order, and nothing has to be put in order.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        from ... import multiprocessing as torch_multiprocessing  # sends the tensors of datasets to spawned workers
        from ._utils.worker import _worker_loop

        context = loader.multiprocessing_context or torch_multiprocessing.get_context()
        self._prefetch_factor, self._in_order = loader.prefetch_factor or 0, loader.in_order
        options = (self._auto_collation, self._collate_fn, self._drop_last)
        fetcher = _DatasetKind.fetchers[self._dataset_kind]
        self._workers: list[Any] = []
        self._connections: list[Any] = []
        self._open = [True] * self._num_workers  # which workers can have more samples
        self._stop = weakref.finalize(self, _stop_workers, self._workers, self._connections, os.getpid())
        for i in range(self._num_workers):
            ours, theirs = context.Pipe()
            register_after_fork(ours, Connection.close)  # or workers would not see that this process has died
            process = context.Process(
                target=_worker_loop, daemon=True, args=(fetcher, self._dataset, options, theirs, self._base_seed,
                                                        loader.worker_init_fn, i, self._num_workers))
            process.start()
            theirs.close()  # its other copy is the worker's: when that process ends, so does the connection
            self._workers.append(process)
            self._connections.append(ours)
        self._order_first()

    def _reset(self, loader: DataLoader) -> None:
        """Begins the next epoch; what the workers did for the last one is thrown away."""
        self._begin(loader)
        self._open = [True] * self._num_workers
        for i in range(self._num_workers):
            self._send(i, _utils.worker.RESUME)
            while self._received(i) != _utils.worker.RESUME:
                pass
        self._order_first()

    def _order_first(self) -> None:
        self._cycle = itertools.cycle(range(self._num_workers))
        self._orders: deque[int] = deque()  # the worker of each order that is not answered, oldest first
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _try_put_index(self) -> None:
        """Orders one more batch, if there are more, from the next worker that has not enough to do."""
        index = next(self._sampler_iter, _NONE)
        if index is _NONE:
            return
        for worker in itertools.islice(self._cycle, self._num_workers):
            if self._open[worker] and (self._in_order or self._orders.count(worker) < self._prefetch_factor):
                self._send(worker, (index,))
                self._orders.append(worker)
                return

    def _next_data(self) -> Any:
        while self._orders:
            worker = self._orders[0] if self._in_order else self._first_ready()
            data = self._received(worker)
            self._orders.remove(worker)
            if isinstance(data, _utils.worker._IterableDatasetStopIteration):
                self._close(worker)
                self._try_put_index()
                continue
            self._try_put_index()
            if isinstance(data, _utils.ExceptionWrapper):
                data.reraise()
            return data
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _close(self, worker: int) -> None:
        """A worker's dataset is exhausted: it does not answer the orders that it still has."""
        self._open[worker] = False
        self._orders = deque(other for other in self._orders if other != worker)
        if not self._persistent_workers:
            _utils.transfer.hang_up(self._connections[worker])

    # talking to the workers ------------------------------------------------------------------------------------------

    def _send(self, worker: int, order: Any) -> None:
        try:
            _utils.transfer.send(self._connections[worker], _utils.transfer.packed(order))
        except (BrokenPipeError, ConnectionResetError):
            self._raise_for_dead(worker)

    def _received(self, worker: int) -> Any:
        """The next answer of a worker; RuntimeError if it takes too long or any worker dies."""
        connection = self._connections[worker]
        self._await([connection])
        try:
            return _utils.transfer.receive(connection)
        except (EOFError, ConnectionResetError):
            self._raise_for_dead(worker)

    def _first_ready(self) -> int:
        waiting = {self._connections[worker]: worker for worker in self._orders}
        return waiting[self._await(list(waiting))]

    def _await(self, connections: list[Any]) -> Any:
        """The first connection that has something to read, the end of it included."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            left = _utils.MP_STATUS_CHECK_INTERVAL / 2
            ready = wait(connections, left if deadline is None else min(left, max(0, deadline - time.monotonic())))
            if ready:
                return ready[0]
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            for worker, process in enumerate(self._workers):
                if self._open[worker] and not process.is_alive():
                    self._raise_for_dead(worker)

    def _raise_for_dead(self, worker: int) -> Any:
        """Raises what tells of the workers that died; one is known."""
        self._workers[worker].join(_utils.MP_STATUS_CHECK_INTERVAL)  # its connection may end a moment before it does
        dead = [process for i, process in enumerate(self._workers) if self._open[i] and not process.is_alive()]
        pids = ", ".join(str(process.pid) for process in dead)
        cause = next((_death_notice(process) for process in dead if process.exitcode), None)
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from cause

    def _shutdown_workers(self) -> None:
        self._stop()


_NONE = object()


def _death_notice(process: Any) -> RuntimeError:
    """How a worker ended, in PyTorch's words."""
    who, code = f"DataLoader worker (pid {process.pid})", process.exitcode
    if code > 0:
        return RuntimeError(f"{who} exited unexpectedly with exit code {code}. Details are lost due to "
                            "multiprocessing. Rerunning with num_workers=0 may give better error trace.")
    hint = ""
    if -code == getattr(signal, "SIGBUS", None):
        hint = ("It is possible that dataloader's workers are out of shared memory. Please try to raise your shared "
                "memory limit.")
    return RuntimeError(f"{who} is killed by signal: {signal.strsignal(-code)}. {hint}")


def _stop_workers(workers: list[Any], connections: list[Any], owner: int) -> None:
    """Ends the workers: they see that the loader hung up, or are ended after a while."""
    if os.getpid() != owner:  # a forked process has copies of the lists, but the workers are not its children
        return
    for connection in connections:
        _utils.transfer.hang_up(connection)
    deadline = time.monotonic() + _utils.MP_STATUS_CHECK_INTERVAL
    for process in workers:
        process.join(max(0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join()
