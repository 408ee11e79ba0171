"""How many threads compiled kernels use, in one process, in several threads, and after a fork."""

import importlib.util
import os
import sys

import numpy as np
import pytest
from compiled_programs import printed

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls
from mindtorch_v2._core import threads

needs_llvm = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the files of Linux")
KINDS = pytest.mark.parametrize("library", ["", "openmp.library = lambda: None\n"], ids=["libgomp", "own"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


# the number ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def system(monkeypatch):
    """A function that makes the system answer with the given files, and CPUs that may be used."""

    def answer(files, cpus=8):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cpus)), raising=False)
        monkeypatch.setattr(threads, "_text", lambda path: files.get(path.replace("//", "/"), ""))
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)

    return answer


def test_each_cpu_that_may_be_used_gets_a_thread(system):
    system({})
    assert threads._default() == 8
    system({}, cpus=3)
    assert threads._default() == 3


def test_two_cpus_of_one_core_get_one_thread(system):
    file = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    system({file.format(number): f"{number % 4},{number % 4 + 4}" for number in range(8)})
    assert threads._default() == 4


@pytest.mark.parametrize("group, files, expected", [
    ("0::/", {"cpu.max": "250000 100000"}, 3),
    ("0::/", {"cpu.max": "50000 100000"}, 1),
    ("0::/", {"cpu.max": "max 100000"}, 8),
    ("0::/", {"cpu.max": "900000 100000"}, 8),
    ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2),
    ("0::/a/b", {"a/cpu.max": "500000 100000", "a/b/cpu.max": "400000 100000"}, 4),
    ("5:memory:/x\n4:cpu,cpuacct:/docker/1",
     {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 2),
    ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
], ids=["two and a half", "a half", "no limit", "more than there are", "the parent's", "the lower one", "version 1",
        "version 1, no limit"])
def test_a_container_may_have_fewer(system, group, files, expected):
    system({"/proc/self/cgroup": group, **{f"/sys/fs/cgroup/{name}": text for name, text in files.items()}})
    assert threads._default() == expected


@pytest.mark.parametrize("variables, expected", [
    ({"OMP_NUM_THREADS": "3"}, 3),
    ({"OMP_NUM_THREADS": "3,2"}, 3),
    ({"OMP_NUM_THREADS": "20"}, 8),
    ({"OMP_NUM_THREADS": "0"}, 8),
    ({"OMP_NUM_THREADS": "-1"}, 8),
    ({"OMP_NUM_THREADS": "many"}, 8),
    ({"OMP_NUM_THREADS": ""}, 8),
    ({"MKL_NUM_THREADS": "2"}, 2),
    ({"MKL_NUM_THREADS": "5", "OMP_NUM_THREADS": "1"}, 5),
], ids=str)
def test_the_environment_is_read_as_pytorch_reads_it(system, monkeypatch, variables, expected):
    system({})
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert threads._default() == expected


@linux
def test_affinity_and_environment_hold_for_a_program(folder):
    one = min(os.sched_getaffinity(0))
    program = f"os.sched_setaffinity(0, [{one}]); print(torch.get_num_threads())"
    assert printed(program, folder) == "1\n"
    assert printed("print(torch.get_num_threads())", folder, OMP_NUM_THREADS="1") == "1\n"


def test_the_number_that_was_set_is_told_and_read_by_kernels():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(5)
        assert torch.get_num_threads() == threads.count().value == 5
    finally:
        torch.set_num_threads(before)
    assert torch.get_num_threads() == before


# teams ---------------------------------------------------------------------------------------------------------------


@needs_llvm
@KINDS
def test_a_team_is_as_large_as_was_set(library, folder):
    program = library + "call = team()\n" + """
for number in (1, 2, 3, 8, 5, 2, 40, 1):
    torch.set_num_threads(number)
    print(call(), end=" ")
"""
    assert printed(program, folder) == "1 2 3 8 5 2 40 1 "


@needs_llvm
@linux
@KINDS
def test_a_smaller_team_does_not_end_the_threads_of_a_larger_one(library, folder):
    program = library + """
call = team()
torch.set_num_threads(6)
sizes, threads = [], set()
for _ in range(3):
    sizes += [call(), call(None, None), call(*[None] * 4), call(*[None] * 5)]
    threads.add(frozenset(os.listdir("/proc/self/task")))
print(sizes, len(threads))
"""
    assert printed(program, folder) == f"{[6, 4, 2, 1] * 3} 1\n"


@needs_llvm
@linux
@KINDS
def test_one_thread_starts_no_other(library, folder):
    program = library + """
call = team()
torch.set_num_threads(1)
before = len(os.listdir("/proc/self/task"))
print([call() for _ in range(5)], len(os.listdir("/proc/self/task")) - before)
"""
    assert printed(program, folder, OPENBLAS_NUM_THREADS="1") == "[1, 1, 1, 1, 1] 0\n"


@needs_llvm
@KINDS
def test_threads_that_come_together_share_the_cores(library, folder):
    """While one has a team, the others work alone; each of them is told that it is."""
    program = library + """
import collections, threading
call = team()
torch.set_num_threads(4)
found = collections.Counter()
def calls():
    for _ in range(50):
        found[call()] += 1
several = [threading.Thread(target=calls) for _ in range(6)]
[t.start() for t in several]
[t.join() for t in several]
print(sorted(found), sum(found.values()), call())
"""
    assert printed(program, folder) == "[1, 4] 300 4\n"


# after a fork --------------------------------------------------------------------------------------------------------


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@KINDS
@pytest.mark.parametrize("used", [True, False], ids=["used before", "not used before"])
def test_a_forked_process_has_teams_too(library, used, folder):
    """libgomp would wait for ever for the threads that its parent had."""
    program = library + f"""
torch.set_num_threads(4)
call = team()
if {used}:
    assert call() == 4
child = os.fork()
found = [call() for _ in range(3)]
if not child:
    grandchild = os.fork()
    found += [call()]
    os._exit((found != [4] * 4) if not grandchild else found != [4] * 4 or os.waitpid(grandchild, 0)[1] != 0)
print(found, os.waitpid(child, 0)[1])
"""
    assert printed(program, folder) == "[4, 4, 4] 0\n"


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_forked_while_a_team_is_at_work_does_not_wait_for_it(folder):
    program = """
import threading
torch.set_num_threads(3)
call = team()
end = []
def work():
    while not end:
        call()
worker = threading.Thread(target=work)
worker.start()
status = []
for _ in range(20):
    child = os.fork()
    if not child:
        os._exit(call() != 3)
    status.append(os.waitpid(child, 0)[1])
end.append(True)
worker.join()
print(status)
"""
    assert printed(program, folder) == f"{[0] * 20}\n"


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_workers_of_a_loader_compute_with_one_thread(folder):
    program = """
from mindtorch_v2.utils.data import DataLoader
call = team()
torch.set_num_threads(4)
assert call() == 4
class Sizes:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return call()
print([batch.tolist() for batch in DataLoader(Sizes(), batch_size=2, num_workers=2, multiprocessing_context="fork")])
"""
    assert printed(program, folder) == "[[1, 1], [1, 1]]\n"


def test_python_threads_that_compile_first_at_once_find_one_library(folder):
    """Each looks for the library of threads, which changes the environment for a moment, and loads what all share."""
    program = """
import threading
torch.set_num_threads(2)
sys.setswitchinterval(1e-6)
sizes, begin = [], threading.Barrier(4)
def work():
    begin.wait()
    call = team()
    sizes.append(call())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(sizes), all(size in (1, 2) for size in sizes))  # beside another's team, one works alone
"""
    assert printed(program, folder) == "4 True\n"


def _as_with_one_thread(compute, atol=1e-5):
    """Compares what a function gives on many threads with what it gives on one."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = compute()
        torch.set_num_threads(16)
        for made, other in zip(compute(), expected, strict=True):
            assert made.shape == other.shape and torch.allclose(made, other, rtol=1e-5, atol=atol)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(700, 100), (5000, 16), (64, 33, 32)])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_gradients_of_few_columns_are_summed_by_rows(monkeypatch, norm, shape):
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    torch.manual_seed(0)
    x, grad = torch.randn(shape), torch.randn(shape)
    given = [x, *(torch.randn(shape[-1]) for _ in range(2 if norm == "layer_norm" else 1))]

    def compute():
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        getattr(torch.nn.functional, norm)(leaves[0], shape[-1:], *leaves[1:]).backward(grad)
        return [leaf.grad for leaf in leaves]

    # Without a compiler one thread adds 5,000 numbers in a row, each rounding by up to 1e-5; parts round less.
    _as_with_one_thread(compute, atol=3e-4)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_large_arrays_are_joined(monkeypatch, dim):
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    x = torch.arange(120 * 30 * 40.0).reshape(120, 30, 40)
    parts = [x, x.transpose(0, 1).contiguous().transpose(0, 1), x.double().flip(0)]
    _as_with_one_thread(lambda: [torch.cat(parts[:1] * 2, dim), torch.cat(parts, dim), torch.stack(parts, dim)])
    assert torch.equal(torch.cat(parts[:1] * 2, dim), torch.from_numpy(np.concatenate([x.numpy()] * 2, dim)))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_reshaped_arrays_are_copied_in_order(monkeypatch, order):
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    x = torch.arange(50 * 36 * 33).reshape(50, 36, 33).permute(order)
    _as_with_one_thread(lambda: [x.reshape(-1), x.flatten(1), torch.ops.aten._unsafe_view(x, (-1,))])
    assert x.reshape(-1).tolist() == x.numpy().ravel().tolist()
