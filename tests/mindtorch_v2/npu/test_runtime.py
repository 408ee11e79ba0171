"""Start and end of life, threads, devices, and what happens when calls fail."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mindtorch_v2._backends.npu import libraries, runtime
from mindtorch_v2._backends.npu.array import NpuArray, empty, from_host, to_host
from mindtorch_v2._backends.npu.errors import NpuError, OutOfMemoryError
from mindtorch_v2._backends.npu.launch import launch
from mindtorch_v2._backends.npu.memory import pinned_empty, pool_of
from mindtorch_v2._backends.npu.streams import Event, Stream, synchronize

FLOAT = np.dtype(np.float32)


def ones(*shape: int) -> NpuArray:
    return from_host(np.ones(shape, FLOAT))


def add(a: NpuArray, b: NpuArray) -> NpuArray:
    out = empty(a.shape, a.dtype)
    launch("aclnnAdd", {"self": a, "other": b, "alpha": 1, "out": out})
    return out


def in_threads(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_asking_does_not_start_a_device(npu: Any) -> None:
    assert runtime.why_unavailable() is None and runtime.device_count() == 2
    assert not npu.calls["aclInit"] and not npu.calls["aclrtSetDevice"]


def test_one_init_one_set_and_one_reset_for_each_device(npu: Any) -> None:
    add(ones(2), ones(2))
    runtime.set_device(1)
    add(ones(2), ones(2))
    runtime.set_device(0)
    add(ones(2), ones(2))
    runtime.stop()
    assert npu.calls["aclInit"] == npu.calls["aclFinalize"] == 1
    assert npu.calls["aclrtSetDevice"] == npu.calls["aclrtResetDevice"] == 2
    assert npu.device_references == [0, 0]


def test_a_second_init_of_the_process_is_no_error(npu: Any) -> None:
    npu.initialised = True
    assert to_host(add(ones(2), ones(2))).tolist() == [2, 2]


def test_every_thread_gets_the_device(npu: Any) -> None:
    results = []

    def work() -> None:
        results.append(to_host(add(ones(3), ones(3))).tolist())

    in_threads(work, 4)
    assert results == [[2, 2, 2]] * 4


def test_threads_that_begin_together_wait_for_the_libraries(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load, made, results = libraries._load, [], []

    def slowly(path: Any) -> Any:
        made.append(path)
        time.sleep(0.01)
        return load(path)

    def work() -> None:
        results.append(to_host(add(ones(3), ones(3))).tolist())

    monkeypatch.setattr(libraries, "_load", slowly)
    runtime.stop()
    in_threads(work, 8)
    assert results == [[2, 2, 2]] * 8
    assert len(made) == len(set(made))


def test_a_device_that_does_not_exist(npu: Any) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal 5: there are 2 NPU devices"):
        runtime.set_device(5)


def test_a_forked_child_is_told_to_use_spawn(npu: Any) -> None:
    add(ones(2), ones(2))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            ones(2)
            text = "no error"
        except RuntimeError as error:
            text = str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "you must use the 'spawn' start method" in os.read(reader, 1000).decode()


def copy_pinned(a: NpuArray) -> None:
    host = pinned_empty(a.shape, a.dtype)
    to_host(a, out=host, non_blocking=True)
    synchronize()


def release(a: NpuArray) -> None:
    empty((1 << 20,), FLOAT)  # at once given back, with a segment of its own
    pool_of(0).empty()


def elapsed(a: NpuArray) -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    start.elapsed_time(end)


def wait(a: NpuArray) -> None:
    Stream().wait_stream(Stream())


# Each call that can fail, with something that needs it.
FAILING: dict[str, Callable[[NpuArray], Any]] = {
    "aclrtMalloc": lambda a: empty((1 << 20,), FLOAT),
    "aclrtMemcpy": to_host,
    "aclrtSynchronizeStream": to_host,
    "aclrtSynchronizeDevice": lambda a: synchronize(),
    "aclrtMemcpyAsync": copy_pinned,
    "aclrtMallocHost": copy_pinned,
    "aclrtMemsetAsync": lambda a: a.storage.fill_(0),
    "aclrtFree": release,
    "aclrtCreateStreamWithConfig": lambda a: Stream(),
    "aclrtStreamQuery": lambda a: Stream().query(),
    "aclrtCreateEventExWithFlag": wait,
    "aclrtRecordEvent": wait,
    "aclrtStreamWaitEvent": wait,
    "aclrtSynchronizeEvent": elapsed,
    "aclrtEventElapsedTime": elapsed,
    "aclCreateTensor": lambda a: add(a, a),
    "aclCreateScalar": lambda a: add(a, a),
    "aclCreateIntArray": lambda a: launch("aclnnAmax", {"self": a, "dim": (0,), "keepDim": False, "out": ones()}),
    "aclCreateTensorList": lambda a: launch("aclnnCat", {"tensors": [a, a], "dim": 0, "out": ones(4)}),
    "aclnnAddGetWorkspaceSize": lambda a: add(a, a),
    "aclnnAdd": lambda a: add(a, a),
    "aclrtGetMemInfo": lambda a: pool_of(0)._shortage(1) and runtime.started().call("aclrtGetMemInfo", 1, None, None),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_call_is_named_leaks_nothing_and_does_no_harm(npu: Any, name: str) -> None:
    a = ones(2)
    npu.fail(name, 507899, times=2)
    with pytest.raises(NpuError) as caught:
        FAILING[name](a)
    assert caught.value.call == name
    if not name.startswith("aclCreate"):
        assert caught.value.code == 507899 and "told to fail" in str(caught.value)
    npu.fail(name, 0, times=0)
    leftover = npu.counts().keys() - {"device memory", "host memory", "stream", "event"}
    assert not leftover
    assert to_host(add(a, a)).tolist() == [2, 2]


@pytest.mark.parametrize("name", ["aclInit", "aclrtSetDevice", "aclrtGetCurrentContext", "aclrtSetCurrentContext"])
def test_a_start_that_fails_can_be_tried_again(npu: Any, name: str) -> None:
    npu.fail(name, 507033)
    with pytest.raises(NpuError, match=f"{name} failed with code 507033 .device did not start.: {name}: told to fail"):
        ones(2)
    assert to_host(add(ones(2), ones(2))).tolist() == [2, 2]


def test_without_devices_it_says_so(npu: Any) -> None:
    npu.fail("aclrtGetDeviceCount", 507000, times=1)
    assert "aclrtGetDeviceCount failed" in (runtime.why_unavailable() or "")
    npu.device_count = 0
    assert runtime.why_unavailable() == "CANN is there, but it finds no device"
    npu.device_count = 2


def test_the_error_of_an_operator_tells_types_and_shapes(npu: Any) -> None:
    a, b = ones(2, 3), ones(3)
    npu.fail("aclnnAddGetWorkspaceSize", 161002)
    with pytest.raises(
        NpuError, match=r"in aten::add, aclnnAdd\(self=float32\[2, 3\], other=float32\[3\], alpha=1.5, out="
    ):
        launch("aclnnAdd", {"self": a, "other": b, "alpha": 1.5, "out": ones(2, 3)}, op="aten::add")


def test_a_fault_of_the_device_comes_with_a_later_call_or_at_once_when_blocking(npu: Any) -> None:
    a = ones(2)
    wrong = empty((3,), FLOAT)
    values = {"self": a, "other": a, "alpha": 1, "out": wrong}
    launch("aclnnAdd", values)
    with pytest.raises(NpuError, match="aclrtSynchronizeStream failed"):
        to_host(a)
    runtime.loaded().blocking = True
    with pytest.raises(NpuError, match=r"aclrtSynchronizeStream failed .* in aclnnAdd\(self=float32\[2\]"):
        launch("aclnnAdd", values)
    assert len(npu.violations) == 2
    npu.violations.clear()


def test_out_of_memory_tells_sizes_after_one_emptying(npu: Any) -> None:
    npu.memory_limit = 64 << 20
    held = empty((6 << 20,), FLOAT)
    unused = empty((6 << 20,), FLOAT)
    del unused
    with pytest.raises(OutOfMemoryError) as caught:
        empty((12 << 20,), FLOAT)
    assert "Tried to allocate 48.00 MiB. NPU 0 has a total capacity of 64.00 MiB of which" in str(caught.value)
    assert "24.00 MiB is in use" in str(caught.value)
    statistics = pool_of(0).statistics()
    assert statistics["num_alloc_retries"] == statistics["num_ooms"] == 1
    del held
    assert empty((12 << 20,), FLOAT).size == 12 << 20
