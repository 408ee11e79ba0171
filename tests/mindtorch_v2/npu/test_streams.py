"""Streams run late and in any order; events put them in one."""

from typing import Any

import numpy as np
import pytest

from mindtorch_v2._backends.npu.array import empty, to_host
from mindtorch_v2._backends.npu.launch import launch
from mindtorch_v2._backends.npu.streams import POOL_SIZE, Event, Stream, current_stream, default_stream

FLOAT = np.dtype(np.float32)


def filled(value: float) -> Any:
    out = empty((4,), FLOAT)
    launch("aclnnInplaceFillScalar", {"selfRef": out, "value": value})
    return out


def double(a: Any, out: Any) -> None:
    launch("aclnnAdd", {"self": a, "other": a, "alpha": 1, "out": out})


def test_without_an_event_another_stream_reads_too_early(npu: Any) -> None:
    a, out = filled(1), empty((4,), FLOAT)
    side = Stream()
    with side:
        double(a, out)
        assert to_host(out).tolist() != [2] * 4  # the fill has not run: memory is poisoned


def test_an_event_orders_streams(npu: Any) -> None:
    a, out = filled(1), empty((4,), FLOAT)
    side = Stream()
    side.wait_stream(current_stream())
    with side:
        double(a, out)
        assert to_host(out).tolist() == [2] * 4


def test_the_default_stream_can_wait(npu: Any) -> None:
    side, out = Stream(), empty((4,), FLOAT)
    with side:
        a = filled(3)
        done = side.record_event()
    current_stream().wait_event(done)
    double(a, out)
    assert to_host(out).tolist() == [6] * 4


def test_queries(npu: Any) -> None:
    event = Event()
    assert event.query()
    filled(1)
    event.record()
    assert not event.query() and not current_stream().query()
    event.synchronize()
    assert event.query()
    current_stream().synchronize()
    assert current_stream().query()


def test_time(npu: Any) -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    filled(1)
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 1000
    with pytest.raises(ValueError, match="enable_timing=True"):
        Event().elapsed_time(end)


def test_events_are_used_again(npu: Any) -> None:
    for _ in range(10):
        current_stream().record_event()
    assert npu.calls["aclrtCreateEventExWithFlag"] == 1


def test_streams_come_from_a_pool(npu: Any) -> None:
    streams = [Stream() for _ in range(POOL_SIZE + 1)]
    assert streams[0] == streams[-1] and len(set(streams)) == POOL_SIZE
    assert npu.calls["aclrtCreateStreamWithConfig"] == POOL_SIZE


def test_a_stream_of_another_device(npu: Any) -> None:
    side = Stream("npu:1")
    with side:
        a = filled(2)
        assert a.device_index == 1 and current_stream() == side
        assert to_host(a).tolist() == [2] * 4
    assert current_stream() == default_stream() and repr(side).startswith("<torch.npu.Stream device=npu:1")


def test_an_event_belongs_to_one_device(npu: Any) -> None:
    event = Event()
    event.record()
    with pytest.raises(RuntimeError, match="Event device npu:0 does not match recording stream's device npu:1"):
        event.record(Stream("npu:1"))
