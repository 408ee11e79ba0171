"""The caching allocator, page-locked memory, storages, and copies."""

import gc
from typing import Any

import numpy as np
import pytest

from mindtorch_v2._backends.npu import runtime
from mindtorch_v2._backends.npu.array import NpuStorage, empty, from_host, to_host
from mindtorch_v2._backends.npu.errors import NpuError
from mindtorch_v2._backends.npu.launch import launch
from mindtorch_v2._backends.npu.memory import free_unpinned, pinned_empty, pinned_memory_of, pool_of
from mindtorch_v2._backends.npu.streams import Stream, current_stream, default_stream, set_stream, synchronize

FLOAT = np.dtype(np.float32)


def sums(a: Any, b: Any) -> Any:
    out = empty(a.shape, a.dtype, a.device_index)
    launch("aclnnAdd", {"self": a, "other": b, "alpha": 1, "out": out})
    return out


def test_a_block_is_used_again_on_its_stream(npu: Any) -> None:
    first = empty((100,), FLOAT).storage.address
    assert empty((90,), FLOAT).storage.address == first
    assert npu.calls["aclrtMalloc"] == 1


def test_blocks_are_aligned_and_leave_room_behind(npu: Any) -> None:
    a, b = empty((128,), FLOAT), empty((1,), FLOAT)
    assert a.storage.address % 64 == 0 and b.storage.address % 64 == 0
    assert b.storage.address - a.storage.address >= 512 + 32


def test_another_stream_does_not_get_it(npu: Any) -> None:
    first = empty((100,), FLOAT).storage.address
    with Stream():
        assert empty((100,), FLOAT).storage.address != first


def test_small_large_and_joined_blocks(npu: Any) -> None:
    pool = pool_of(0)
    small = [empty((1000,), FLOAT) for _ in range(100)]
    assert pool.reserved == 2 << 20
    large = empty((1 << 19,), FLOAT)
    assert pool.reserved == 22 << 20
    del small
    joined = empty((200_000,), FLOAT)  # needs neighbours of the freed ones
    assert npu.calls["aclrtMalloc"] == 2
    assert large.size and joined.size


def test_statistics(npu: Any) -> None:
    pool = pool_of(0)
    a, b = empty((1000,), FLOAT), empty((1000,), FLOAT)
    rounded = 4096  # 4000 bytes, 32 behind them, up to the next multiple of 512
    assert pool.allocated == pool.peak_allocated == 2 * rounded
    del b
    assert pool.settle().allocated == rounded and pool.peak_allocated == 2 * rounded
    pool.reset_peaks()
    assert pool.peak_allocated == rounded
    pool.empty()
    assert pool.reserved == 2 << 20  # `a` keeps its segment
    del a
    pool.empty()
    assert pool.reserved == 0 and npu.used_memory() == 0
    statistics = pool.statistics()
    assert statistics["allocation.all.allocated"] == statistics["allocation.all.freed"] == 2


def test_record_stream_keeps_memory_until_the_other_stream_has_run(npu: Any) -> None:
    a = from_host(np.ones(1000, FLOAT))
    address, side = a.storage.address, Stream()
    side.wait_stream(current_stream())
    with side:
        result = sums(a, a)
    a.storage.record_stream(side)
    del a
    held = [empty((1000,), FLOAT) for _ in range(4)]
    assert address not in [h.storage.address for h in held]
    side.synchronize()
    held += [empty((100_000 + 10_000 * i,), FLOAT) for i in range(3)]  # new sizes, so the waiting blocks are looked at
    held += [empty((1000,), FLOAT) for _ in range(4)]
    assert address in [h.storage.address for h in held]
    with side:
        assert to_host(result).tolist() == [2] * 1000


def test_nothing_takes_no_memory(npu: Any) -> None:
    a = from_host(np.empty((0, 3), FLOAT))
    assert a.storage.address == 0 and to_host(a).shape == (0, 3)
    assert not npu.calls["aclrtMalloc"] and not npu.calls["aclrtMemcpy"]


@pytest.mark.parametrize(
    "type_",
    ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "bfloat16"],
)
def test_there_and_back(npu: Any, type_: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16 if type_ == "bfloat16" else type_)
    host = np.arange(24).reshape(2, 3, 4).astype(kind)
    back = to_host(from_host(host))
    assert back.dtype == kind and (back == host).all()
    back = to_host(from_host(host.transpose(2, 0, 1)))
    assert (back == host.transpose(2, 0, 1)).all()


def test_views_come_back_with_their_strides(npu: Any) -> None:
    host = np.arange(24, dtype=FLOAT).reshape(4, 6)
    a = from_host(host)
    view = a.storage.array((2, 3), FLOAT, 4 * 7, (48, 8))  # rows 1 and 3, columns 1, 3, 5
    assert (to_host(view) == host[1::2, 1::2]).all()
    assert to_host(a.storage.array((), FLOAT, 8, ())).item() == 2


def test_a_copy_waits_for_queued_work_on_reused_memory(npu: Any) -> None:
    a = from_host(np.ones(10, FLOAT))
    result = sums(a, a)
    del a
    b = from_host(np.full(10, 7, FLOAT))  # takes the memory of `a`, which the queued addition still reads
    assert to_host(result).tolist() == [2] * 10 and to_host(b)[0] == 7


def test_pinned_memory_is_copied_without_waiting(npu: Any) -> None:
    host = pinned_empty((4,), FLOAT)
    host[:] = 3
    a = from_host(host, non_blocking=True)
    back = pinned_empty((4,), FLOAT)
    to_host(sums(a, a), out=back, non_blocking=True)
    assert (back != 6).all()  # nothing has run yet
    assert not npu.calls["aclrtMemcpy"]
    synchronize()
    assert back.tolist() == [6] * 4


def test_pinned_memory_outlives_the_copy(npu: Any) -> None:
    host = pinned_empty((4,), FLOAT)
    host[:] = 3
    a = from_host(host, non_blocking=True)
    del host
    gc.collect()
    assert pinned_empty((1,), FLOAT).size == 1  # would free what is free to go
    assert to_host(a).tolist() == [3] * 4
    keep = pinned_empty((1,), FLOAT)
    assert len(npu.pinned) == 1 and keep.size == 1


def test_pinned_memory_that_another_thread_frees_meanwhile(npu: Any) -> None:
    class AnotherThread:
        def query(self) -> bool:
            free_unpinned(runtime.started(0))  # takes the rest
            return True

    runtime.started(0)
    for each in (pinned_empty((4,), FLOAT), pinned_empty((4,), FLOAT)):
        memory = pinned_memory_of(each)
        assert memory is not None
        memory.in_use = AnotherThread()  # type: ignore[assignment]
    del each, memory
    free_unpinned(runtime.started(0))
    assert not npu.pinned


def test_pageable_memory_may_change_right_after_the_call(npu: Any) -> None:
    host = np.ones(4, FLOAT)
    a = from_host(host, non_blocking=True)
    host[:] = 9
    assert to_host(a).tolist() == [1] * 4


def test_storages(npu: Any) -> None:
    a = from_host(np.arange(8, dtype=np.uint8))
    storage = a.storage
    assert storage.nbytes() == len(storage) == 8 and str(storage.device) == "npu:0"
    copy = storage.clone()
    storage.fill_(1)
    assert storage.tolist() == [1] * 8 and copy.tolist() == list(range(8))
    copy.resize_(12)
    assert copy.nbytes() == 12 and copy.tolist()[:8] == list(range(8))
    copy.resize_(4)
    assert copy.tolist() == list(range(4))
    copy[1] = 9
    assert copy[1] == 9 and copy.cpu().tolist() == [0, 9, 2, 3]
    assert NpuStorage(0).data_ptr() == 0
    assert NpuStorage(4).copy_(copy).tolist() == [0, 9, 2, 3]
    assert NpuStorage(4).copy_(copy.cpu()).tolist() == [0, 9, 2, 3]


@pytest.mark.parametrize("peers", [True, False])
def test_between_devices(npu: Any, peers: bool) -> None:
    npu.peers = peers
    from mindtorch_v2._backends.npu import array

    array._peer_access.clear()
    a = from_host(np.arange(5, dtype=FLOAT), "npu:1")
    doubled = sums(a, a)
    there = NpuStorage(20, device="npu:0")
    array.copy_bytes(there, 0, doubled.storage, 0, 20)
    assert to_host(there.array((5,), FLOAT, 0, (4,))).tolist() == [0, 2, 4, 6, 8]
    array._peer_access.clear()


def test_work_stays_within_one_device(npu: Any) -> None:
    a, b = from_host(np.ones(2, FLOAT), "npu:0"), from_host(np.ones(2, FLOAT), "npu:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, .* npu:0 and npu:1!"):
        sums(a, b)


def test_the_machine_notices_wrong_pointers(npu: Any) -> None:
    a, host = from_host(np.ones(2, FLOAT)), np.ones(2, FLOAT)
    call, at = runtime.started().call, host.__array_interface__["data"][0]
    for arguments in (
        (at, 8, a.storage.address + (1 << 40), 8, 2),
        (a.storage.address, 4, at, 8, 1),
        (a.storage.address, 8, a.storage.address, 8, 1),
    ):
        with pytest.raises(NpuError, match="aclrtMemcpy failed"):
            call("aclrtMemcpy", *arguments)
    assert len(npu.violations) == 3
    npu.violations.clear()


def test_the_current_stream_is_the_threads_own(npu: Any) -> None:
    side = Stream()
    set_stream(side)
    assert current_stream() == side and current_stream("npu:1") == default_stream("npu:1")
    set_stream(default_stream())
    assert current_stream() == default_stream()
