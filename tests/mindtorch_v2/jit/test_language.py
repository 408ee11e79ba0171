"""Kernels of the language: compiled they store what they store as the Python functions that they are."""

import numpy as np
import pytest

from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._kernels.language import (
    flat,
    float64,
    function,
    int64,
    kernel,
    larger,
    like,
    local,
    smaller,
    unrolled,
)
from mindtorch_v2._kernels.library import class_loss, norm, reduce, scan, softmax

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def both(written, args, constants):
    """The arrays among the arguments after the kernel ran as Python, and after its machine code did."""
    as_python, compiled = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    with np.errstate(all="ignore"):
        written(*as_python, **constants)
    assert calls.launched(written, *compiled, **constants)
    return [[a for a in given if isinstance(a, np.ndarray)] for given in (as_python, compiled)]


RNG = np.random.default_rng(0)
X = RNG.standard_normal(24).astype(np.float32)
WITH_NAN = np.where(np.arange(24) == 5, np.float32(np.nan), X)
FOLD = dict(element=reduce.itself, combine=reduce.sum_of, start=0, finish=reduce.mean_of, wide=True)
NO_PARAMETERS = dict(weighted=False, biased=False)


def zeros(n, kind=np.float32):
    return np.zeros(n, kind)


CALLS = [
    (reduce.fold_rows, (zeros(4), X, 4, 6, 1, 6, 6, 0.0), FOLD),
    (reduce.fold_rows, (zeros(8), X, 4, 6, 2, 3, 3, 0.0), FOLD),
    (reduce.fold_rows, (zeros(4, np.bool_), X > 1, 4, 6, 1, 6, 6, 0.0),
     dict(element=reduce.truth, combine=reduce.either, start=False, finish=reduce.total_itself, wide=False)),
    (reduce.fold_short_rows, (zeros(3), X, 3, 8, 8, 0.0), FOLD),
    (reduce.fold_short_rows, (zeros(6, np.int64), RNG.integers(-9, 9, 24), 6, 4, 4, 0.0),
     dict(element=reduce.whole, combine=reduce.sum_of, start=0, finish=reduce.total_itself, wide=False)),
    (reduce.fold_columns, (zeros(8), X, 2, 3, 4, 3, 3, 0.0), FOLD),
    (reduce.fold_columns, (zeros(4, np.int64), RNG.integers(0, 9, 24).astype(np.int8), 1, 6, 4, 4, 6, 0.0),
     dict(element=reduce.whole, combine=reduce.product_of, start=1, finish=reduce.total_itself, wide=False)),
    (reduce.extreme_rows, (zeros(4), WITH_NAN, 4, 6, 1, 6),
     dict(element=reduce.size, combine=reduce.larger_of, start=-np.inf)),
    (reduce.place_rows, (zeros(4), zeros(4, np.int64), WITH_NAN, 4, 6, 1, 6), dict(largest=False, start=np.inf)),
    (reduce.place_columns, (zeros(8), zeros(8, np.int64), WITH_NAN, 2, 3, 4, 4), dict(largest=True)),
    (reduce.moment_rows, (zeros(4), zeros(4), X, 4, 6, 1, 6, 5.0), dict(deviation=True)),
    (reduce.moment_columns, (zeros(4), zeros(4), X, 1, 6, 4, 4, 5.0), dict(deviation=False)),
    (reduce.merge_moments, (zeros(1), zeros(1), np.abs(X[:3]).astype(float), X[3:6].astype(float), 8, 3, 3, 7.0),
     dict(deviation=False)),
    (softmax.softmax_rows, (zeros(24), X, 4, 6), dict(logarithm=False)),
    (softmax.softmax_rows, (zeros(24, np.float16), X.astype(np.float16), 4, 6), dict(logarithm=False)),
    (softmax.softmax_columns, (zeros(24), X, 2, 3, 4, 3), dict(logarithm=True)),
    (softmax.backward_columns, (zeros(24), X, X[::-1].copy(), 2, 3, 4, 3), dict(logarithm=True)),
    (softmax.logsumexp_rows, (zeros(8), X, 4, 6, 2, 3), {}),
    (norm.normalise_rows, (zeros(24), zeros(4), zeros(4), X, X[:6], X[6:12], 4, 6, 1e-5),
     dict(centred=True, weighted=True, biased=True)),
    (norm.row_gradients, (zeros(24), X, X[::-1].copy(), X[:4], X[4:8], X[:6], 4, 6), dict(centred=True, weighted=True)),
    (norm.normalise_groups, (zeros(24), zeros(4), zeros(4), X, X, X, 2, 2, 2, 3, 1e-5), NO_PARAMETERS),
    (norm.normalise_planes, (zeros(24), zeros(3), zeros(3), X, X, X, 2, 3, 4, 1e-5), NO_PARAMETERS),
    (norm.normalise_columns, (zeros(24), zeros(4), zeros(4), X, X, X, 6, 4, 3, 1e-5), NO_PARAMETERS),
    (norm.channel_gradients, (zeros(24), zeros(4), zeros(4), X, X[::-1].copy(), X[:4], X[4:8], X, 6, 4, 3),
     dict(weighted=False, wanted=True)),
    (scan.running_rows, (zeros(24), X, 3, 8), dict(combine=reduce.sum_of, start=0, wide=True)),
    (scan.extreme_columns, (zeros(24), zeros(24, np.int64), WITH_NAN, 2, 3, 4, 4), dict(largest=True)),
    (class_loss.reduce_losses, (zeros(1), zeros(1, np.bool_), X, RNG.integers(0, 6, 4), X[:6], 4, 6, 1, 2),
     dict(weighted=True, reduction=1, picks=True)),
    (class_loss.cross_entropy, (zeros(6), zeros(6), zeros(6), X[:12], RNG.integers(0, 2, 6), 2, 2, 3, 2), {}),
]  # fmt: skip


@pytest.mark.parametrize("written, args, constants", CALLS, ids=[c[0].function.__name__ for c in CALLS])
def test_a_kernel_runs_as_python_too(written, args, constants):
    for expected, made in zip(*both(written, args, constants), strict=True):
        np.testing.assert_allclose(made, expected, rtol=2e-5, atol=2e-6)


@kernel
def reversed_copy(out: flat, x: flat, n):
    for i in range(n):
        out[i] = x[n - 1 - i]


def test_flat_arrays_have_any_number_of_dimensions():
    x = np.arange(24.0).reshape(2, 3, 4)
    for shape in ((24,), (4, 6), (2, 3, 4)):
        made = np.empty(shape)
        assert calls.launched(reversed_copy, made, x, 24)
        assert made.reshape(-1).tolist() == x.reshape(-1)[::-1].tolist()
    made = np.zeros(())
    assert calls.launched(reversed_copy, made, np.full((), 3.0), 1) and made == 3


def test_flat_arrays_lie_in_order():
    x, made = np.arange(24.0).reshape(4, 6), np.zeros((6, 4))
    assert not calls.launched(reversed_copy, made, x.T, 24)
    assert not calls.launched(reversed_copy, made, np.broadcast_to(1.0, (6, 4)), 24)
    assert not made.any()


@kernel
def of_types(out: flat, x: flat, *, kind):
    some = local(3, kind)
    for i in unrolled(3):
        some[i] = x[i]
    wide = float64(0)
    for i in range(3):
        wide += float64(some[i]) + float64(like(0.1, x[0])) + float64(like(2.5, int64(x[0])))
    out[0] = wide
    out[1] = larger(x[0], x[1])
    out[2] = smaller(x[0], x[1])


@pytest.mark.parametrize("kind", [float64, np.float32, np.int64])
def test_scratch_memory_and_numbers_have_the_type_that_is_asked_for(kind):
    expected, made = both(of_types, (np.zeros(3), np.array([1.75, -2.5, 1e-9], np.float32)), dict(kind=kind))
    assert made[0].tolist() == expected[0].tolist()


@function
def moved_behind(x, place, value):
    x[place] = x[place + 1]
    x[place + 1] = value
    return place


@kernel
def first_moved_back(x: flat, n):
    for i in range(n - 1):
        moved_behind(x, i, x[i])


def test_arguments_have_the_values_from_before_the_call():
    as_python, compiled = both(first_moved_back, (X.copy(), 24), {})
    np.testing.assert_array_equal(as_python[0], np.roll(X, -1))
    np.testing.assert_array_equal(compiled[0], np.roll(X, -1))
