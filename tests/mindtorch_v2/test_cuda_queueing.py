"""How a kernel's arguments reach the driver, for which a function of Python's stands in: machine code, and ctypes."""

import ctypes
import gc
import math
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._backends.cuda import queueing
from mindtorch_v2._backends.cuda.queueing import Config, by_ctypes, queue_of

KERNEL = 0x7F0012345678
WAYS: dict[str, Callable] = {"ctypes": by_ctypes}
if machine.available():
    WAYS["machine code"] = queue_of
every_way = pytest.mark.parametrize("way", WAYS)


class Driver:
    """Notes what cuLaunchKernelEx would have been told."""

    def __init__(self, format: str, structs: int = 0, code: int = 0) -> None:
        self.calls: list[dict[str, Any]] = []

        def launch(config: int, kernel: int, places: int, extra: int | None) -> int:
            told = Config.from_address(config)
            given = (ctypes.c_void_p * (len(format) + structs)).from_address(places)
            values = [
                (ctypes.c_double if letter == "d" else ctypes.c_longlong).from_address(given[i]).value
                for i, letter in enumerate(format)
            ]
            values += [ctypes.c_longlong.from_address(at).value for at in given[len(format) :]]
            self.calls.append(
                {
                    "grid": (told.gx, told.gy, told.gz),
                    "block": (told.bx, told.by, told.bz),
                    "shared": told.shared,
                    "stream": told.stream or 0,
                    "kernel": kernel,
                    "values": values,
                    "extra": extra,
                }
            )
            return code

        made = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self.function = made(launch)


@every_way
def test_the_driver_gets_every_argument(way: str) -> None:
    driver = Driver("qdqd", 2)
    config = Config(5, 6, 7, 32, 4, 1, 2048, 0, 0, 0)
    queue = WAYS[way](driver.function, config, KERNEL, "qdqd", [ctypes.c_longlong(n) for n in (11, 1 << 40)])
    assert queue(0xABC, -1, 0.5, (1 << 63) - 1, -1.0) == 0
    assert queue(0, True, 3, -(1 << 63), math.inf) == 0
    shape = {"grid": (5, 6, 7), "block": (32, 4, 1), "shared": 2048, "kernel": KERNEL, "extra": None}
    assert driver.calls == [
        {**shape, "stream": 0xABC, "values": [-1, 0.5, (1 << 63) - 1, -1.0, 11, 1 << 40]},
        {**shape, "stream": 0, "values": [1, 3.0, -(1 << 63), math.inf, 11, 1 << 40]},
    ]
    config.gx = 9
    queue(0, 0, 0.0, 0, 0.0)
    assert driver.calls[2]["grid"] == (9, 6, 7)


@every_way
def test_a_kernel_without_values(way: str) -> None:
    driver = Driver("")
    assert WAYS[way](driver.function, Config(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), KERNEL, "", ())(3) == 0
    assert [call["values"] for call in driver.calls] == [[]]


@every_way
def test_what_the_driver_says_comes_back(way: str) -> None:
    driver = Driver("q", code=700)
    assert WAYS[way](driver.function, Config(), KERNEL, "q", ())(0, 1) == 700


@every_way
@pytest.mark.parametrize("values", [(1,), (1, 2.0, 3), ("1", 2.0), (1 << 63, 2.0), (1, "2")])
def test_wrong_values_are_refused_before_the_driver_is_asked(way: str, values: tuple) -> None:
    driver = Driver("qd")
    queue = WAYS[way](driver.function, Config(), KERNEL, "qd", ())
    with pytest.raises((TypeError, OverflowError, struct.error)):
        queue(0, *values)
    assert not driver.calls


@every_way
def test_the_function_keeps_what_it_reads(way: str) -> None:
    driver = Driver("q", 3)
    queue = WAYS[way](
        driver.function, Config(1, 2, 3, 4, 5, 6, 7, 0, 0, 0), KERNEL, "q", [ctypes.c_longlong(n) for n in range(3)]
    )
    gc.collect()
    noise = [Config() for _ in range(1000)] + [ctypes.c_longlong(99) for _ in range(1000)]
    assert queue(1, 5) == 0 and driver.calls[0]["values"] == [5, 0, 1, 2] and driver.calls[0]["grid"] == (1, 2, 3)
    assert len(noise) == 2000


@every_way
def test_threads_share_a_kernel(way: str) -> None:
    driver = Driver("qqq")
    queue = WAYS[way](driver.function, Config(), KERNEL, "qqq", ())

    def work(number: int) -> None:
        for i in range(200):
            queue(number, number, i, number + i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.calls) == 800
    for call in driver.calls:
        number, i, both = call["values"]
        assert call["stream"] == number and both == number + i


def test_more_values_than_machine_code_has_room_for() -> None:
    count = queueing._VALUES + 1
    driver = Driver("q" * count)
    assert queue_of(driver.function, Config(), KERNEL, "q" * count, ())(0, *range(count)) == 0
    assert driver.calls[0]["values"] == list(range(count))
