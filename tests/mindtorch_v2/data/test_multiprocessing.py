"""torch.multiprocessing: memory that processes share, and functions run in several of them."""

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.multiprocessing as mp

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the tests fork")


@pytest.fixture(params=sorted(mp.get_all_sharing_strategies()))
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def add_one(inbox, outbox) -> None:
    for tensor in iter(inbox.get, None):
        tensor += 1
        outbox.put(tensor)
    inbox.get()


def files_in_shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")}


def test_queues_share_memory(strategy: str) -> None:
    context = mp.get_context("fork")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=add_one, args=(inbox, outbox))
    process.start()
    whole = torch.zeros(3, 2)
    for sent in (torch.zeros(4), whole[1:], torch.nn.Parameter(torch.zeros(2), requires_grad=False)):
        inbox.put(sent)
        got = outbox.get(timeout=100)
        assert sent.is_shared() and (sent == 1).all() and got.data_ptr() == sent.data_ptr()
        assert type(got) is type(sent) and got.shape == sent.shape
        assert got.untyped_storage() is sent.untyped_storage()
    assert whole.tolist() == [[0, 0], [1, 1], [1, 1]]
    inbox.put(None)
    inbox.put(None)
    process.join()
    del sent, got, whole
    if os.path.isdir("/dev/shm"):
        assert not files_in_shared_memory()


def write(tensor: torch.Tensor) -> None:
    tensor += 5


def test_shared_memory_is_seen_by_forked_processes(strategy: str) -> None:
    model = torch.nn.Linear(2, 2).share_memory()
    tensor = torch.zeros(3).share_memory_()
    view = tensor[1:]
    for target in (tensor, model.weight.data):
        process = mp.get_context("fork").Process(target=write, args=(target,))
        process.start()
        process.join()
    assert tensor.tolist() == [5, 5, 5] and view.tolist() == [5, 5] and (model.weight > 4).all()
    assert torch.zeros(0).share_memory_().is_shared() and not torch.ones(1).is_shared()
    with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
        torch.zeros(2, device="meta").share_memory_()


def test_what_is_pickled_for_other_processes(strategy: str) -> None:
    def sent(value):
        return pickle.loads(ForkingPickler.dumps(value))

    leaf = torch.ones(2, requires_grad=True)
    assert sent(leaf).requires_grad and sent(leaf).data_ptr() == leaf.data_ptr()
    column = torch.arange(6).reshape(2, 3)[:, 1]
    assert sent(column).stride() == (3,) and sent(column).tolist() == [1, 4]
    storage = torch.ones(3).untyped_storage()
    assert sent(storage) is storage and sent(torch.ones(2, device="meta")).device.type == "meta"
    parts = sent([column, column])
    assert parts[0].untyped_storage() is parts[1].untyped_storage() and sent(torch.zeros(0)).shape == (0,)
    assert sent(torch.ones(2, dtype=torch.uint16)).dtype is torch.uint16
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        sent(leaf * 2)


def test_strategies() -> None:
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x', expected one of "):
        mp.set_sharing_strategy("x")
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    assert mp.Queue and mp.Process and mp.get_context("spawn") and mp.cpu_count() > 0


def store(index: int, target: torch.Tensor) -> None:
    target[index] = index + 1


def end(index: int, how: str) -> None:
    if index == 1 and how == "raise":
        raise ValueError("boo")
    if index == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 1 and how == "exit":
        sys.exit(3)
    signal.pause()


def test_functions_run_in_processes() -> None:
    target = torch.zeros(3).share_memory_()
    assert mp.start_processes(store, (target,), nprocs=3, start_method="fork") is None
    assert target.tolist() == [1, 2, 3]
    context = mp.start_processes(store, (target,), nprocs=1, join=False, start_method="fork")
    assert len(context.pids()) == 1 and context.join(timeout=100) and context.join()


@pytest.mark.parametrize(("how", "kind", "text"), [
    ("raise", mp.ProcessRaisedException, "\n\n-- Process 1 terminated with the following error:\nTraceback (most"),
    ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
])
def test_a_process_that_fails_ends_the_others(how: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)) as info:
        mp.start_processes(end, (how,), nprocs=2, start_method="fork")
    assert info.value.error_index == 1 and not multiprocessing.active_children()
    if how == "raise":
        assert str(info.value).endswith("ValueError: boo\n")
    else:
        assert info.value.exit_code == {"kill": -9, "exit": 3}[how]
    again = pickle.loads(pickle.dumps(info.value))
    assert vars(again) == vars(info.value) and str(again) == str(info.value)


PROGRAM = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset

def fill(index, target):
    target[index] = index + 1

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        target = torch.zeros(2)
        mp.start_processes(fill, (target,), 2, start_method=method)
        loader = DataLoader(TensorDataset(torch.arange(4)), 3, num_workers=1, multiprocessing_context=method)
        print(target.tolist(), [x.tolist() for [x] in loader])
"""


def test_spawned_processes_of_a_program_know_torch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(Path(torch.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-m", "mindtorch_v2", str(tmp_path / "program.py")], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout == "[1.0, 2.0] [[0, 1, 2], [3]]\n" * 2, done.stderr


def test_spawn_says_what_it_is_for() -> None:
    with pytest.warns(FutureWarning, match=r"This method only supports start_method=spawn \(got: fork\)."):
        mp.spawn(store, (torch.zeros(1),), start_method="fork")
