"""The agent of a node: starts its processes, sees how they end, and starts the whole group again if that is wanted.

The agents of several nodes meet in a store that the first of them serves; the processes use it too. An attempt begins
when all agents have come, and ends for all when a process fails on one node.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ._errors import DistNetworkError, DistStoreError
from ._logs import Logs
from ._stores import TCPStore
from .elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

_GRACE = 30.0  # seconds between asking processes to end and ending them
_NOTICING = 5.0  # seconds in which processes may say by themselves what they saw of another's end
_MEETING = timedelta(minutes=15)
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Run before a process's own program: has Linux end it when the agent ends, however that happens.
_FOLLOW = ("import ctypes,os,signal,sys\n"
           "if sys.platform=='linux': ctypes.CDLL(None).prctl(1,signal.SIGTERM)\n"
           "if os.getppid()!=int(sys.argv[1]): sys.exit(1)\n"
           "os.execvp(sys.argv[2],sys.argv[2:])")


@dataclass
class Job:
    """What the agents are asked to run."""

    command: list[str]
    name: str
    processes: int = 1
    nodes: tuple[int, int] = (1, 1)
    node_rank: int | None = None  # None: in the order in which nodes come
    host: str = "127.0.0.1"
    port: int = 0
    run_id: str = ""
    max_restarts: int = 0
    interval: float = 0.1
    role: str = "default"
    logs: Logs = field(default_factory=Logs)
    last_call: float = 30.0


class SignalReceived(Exception):
    """The agent was told to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Process {os.getpid()} got signal: {number}")
        self.sigval = number


class Agent:
    """Runs the processes of one node."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.run_id = job.run_id or str(uuid.uuid4())
        self._workers: dict[int, subprocess.Popen] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="torchelastic-")
        self._received = 0

    def run(self) -> None:
        """Comes back when all processes of all nodes have ended well; raises ChildFailedError if they did not."""
        self._store = self._met()
        with self._signals(), self._folder:
            for attempt in range(self.job.max_restarts + 1):
                self._begin(attempt)
                try:
                    failures = self._watch(attempt)
                finally:
                    self._end_workers()
                    self.job.logs.close()
                if not failures:
                    self._leave()
                    return
                if attempt < self.job.max_restarts:
                    print(f"[torchrun] attempt {attempt} failed ({self._shown(failures)}); "
                          f"{self.job.max_restarts - attempt} of {self.job.max_restarts} restarts left: starting the "
                          "group again", file=sys.stderr, flush=True)
            self._leave()
            raise ChildFailedError(self.job.name, failures)

    # meeting -----------------------------------------------------------------------------------------------------

    def _met(self) -> TCPStore:
        """The store of all agents: this one's, if it can serve where the job says, and is the first."""
        job = self.job
        first = job.node_rank == 0 if job.node_rank is not None else None
        if job.nodes[1] == 1:
            first = True
        if first is None:
            try:
                first, store = True, TCPStore("localhost", job.port, None, True, _MEETING)
                self._is_host(job.host)
            except (DistNetworkError, OSError):
                first = False
            else:
                self._is_first = True
                self.port = store.port
                return store
        self._is_first = first
        host = "localhost" if first else job.host
        store = TCPStore(host, job.port, None, first, _MEETING)
        self.port = store.port
        return store

    @staticmethod
    def _is_host(name: str) -> None:
        """Raises OSError unless a name is one of this machine's."""
        import socket

        address = socket.gethostbyname(name)
        with socket.socket() as probe:
            probe.bind((address, 0))

    def _begin(self, attempt: int) -> None:
        """Meets the other agents, and starts this node's processes with their ranks."""
        job, store, start = self.job, self._store, f"attempt {attempt}"
        if job.nodes[1] == 1:
            node, counts = 0, [job.processes]
        else:
            node = store.add(f"{start}/nodes", 1) - 1 if job.node_rank is None else job.node_rank
            store.set(f"{start}/node {node}", str(job.processes))
            if job.node_rank is not None:
                store.add(f"{start}/nodes", 1)
            number = self._number_of_nodes(start, node)
            counts = [int(store.get(f"{start}/node {each}")) for each in range(number)]
        self._node, self._nodes = node, len(counts)
        first_rank, world = sum(counts[:node]), sum(counts)
        host = job.host if job.nodes[1] > 1 else "127.0.0.1"
        common = {
            **os.environ, "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(len(counts)), "ROLE_NAME": job.role,
            "LOCAL_WORLD_SIZE": str(job.processes), "WORLD_SIZE": str(world), "ROLE_WORLD_SIZE": str(world),
            "MASTER_ADDR": host, "MASTER_PORT": str(self.port), "TORCHELASTIC_RUN_ID": self.run_id,
            "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_MAX_RESTARTS": str(job.max_restarts),
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
        if job.processes > 1:
            common.setdefault("OMP_NUM_THREADS", "1")
        job.logs.begin(self.run_id, attempt)
        self._ranks = {local: first_rank + local for local in range(job.processes)}
        self._error_files = {}
        for local, rank in self._ranks.items():
            path = os.path.join(self._folder.name, f"attempt_{attempt}", str(local), "error.json")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._error_files[local] = path
            environment = {**common, "LOCAL_RANK": str(local), "RANK": str(rank), "ROLE_RANK": str(rank),
                           "TORCHELASTIC_ERROR_FILE": path}
            command = [sys.executable, "-S", "-E", "-c", _FOLLOW, str(os.getpid()), *job.command]
            self._workers[local] = job.logs.started(local, command, environment)

    def _number_of_nodes(self, start: str, node: int) -> int:
        """How many nodes take part: the most, or those that came a while after enough of them did."""
        fewest, most = self.job.nodes
        if node == 0:
            until = time.monotonic() + _MEETING.total_seconds()
            enough = None
            while (here := self._store.add(f"{start}/nodes", 0)) < most:
                self._check_signal()
                if here >= fewest:
                    enough = enough or time.monotonic()
                    if time.monotonic() - enough > self.job.last_call:
                        break
                if time.monotonic() > until:
                    raise DistStoreError(f"only {here} of {fewest} nodes came within {_MEETING}")
                time.sleep(0.05)
            self._store.set(f"{start}/closed", str(min(here, most)))
        self._store.wait([f"{start}/closed"], _MEETING)
        return int(self._store.get(f"{start}/closed"))

    def _leave(self) -> None:
        """The store is served until all agents have done with it."""
        if self._nodes == 1:
            return
        with contextlib.suppress(DistStoreError, DistNetworkError):
            self._store.barrier("leaving", self._nodes, timedelta(minutes=5))
            if self._is_first:
                time.sleep(0.5)  # so that the others get the answer

    # watching ----------------------------------------------------------------------------------------------------

    def _watch(self, attempt: int) -> dict[int, ProcessFailure]:
        """The processes of this node that failed; waits till all have ended, or one has, or another node says so."""
        running, key, looked = dict(self._workers), f"attempt {attempt}/failed", 0.0
        while running:
            self._check_signal()
            failures = {}
            for local, worker in list(running.items()):
                code = worker.poll()
                if code is None:
                    continue
                del running[local]
                if code:
                    failures[self._ranks[local]] = self._failure(local, code)
            if failures:
                self._await_others(running, failures)
                if self._nodes > 1:
                    self._store.set(key, self._shown(failures))
                return failures
            if self._nodes > 1 and time.monotonic() - looked > max(self.job.interval, 0.2):
                looked = time.monotonic()
                if self._store.check([key]):
                    return self._other_nodes(key)
            time.sleep(min(self.job.interval, 0.05))
        if self._nodes > 1:
            return self._await_nodes(attempt, key)
        return {}

    def _await_others(self, running: dict[int, subprocess.Popen], failures: dict[int, ProcessFailure]) -> None:
        """Gives the others a moment to notice by themselves, so that they can say what they saw."""
        end = time.monotonic() + _NOTICING
        while running and time.monotonic() < end:
            for local, worker in list(running.items()):
                code = worker.poll()
                if code is not None:
                    del running[local]
                    if code:
                        failures[self._ranks[local]] = self._failure(local, code)
            time.sleep(0.02)

    def _failure(self, local: int, code: int) -> ProcessFailure:
        return ProcessFailure(local, self._workers[local].pid, code, self._error_files[local], self._ranks[local])

    def _await_nodes(self, attempt: int, key: str) -> dict[int, ProcessFailure]:
        done = f"attempt {attempt}/done"
        self._store.add(done, 1)
        while self._store.add(done, 0) < self._nodes:
            self._check_signal()
            if self._store.check([key]):
                return self._other_nodes(key)
            time.sleep(0.1)
        return {}

    def _other_nodes(self, key: str) -> dict[int, ProcessFailure]:
        failure = ProcessFailure(-1, -1, 1, "")
        failure.message = f"a process of another node failed: {self._store.get(key).decode()}"
        return {-1: failure}

    def _shown(self, failures: dict[int, ProcessFailure]) -> str:
        return ", ".join(f"rank {rank}, pid {each.pid}: " + (
            each.signal_name() if each.exitcode < 0 else f"exit code {each.exitcode}")
            for rank, each in sorted(failures.items()))

    def _end_workers(self) -> None:
        """Ends what still runs: asks first, then insists."""
        alive = [worker for worker in self._workers.values() if worker.poll() is None]
        number = self._received or signal.SIGTERM
        for worker in alive:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(number)
                worker.send_signal(signal.SIGCONT)  # one that is stopped does not hear otherwise
        end = time.monotonic() + _GRACE
        for worker in alive:
            try:
                worker.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self._workers = {}

    # signals -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Inside, signals are noted, and passed on to the processes."""
        def note(number: int, frame: Any) -> None:
            self._received = number

        before = {number: signal.signal(number, note) for number in _PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _check_signal(self) -> None:
        if self._received:
            raise SignalReceived(self._received)
