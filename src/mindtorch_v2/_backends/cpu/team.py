"""Python threads that share the work of large array functions where no kernels are compiled.

NumPy lets other threads run while it computes, but each call of it takes a turn at the interpreter: with 16 threads
that takes longer than the work, unless there is much of it.

OpenBLAS has threads of its own, which wait for each other and for work by spinning, for 0.1 s. With other programs on
a machine of few cores, products took 20 times as long. So there OpenBLAS multiplies on one thread, and threads from
here, which sleep, multiply a part each. Where there are more cores OpenBLAS's threads do all of it (blas_team.py), and
these here remain for an OpenBLAS that cannot be used so.

Compiled kernels have another team (jit/threads.py), and where they may come this one is not used.
"""

import contextlib
import contextvars
import functools
import math
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..._core.threads import blas, get_num_threads
from . import blas_team
from .jit import machine
from .openblas import _blas_threads, alone

__all__ = ["alone", "in_parts", "is_used", "multiplies_itself", "worth"]

SHARE = 1 << 22  # multiplications, or as much other work, that repay waking a thread
_MANY = 4  # threads from which on OpenBLAS's own ones multiply large matrices
_Part = Callable[[slice], Any]


@functools.cache
def is_used() -> bool:
    """Whether there are no compiled kernels, and an OpenBLAS that can be told how many threads to use."""
    return not machine.available() and blas() is not None


def multiplies_itself() -> bool:
    """Whether OpenBLAS multiplies large matrices on its own threads: there are many, and none from here at work."""
    many = get_num_threads()
    if many < _MANY or alone.inside:
        return False
    tell, change = _blas_threads()
    if tell() != many:  # it counts the cores itself, and two threads of one core twice
        change(many)
    return True


# threads -------------------------------------------------------------------------------------------------------------


class _Worker:
    """A thread that sleeps until it is given a part of the work."""

    def __init__(self) -> None:
        self.work: Callable[[], Any] | None = None  # until it is done
        self.made: Any = None
        self.error: BaseException | None = None
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        threading.Thread(target=self._run, name="mindtorch_v2 worker", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            try:
                assert self.work is not None
                self.made = self.work()
            except BaseException as error:
                self.error = error
            done, self.work = self.done, None
            done.release()

    def begin(self, work: Callable[[], Any]) -> None:
        self.made = self.error = None
        self.done = threading.Lock()
        self.done.acquire()
        self.work = work
        self.go.release()

    def result(self) -> tuple[Any, BaseException | None]:
        answer = self.made, self.error
        self.made = self.error = None
        return answer


def _await(team: list[_Worker]) -> None:
    """Returns when all are done: what a signal raises meanwhile is raised then, as arrays are still written."""
    raised: BaseException | None = None
    while busy := [worker for worker in team if worker.work is not None]:
        try:
            busy[0].done.acquire()
        except BaseException as error:
            raised = error
    if raised is not None:
        raise raised


_workers: list[_Worker] = []
_at_work = threading.Lock()  # held while the team works: who comes then, also from inside, works alone


def _after_fork() -> None:
    """A forked process has none of the threads, and nobody who would release a lock."""
    global _at_work
    _workers.clear()
    _at_work = threading.Lock()
    if alone.inside:
        _blas_threads()[1](alone.before)
    alone.lock, alone.inside = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def _team(wanted: int) -> Iterator[int]:
    """How many threads may work until the end of the context: up to as many as wanted."""
    if wanted < 2 or not _at_work.acquire(blocking=False):
        yield 1
        return
    try:
        with alone:
            yield wanted
    finally:
        _at_work.release()


def worth(work: float) -> int:
    """How many threads so much work is for: each makes the others wait, so that four times the work is for twice."""
    if not is_used() or blas_team.is_used():
        return 1
    return max(1, min(get_num_threads(), math.isqrt(int(2 * work // SHARE))))


def in_parts(compute: _Part, length: int, work: float) -> list[Any]:
    """What `compute` makes of the parts of `range(length)`, in their order: one if `work` is not worth more threads."""
    with _team(min(worth(work), length)) as count:
        team = [worker for worker in _workers if worker.work is None][: count - 1]  # all, but after an interrupt
        try:
            while len(team) < count - 1:
                team.append(_Worker())
                _workers.append(team[-1])
        except RuntimeError:  # the system gives no more threads: those that there are do the work
            count = 1 + len(team)
        parts = [slice(length * k // count, length * (k + 1) // count) for k in range(count)]
        try:
            for worker, part in zip(team, parts[1:], strict=True):
                worker.begin(functools.partial(contextvars.copy_context().run, compute, part))
            made = [compute(parts[0])]
        finally:
            _await(team)
        errors = []
        for worker in team:
            result, error = worker.result()
            made.append(result)
            errors.append(error)
        for error in filter(None, errors):
            raise error
        return made
