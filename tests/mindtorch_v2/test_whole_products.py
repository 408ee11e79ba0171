"""Products of matrices of integers by BLAS: exact whatever the elements are, wrapped around as those of NumPy."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import matrices, whole_products

TYPES = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
SHAPES = [((40, 50), (50, 60)), ((7, 40, 50), (50, 60)), ((7, 40, 50), (7, 50, 60)), ((4, 1, 40, 50), (3, 50, 30)),
          ((60, 700), (700, 50)), ((0, 50), (50, 600)), ((40, 0), (0, 60)), ((5000,), (5000, 100)),
          ((1, 600), (600, 500)), ((100, 3000), (3000,)), ((3, 4), (4, 5))]


def drawn(kind: str, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + high % 97).integers(low, high, shape, dtype=kind, endpoint=True)


def ranges(kind: str) -> list[tuple[int, int]]:
    limits = np.iinfo(kind)
    return [(0, 9), (max(limits.min, -1000), min(limits.max, 1000)), (limits.min // 3, limits.max // 3),
            (limits.min, limits.max), (limits.min, limits.min + 1), (limits.max - 1, limits.max)]


@pytest.mark.parametrize("kind", TYPES)
def test_products_are_those_of_numpy(kind):
    for first, second in SHAPES:
        for low, high in ranges(kind):
            a, b = drawn(kind, first, low, high), drawn(kind, second, low, high)
            for given in (a, a.swapaxes(0, -1).copy().swapaxes(0, -1)):
                made, expected = matrices.matmul(given, b), np.matmul(a, b)
                assert made.dtype == expected.dtype and np.array_equal(made, expected), (first, second, low, high)


@pytest.mark.parametrize("kind", TYPES)
def test_large_elements_are_multiplied_in_digits(kind, monkeypatch):
    """Not by NumPy's loop: `multiplied` gives a result for each of these."""
    asked = []

    def matmul(a, b):
        asked.append((a.dtype, b.dtype))
        return np.matmul(a, b)

    for low, high in ranges(kind)[2:4]:
        a, b = drawn(kind, (64, 80), low, high), drawn(kind, (80, 64), low, high)
        made = whole_products.multiplied(matmul, a, b)
        assert made is not None and np.array_equal(made, a @ b)
    assert all(kinds in ((np.float64,) * 2, (np.float32,) * 2) for kinds in asked)
    assert len(asked) == 2 * {1: 1, 2: 1, 4: 3, 8: 6}[np.dtype(kind).itemsize]


def test_what_gains_nothing_is_left_to_numpy():
    a = drawn("int64", (400, 400), 0, 9)
    assert whole_products.multiplied(np.matmul, a[:4, :4], a[:4, :4]) is None
    assert whole_products.multiplied(np.matmul, a, a[:, :1]) is None
    assert whole_products.multiplied(np.matmul, a, a.astype("int32")) is None


def test_targets_and_rows_that_are_added():
    a, b, row = drawn("int32", (50, 60), -9, 9), drawn("int32", (70, 60), -9, 9), drawn("int32", (70,), -9, 9)
    assert np.array_equal(matrices.linear(a, b, row), a @ b.T + row)
    out = np.empty((50, 70), "int32")
    assert matrices.matmul(a, b.T, out) is out and np.array_equal(out, a @ b.T)
    assert np.array_equal(matrices.dot(a, b.T), a @ b.T)


def test_products_of_tensors():
    x = torch.arange(120 * 120).reshape(120, 120)
    expected = x.numpy() @ x.numpy()
    assert np.array_equal((x @ x).numpy(), expected)
    assert np.array_equal(torch.addmm(x, x, x, beta=2, alpha=3).numpy(), 2 * x.numpy() + 3 * expected)
    assert np.array_equal(torch.bmm(x.expand(3, -1, -1), x.expand(3, -1, -1))[2].numpy(), expected)
    assert np.array_equal(torch.einsum("ij,kj->ik", x, x).numpy(), x.numpy() @ x.numpy().T)
