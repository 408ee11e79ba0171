"""Copies in compiled loops: arrays of any layout and type get the elements, however the loops are cut."""

import itertools

import numpy as np
import pytest

from mindtorch_v2._backends.cpu import copies
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._kernels.pointwise import CHUNK

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
# Rows of a power of two drive each other out of the cache; 997 and 257 have no parts of one size.
SHAPES = ((64, 1024), (1024, 64), (997, 1024), (512, 257), (1024, 3), (8, 16, 512), (3, 997, 8, 64), (16, 1, 1024),
          (2 * CHUNK + 8, 16))  # fmt: skip


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind, other", [("float32", "float32"), ("float64", "float64"), ("uint8", "uint8"),
                                         ("int64", "float32"), ("float16", "float64")])
def test_every_order_of_dimensions(shape, kind, other):
    source = (np.arange(np.prod(shape)) % 251).astype(kind).reshape(shape)
    for order in itertools.permutations(range(len(shape))):
        turned = source.transpose(order)
        target = np.zeros(turned.shape, other)
        assert copies.copied(target, turned)
        assert np.array_equal(target, turned)
        back = np.zeros(shape, other).transpose(order)
        assert copies.copied(back, np.ascontiguousarray(turned))
        assert np.array_equal(back, turned)


def test_parts_and_repeated_rows():
    wide = np.arange(2 * 997 * 1024, dtype=np.float32).reshape(2 * 997, 1024)
    target = np.zeros((3, 1024, 997), np.float32)
    assert copies.copied(target, wide[::2].T)
    assert np.array_equal(target, np.broadcast_to(wide[::2].T, target.shape))
    behind = np.zeros((1024, 1994), np.float32)
    assert copies.copied(behind[:, ::-2], wide[:997].T)
    assert np.array_equal(behind[:, ::-2], wide[:997].T) and not behind[:, ::2].any()


@pytest.mark.parametrize("rows", [997, 1024])
def test_arrays_in_one_memory_are_left_alone(rows):
    memory = np.arange(rows * 1024 + 512, dtype=np.float32)
    source, target = memory[512:].reshape(rows, 1024).T, memory[:-512].reshape(1024, rows)
    before = memory.copy()
    assert not copies.copied(target, source)
    assert np.array_equal(memory, before)


def test_pieces_load_from_lines_that_the_cache_holds_together():
    for rows, columns in ((64, 1024), (512, 512), (1024, 64), (997, 1024)):
        source = np.ones((rows, columns), np.float32).T
        plan = copies._plan(np.empty((columns, rows), np.float32), source)
        if isinstance(plan, copies._Parts):
            part = plan.indices[0]
            plan = copies._plan(np.empty((columns, rows), np.float32)[part], source[part])
        _, geometry = plan
        places = {line * columns * 4 % 4096 // 64 for line in range(geometry[0])}
        assert geometry[0] <= 8 * len(places)
