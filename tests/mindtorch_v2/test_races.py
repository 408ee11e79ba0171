"""What two threads do to each other, with a switch at each instruction of one of them."""

import threading

from interleaving import interleaved

import mindtorch_v2 as torch
from mindtorch_v2._core import device as devices
from mindtorch_v2._pipeline.trace import Recordings, Trace
from mindtorch_v2.distributed._work import Lane, LaneWork


def test_a_device_that_two_threads_name_first_is_one(monkeypatch):
    def check(others, mine):
        assert mine is others[0] and str(mine) == "cuda:7"

    def prepared():
        monkeypatch.setattr(devices, "_instances", {})
        return []

    def named(others):
        made = torch.device("cuda:7")
        assert (made.type, made.index) == ("cuda", 7)
        return made

    interleaved(prepared, named, lambda others: others.append(named(others)), check)


def test_plans_are_forgotten_while_another_thread_begins_to_record():
    interleaved(lambda: [Trace() for _ in range(3)], lambda held: Recordings().clear(),
                lambda held: held.append(Trace()))


def test_a_lane_has_one_thread():
    def count():
        return sum(thread.name == "a lane" for thread in threading.enumerate())

    def added(lane):
        work = LaneWork(lane, lambda: None, [], "nothing")
        lane.add(work)
        return work

    def check(lane, work):
        work.wait()
        assert count() == 1
        lane.close()
        assert count() == 0

    interleaved(lambda: Lane("a lane"), added, added, check)
