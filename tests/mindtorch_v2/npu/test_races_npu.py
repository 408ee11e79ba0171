"""What two threads do to each other on an NPU, with a switch at each instruction of one of them."""

from typing import Any

import numpy as np
from interleaving import interleaved

import mindtorch_v2 as torch
from mindtorch_v2._backends.npu import runtime, seeds, streams
from mindtorch_v2._backends.npu.array import empty
from mindtorch_v2._backends.npu.memory import pool_of
from mindtorch_v2._backends.npu.streams import Event, current_stream

FLOAT = np.dtype(np.float32)


def test_a_block_that_was_given_back_goes_to_one_thread(npu: Any) -> None:
    handle = current_stream(0).handle

    def given_back() -> Any:
        pool = pool_of(0)
        pool.returned.extend([pool.allocate(size, handle) for size in (1000, 5000)])
        return pool

    made: list = []

    def other(pool: Any) -> None:
        runtime.started(0)
        made.append(pool.allocate(5000, handle))  # without the lock, if it is the last that came back

    def check(pool: Any, mine: Any) -> None:
        taken = [mine, made.pop()]
        assert taken[0].address != taken[1].address
        pool.returned.extend(taken)
        assert pool.settle().live == 0

    assert interleaved(given_back, lambda pool: pool.allocate(7000, handle), other, check) > 20


def test_each_thread_gets_an_event_of_its_own(npu: Any) -> None:
    runtime.started(0)

    def check(others: list, mine: int) -> None:
        assert mine != others[0]

    def prepared() -> list:
        streams._spare_events.clear()
        return []

    def other(others: list) -> None:
        others.append(streams._event_handle(runtime.started(0), 0, 0))

    assert interleaved(prepared, lambda others: streams._event_handle(runtime.started(0), 0, 0), other, check) > 10


def test_an_event_that_is_spare_goes_to_one_thread(npu: Any) -> None:
    def spare() -> list:
        streams._spare_events.clear()
        event = Event()
        event.record()
        del event
        return []

    def recorded(others: list) -> Any:
        event = Event()
        event.record()
        return event

    interleaved(spare, recorded, lambda others: others.append(recorded(others)),
                lambda others, mine: _differ(mine, others[0]))


def _differ(one: Event, other: Event) -> None:
    assert one.npu_event != other.npu_event


def test_the_random_numbers_of_a_device_begin_once(npu: Any) -> None:
    def fresh() -> list:
        seeds._states.pop(0, None)
        return []

    def check(others: list, mine: tuple) -> None:
        assert mine[0] == others[0][0]
        assert mine[1] != others[0][1]  # no number is given out twice

    def taken(others: list) -> tuple:
        return seeds.seed_state(0).taken(4)

    interleaved(fresh, taken, lambda others: others.append(taken(others)), check)


def test_a_device_that_is_seeded_while_another_comes_into_use(npu: Any) -> None:
    def prepared() -> None:
        seeds._states.clear()
        seeds.seed_state(0)

    def check(state: None, made: None) -> None:
        assert {state.seed for state in seeds._states.values()} == {5}

    interleaved(prepared, lambda state: torch.npu.manual_seed_all(5), lambda state: seeds.seed_state(1), check)
    seeds._states.clear()


def test_operators_of_two_threads_on_one_device(npu: Any) -> None:
    numbers = torch.arange(6.0, device="npu")
    double = (numbers * 2).tolist()

    def check(others: list, mine: Any) -> None:
        assert mine.tolist() == double and others[0].tolist() == double

    for _ in range(3):
        numbers * 2  # until it is planned
    interleaved(list, lambda others: numbers * 2, lambda others: others.append(numbers * 2), check)


def test_storages_of_two_threads(npu: Any) -> None:
    def check(others: list, mine: Any) -> None:
        assert mine.storage.address != others[0].storage.address

    interleaved(list, lambda others: empty((1000,), FLOAT), lambda others: others.append(empty((1000,), FLOAT)), check)
