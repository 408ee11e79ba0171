"""Large arrays begin at a page once there is machine code."""

import sys
import tracemalloc

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import machine, pages

pytestmark = [
    pytest.mark.skipif(not machine.available(), reason="no compiled kernels here"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems place large arrays themselves"),
]


@pytest.fixture(autouse=True)
def aligned():
    pages.align_large_arrays()


@pytest.mark.parametrize("size", [1 << 14, 1 << 18, 30001, 1 << 20])
def test_large_arrays_begin_at_a_page(size):
    held = [np.empty(size, np.float32) for _ in range(4)]
    assert [array.ctypes.data % 4096 for array in held] == [0, 0, 0, 0]
    x = torch.ones(size)
    results = [x + 1, x.exp(), x.cumsum(0), torch.softmax(x, 0)]
    assert all(result.data_ptr() % 4096 == 0 for result in results)


def test_small_arrays_take_no_page_each():
    held = [np.empty(1000, np.float32) for _ in range(64)]
    assert len({array.ctypes.data // 4096 for array in held}) < 80
    assert any(array.ctypes.data % 4096 for array in held)


def test_memory_is_counted_grown_and_given_back():
    tracemalloc.start()
    try:
        array = np.ones(1 << 18, np.uint8)
        assert tracemalloc.get_traced_memory()[0] >= 1 << 18
        array.resize(1 << 20, refcheck=False)
        assert array[: 1 << 18].all() and not array[1 << 18 :].any()
        assert tracemalloc.get_traced_memory()[0] >= 1 << 20
        del array
        assert tracemalloc.get_traced_memory()[0] < 1 << 18
    finally:
        tracemalloc.stop()


def test_too_much_memory_is_an_error():
    with pytest.raises(MemoryError):
        np.empty(1 << 62, np.uint8)
