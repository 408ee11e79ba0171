"""Runs a function in several processes and passes on what goes wrong in one of them."""

import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "spawn",
           "start_processes"]

log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1


class ProcessException(Exception):
    """One of the processes did not end well; `error_index` says which."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an exception."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _interrupt_when_parent_dies() -> None:
    """Asks Linux for an interrupt when the parent ends, however that happens."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _wrap(fn: Callable, i: int, args: tuple, error_file: str) -> None:
    """What a process runs: its exception goes into a file."""
    _interrupt_when_parent_dies()
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has been interrupted too, or is dead
    except Exception:  # the parent raises it, whatever it is
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that `start_processes` started."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.error_files, self.processes = error_files, processes
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def _join_procs_with_timeout(self, timeout: float) -> None:
        """Waits till all have ended, but no longer than `timeout` for all together."""
        end = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Whether all have ended; called again and again till then. If one fails, ends the others and raises."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in wait(self.sentinels.keys(), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        if grace_period:
            self._join_procs_with_timeout(grace_period)
        for process in self.processes:
            if process.is_alive():
                log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_procs_with_timeout(30)
        for process in self.processes:
            if process.is_alive():
                log.warning("Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL", process.pid)
                process.kill()
            process.join()
        raise self._failure(failed)

    def _failure(self, index: int) -> ProcessException:
        process = self.processes[index]
        if os.path.exists(self.error_files[index]):
            with open(self.error_files[index], "rb") as file:
                text = pickle.load(file)
            return ProcessRaisedException(f"\n\n-- Process {index} terminated with the following error:\n{text}", index,
                                          process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            text = f"process {index} terminated with signal {name}"
            return ProcessExitedException(text, index, process.pid, code, name)
        return ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)


class SpawnContext(ProcessContext):
    """Processes started by spawning."""


def start_processes(fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn") -> ProcessContext | None:
    """Runs `fn(i, *args)` in `nprocs` processes; without `join` their context comes back at once."""
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    folder = tempfile.mkdtemp(prefix="torch-errors-")
    for i in range(nprocs):
        error_files.append(os.path.join(folder, f"{i}.pickle"))
        process = context.Process(target=_wrap, args=(fn, i, args, error_files[i]), daemon=daemon)  # type: ignore
        process.start()
        processes.append(process)
    started = ProcessContext(processes, error_files)
    weakref.finalize(started, shutil.rmtree, folder, ignore_errors=True)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> ProcessContext | None:
    """Runs `fn(i, *args)` in `nprocs` fresh processes."""
    if start_method != "spawn":
        warnings.warn(f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different "
                      "start_method use:\n\t\t torch.multiprocessing.start_processes(...)", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method)
