"""Sorting and what is found by it in arrays that are shared out over threads, against NumPy."""

import math

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls
from mindtorch_v2._backends.cpu.row_sums import by_rows
from mindtorch_v2._kernels.library import select

RNG = np.random.default_rng(4)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape, dim", [((700, 300), 1), ((300, 700), 0), ((20, 90, 120), 1)])
@pytest.mark.usefixtures("three_threads")
def test_rows_on_several_threads(shape: tuple[int, ...], dim: int, kind: str) -> None:
    array = (RNG.standard_normal(shape) * 100).astype(kind)
    x, ordered = torch.from_numpy(array), np.argsort(array, dim, kind="stable")
    values, indices = x.sort(dim=dim, stable=True)
    np.testing.assert_array_equal(indices.numpy(), ordered)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, ordered, dim))
    assert values.is_contiguous() and indices.is_contiguous()
    largest = np.flip(np.sort(array, dim), dim)
    np.testing.assert_array_equal(x.topk(70, dim)[0].numpy(), largest.take(range(70), dim))
    np.testing.assert_array_equal(x.kthvalue(33, dim)[0].numpy(), values.numpy().take(32, dim))
    np.testing.assert_array_equal(x.median(dim)[0].numpy(), values.numpy().take((shape[dim] - 1) // 2, dim))


@pytest.mark.parametrize("kind", ["float32", "float64", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("spread", [0, 3, 2**20, 2**40, 2**63 - 1])
@pytest.mark.parametrize("order", ["any", "sorted", "reversed", "nearly"])
def test_equal_elements_of_long_rows_keep_their_order(kind: str, spread: int, order: str) -> None:
    limits = np.iinfo(kind) if "int" in kind else np.iinfo("int64")
    array = RNG.integers(max(-spread, limits.min), min(spread, limits.max), (3, 2000), endpoint=True).astype(kind)
    if spread == 2**63 - 1:
        array[0, :2] = (limits.min, limits.max) if "int" in kind else (np.nan, -np.inf)
    if order != "any":
        array.sort(1)
        array = np.flip(array, 1).copy() if order == "reversed" else array
        array[:, 1999] = array[:, 0] if order == "nearly" else array[:, 1999]
    places = np.argsort(array, 1, kind="stable")
    backwards = 1999 - np.flip(np.argsort(np.flip(array, 1), 1, kind="stable"), 1)
    for descending, expected in ((False, places), (True, backwards)):
        values, indices = torch.from_numpy(array).sort(stable=True, descending=descending)
        np.testing.assert_array_equal(indices.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, expected, 1))


@pytest.mark.usefixtures("three_threads")
def test_a_failure_in_any_thread_is_raised() -> None:
    rows = np.zeros((6, 1 << 16))
    rows[5] = 1

    def refuse_ones(part: np.ndarray) -> np.ndarray:
        if part.any():
            raise ValueError("a one")
        return part + 2

    with pytest.raises(ValueError, match="a one"):
        by_rows(refuse_ones, rows)
    assert (by_rows(refuse_ones, rows[:5]) == 2).all()


def test_the_mode_of_long_rows_is_the_smallest_of_the_most_frequent() -> None:
    x = torch.arange(3000) % 1000
    values, indices = x.mode()
    assert values.item() == 0 and x[indices].item() == 0
    unknown = torch.full((100,), float("nan"))
    assert unknown.mode()[0].isnan()


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_with_and_without_a_graph_agree(interpolation: str) -> None:
    x = torch.tensor(RNG.standard_normal((4, 7)))
    x[1, 2] = float("nan")
    for q in (0.3, torch.tensor([0.1, 0.75, 1.0], dtype=torch.float64)):
        for dim in (None, 0, 1):
            for function in (torch.quantile, torch.nanquantile):
                for keepdim in (False, True):
                    options = dict(dim=dim, keepdim=keepdim, interpolation=interpolation)
                    plain, recorded = function(x, q, **options), function(x.clone().requires_grad_(), q, **options)
                    torch.testing.assert_close(plain, recorded.detach(), equal_nan=True)
                    steps = ([s for n, s in zip(y.shape, y.stride(), strict=True) if n > 1] for y in (plain, recorded))
                    assert next(steps) == next(steps)


# What PyTorch chose, of which the indices follow from the steps of its selection.
TIED = [3, 1, 3, 2, 3, 1, 2, 3, 0, 3, 1, 2, 3, 3, 0, 2, 1, 3, 2, 0]
CHOSEN = [
    (TIED, (6,), [9, 7, 17, 0, 12, 13]),
    (TIED, (5, 0, False), [19, 8, 14, 16, 10]),
    (TIED, (19,), [0, 13, 12, 9, 17, 7, 4, 2, 6, 18, 3, 11, 15, 16, 1, 10, 5, 14, 19]),
    (TIED, (7, 0, True, False), [0, 13, 12, 9, 17, 7, 4]),
    ([0] * 200, (3,), [0, 1, 2]),
    ([0] * 64, (6,), [44, 41, 42, 43, 46, 47]),
    ([math.nan if i % 9 == 0 else i % 7 for i in range(200)], (3,), [18, 0, 9]),
    ([math.nan if i % 9 == 0 else i % 7 for i in range(200)], (3, 0, False), [21, 14, 7]),
]


@pytest.mark.parametrize("elements, args, expected", CHOSEN)
def test_of_equal_elements_topk_chooses_those_of_pytorch(elements, args, expected):
    x = torch.tensor(elements, dtype=torch.float64)
    for _ in range(10):  # NumPy's way, and the compiled one that takes over
        values, indices = x.topk(*args)
        assert indices.tolist() == expected
        np.testing.assert_array_equal(values.numpy(), x[indices].numpy())


def test_topk_of_equal_elements_is_one_for_compiled_code_and_for_python():
    """Stretches of all lengths, with partitions that go wrong so often that heaps take over."""
    rng = np.random.default_rng(5)
    down = np.concatenate([np.arange(400) % 2 * 400 + np.arange(400) // 2, np.arange(200)])
    for array in (*(rng.integers(0, kinds, (2, 300)) for kinds in (1, 2, 40)), np.stack([down, -down])):
        for k in (1, 2, 20, 150, array.shape[1]):
            for largest in (True, False):
                rows = array[:, :, None]
                made = [np.empty((2, k, 1), np.int64) for _ in range(2)]
                constants = {"largest": largest, "in_order": True, "few": k <= 2, "nans": False}
                select.many(*made, np.empty((2, array.shape[1]), np.int64), rows, **constants)
                x = torch.from_numpy(array)
                for _ in range(9):
                    values, indices = x.topk(k, 1, largest)
                if k * select.FEW_OF > array.shape[1]:
                    np.testing.assert_array_equal(indices.numpy(), made[1][..., 0])
                    np.testing.assert_array_equal(values.numpy(), made[0][..., 0])


@pytest.mark.parametrize("k, expected", [(1, 8), (2, 14), (4, 5), (9, 6), (12, 18), (13, 17), (17, 13), (20, 9)])
def test_of_equal_elements_kthvalue_chooses_that_of_pytorch(k, expected):
    for dtype in (torch.float64, torch.int64):
        x = torch.tensor(TIED, dtype=dtype)
        for _ in range(10):
            value, index = x.kthvalue(k)
            assert index.item() == expected and value.item() == sorted(TIED)[k - 1]


MODES = [(TIED, (3, 17)), ([i % 7 for i in range(200)], (0, 168)), ([0] * 70, (0, 19)), ([2, 1, 1, 2], (1, 2))]


@pytest.mark.parametrize("elements, expected", MODES)
def test_of_equal_elements_mode_chooses_that_of_pytorch(elements, expected):
    for dtype in (torch.float64, torch.int64):
        x = torch.tensor(elements, dtype=dtype)
        for _ in range(10):
            value, index = x.mode()
            assert (value.item(), index.item()) == expected


def test_kthvalue_is_one_for_compiled_code_and_for_python():
    rng = np.random.default_rng(6)
    for array in (rng.integers(0, kinds, (2, 150)) for kinds in (1, 2, 40)):
        x = torch.from_numpy(array)
        for k in (1, 2, 75, 150):
            made = [np.empty((2, 1, 1), np.int64) for _ in range(2)]
            select.kth(*made, np.empty((2, 150), np.int64), array[:, :, None], k - 1, nans=False)
            for _ in range(9):
                values, indices = x.kthvalue(k, 1)
            np.testing.assert_array_equal(indices.numpy(), made[1][:, 0, 0])
            np.testing.assert_array_equal(values.numpy(), np.sort(array, 1)[:, k - 1])


@pytest.mark.parametrize("length", [5, 64, 301])
def test_medians_are_those_of_equal_elements_in_their_order(length):
    array = RNG.integers(0, 4, (3, length)).astype(np.float32)
    x, middle = torch.from_numpy(array), (length - 1) // 2
    for _ in range(10):
        np.testing.assert_array_equal(x.median(1)[1].numpy(), np.argsort(array, 1, kind="stable")[:, middle])
        np.testing.assert_array_equal(x.t().nanmedian(0)[1].numpy(), np.argsort(array, 1, kind="stable")[:, middle])


def test_quantiles_lie_as_in_pytorch_where_dimensions_are_kept() -> None:
    x, q = torch.randn(5, 33, 4), torch.tensor([0.1, 0.5, 0.9])
    assert torch.quantile(x, 0.3, 0, True).stride() == (132, 4, 1)
    for each in (x, x.transpose(0, 2), x.clone().requires_grad_()):
        assert torch.quantile(each, q, None, True).stride() == (1, 3, 3, 3)
    assert torch.quantile(x.transpose(0, 2), q, 2, True).stride() == (1, 99, 3, 3)


@pytest.mark.parametrize("shape, dim", [((64, 7), 0), ((9, 4), 0), ((8, 5), 0), ((2, 33, 5), 1), ((20, 3, 2), 0)])
@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8"])
def test_columns_are_sorted_as_rows(monkeypatch, shape, dim, kind):
    monkeypatch.setattr(calls, "_AT_ONCE", True)
    for number in range(4):
        elements = np.random.default_rng(number).integers(0, 9, shape).astype(kind)
        if elements.dtype.kind == "f":
            elements.flat[number] = np.nan
        x = torch.from_numpy(elements)
        for descending in (False, True):
            for given in (x, x.transpose(0, -1).contiguous().transpose(0, -1), torch.stack([x, x], -1)[..., 0]):
                values, indices = given.sort(dim, descending=descending, stable=True)
                as_rows = x.movedim(dim, -1).contiguous().sort(-1, descending=descending, stable=True)
                assert torch.equal(indices, as_rows.indices.movedim(-1, dim))
                taken = np.take_along_axis(elements, indices.numpy(), dim)
                assert np.array_equal(values.numpy(), taken, equal_nan=True)
