"""What two threads do to each other, with a switch at each instruction of one of them."""

import os
import signal
import threading

import pytest
from interleaving import interleaved, interrupted

import mindtorch_v2 as torch
from mindtorch_v2 import _marked
from mindtorch_v2._autograd import engine
from mindtorch_v2._core import device as devices
from mindtorch_v2._core.computed import computed_once
from mindtorch_v2._dispatch import keys
from mindtorch_v2._dispatch.keys import USUAL_MASKS, modes, unusual
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


class Computed:
    """Has an attribute that is computed, and tells how."""

    def __init__(self, compute):
        self.compute = compute

    @computed_once
    def value(self):
        return self.compute()


def test_an_attribute_that_two_threads_compute_is_one():
    def check(pair, mine):
        assert pair[1] == [mine] and pair[0].value is mine

    interleaved(lambda: (Computed(object), []), lambda pair: pair[0].value,
                lambda pair: pair[1].append(pair[0].value), check)


def test_who_computes_an_attribute_does_not_keep_others_from_theirs():
    found = []

    def compute():
        other = threading.Thread(target=lambda: found.append(Computed(lambda: 1).value), daemon=True)
        other.start()
        other.join(10)
        return len(found)

    assert Computed(compute).value == 1


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

    lanes = []

    def opened():
        lanes.append(Lane("a lane"))
        return lanes[-1]

    interleaved(opened, added, added, check)
    lanes[-1].close()  # of the run without another thread


@pytest.mark.parametrize("held", [None, 1.0])
def test_gradients_that_two_threads_bring_to_a_leaf_are_both_in(held):
    def leaf():
        made = torch.zeros(3, requires_grad=True)
        made.grad = None if held is None else torch.full((3,), held)
        return made

    def brought(leaf):
        with torch.no_grad():
            engine.accumulate(leaf, torch.full((3,), 2.0))

    def check(leaf, made):
        assert leaf.grad.tolist() == [4 + (held or 0)] * 3

    interleaved(leaf, brought, brought, check)


def test_copies_that_share_memory_are_each_written_by_a_thread(monkeypatch):
    def copies():
        first = torch.zeros(3)
        pair = first, torch._lazy_clone(first)
        monkeypatch.setattr(_marked, "living_tensors", lambda: list(pair))
        return pair

    def check(pair, made):
        assert [each.tolist() for each in pair] == [[1] * 3, [2] * 3]

    interleaved(copies, lambda pair: pair[0].fill_(1), lambda pair: pair[1].fill_(2), check)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.parametrize("lock", [torch.default_generator._lock, engine._accumulating], ids=["random", "gradients"])
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks(lock):
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    process = os.fork()
    if not process:
        signal.alarm(60)
        x = torch.rand(3, requires_grad=True)
        x.sum().backward()
        os._exit(0)
    _, status = os.waitpid(process, 0)
    over.set()
    other.join()
    assert not status


def test_a_thread_that_ends_with_other_modes_does_not_slow_the_others_down():
    before = set(unusual.threads)
    other = threading.Thread(target=lambda: torch.set_grad_enabled(False))
    other.start()
    other.join()
    assert unusual.threads == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.pipeline])
def test_modes_are_whole_after_an_interrupt(mode):
    """What recorded before the interrupt, or not, may be so after it; what a program asks for then is done."""
    x = torch.ones(2, requires_grad=True)

    def used():
        with mode():
            x * 2

    def check():
        masks = modes.masks
        assert masks is USUAL_MASKS or threading.get_ident() in unusual.threads
        with torch.no_grad():
            assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad is not modes.inference

    def begun_anew():
        if modes.__dict__.get("pipeline") is not None:
            modes.__dict__["pipeline"].__exit__(None)
        modes.update(grad_enabled=True, inference=False, include=0, exclude=0)

    used()
    assert interrupted(used, keys.__file__, check, begun_anew) > 1
