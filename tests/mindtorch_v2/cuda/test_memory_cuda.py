"""Memory of a CUDA device: its counts, what happens when it runs out, and memory that two streams use."""

import gc
import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from device_models import CASES, step_of

import mindtorch_v2 as torch

MiB = 1 << 20
ROUNDED = 512  # the pool counts in multiples of it


def taken(nbytes: int) -> torch.Tensor:
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def free() -> int:
    return torch.cuda.mem_get_info()[0]


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    """Nothing of other tests in the pool, and nothing left for them."""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.memory_stats()  # the counts run from the first question on
    yield
    gc.collect()
    torch.cuda.empty_cache()


# running out ---------------------------------------------------------------------------------------------------------


def test_the_error_says_what_was_asked_allocated_reserved_and_free() -> None:
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError and issubclass(torch.OutOfMemoryError, RuntimeError)
    held = taken(64 * MiB)
    taken(32 * MiB)  # now in the cache
    total = torch.cuda.get_device_properties().total_memory
    before = torch.cuda.memory_stats()
    with pytest.raises(torch.OutOfMemoryError) as raised:
        taken(100 * total)
    said = str(raised.value)
    assert said.startswith(f"CUDA out of memory. Tried to allocate {size(100 * total)}. GPU 0 has a total capacity of")
    capacity = torch.cuda.mem_get_info()[1]
    assert f"total capacity of {capacity / (1 << 30):.2f} GiB of which " in said and " GiB is free" in said
    allocated = torch.cuda.memory_allocated()
    assert allocated >= 64 * MiB and f"{size(allocated)} is allocated by tensors" in said
    unused = torch.cuda.memory_reserved() - allocated
    assert f"and {size(unused)} is reserved but unallocated" in said
    assert unused < 32 * MiB  # the cache had been emptied before
    after = torch.cuda.memory_stats()
    assert after["num_ooms"] == before["num_ooms"] + 1
    assert after["num_alloc_retries"] == before["num_alloc_retries"] + 1
    assert held.fill_(3).sum().item() == 3 * 64 * MiB  # what was there still is
    assert taken(MiB).fill_(1).sum().item() == MiB  # and the next smaller request is met


def size(nbytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def test_the_cache_is_emptied_before_a_request_fails() -> None:
    before, room = torch.cuda.memory_stats(), free()
    taken(int(0.6 * room))  # kept for later, as one block that is too small for the next request
    assert torch.cuda.memory_reserved() >= int(0.6 * room) > torch.cuda.memory_allocated()
    large = taken(int(0.7 * room))
    after = torch.cuda.memory_stats()
    assert after["num_alloc_retries"] == before["num_alloc_retries"] + 1 and after["num_ooms"] == before["num_ooms"]
    assert large.numel() <= torch.cuda.memory_reserved() < int(1.1 * room)
    with pytest.raises(torch.OutOfMemoryError):
        taken(int(0.7 * room))
    smaller = taken(int(0.1 * room))
    smaller[-1] = 7
    assert smaller[-1].item() == 7


REQUESTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "fill": lambda x: torch.zeros(1 << 44, device="cuda"),
    "addition": lambda x: x.expand(1 << 44, 4) + 1,
    "outer sum": lambda x: x.expand(1 << 22, 4).reshape(-1, 1) + x.expand(1 << 22, 4).reshape(1, -1),
    "product": lambda x: x.expand(1 << 22, 4) @ x.expand(1 << 22, 4).t(),
    "copy": lambda x: x.expand(1 << 44, 4).clone(),
    "cast": lambda x: x.expand(1 << 44, 4).to(torch.float64),
    "running sum": lambda x: x.expand(1 << 44, 4).cumsum(0),
    "random numbers": lambda x: torch.randn(1 << 44, device="cuda"),
    "repeat": lambda x: x.repeat(1 << 42),
    "index": lambda x: x[torch.zeros(1, dtype=torch.int64, device="cuda").expand(1 << 44)],
}


@pytest.mark.parametrize("name", REQUESTS)
def test_an_operation_without_room_fails_and_changes_nothing(name: str) -> None:
    """Whoever allocates, the library or CuPy for it, the error is the same."""
    x = torch.arange(1.0, 5.0, device="cuda")
    gc.collect()
    allocated, version = torch.cuda.memory_allocated(), x._version
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory. Tried to allocate .*GiB"):
        REQUESTS[name](x)
    gc.collect()
    assert torch.cuda.memory_allocated() == allocated
    assert x.tolist() == [1, 2, 3, 4] and x._version == version
    assert (x + 1).sum().item() == 14


def test_a_training_goes_on_after_a_batch_that_was_too_large() -> None:
    case = CASES["mlp, adamw"]
    network, inputs, targets = case.on("cuda")
    optimizer = case.optimizer(network.parameters())
    step_of(network, inputs, targets, optimizer)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(torch.OutOfMemoryError):
        step_of(network, inputs[:1].expand(1 << 40, -1), targets[:1].expand(1 << 40), optimizer)
    for name, value in network.state_dict().items():
        assert value.equal(state[name]), name
    losses = [step_of(network, inputs, targets, optimizer).item() for _ in range(5)]
    assert losses[-1] < losses[0]


def test_a_share_of_the_memory() -> None:
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.cuda.set_per_process_memory_fraction(0.25)
        with pytest.raises(torch.OutOfMemoryError):
            taken(int(0.3 * total))
        assert taken(MiB).numel() == MiB
        with pytest.raises(ValueError, match="Invalid fraction value: 2"):
            torch.cuda.set_per_process_memory_fraction(2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


# counts --------------------------------------------------------------------------------------------------------------


def test_what_is_allocated_and_reserved() -> None:
    start, before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    b, small = torch.ones(1000, device="cuda"), -(-4000 // ROUNDED) * ROUNDED
    reserved = torch.cuda.memory_reserved()
    assert reserved - before in (0, small)  # the few bytes may lie beside what the library itself keeps
    a = taken(10 * MiB)
    used = 10 * MiB + small
    assert torch.cuda.memory_allocated() == torch.cuda.memory_allocated("cuda:0") == start + used
    reserved += 10 * MiB
    assert torch.cuda.memory_reserved() == reserved
    view = a[5:].view(-1)
    del a
    assert torch.cuda.memory_allocated() == start + used  # the view keeps it
    del view
    assert torch.cuda.memory_allocated() == start + used - 10 * MiB and torch.cuda.memory_reserved() == reserved
    again = taken(10 * MiB)
    assert torch.cuda.memory_reserved() == reserved  # the block was used again
    del again, b
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == (start, before)
    assert taken(0).data_ptr() == 0 and torch.cuda.memory_allocated() == start


def test_peaks() -> None:
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    assert torch.cuda.max_memory_allocated() == start
    a = taken(8 * MiB)
    b = taken(4 * MiB)
    del a
    assert torch.cuda.max_memory_allocated() == start + 12 * MiB
    assert torch.cuda.max_memory_reserved() >= start + 12 * MiB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == start + 4 * MiB
    assert b.numel() == 4 * MiB


def test_peaks_count_what_other_threads_take() -> None:
    torch.cuda.reset_peak_memory_stats()
    start, sums = torch.cuda.memory_allocated(), []

    def work() -> None:
        sums.append((torch.ones(8 * MiB // 4, device="cuda") * 2).sum().item())

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert sums == [4.0 * MiB] * 2
    assert start + 16 * MiB <= torch.cuda.max_memory_allocated() <= start + 17 * MiB
    assert torch.cuda.memory_allocated() == start


def test_memory_of_a_graph_counts() -> None:
    x = torch.ones(MiB, device="cuda")
    start, graph = torch.cuda.memory_allocated(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    assert torch.cuda.memory_allocated() >= start + 4 * MiB
    assert torch.cuda.max_memory_allocated() >= start + 4 * MiB
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    graph.replay()
    assert y.sum().item() == 2 * MiB
    del y, graph


def test_calls_keep_nothing_alive() -> None:
    """What is prepared for a kind of call holds none of the tensors of the call."""
    start = torch.cuda.memory_allocated()
    x = torch.ones(4, MiB, device="cuda")
    x.var(1), torch.nn.functional.pad(x, (1, 1)), torch.cat([x, x]), x.std()
    del x
    assert torch.cuda.memory_allocated() < start + MiB


def test_statistics() -> None:
    before = torch.cuda.memory_stats()
    a = [taken(1000) for _ in range(5)]
    during = torch.cuda.memory_stats()
    del a
    after = torch.cuda.memory_stats()
    assert during["allocation.all.allocated"] == before["allocation.all.allocated"] + 5
    assert during["allocation.all.current"] == before["allocation.all.current"] + 5
    assert after["allocation.all.current"] == before["allocation.all.current"]
    assert after["allocation.all.freed"] == before["allocation.all.freed"] + 5
    assert during["allocated_bytes.all.current"] == before["allocated_bytes.all.current"] + 5 * 1024
    nested = torch.cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.cuda.memory_allocated()
    assert "allocated_bytes.all.current" in torch.cuda.memory_summary()


def test_what_the_driver_has() -> None:
    total = torch.cuda.mem_get_info()[1]
    assert total == torch.cuda.mem_get_info("cuda:0")[1]

    def missing_when_taken_kept_and_emptied() -> tuple[int, int, int]:
        room = free()
        assert 0 < room <= total
        a = taken(256 * MiB)
        in_use = room - free()
        del a
        kept = room - free()
        torch.cuda.empty_cache()
        return in_use, kept, room - free()

    for _ in range(60):  # other processes take and give memory of the device too: once is seen without them
        in_use, kept, emptied = missing_when_taken_kept_and_emptied()
        if in_use >= 256 * MiB and kept >= 256 * MiB > emptied:
            break
        time.sleep(0.25)
    else:
        pytest.fail(f"missing when taken {in_use}, kept {kept}, emptied {emptied}")


@pytest.mark.parametrize("name", ["mlp, adamw", "lstm, adamw", "resnet, sgd"])
def test_nothing_is_left_behind_by_200_steps(name: str) -> None:
    case = CASES[name]
    network, inputs, targets = case.on("cuda")
    optimizer = case.optimizer(network.parameters())
    seen = []
    for number in range(201):
        step_of(network, inputs, targets, optimizer)
        if number and number % 50 == 0:
            torch.cuda.synchronize()
            seen.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert len({allocated for allocated, _ in seen}) == 1, seen
    assert seen[-1][1] == seen[-2][1], seen


def test_a_failed_step_leaves_nothing_either() -> None:
    x = torch.ones(1000, device="cuda", requires_grad=True)
    gc.collect()
    start = torch.cuda.memory_allocated()
    for _ in range(10):
        with pytest.raises(RuntimeError):
            (x * 2).exp().reshape(3, -1)
    gc.collect()
    assert torch.cuda.memory_allocated() == start


def test_a_file_takes_no_memory_of_the_device_for_long() -> None:
    x = torch.ones(1000, device="cuda")
    start = torch.cuda.memory_allocated()
    file = io.BytesIO()
    torch.save(x, file)
    assert torch.cuda.memory_allocated() == start
    file.seek(0)
    assert torch.load(file, map_location="cpu").device.type == "cpu" and torch.cuda.memory_allocated() == start


# streams -------------------------------------------------------------------------------------------------------------


def test_a_block_goes_to_work_of_the_same_stream() -> None:
    a = taken(MiB)
    address = a.data_ptr()
    del a
    b = taken(MiB)
    assert b.data_ptr() == address
    del b
    with torch.cuda.stream(torch.cuda.Stream()):
        c = taken(MiB)
        assert c.data_ptr() != address


def test_a_recorded_stream_keeps_memory_until_it_has_run() -> None:
    """A block freed while another stream still reads it is not handed out before that has happened."""
    side = torch.cuda.Stream()
    a = torch.full((4 * MiB,), 3.0, device="cuda")
    address = a.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        slow = a
        for _ in range(200):
            slow = slow + 1
        result = slow + a
    a.record_stream(side)
    del a, slow
    others = [torch.zeros(4 * MiB, device="cuda") for _ in range(4)]
    side.synchronize()
    assert (result == 206).all().item()
    assert {other.sum().item() for other in others} == {0}
    del others
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()  # looks at what waited for a stream
    found = [taken(16 * MiB) for _ in range(3)]
    assert result.data_ptr() not in {f.data_ptr() for f in found} and address


def test_pinned_memory_outlives_a_queued_copy() -> None:
    for _ in range(20):
        host = torch.full((MiB,), 5.0).pin_memory()
        moved = host.to("cuda", non_blocking=True)
        del host
        other = torch.zeros(MiB).pin_memory()
        assert moved.sum().item() == 5 * MiB and other.is_pinned()


def test_memory_of_a_captured_graph_is_its_own() -> None:
    x = torch.ones(MiB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    others = [torch.zeros(MiB, device="cuda") for _ in range(4)]
    assert y.data_ptr() not in {other.data_ptr() for other in others}
    graph.replay()
    assert y.sum().item() == 2 * MiB and all(other.sum().item() == 0 for other in others)
    graph.reset()


def test_a_peak_before_the_first_question_is_not_missed() -> None:
    """Nothing counts before somebody asks: then the pool's size is what is known."""
    program = ("import mindtorch_v2 as torch\n"
               "a = torch.empty(64 << 20, dtype=torch.uint8, device='cuda')\n"
               "del a\n"
               "assert torch.cuda.memory_allocated() < 64 << 20\n"
               "assert torch.cuda.max_memory_allocated() >= 64 << 20\n"
               "torch.cuda.reset_peak_memory_stats()\n"
               "assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()\n")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


UNCOUNTED = """
import gc
import threading
import mindtorch_v2 as torch

MiB = 1 << 20

def taken(nbytes):
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")

torch.ones(1, device="cuda")
start = torch.cuda.memory_allocated()
"""
PROGRAMS = {
    "a block is used again, and counted": """
a = taken(10 * MiB)
place, reserved = a.data_ptr(), torch.cuda.memory_reserved()
assert torch.cuda.memory_allocated() == start + 10 * MiB
del a
assert torch.cuda.memory_allocated() == start and torch.cuda.memory_reserved() == reserved
b = taken(10 * MiB - 100)
assert b.data_ptr() == place and torch.cuda.memory_reserved() == reserved
del b
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() <= reserved - 10 * MiB
""",
    "a block goes to work of the same stream": """
large, a = taken(512 * MiB), taken(MiB)
place, side = a.data_ptr(), torch.cuda.Stream()
with torch.cuda.stream(side):
    del a
    c = taken(MiB)
    assert c.data_ptr() != place
b = taken(MiB)
assert b.data_ptr() == place
""",
    "what is free goes to requests of other sizes before the pool grows": """
free = torch.cuda.mem_get_info()[0]
a = taken(int(0.6 * free))
del a
b = taken(int(0.7 * free))
b[-1] = 7
assert b[-1].item() == 7
del b
parts = [taken(int(0.1 * free)) for _ in range(6)]
del parts
assert taken(int(0.6 * free)).numel() == int(0.6 * free)
""",
    "running out is an error of PyTorch's": """
a = taken(64 * MiB)
del a
try:
    taken(1 << 50)
except torch.OutOfMemoryError as error:
    assert "Tried to allocate 1048576.00 GiB" in str(error)
else:
    raise AssertionError
assert taken(MiB).fill_(1).sum().item() == MiB
""",
    "CuPy's functions hold what they look at": """
x = torch.arange(6.0, device="cuda")
place, view = x.data_ptr(), x._array.view
del x
y = torch.zeros(6, device="cuda")
assert y.data_ptr() != place and view.get().tolist() == [0, 1, 2, 3, 4, 5]
""",
    "threads share what is free": """
def work():
    for _ in range(300):
        a = torch.full((1000,), 2.0, device="cuda")
        b = a * 3
        del a
        assert b.sum().item() == 6000
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
assert torch.cuda.memory_allocated() == start
""",
    "a recorded stream keeps a block": """
side = torch.cuda.Stream()
a = torch.full((4 * MiB,), 3.0, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    slow = a
    for _ in range(200):
        slow = slow + 1
    result = slow + a
a.record_stream(side)
del a
others = [torch.zeros(4 * MiB, device="cuda") for _ in range(4)]
side.synchronize()
assert (result == 206).all().item() and {o.sum().item() for o in others} == {0}
""",
    "a graph has memory of its own": """
x = torch.ones(MiB, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2 + 1
others = [torch.zeros(MiB, device="cuda") for _ in range(4)]
graph.replay()
assert y.sum().item() == 3 * MiB and all(other.sum().item() == 0 for other in others)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_that_nobody_counts(name: str) -> None:
    """Until somebody asks for statistics, blocks that are free again lie in front of the pool."""
    subprocess.run([sys.executable, "-c", UNCOUNTED + PROGRAMS[name]], check=True, timeout=300)


def test_a_result_written_to_out_counts_as_one_write() -> None:
    for out in (torch.empty(4, device="cuda"), torch.empty(0, device="cuda"), torch.empty(8, device="cuda")[::2]):
        torch.arange(0, 2, 0.5, out=out, device="cuda")
        assert out._version == 1 and out.tolist() == [0, 0.5, 1, 1.5]


def test_no_geometry_reaches_beyond_its_storage() -> None:
    x = torch.zeros(4, device="cuda")
    with pytest.raises(RuntimeError, match="requiring a storage size of 20 are out of bounds for storage of size 16"):
        x.untyped_storage().array((2,), x._array.dtype, 4, (12,))
    with pytest.raises(RuntimeError, match="requiring a storage size of 20 are out of bounds for storage of size 16"):
        x.as_strided((2,), (3,), 1)
