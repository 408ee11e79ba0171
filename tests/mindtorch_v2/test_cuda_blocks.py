"""Device memory in front of CuPy's pool, on a pool that stands in for it: what is found again, by whom, and counted."""

import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import mindtorch_v2
from mindtorch_v2._backends.cuda import runtime

KiB = 1 << 10


class Pool:
    """As CuPy's: addresses that go up, in multiples of 512 bytes, and a function that it is let grow by."""

    def __init__(self, grow: Any) -> None:
        self.grow, self.at, self.used, self.spare, self.asked, self.calls = grow, 1 << 20, 0, 0, 0, 0

    def malloc(self, nbytes: int) -> "Pointer":
        self.calls += 1
        size = -(-nbytes // 512) * 512
        if self.spare < size:
            self.asked += 1
            self.spare += self.grow(size).mem.size
        self.spare -= size
        self.used += size
        self.at += size
        return Pointer(Memory(size, self.at), 0, self)

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.used + self.spare


class Memory:
    def __init__(self, size: int, ptr: int = 0) -> None:
        self.size, self.ptr = size, ptr


class Unowned(Memory):
    def __init__(self, ptr: int, size: int, owner: Any, device_id: int) -> None:
        super().__init__(size, ptr)
        self.owner = owner


class Pointer:
    device_id = 0

    def __init__(self, mem: Memory, offset: int, pool: Pool | None = None) -> None:
        self.mem, self.ptr, self.pool = mem, mem.ptr + offset, pool

    def __del__(self) -> None:
        if self.pool is not None:
            self.pool.used -= self.mem.size
            self.pool.spare += self.mem.size


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, on one device and a pool of its own."""
    device = types.SimpleNamespace(use=lambda: None)
    cuda = types.SimpleNamespace(
        MemoryPool=Pool,
        MemoryPointer=Pointer,
        Memory=Memory,
        UnownedMemory=Unowned,
        Device=lambda index: device,
        runtime=types.SimpleNamespace(getDevice=lambda: 0, memGetInfo=lambda: (1 << 30, 1 << 40)),
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(runtime, "device_count", lambda: 1)
    name = "mindtorch_v2._backends.cuda.blocks"
    path = pathlib.Path(mindtorch_v2.__file__).parent / "_backends/cuda/blocks.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made


@pytest.fixture
def memory(blocks: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that counts what these blocks take, and keeps what other streams use."""
    cupy = sys.modules["cupy"]
    monkeypatch.setattr(cupy, "get_default_memory_pool", lambda: blocks.pool, raising=False)
    for name, value in (("MemoryHook", object), ("get_allocator", lambda: None)):
        monkeypatch.setattr(cupy.cuda, name, value, raising=False)
    monkeypatch.setitem(sys.modules, blocks.__name__, blocks)
    path = pathlib.Path(blocks.__spec__.origin).with_name("memory.py")
    spec = importlib.util.spec_from_file_location("mindtorch_v2._backends.cuda.memory", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_block_is_found_again_and_the_lowest_address_first(blocks: Any) -> None:
    held = [blocks.take(1000) for _ in range(4)]
    places = [block.ptr for block in held]
    assert len(set(places)) == 4
    held.reverse()
    while held:
        held.pop()
    assert [block.ptr for block in [blocks.take(1000) for _ in range(4)]] == sorted(places)
    assert blocks.pool.asked == 4


def test_sizes_that_are_rounded_alike_share_their_blocks(blocks: Any) -> None:
    places = [blocks.take(nbytes).ptr for nbytes in (1000, 700, 1024, 1025)]
    assert places[0] == places[1] == places[2] != places[3]


def test_blocks_of_nothing_have_no_order(blocks: Any) -> None:
    for _ in range(2):
        held = [blocks.take(0) for _ in range(3)]
        assert [block.ptr for block in held] == [0, 0, 0]
        del held
    assert blocks.free_bytes() == 0


def test_a_block_belongs_to_the_stream_that_it_was_taken_on(blocks: Any) -> None:
    other, block = blocks.take(64 * KiB), blocks.take(KiB)
    place = block.ptr
    blocks.current.follow(7)
    del block
    assert blocks.take(KiB).ptr not in (place, other.ptr)
    blocks.current.follow(0)
    assert blocks.take(KiB).ptr == place


def test_what_is_free_is_counted_and_given_back(blocks: Any) -> None:
    held = [blocks.take(nbytes) for nbytes in (100, 600, 1000, 3 * KiB)]
    assert blocks.free_bytes() == 0 and blocks.pool.used == (512 + 1024 + 1024 + 3 * KiB)
    del held[1:]
    assert blocks.free_bytes() == 1024 + 1024 + 3 * KiB
    blocks.give_back()
    assert blocks.free_bytes() == 0 and blocks.pool.used == 512


def test_the_pool_gets_back_what_is_free_before_it_grows(blocks: Any) -> None:
    held = blocks.take(64 * KiB)
    del held
    held = blocks.take(48 * KiB)
    assert held.ptr and blocks.pool.total_bytes() == 64 * KiB and blocks.free_bytes() == 0


def test_a_small_share_stays_while_the_pool_grows(blocks: Any) -> None:
    large, few = blocks.take(1024 * KiB), blocks.take(KiB)
    place = few.ptr
    del few
    more = blocks.take(32 * KiB)
    assert blocks.pool.total_bytes() == (1024 + 1 + 32) * KiB and blocks.free_bytes() == KiB
    assert blocks.take(KiB).ptr == place and large.ptr != more.ptr


def test_a_program_that_repeats_itself_comes_to_ask_the_pool_for_nothing(blocks: Any) -> None:
    """Sizes that are in use one after the other need room beside each other, unless that is much more than the most."""
    for _ in range(4):
        before = blocks.pool.calls
        for count, nbytes in ((8, 8 * KiB), (2, 9 * KiB), (1, 10 * KiB)):
            held = [blocks.take(nbytes) for _ in range(count)]
            assert len({block.ptr for block in held}) == count
            del held
    assert blocks.pool.calls == before and blocks.pool.total_bytes() <= 96 * KiB
    blocks.take(40 * KiB)
    assert blocks.pool.total_bytes() <= 96 * KiB


def test_where_the_driver_has_little_left_the_pool_gets_back_what_is_free(blocks: Any) -> None:
    held = [blocks.take(8 * KiB) for _ in range(8)]
    del held
    sys.modules["cupy"].cuda.runtime.memGetInfo = lambda: (15 * KiB, 1 << 40)
    held = [blocks.take(9 * KiB), blocks.take(10 * KiB)]
    assert len({block.ptr for block in held}) == 2 and blocks.pool.total_bytes() == 64 * KiB


def test_nothing_is_kept_once_it_is_closed(blocks: Any) -> None:
    held = [blocks.take(KiB) for _ in range(3)]
    held.pop()
    blocks.close()
    assert blocks.free_bytes() == 0 and blocks.pool.used == 2 * KiB
    held.pop()
    assert blocks.free_bytes() == 0 and blocks.pool.used == KiB


def test_cupys_view_of_a_block_holds_it(blocks: Any) -> None:
    block = blocks.take(KiB)
    place, view = block.ptr, block + 16
    assert view.ptr == place + 16
    del block
    assert blocks.take(KiB).ptr != place
    del view
    assert blocks.take(KiB).ptr == place


def test_sizes_that_never_come_again_are_forgotten(blocks: Any) -> None:
    kept = blocks.take(100)
    for nbytes in range(512, 512 * 5000, 512):
        blocks.take(nbytes)
    assert len(blocks.current.free) <= 4097
    del kept
    assert blocks.take(100) is not None and blocks.free_bytes() < blocks.pool.total_bytes()


def test_the_last_blocks_of_a_process_go_without_a_complaint(blocks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    block = blocks.take(KiB)
    place = block.ptr
    monkeypatch.setattr(blocks, "heappush", None)  # as Python leaves modules when it ends
    del block
    assert blocks.take(KiB).ptr == place


class Event:
    """One that has happened or not; asking it may do something besides."""

    def __init__(self, has_happened: bool, besides: Any = None) -> None:
        self.has_happened, self.besides = has_happened, besides

    @property
    def done(self) -> bool:
        besides, self.besides = self.besides, None
        if besides is not None:
            besides()
        return self.has_happened


def test_what_is_held_while_events_are_asked_stays_held(memory: Any) -> None:
    pending = Event(False)
    asked = Event(True, besides=lambda: memory.hold_until(pending, "added meanwhile"))
    memory.hold_until(asked, "finished")
    memory.hold_until(Event(False), "kept")
    assert [kept for _, (kept,) in memory._waiting] == ["added meanwhile", "kept"]
    pending.has_happened = True
    memory.hold_until(Event(True), "last")
    assert [kept for _, (kept,) in memory._waiting] == ["kept", "last"]


def test_threads_that_ask_events_together_release_each_once(memory: Any) -> None:
    """A thread that finds nothing left to ask, since another one asks it, goes on."""
    first = Event(True, besides=memory._waiting.clear)
    memory._waiting.extend([(first, [1]), (Event(False), [2])])
    memory.hold_until(Event(False), 3)
    assert [kept for _, kept in memory._waiting] == [[3]]
