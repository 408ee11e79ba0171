"""Compiled loops that have no samples of their own: distances, histograms, searches, products, recurrent layers."""

import math

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.kernels import distance, histogram, index, products, rnn, sort, sparse
from mindtorch_v2._core.threads import blas
from mindtorch_v2._kernels.language import kernel, multiply, parallel
from mindtorch_v2._ops._declare.rules import Spec

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
RNG = np.random.default_rng(3)
SPEC = Spec((), torch.float32)  # of which only the strides, none here, are looked at
EXPONENTS = (0.0, 0.5, 1.0, 2.0, 3.0, math.inf)


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def lengths(apart: np.ndarray, p: float) -> np.ndarray:
    return np.linalg.norm(apart, p, -1) if p else (apart != 0).sum(-1)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("p", EXPONENTS)
def test_distances(p: float, kind: str) -> None:
    close = 1e-5 if kind == "float32" else 1e-12
    x, y = (RNG.standard_normal(shape).astype(kind) for shape in ((2, 1, 5, 3), (3, 4, 3)))
    y[..., 0, 1] = x[0, 0, 0, 1]
    for a, b in ((x, y), (x.swapaxes(-1, -2).copy().swapaxes(-1, -2), y), (x[0, 0], y[0])):
        apart = a[..., :, None, :] - b[..., None, :, :]
        np.testing.assert_allclose(distance.cdist(a, b, p, None), lengths(apart, p), rtol=close, atol=close)
    rows = x[0, 0]
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    expected = [lengths(rows[i] - rows[j], p) for i, j in pairs]
    np.testing.assert_allclose(distance.pdist(rows, p), expected, rtol=close, atol=close)


@pytest.mark.parametrize("p", EXPONENTS)
def test_slopes_of_distances_are_those_of_their_parts(p: float) -> None:
    x, y = (torch.tensor(RNG.standard_normal(shape), requires_grad=True) for shape in ((5, 3), (4, 3)))
    grad = torch.tensor(RNG.standard_normal((5, 4)))
    parts = x.unsqueeze(1) - y
    expected = torch.autograd.grad((parts.norm(p, -1) * grad).sum(), (x, y)) if p else (x * 0, y * 0)
    made = torch.cdist(x, y, p).detach().numpy()
    for found, wanted in zip((distance.cdist_backward(grad.numpy(), x.detach().numpy(), y.detach().numpy(), p, made),
                              distance.cdist_backward(grad.mT.numpy(), y.detach().numpy(), x.detach().numpy(), p,
                                                      made.T)), expected, strict=True):  # fmt: skip
        np.testing.assert_allclose(found, wanted.detach().numpy(), atol=1e-12)
    first, second = np.triu_indices(5, 1)
    weights = torch.tensor(RNG.standard_normal(10))
    apart = x[torch.tensor(first)] - x[torch.tensor(second)]
    wanted = torch.autograd.grad((apart.norm(p, 1) * weights).sum(), x)[0] if p else x * 0
    rows = x.detach().numpy()
    found = distance.pdist_backward(weights.numpy(), rows, p, distance.pdist(rows, p))
    np.testing.assert_allclose(found, wanted.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [False, True])
def test_histograms(density: bool, weighted: bool) -> None:
    rows = RNG.standard_normal((300, 2))
    rows[:20] = np.round(rows[:20])
    rows[0, 0] = math.nan
    weight = RNG.random(300) if weighted else None
    for edges, even in (([np.linspace(-1.0, 2.0, 5), np.array([-2.0, 0.0, 0.5, 3.0])], False),
                        ([np.linspace(-1.0, 2.0, 4), np.linspace(-2.0, 2.0, 21)], True)):  # fmt: skip
        expected, _ = np.histogramdd(rows[1:], edges, weights=None if weight is None else weight[1:], density=density)
        np.testing.assert_allclose(histogram.histogram(rows, edges, weight, density, even), expected, atol=1e-12)
    np.testing.assert_array_equal(histogram.bounds(rows[1:], 2), [rows[1:].min(0), rows[1:].max(0)])
    assert np.isnan(histogram.bounds(rows, 2)[:, 0]).all()
    for made, count in zip(histogram.edges(rows, (4, 1), (-1.0, 2.0, 3.0, 7.0)), (5, 2), strict=True):
        assert made.shape == (count,)
    np.testing.assert_allclose(histogram.edges(rows, (7,), (-1.0, 2.0))[0], np.linspace(-1.0, 2.0, 8), atol=1e-15)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "uint8"])
def test_short_rows_are_sorted_and_searched(kind: str) -> None:
    array = (RNG.standard_normal((3, 64, 2)) * 9).astype(kind)
    if kind.startswith("float"):
        array[0, ::7] = math.nan
    ascending = np.argsort(array, 1, kind="stable")
    for descending in (False, True):
        values, indices = sort.sort(array, 1, descending, True, (SPEC, SPEC))
        expected = ascending if not descending else 63 - np.argsort(array[:, ::-1], 1, kind="stable")[:, ::-1]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(array, indices, 1))
        for k in (1, 5, 40):
            best = sort.topk(array, k, 1, descending, True)
            np.testing.assert_array_equal(best[0], values[:, :k])
            np.testing.assert_array_equal(best[0], np.take_along_axis(array, best[1], 1))
    assert sort.sort(np.zeros((2, 65)), 1, False, True, (SPEC, SPEC)) is None
    np.testing.assert_array_equal(sort.kthvalue(array, 10, 1, False)[0], np.sort(array, 1)[:, 9])
    whole = np.nan_to_num(array)
    np.testing.assert_array_equal(sort.median(whole, 1, True)[0], np.sort(whole, 1)[:, 31:32])
    if kind.startswith("float"):
        found, at = sort.median(array, 1, False)
        assert np.isnan(found[0]).all() and (at[0] == 0).all() and not np.isnan(found[1:]).any()
        numbers = np.sort(array[0], 0)[: (~np.isnan(array[0, :, 0])).sum()]
        np.testing.assert_array_equal(sort.nanmedian(array, 1, False)[0][0], numbers[(len(numbers) - 1) // 2])
    bounds, wanted = np.sort(whole[0, :9, 0]), whole[1, :, 0]
    for right in (False, True):
        side = "right" if right else "left"
        np.testing.assert_array_equal(sort.bucketize(wanted, bounds, False, right),
                                      np.searchsorted(bounds, wanted, side))  # fmt: skip
        rows = np.sort(whole[:, :9, 0], -1)
        made = sort.searchsorted(rows, whole[:, 9:20, 1], True, right, None, None)
        assert made.dtype == np.int32
        for i in range(3):
            np.testing.assert_array_equal(made[i], np.searchsorted(rows[i], whole[i, 9:20, 1], side))


def test_the_most_frequent_element_is_the_smallest_of_such() -> None:
    values, indices = sort.mode(np.array([[3, 1, 3, 1, 2], [2, 2, 5, 5, 5]]), 1, False)
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 4]


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_of_compressed_matrices(reduce: str) -> None:
    dense = RNG.standard_normal((6, 5)) * (RNG.random((6, 5)) < 0.5)
    dense[2] = 0
    starts = np.concatenate(([0], np.cumsum((dense != 0).sum(1))))
    columns, values, other = np.nonzero(dense)[1], dense[dense != 0], RNG.standard_normal((5, 3))
    expected = np.zeros((6, 3))
    for i in range(6):
        products_of_row = values[starts[i] : starts[i + 1], None] * other[columns[starts[i] : starts[i + 1]]]
        if len(products_of_row):
            expected[i] = getattr(np, reduce)(products_of_row, 0)
    np.testing.assert_allclose(sparse.csr_product(starts, columns, values, other, reduce), expected, atol=1e-12)
    assert sparse.csr_product(starts, columns + 3, values, other, reduce) is None
    assert sparse.csr_product(starts + 1, columns, values, other, reduce) is None


def test_elements_of_a_product_at_the_places_of_a_sparse_matrix() -> None:
    left, right = RNG.standard_normal((3, 4)), RNG.standard_normal((5, 4))
    starts, others = np.array([0, 2, 2, 3]), np.array([1, 4, 0])
    expected = (left @ right.T)[[0, 0, 2], [1, 4, 0]]
    np.testing.assert_allclose(sparse.csr_sampled(starts, others, left, right, True), expected)
    np.testing.assert_allclose(sparse.csr_sampled(starts, others, right, left, False), expected)
    assert sparse.csr_sampled(starts, others + 4, left, right, True) is None


@pytest.mark.parametrize("kind", ["float32", "int32", "uint8"])
def test_cross_products_wrap_as_numpys_do(kind: str) -> None:
    a, b = ((RNG.random((4, 3, 2)) * 100).astype(kind) for _ in range(2))
    expected = np.cross(a, b, axis=1).astype(kind)
    np.testing.assert_allclose(products.cross(a, b, 1, Spec((4, 3, 2), torch.float32)), expected, rtol=1e-4)


# kernels that multiply matrices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_a_product_in_a_kernel_is_that_of_blocks(turned: str, kind: str) -> None:
    def of(rows: int, columns: int, factor: str) -> np.ndarray:
        shape = (2, columns, rows) if factor in turned else (2, rows, columns)
        return RNG.standard_normal((2, shape[1] + 3, shape[2] + 2)).astype(kind)[:, 3:, 2:]

    wide = blas().integers == 64
    for adds in (False, True):
        a, b, made = of(5, 7, "a"), of(7, 4, "b"), RNG.standard_normal((2, 6, 9)).astype(kind)
        expected, plain = made.copy(), made.copy()
        product = (a[1].T if "a" in turned else a[1]) @ (b[0].T if "b" in turned else b[0])
        expected[1, 1:, 3:7] = product + (expected[1, 1:, 3:7] if adds else 0)
        assert calls.launched(block_product, made, a, b, 5, 4, 7, turned=turned, adds=adds, wide=wide)
        block_product(plain, a, b, 5, 4, 7, turned=turned, adds=adds, wide=wide)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-5)


@kernel
def block_product(made, a, b, rows, columns, inner, *, turned, adds, wide):
    for _ in parallel(1, 1):
        multiply(made, (1, 1, 3), a, (1, 0, 0), b, (0, 0, 0), (rows, columns, inner), turned=turned, adds=adds,
                 wide=wide)


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize(("shape", "causal"), [
    ((2, 3, 5, 7, 4, 4), False), ((2, 3, 5, 7, 4, 4), True), ((2, 3, 7, 5, 4, 6), True), ((3, 4, 64, 64, 8, 8), True),
    ((1, 1, 400, 700, 4, 4), True), ((1, 1, 700, 400, 4, 3), True), ((1, 2, 1, 33, 8, 8), False)])  # fmt: skip
def test_attention_is_weighted_values(threads: int, shape: tuple[int, ...], causal: bool) -> None:
    batch, heads, queries, keys, width, last = shape
    query = torch.tensor(RNG.standard_normal((batch, queries, heads, width))).transpose(1, 2).requires_grad_()
    key = torch.tensor(RNG.standard_normal((batch, heads, keys, width)), requires_grad=True)
    value = torch.tensor(RNG.standard_normal((batch, keys, heads, last))).transpose(1, 2).requires_grad_()
    scores = query @ key.mT * width**-0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(queries, keys, dtype=torch.bool).tril(), -math.inf)
    expected = scores.softmax(-1) @ value
    made = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    grad = torch.tensor(RNG.standard_normal(made.shape))
    torch.testing.assert_close(made, expected)
    for found, wanted in zip(torch.autograd.grad(made, (query, key, value), grad),
                             torch.autograd.grad(expected, (query, key, value), grad), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("mode", "options"), [
    *((mode, options) for mode in ("LSTM", "GRU") for options in ({}, {"bidirectional": True}, {"bias": False})),
    ("LSTM", {"proj_size": 3})], ids=str)  # fmt: skip
def test_recurrent_layers_are_their_cells(threads: int, mode: str, options: dict) -> None:
    layer = getattr(torch.nn, mode)(4, 5, dtype=torch.float64, **options)
    sequences = [torch.tensor(RNG.standard_normal((n, 4)), requires_grad=True) for n in (6, 4, 4, 3, 1, 1, 1)]
    packed, last = layer(torch.nn.utils.rnn.pack_sequence(sequences))
    last = last if mode == "LSTM" else (last,)
    (packed.data.square().sum() + sum(state.sum() for state in last)).backward()
    found = [p.grad.clone() for p in layer.parameters()] + [s.grad.clone() for s in sequences]
    outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(packed)
    for each in (*layer.parameters(), *sequences):
        each.grad = None
    total = 0.0
    for i, sequence in enumerate(sequences):  # one after the other, by NumPy
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rnn, "_takes", lambda *args: False)
            alone, last = layer(sequence)
            torch.testing.assert_close(outputs[: len(sequence), i], alone)
            last = last if mode == "LSTM" else (last,)
            total = total + alone.square().sum() + sum(state.sum() for state in last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rnn, "_takes", lambda *args: False)
        total.backward()
    for mine, each in zip(found, (*layer.parameters(), *sequences), strict=True):
        torch.testing.assert_close(mine, each.grad)


@pytest.mark.parametrize("kind", ["bool", "float16", "float32", "int64"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(40,), (7, 9), (2, 3, 1, 8)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...], share: float, kind: str) -> None:
    x = (RNG.random(shape) < share).astype(kind)
    np.testing.assert_array_equal(index.nonzero(x), np.transpose(x.nonzero()))
