"""What goes wrong between processes is said on every one of them, with the rank at fault; nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist

SHORT = timedelta(seconds=3)


@pytest.fixture
def said(tmp_path):
    """Where processes write what they saw: a function to write, and one to read it all."""
    def write(rank, text):
        written = tmp_path / f"saying {rank}"
        written.write_text(text)
        written.rename(tmp_path / f"said {rank}")  # whole or not at all, also if the process is ended meanwhile

    def read():
        return {int(path.name.split()[1]): path.read_text() for path in tmp_path.glob("said *")}

    return write, read


def _until_said(read, rank):
    """Comes back when a rank has written what it saw."""
    end = time.monotonic() + 80
    while rank not in read() and time.monotonic() < end:
        time.sleep(0.02)


def _error_of(call):
    try:
        call()
    except dist.DistBackendError as error:
        return str(error)
    return "nothing raised"


@pytest.mark.parametrize("how", ["kill", "exit", "raise"])
def test_a_process_that_ends_is_named_by_all_others(together, said, how):
    write, read = said

    def work(rank):
        dist.all_reduce(torch.ones(3))
        if rank == 1:
            write(9, str(os.getpid()))
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "exit":
                os._exit(5)
            raise RuntimeError("this rank fails")
        write(rank, _error_of(lambda: dist.all_reduce(torch.ones(3))))
        assert _error_of(lambda: dist.barrier()) != "nothing raised"  # the group stays broken

    with pytest.raises(Exception, match="process 1|this rank fails|Process 1"):
        together(3, work)
    texts = read()
    pid = texts.pop(9)
    assert set(texts) <= {0, 2}
    for rank, text in texts.items():
        assert text.startswith(f"[rank {rank}] gloo:all_reduce: ")
        assert f"rank 1 (process {pid}) has " in text, text  # and not: timed out


def test_every_survivor_says_who_was_killed(together, said):
    write, read = said

    def work(rank):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the test's own launcher ends the others
        if rank == 2:
            dist.barrier()  # all ignore the signal by now
            os.kill(os.getpid(), signal.SIGKILL)
        write(rank, _error_of(lambda: (dist.barrier(), dist.all_reduce(torch.ones(1 << 20)))))

    with pytest.raises(Exception, match="process 2 terminated with signal SIGKILL"):
        together(4, work)
    texts = read()
    assert set(texts) == {0, 1, 3}
    assert all(re.search(r"rank 2 \(process \d+\) has ended", text) for text in texts.values()), texts


def test_a_slow_rank_is_named_after_the_timeout(together, said):
    write, read = said

    def work(rank):
        if rank == 1:
            _until_said(read, 0)
        write(rank, _error_of(lambda: dist.all_reduce(torch.ones(3))))

    together(2, work, timeout=timedelta(seconds=1))
    texts = read()
    assert re.match(r"\[rank 0\] gloo:all_reduce: timed out after 1 s waiting for rank 1 \(process \d+\)", texts[0])
    assert "rank 0 gave up: gloo:all_reduce: timed out" in texts[1] or "has left the group" in texts[1]


def test_a_stopped_rank_is_told_to_be_stopped(together, said):
    write, read = said

    def work(rank):
        if rank == 1:
            pid = os.getpid()
            if os.fork() == 0:  # wakes it again, after the other has given up
                _until_said(read, 0)
                os.kill(pid, signal.SIGCONT)
                os._exit(0)
            os.kill(pid, signal.SIGSTOP)
        write(rank, _error_of(lambda: dist.all_reduce(torch.ones(3))))

    together(2, work, timeout=timedelta(seconds=1))
    assert re.search(r"waiting for rank 1 \(process \d+, which is stopped\)", read()[0])


@pytest.mark.parametrize("detail", [False, True])
def test_different_collectives_are_noticed(together, said, detail, monkeypatch):
    write, read = said

    def work(rank):
        if detail:
            dist.set_debug_level(dist.DebugLevel.DETAIL)
        one = torch.ones(4)
        write(rank, _error_of(lambda: dist.all_reduce(one) if rank else dist.broadcast(one, 0)))

    together(2, work)
    for rank, text in read().items():
        assert text.startswith(f"[rank {rank}] Detected mismatch between collectives on ranks. Rank {rank} is running")
        assert "OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float" in text and "OpType=BROADCAST" in text


@pytest.mark.parametrize("shapes, types", [(((4,), (5,)), ("float32", "float32")),
                                           (((4,), (4,)), ("float32", "float64"))])
def test_different_sizes_and_types_are_noticed(together, said, shapes, types):
    write, read = said

    def work(rank):
        write(rank, _error_of(lambda: dist.all_reduce(torch.ones(shapes[rank], dtype=getattr(torch, types[rank])))))

    together(2, work)
    for text in read().values():
        assert "Detected mismatch between collectives on ranks" in text


def test_detail_also_compares_shapes(together, said):
    write, read = said

    def work(rank):
        dist.all_reduce(torch.ones((2, 3) if rank else (3, 2)))  # as many elements: allowed
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        write(rank, _error_of(lambda: dist.all_reduce(torch.ones((2, 3) if rank else (3, 2)))))

    together(2, work)
    assert all("TensorShape=[2, 3]" in text and "TensorShape=[3, 2]" in text for text in read().values())


def test_uneven_pieces_are_noticed(together, said):
    write, read = said

    def work(rank):
        write(rank, _error_of(lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1, 1],
                                                             [2, 0] if rank else [1, 1])))

    together(2, work)
    assert "rank 1 sends 2 elements to rank 0, which expects 1" in read()[0]


def test_a_monitored_barrier_names_who_does_not_come(together, said):
    write, read = said

    def work(rank):
        if rank == 1:
            _until_said(read, 0)
            return
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=1))
        except RuntimeError as error:
            write(rank, str(error))

    together(3, work)
    assert read()[0] == "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms"


def test_a_rank_that_does_not_come_to_the_group(tmp_path):
    with pytest.raises((RuntimeError, dist.DistBackendError), match="only 1 of 2 processes came to the group within"):
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=2,
                                timeout=timedelta(seconds=1))
    assert not dist.is_initialized()


def test_a_group_over_hosts_says_what_to_install(tmp_path, monkeypatch):
    from mindtorch_v2.distributed._engines import segment

    store = dist.FileStore(str(tmp_path / "meeting"), 2)
    store.set("segment", '["another host", "/proc/1/fd/99", 4096]')
    with pytest.raises(dist.DistBackendError, match=r"pip install 'mindtorch_v2\[mpi\]'.*mpiexec -n PROCESSES"):
        segment.Segment(store, 1, 2, 4096, SHORT)
    assert store.check(["refused"])  # which tells the first rank


INTERRUPTED = """
import os, signal, sys, time, torch, torch.distributed as dist
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where tests run in the background
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meeting", rank=int(sys.argv[2]), world_size=2)
dist.barrier()
open(f"{sys.argv[1]}/ready {sys.argv[2]}", "w").close()
while sys.argv[2] == "1" and not os.path.exists(f"{sys.argv[1]}/the first has ended"):
    time.sleep(0.05)
dist.all_reduce(torch.ones(3))  # the first waits for the other
"""


def test_an_interrupt_ends_all_ranks(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [subprocess.Popen([sys.executable, "-m", "mindtorch_v2", "-c", INTERRUPTED, str(tmp_path), str(rank)],
                              stderr=subprocess.PIPE, text=True, env=environment) for rank in range(2)]
    end = time.monotonic() + 100
    while not all((tmp_path / f"ready {rank}").exists() for rank in range(2)):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)
    ranks[0].send_signal(signal.SIGINT)
    texts = [ranks[0].communicate(timeout=100)[1]]
    (tmp_path / "the first has ended").touch()
    texts.append(ranks[1].communicate(timeout=100)[1])
    assert "KeyboardInterrupt" in texts[0]
    # inside of the collective, or just before it
    assert re.search(r"rank 0 was interrupted|rank 0 \(process \d+\) has (left|ended)", texts[1]), texts[1]


def test_no_shared_memory_is_left(together):
    def work(rank):
        dist.all_reduce(torch.ones(1 << 18))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        _error_of(lambda: dist.all_reduce(torch.ones(1 << 18)))

    with pytest.raises(Exception, match="SIGKILL"):
        together(2, work)
    folder = Path("/dev/shm")
    assert not folder.exists() or not [path for path in folder.iterdir() if "mindtorch-group" in path.name]


@pytest.mark.parametrize("number", [0, 1])
def test_a_training_job_of_which_a_rank_is_killed(number):
    place = Path(__file__).with_name("random_kills.py")
    done = subprocess.run([sys.executable, "-c", "import runpy, sys; kills = runpy.run_path(sys.argv[1])\n"
                           "print(kills['disturbed'](int(sys.argv[2]), 7, 2, kills['undisturbed'](2)), end='')",
                           str(place), str(number)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
