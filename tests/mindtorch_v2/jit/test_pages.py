"""Large arrays begin at a page once there is machine code."""

import os
import subprocess
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


def printed(program: str) -> str:
    """What a program prints in a process of its own; it may not fail."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                         env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_two_threads_may_want_it_at_once():
    assert printed("""
import threading
import numpy as np
from mindtorch_v2._backends.cpu.jit import pages

other, advises = [], np._core.multiarray._get_madvise_hugepage

def asked():  # between a thread's look at what there is and its change of it
    if not other:
        other.append(threading.Thread(target=pages.align_large_arrays))
        other[0].start()
        other[0].join(0.2)  # it would be done by now, if it did not wait
    return advises()

np._core.multiarray._get_madvise_hugepage = asked
pages.align_large_arrays()
other[0].join()
held = [np.empty(size, np.uint8) for size in (10, 1 << 18)]
print(held[1].ctypes.data % 4096)
""") == "0\n"


def test_arrays_are_made_until_the_very_end():
    assert printed("""
import os
import sys
import numpy as np
import mindtorch_v2._backends.cpu.jit.elf as elf
from mindtorch_v2._backends.cpu.jit import pages

class Late:
    def __del__(self, empty=np.empty, write=os.write):
        held = [empty(size) for size in (10, 1 << 18)]
        write(1, b"made\\n" * (len(held) == 2))

pages.align_large_arrays()
np.held = Late()
sys.held = Late()
""") == "made\n" * 2
