"""Groups of real processes: forked from the test, so that a test may be a function inside a test."""

import contextlib
import random
import socket
from datetime import timedelta

import pytest

import mindtorch_v2.distributed as dist
from mindtorch_v2.multiprocessing import start_processes

LIMIT = timedelta(seconds=90)


def _run(rank, size, path, function, arguments, timeout, backend):
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=size, timeout=LIMIT)
    if timeout is not LIMIT:
        dist.barrier()  # a short one is for what the test does, not for processes to start on a busy machine
        dist.group.WORLD.set_timeout(timeout)
    try:
        function(rank, *arguments)
    finally:
        dist.destroy_process_group()


@pytest.fixture
def together(tmp_path):
    """Runs `function(rank, *arguments)` in processes that are a group; what one raises is raised here."""
    number = iter(range(1000))

    def run(size, function, *arguments, timeout=LIMIT, backend="gloo"):
        path = tmp_path / f"meeting-{next(number)}"
        start_processes(_run, (size, path, function, arguments, timeout, backend), size, start_method="fork")

    return run


@pytest.fixture
def alone(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def free_port():
    """A port that nobody listens at, below those that systems give to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
