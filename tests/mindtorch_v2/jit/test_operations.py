"""Kernels of the language as machine code against the same functions run by Python, in all types of elements."""

import math

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._kernels import ir
from mindtorch_v2._kernels.language import (
    KernelError,
    acos,
    asin,
    atan,
    atan2,
    atomic_add,
    atomic_max,
    atomic_min,
    c_div,
    c_rem,
    ceil,
    copysign,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    float32,
    float64,
    floor,
    fma,
    fmax,
    fmin,
    function,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    kernel,
    larger,
    like,
    local,
    log,
    log1p,
    log2,
    log10,
    ordered,
    parallel,
    pow,
    rint,
    rsqrt,
    sin,
    sinh,
    smaller,
    sqrt,
    tan,
    tanh,
    trunc,
    uint32,
    uint64,
    unrolled,
)
from mindtorch_v2._kernels.reader import read

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = ("bool", *INTEGERS, *FLOATS)


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def check(written: kernel, *args, tolerance: float = 0.0, **constants) -> list[np.ndarray]:
    """Runs the kernel both ways on copies of the arrays, of the same layout; all must come out equal."""
    compiled, plain = ([_alike(a) if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    assert calls.launched(written, *compiled, **constants)
    with np.errstate(all="ignore"):
        written(*plain, **constants)
    for own, expected in zip(compiled, plain, strict=True):
        if isinstance(own, np.ndarray):
            wide = [a.astype(np.float64) if a.dtype.kind in "fV" else a for a in (own, expected)]
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
    return [a for a in compiled if isinstance(a, np.ndarray)]


def _alike(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides, reversed and overlapping ones too."""
    base = array if array.base is None else array.base
    if not isinstance(base, np.ndarray):
        return array.copy()
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, base.copy(), offset, array.strides)


def numbers(name: str, positive: bool = False) -> np.ndarray:
    """A few numbers that every type of a kind has, so that no result leaves it."""
    if name == "bool":
        return np.array([False, True, True, False, True, False, True])
    if name.startswith("uint") or positive:
        return np.array([1, 2, 3, 5, 7, 9, 11]).astype(dtype(name))
    values = np.array([-7, -3, -1, 0, 2, 5, 9])
    return (values * (1 if name.startswith("int") else 0.75)).astype(dtype(name))


# operators -----------------------------------------------------------------------------------------------------------


@kernel
def each_pair(out, a, b, *, combine):
    for i in range(out.shape[0]):
        out[i] = combine(like(a[i], a), like(b[i], b))


@kernel
def each(out, a, *, change):
    for i in range(out.shape[0]):
        out[i] = change(like(a[i], a))


@function
def added(a, b):
    return a + b


@function
def subtracted(a, b):
    return a - b


@function
def multiplied(a, b):
    return a * b


@function
def floored(a, b):
    return a // b


@function
def rest(a, b):
    return a % b


@function
def cut(a, b):
    return c_div(a, b)


@function
def cut_rest(a, b):
    return c_rem(a, b)


@function
def least(a, b):
    return min(a, b)


@function
def most(a, b):
    return max(a, b)


@function
def least_of_numbers(a, b):
    return smaller(a, b)


@function
def most_of_numbers(a, b):
    return larger(a, b)


@function
def compared(a, b):
    return (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("combine", [added, subtracted, multiplied, floored, rest, cut, cut_rest, least, most,
                                     least_of_numbers, most_of_numbers], ids=lambda f: f.function.__name__)
def test_arithmetic(name: str, combine: function) -> None:
    a, b = numbers(name), numbers(name, positive=True)[::-1].copy()
    if combine is subtracted and name.startswith("uint"):
        a = (a + 11).astype(a.dtype)
    check(each_pair, np.zeros(7, a.dtype), a, b, combine=combine, tolerance=1e-6 if name in FLOATS else 0)


@pytest.mark.parametrize("name", TYPES)
def test_comparisons(name: str) -> None:
    a = numbers(name)
    check(each_pair, np.zeros(7, np.int64), a, np.roll(a, 1), combine=compared)


@kernel
def bits_of(out, a, b, shift):
    for i in range(a.shape[0]):
        out[0, i] = a[i] & b[i]
        out[1, i] = a[i] | b[i]
        out[2, i] = a[i] ^ b[i]
        out[3, i] = (int64(a[i]) & 15) << shift
        out[4, i] = int64(a[i]) >> shift
        out[5, i] = ~int64(a[i])


@pytest.mark.parametrize("name", ["bool", *INTEGERS])
def test_bits(name: str) -> None:
    a = numbers(name)
    check(bits_of, np.zeros((6, 7), np.int64), a, np.roll(a, 2), 3)


@kernel
def unary(out, a):
    for i in range(a.shape[0]):
        x = like(a[i], a)
        out[0, i] = -x
        out[1, i] = +x
        out[2, i] = abs(x)
        out[3, i] = x**3
        out[4, i] = not x
        out[5, i] = 1 if x else 2


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", *FLOATS])
def test_unary(name: str) -> None:
    out = np.zeros((6, 7), np.float64 if name in FLOATS else np.int64)
    small = np.array([-3, -2, -1, 0, 1, 2, 3]).astype(dtype(name))
    check(unary, out, small)


@kernel
def quotient(out, a, b):
    for i in range(a.shape[0]):
        out[i] = a[i] / b[i]


@pytest.mark.parametrize("name", ["int32", "int64", "float32", "float64"])
def test_true_division(name: str) -> None:
    check(quotient, np.zeros(7), numbers(name), numbers(name, positive=True), tolerance=1e-12 if "64" in name else 1e-7)


@kernel
def divided_by_zero(out, a, b):
    for i in range(a.shape[0]):
        out[0, i] = a[i] // b[i]
        out[1, i] = a[i] % b[i]
        out[2, i] = c_div(a[i], b[i])
        out[3, i] = c_rem(a[i], b[i])


@pytest.mark.parametrize("name", ["int32", "int64", "uint64"])
def test_dividing_by_zero_or_the_lowest_by_minus_one_is_not_trapped(name: str) -> None:
    low = np.iinfo(name).min
    out = np.zeros((4, 2), name)
    assert calls.launched(divided_by_zero, out, np.array([5, low], name),
                          np.array([0, 0 if name.startswith("u") else -1], name))


# functions -----------------------------------------------------------------------------------------------------------


@function
def roundings(x):
    return floor(x) + 3 * ceil(x) + 9 * trunc(x) + 27 * rint(x)


@function
def roots(x):
    return sqrt(abs(x)) + rsqrt(abs(x) + 1)


@function
def exponentials(x):
    return exp(x) + exp2(x) + expm1(x) + tanh(x) + sinh(x) + cosh(x)


@function
def logarithms(x):
    y = abs(x) + 0.5
    return log(y) + log2(y) + log10(y) + log1p(y)


@function
def angles(x):
    return sin(x) + cos(x) + tan(x) + atan(x) + atan2(x, 2.0) + asin(x / 16) + acos(x / 16)


@function
def powers(x):
    return pow(abs(x) + 0.5, 1.5) + (abs(x) + 0.5) ** 0.25


@function
def products(x):
    return fma(x, 2.0, 1.0) + copysign(3.0, x)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("change", [roundings, roots, exponentials, logarithms, angles, powers, products],
                         ids=lambda f: f.function.__name__)
def test_functions(name: str, change: function) -> None:
    check(each, np.zeros(7), numbers(name), change=change, tolerance=1e-12 if name == "float64" else 3e-6)


@function
def kind_of_number(x):
    return isnan(x) + 2 * isinf(x) + 4 * isfinite(x)


@kernel
def extremes(out, a, b):
    for i in range(a.shape[0]):
        out[0, i] = max(a[i], b[i])
        out[1, i] = min(a[i], b[i])
        out[2, i] = fmax(a[i], b[i])
        out[3, i] = fmin(a[i], b[i])


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_that_are_none(name: str) -> None:
    a = np.array([math.nan, math.inf, -math.inf, 1.0, -0.0]).astype(dtype(name))
    check(each, np.zeros(5, np.int64), a, change=kind_of_number)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_not_a_number_wins_in_max_and_loses_in_fmax(name: str) -> None:
    a, b = np.array([math.nan, 1.0, math.nan, 2.0], name), np.array([1.0, math.nan, math.nan, 3.0], name)
    out = np.zeros((4, 4), name)
    assert calls.launched(extremes, out, a, b)
    with np.errstate(all="ignore"):
        expected = [np.maximum(a, b), np.minimum(a, b), np.fmax(a, b), np.fmin(a, b)]
    np.testing.assert_array_equal(out, expected)


# types ---------------------------------------------------------------------------------------------------------------


@kernel
def copied(out, a):
    for i in range(a.shape[0]):
        out[i] = a[i]


@pytest.mark.parametrize("source", TYPES)
def test_stores_convert(source: str) -> None:
    a = numbers(source, positive=source != "bool")
    for target in TYPES:
        out = np.zeros(7, dtype(target))
        assert calls.launched(copied, out, a)
        np.testing.assert_array_equal(out.astype(np.float64), a.astype(dtype(target)).astype(np.float64))


def test_bfloat16_rounds_to_the_nearest_even() -> None:
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.standard_normal(1000).astype(np.float32), np.array([math.nan, math.inf, 1 + 2**-8,
                                                                             1 + 3 * 2**-8], np.float32)])
    out = np.zeros(len(a), dtype("bfloat16"))
    assert calls.launched(copied, out, a)
    np.testing.assert_array_equal(out.astype(np.float32), a.astype(ml_dtypes.bfloat16).astype(np.float32))


@kernel
def cast_to(out, a):
    for i in range(a.shape[0]):
        out[0, i] = float32(a[i])
        out[1, i] = float64(a[i])
        out[2, i] = int32(a[i])
        out[3, i] = int64(a[i])
        out[4, i] = uint32(abs(a[i]))
        out[5, i] = uint64(abs(a[i]))
        out[6, i] = int(a[i])
        out[7, i] = bool(a[i])


@pytest.mark.parametrize("name", ["int32", "int64", "float32", "float64"])
def test_casts(name: str) -> None:
    check(cast_to, np.zeros((8, 7)), numbers(name))


@kernel
def scaled(out, a, factor: float, shift):
    for i in range(a.shape[0]):
        out[i] = a[i] * factor + shift + 0.1


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_numbers_take_the_type_of_what_they_meet(name: str) -> None:
    a = np.linspace(-1, 1, 7).astype(name)
    out = np.zeros(7)  # wider, so that a result of float64 would show
    assert calls.launched(scaled, out, a, 1 / 3, 2)
    kind = np.dtype(name).type
    np.testing.assert_allclose(out, a * kind(1 / 3) + kind(2) + kind(0.1), rtol=2e-7 if name == "float32" else 1e-15)
    assert (out == out.astype(name)).all()


# statements ----------------------------------------------------------------------------------------------------------


@kernel
def branches(out, a):
    for i in range(a.shape[0]):
        x = a[i]
        if x < -2:
            out[i] = 1
        elif x < 0:
            if x == -1:
                out[i] = 2
            else:
                out[i] = 3
        elif 0 <= x < 3:
            out[i] = 4
        else:
            pass


@kernel
def loops(out, a, count):
    """Sums over ranges of all kinds."""
    total = 0
    for i in range(2, count):
        total += i
    out[0] = total
    for i in range(count, 0, -2):
        total -= i
    out[1] = total
    for i in range(0, count, 3):
        for j in range(i):
            if j == 2:
                continue
            if j > 4:
                break
            total += 10 * i + j
    out[2] = total
    while total > 5:
        total //= 2
        if total == 7:
            break
    out[3] = total
    for i in range(count, count):
        out[3] = -1 - i
    first, second = a[0], a[1]
    first, second = second, first
    out[4] = first * 100 + second
    out[5] = 7
    out[5] += 3
    out[5] *= 2


@kernel
def guarded(out, a, where):
    """Loads that only happen where they may."""
    for i in range(where.shape[0]):
        at = where[i]
        out[0, i] = a[at] if at >= 0 and at < a.shape[0] else -1
        if at >= 0 and at < a.shape[0] and a[at] > 2:
            out[1, i] = 1
        if at < 0 or at >= a.shape[0] or a[at] < 0:
            out[2, i] = 1
        out[3, i] = 5 if not (at >= 0) else 6


@pytest.mark.parametrize("name", ["int8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_branches(name: str) -> None:
    check(branches, np.zeros(7, np.int64), numbers(name))


def test_loops() -> None:
    for count in (0, 1, 2, 9, 20):
        check(loops, np.zeros(6, np.int64), np.array([3, 4]), count)


def test_loads_are_guarded() -> None:
    where = np.array([0, 3, -1, 4, 10**12, -(10**12), 2])
    check(guarded, np.zeros((4, 7)), np.array([5.0, -1.0, 0.0, 3.0]), where)


@function
def early(x, limit):
    """Ends at different places."""
    if x > limit:
        return limit
    if x < -limit:
        y = -limit
        return y
    return x


@function
def pair(a, b):
    return a + b, a - b


@function
def with_default(x, factor=3):
    x = x * factor
    return x


@kernel
def calling(out, a):
    for i in range(a.shape[0]):
        total, difference = pair(a[i], 2)
        out[0, i] = early(a[i], 4)
        out[1, i] = total * difference
        out[2, i] = with_default(a[i]) + with_default(a[i], 2)
        out[3, i] = early(early(a[i], 6), 3)


@kernel
def known_beforehand(out, a, *, mode, count, maybe):
    if mode == "sum":
        for k in unrolled(count):
            out[k] = a[k] + k
    elif mode in ("product", "power"):
        for k in unrolled(1, count):
            out[k] = a[k] * k
    if maybe is not None:
        out[0] = maybe
    if a.ndim == 1 and a.dtype == "int64":
        out[1] = 99


@kernel
def with_scratch(out, a):
    kept = local(8, a)
    numbers_kept = local(8, int64)
    for i in range(a.shape[0]):
        kept[i] = a[i] * 2
        numbers_kept[a.shape[0] - 1 - i] = i
    for i in range(a.shape[0]):
        out[i] = kept[numbers_kept[i]]


@pytest.mark.parametrize("name", ["int32", "int64", "float32", "float64"])
def test_functions_of_the_language(name: str) -> None:
    check(calling, np.zeros((4, 7)), numbers(name))


@pytest.mark.parametrize("mode", ["sum", "product", "other"])
@pytest.mark.parametrize("maybe", [None, 4])
def test_constants(mode: str, maybe: int | None) -> None:
    check(known_beforehand, np.zeros(5, np.int64), np.arange(5), mode=mode, count=4, maybe=maybe)


@pytest.mark.parametrize("name", ["int64", "float16", "bfloat16", "float32", "float64"])
def test_scratch(name: str) -> None:
    check(with_scratch, np.zeros(7), numbers(name))


@kernel
def sums(out, a):
    total, exact = like(0, a), like(0, a)
    for i in range(a.shape[0]):
        total += a[i]
        exact = ordered(exact + a[i])
    out[0] = total
    out[1] = exact


def test_sums_in_order() -> None:
    a = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    out = np.zeros(2, np.float32)
    assert calls.launched(sums, out, a)
    exact = np.float32(0)
    for x in a:
        exact += x
    assert out[1] == exact
    np.testing.assert_allclose(out[0], exact, rtol=1e-5)


# arrays --------------------------------------------------------------------------------------------------------------


@kernel
def weighed_rows(out, a, b):
    for row in parallel(out.shape[0], out.shape[1]):
        for column in range(out.shape[1]):
            out[row, column] = 10 * a[row, column] + b[column, row]


def test_layouts() -> None:
    whole = np.arange(48.0).reshape(6, 8)
    views = [whole, whole[::2, ::2], whole[::-1, 1:], whole.T, np.broadcast_to(np.arange(5.0), (4, 5)), whole[:0],
             whole[:, :0], np.asfortranarray(whole)]
    for a in views:
        b = np.arange(float(a.size)).reshape(a.shape[::-1])
        for order in "CF":
            check(weighed_rows, np.zeros(a.shape, order=order), a, b)
        target = np.zeros((2 * a.shape[0], 3 * a.shape[1]))[::2, ::-3]
        check(weighed_rows, target, a, b)


def test_arrays_that_a_kernel_does_not_know_are_refused() -> None:
    assert not calls.launched(copied, np.zeros(2, np.complex64), np.zeros(2))
    assert not calls.launched(copied, np.zeros(2), np.zeros(2, ">f8"))
    crooked = np.zeros(17, np.uint8)[1:].view(np.float64)
    assert not calls.launched(copied, np.zeros(2), crooked)


@kernel
def counted(out, a, extent):
    for i in parallel(a.shape[0], extent):
        at = a[i]
        atomic_add(out, 0, at, 1)
        atomic_max(out, 1, 0, a[i])
        atomic_min(out, 1, 1, a[i])


@pytest.mark.parametrize("name", ["int32", "int64", "uint8", "float32", "float64"])
def test_atomic_updates_by_several_threads(name: str) -> None:
    a = np.random.default_rng(0).integers(0, 4, 400)
    out = np.zeros((2, 4), name)
    check(counted, out, a, 10000)


def test_parallel_turns_are_all_done() -> None:
    a = np.random.default_rng(0).standard_normal((300, 400))
    out = np.zeros_like(a)
    assert calls.launched(weighed_rows, out, a, a.T.copy())
    np.testing.assert_allclose(out, 11 * a)


# what is not of the language -----------------------------------------------------------------------------------------


@kernel
def tries(out):
    try:
        out[0] = 1
    finally:
        out[0] = 2


@kernel
def too_few_indices(out):
    out[0] = 1


@kernel
def unknown_name(out):
    out[0] = nowhere  # type: ignore[name-defined]  # noqa: F821


@kernel
def loops_over_an_array(out):
    for x in out:
        out[0] = x


@pytest.mark.parametrize(("written", "dimensions"), [(tries, 1), (too_few_indices, 2), (unknown_name, 1),
                                                     (loops_over_an_array, 1)])
def test_what_is_not_of_the_language_is_named_with_its_place(written: kernel, dimensions: int) -> None:
    with pytest.raises(KernelError, match=r"test_operations\.py:\d+"):
        read(written, {"out": ("f32", dimensions, "c")}, {}, {})


def test_types_are_those_of_numpy() -> None:
    assert {ir.type_of(dtype(name)) for name in TYPES} == set(ir.TYPES.values())
