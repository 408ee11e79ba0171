"""DataLoader with worker processes: the same batches, errors that come through, and nothing left behind."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_datasets import Numbers

import mindtorch_v2 as torch
from mindtorch_v2.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the tests fork")
warnings_of_few_processors = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def batches(loader) -> list:
    return [batch.tolist() for batch in loader]


class Streams(IterableDataset):
    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __iter__(self):
        worker = get_worker_info().id
        return iter(range(100 * worker, 100 * worker + self.sizes[worker]))


class Acting(Numbers):
    """Does something at the number 3."""

    def __init__(self, act) -> None:
        super().__init__(10)
        self.act = act

    def __getitem__(self, index: int) -> int:
        if index == 3:
            self.act()
        return index


def fail() -> None:
    raise ValueError("bad sample")


class TwoArguments(Exception):
    def __init__(self, one, two) -> None:
        super().__init__(one)


def fail_oddly() -> None:
    raise TwoArguments(1, 2)


def fail_locally() -> None:
    class Local(Exception):
        pass

    raise Local("here")


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 1}, {"prefetch_factor": 7}])
def test_batches_are_those_without_workers(options: dict) -> None:
    torch.manual_seed(1)
    loader = DataLoader(Numbers(10), 3, shuffle=True, num_workers=2, **options)
    assert batches(loader) == [[4, 2, 0], [6, 8, 7], [9, 1, 5], [3]]
    # Workers that persist keep their seed: one number less is drawn for the second epoch. Both are PyTorch's orders.
    second = [[9, 7, 8], [3, 5, 1], [2, 0, 4], [6]] if "persistent_workers" in options else \
        [[4, 8, 1], [5, 0, 2], [3, 6, 9], [7]]
    assert batches(loader) == second


@warnings_of_few_processors
def test_streams_are_read_in_turn() -> None:
    loader = DataLoader(Streams(5, 9, 2), 2, num_workers=3)
    assert batches(loader) == [[0, 1], [100, 101], [200, 201], [2, 3], [102, 103], [4], [104, 105], [106, 107], [108]]
    loader = DataLoader(Streams(0, 9, 2), 2, num_workers=3, drop_last=True, persistent_workers=True)
    for _ in range(2):
        assert batches(loader) == [[100, 101], [200, 201], [102, 103], [104, 105], [106, 107]]


def test_any_order_gives_all() -> None:
    one_arrived = multiprocessing.get_context("fork").Event()

    class Uneven(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 0:
                assert one_arrived.wait(100)
            if index >= 4:  # asked for when the loader has taken an earlier one
                one_arrived.set()
            return index

    order = batches(DataLoader(Uneven(8), num_workers=2, in_order=False))
    assert sorted(order) == [[i] for i in range(8)] and order[0] != [0]


class Seeds(Numbers):
    def __getitem__(self, index: int) -> list:
        worker = get_worker_info()
        return [worker.id, worker.num_workers, worker.seed, torch.initial_seed(), random.random(),
                float(np.random.rand()), torch.rand(1).item(), torch.get_num_threads()]


def test_every_worker_has_pytorchs_seeds() -> None:
    torch.manual_seed(5)
    first, second = DataLoader(Seeds(2), batch_size=None, num_workers=2)
    seed = 4095051218741643470
    assert first[:7] == [0, 2, seed, seed, 0.9732059885921714, 0.48524966518109036, 0.7106006741523743]
    assert second[:7] == [1, 2, seed + 1, seed + 1, 0.7347412016282042, 0.08072729909407361, 0.2905186414718628]
    assert get_worker_info() is None


def test_worker_init_fn_runs_in_the_worker() -> None:
    loader = DataLoader(Seeds(2), batch_size=None, num_workers=2, worker_init_fn=lambda worker: random.seed(worker))
    assert [sample[4] for sample in loader] == [random.Random(0).random(), random.Random(1).random()]


# errors ---------------------------------------------------------------------------------------------------------------


def test_an_exception_is_raised_again_with_the_workers_traceback() -> None:
    iterator = iter(DataLoader(Acting(fail), num_workers=2))
    assert [next(iterator).item() for _ in range(3)] == [0, 1, 2]
    text = "^Caught ValueError in DataLoader worker process 1.\nOriginal Traceback"
    with pytest.raises(ValueError, match=text) as info:
        next(iterator)
    assert "in fail\n" in str(info.value) and str(info.value).endswith("ValueError: bad sample\n")
    assert [next(iterator).item() for _ in range(6)] == [4, 5, 6, 7, 8, 9]  # the worker goes on


@pytest.mark.parametrize(("act", "name"), [(fail_oddly, "TwoArguments"), (fail_locally, "Local")])
def test_an_exception_that_cannot_be_made_again_is_a_runtime_error(act, name: str) -> None:
    with pytest.raises(RuntimeError, match="in DataLoader worker process 1.\nOriginal Traceback") as info:
        list(DataLoader(Acting(act), num_workers=2))
    assert name in str(info.value)


def test_other_things_that_fail_in_a_worker() -> None:
    def refuse(argument) -> None:
        raise KeyError("k")

    for options in ({"collate_fn": refuse}, {"worker_init_fn": refuse}):
        with pytest.raises(KeyError) as info:
            list(DataLoader(Numbers(), num_workers=1, **options))
        assert "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback" in str(info.value)
    with pytest.raises(AttributeError, match="Caught AttributeError in DataLoader worker process 0."):
        list(DataLoader(Numbers(), num_workers=1, collate_fn=lambda batch: lambda: batch))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        list(DataLoader(Numbers(), num_workers=1, collate_fn=lambda batch: torch.ones(1, requires_grad=True) * 2))


DEATHS = {
    "is killed by signal: Killed. ": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is killed by signal: Terminated. ": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "exited unexpectedly with exit code 3. Details are lost due to multiprocessing. Rerunning with num_workers=0 may "
    "give better error trace.": lambda: os._exit(3),
}


@pytest.mark.parametrize("text", DEATHS)
def test_a_worker_that_dies_is_told_of(text: str) -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as info:
        list(DataLoader(Acting(DEATHS[text]), num_workers=2))
    assert text in str(info.value.__cause__)


def test_a_worker_that_dies_is_told_of_while_another_is_waited_for() -> None:
    class OneSleepsOneDies(Numbers):
        def __getitem__(self, index: int) -> int:
            if get_worker_info().id == 0:
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)
            return index

    iterator = iter(DataLoader(OneSleepsOneDies(), num_workers=2))
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iterator)
    assert iterator._workers[0].is_alive()
    for process in iterator._workers:
        process.kill()


def test_a_worker_that_takes_too_long_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.3 seconds"):
        list(DataLoader(Acting(lambda: time.sleep(3)), num_workers=1, timeout=0.3))


# what travels ---------------------------------------------------------------------------------------------------------


class Shapes(Dataset):
    tensors = [torch.arange(100000.0), torch.arange(30000).reshape(100, 300).t(), torch.ones(3, dtype=torch.bfloat16),
               torch.zeros(0, 3), torch.tensor(7), torch.arange(200000)[::100], torch.ones(1).expand(5000, 4),
               torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True),
               torch.arange(50000).to(torch.complex64)]

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tensors[index]


def test_tensors_arrive_as_they_were_sent() -> None:
    for sent, got in zip(Shapes.tensors, DataLoader(Shapes(), batch_size=None, num_workers=2), strict=True):
        assert type(got) is type(sent) and got.dtype is sent.dtype and got.requires_grad == sent.requires_grad
        assert torch.equal(got, sent)
        if sent.is_contiguous() or sent.shape[0] == 300:
            assert got.stride() == sent.stride()
        got.detach().zero_()  # the memory is the receiver's


def test_large_tensors_and_arrays_come_through_shared_memory() -> None:
    class Mixed(Numbers):
        def __getitem__(self, index: int) -> tuple:
            return {"x": torch.full((100000,), index), "y": np.full(100000, index)}, "text" * index

    for index, (made, text) in enumerate(DataLoader(Mixed(4), batch_size=None, num_workers=2)):
        assert made["x"].is_shared() and made["x"].sum() == 100000 * index and text == "text" * index
        made["y"] += 1
        assert made["y"].sum() == 100000 * (index + 1)


def test_a_row_of_a_large_table_travels_alone() -> None:
    table = torch.arange(10_000_000).reshape(1000, 10000)

    class Rows(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            return table[index]

    for index, row in enumerate(DataLoader(Rows(20), batch_size=None, num_workers=1)):
        assert row[3] == index * 10000 + 3 and row.untyped_storage().nbytes() == 80000


def test_neither_side_waits_for_the_other_forever() -> None:
    """Orders and answers that are larger than what a socket holds, many ahead."""

    class Texts(Numbers):
        def __getitem__(self, index: int) -> str:
            return "some text that fills a pickle"

    loader = DataLoader(Texts(200000), batch_size=50000, shuffle=True, num_workers=1, prefetch_factor=4)
    assert [len(batch) for batch in loader] == [50000] * 4


# leaving nothing behind -----------------------------------------------------------------------------------------------


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
def test_nothing_is_left_of_loaders() -> None:
    list(DataLoader(Shapes(), batch_size=None, num_workers=2))
    before, children = open_files(), multiprocessing.active_children()
    for _ in range(3):
        iterator = iter(DataLoader(Numbers(1000), num_workers=2))
        processes = iterator._workers
        next(iterator)
        del iterator  # half way
        assert not any(process.is_alive() for process in processes)
        del processes
        list(DataLoader(Shapes(), batch_size=None, num_workers=2))
    kept = list(DataLoader(Shapes(), batch_size=None, num_workers=2))
    assert open_files() <= before and set(multiprocessing.active_children()) <= set(children) and kept


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at /proc")
def test_many_batches_do_not_fill_memory() -> None:
    class Large(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.zeros(20000)

    files = memory = 0
    for number, _ in enumerate(DataLoader(Large(1200), batch_size=None, num_workers=2)):
        if number == 200:
            files, memory = open_files(), resident()
    assert open_files() <= files and resident() < memory + (8 << 20)  # 80 MB went through


def test_persistent_workers_stay_and_a_dropped_epoch_does_not_mix_in() -> None:
    torch.manual_seed(5)
    loader = DataLoader(Numbers(10), num_workers=2, persistent_workers=True, shuffle=True)
    iterator = iter(loader)
    pids = [process.pid for process in iterator._workers]
    assert [next(iterator).item() for _ in range(3)] == [8, 3, 0]
    assert [batch.item() for batch in loader] == [1, 7, 4, 2, 6, 5, 3, 0, 8, 9]  # PyTorch's second epoch
    assert iter(loader) is iterator and [process.pid for process in iterator._workers] == pids


PROGRAM = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.ones(3)
if __name__ == "__main__":
    iterator = iter(DataLoader(Slow(), num_workers=2, multiprocessing_context=sys.argv[1]))
    next(iterator), next(iterator)  # one from each worker: both are at work, not at their imports
    print(*[process.pid for process in iterator._workers], flush=True)
    for batch in iterator:
        pass
"""


def _interruptible() -> None:
    """A shell lets what it runs in the background ignore interrupts, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(tmp_path: Path, method: str) -> tuple[subprocess.Popen, list[int]]:
    """A program that says `import torch` and loads batches, and its workers."""
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(Path(torch.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    program = subprocess.Popen([sys.executable, "-m", "mindtorch_v2", str(tmp_path / "program.py"), method],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, "PYTHONPATH": path}, preexec_fn=_interruptible)
    return program, [int(pid) for pid in program.stdout.readline().split()]


def wait_till_gone(pids: list[int], seconds: float = 100) -> bool:
    def lives(pid: int) -> bool:
        try:
            return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(lives(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_interrupt_ends_the_program_and_its_workers(tmp_path: Path, method: str) -> None:
    program, pids = started(tmp_path, method)
    assert len(pids) == 2, program.stderr.read()
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=120)
    assert program.returncode != 0 and errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors
    assert wait_till_gone(pids)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
def test_workers_end_when_their_loader_is_killed(tmp_path: Path) -> None:
    program, pids = started(tmp_path, "fork")
    program.kill()
    program.communicate()
    assert len(pids) == 2 and wait_till_gone(pids)
