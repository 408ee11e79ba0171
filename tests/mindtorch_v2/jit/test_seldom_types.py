"""Kernels on what models have seldom: half precision rounded at each step, truth values, integers, channels last."""

import itertools

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import xp
from mindtorch_v2._backends.cpu.jit import calls, machine
from mindtorch_v2._backends.cpu.kernels import index, pad, pool, products, softmax
from mindtorch_v2._backends.cpu.pointwise import Compiled
from mindtorch_v2._dispatch.registry import registry
from mindtorch_v2.nn import functional as F

pytestmark = pytest.mark.skipif(not machine.available(), reason="needs llvmlite")
HALVES = (torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", True)


def numbers(shape, dtype, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).to(dtype)


def bits(shape, share, seed=0):
    return torch.tensor(np.random.default_rng(seed).random(shape) < share)


def places(shape, high, seed=1):
    return torch.tensor(np.random.default_rng(seed).integers(0, high, shape))


# folds at indices ----------------------------------------------------------------------------------------------------

FOLDS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def folded(target, dim, where, source, fold):
    """Element by element in float32, or of truth values; rounded in the end."""
    made = target.numpy().copy() if target.dtype is torch.bool else target.float().numpy().copy()
    given = source.numpy() if target.dtype is torch.bool else source.float().numpy()
    for at in np.ndindex(*given.shape):
        to = (*at[:dim], where.numpy()[at], *at[dim + 1 :])
        made[to] = fold(made[to], given[at])
    return torch.tensor(made).to(target.dtype)


def same(made, expected):
    assert made.dtype is expected.dtype and made.stride() == expected.stride()
    assert torch.equal(made, expected)


@pytest.mark.parametrize("dtype", [*HALVES, torch.bool])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_are_folded_at_indices(dtype, dim):
    shape, count = (4, 5, 6), 9
    given = tuple(count if d == dim else n for d, n in enumerate(shape))
    target, source = numbers(shape, dtype), numbers(given, dtype, 3)
    if dtype is torch.bool:
        target, source = bits(shape, 0.5), bits(given, 0.5, 3)
    where, row = places(given, shape[dim]), places((count,), shape[dim])
    spread = row.reshape([-1 if d == dim else 1 for d in range(3)]).expand(given)
    for name, fold in FOLDS.items():
        expected = folded(target, dim, where, source, fold)
        for made in (target.scatter_reduce(dim, where, source, name),
                     target.clone().scatter_reduce_(dim, where, source, name)):
            same(made, expected)
        if name != "sum":
            same(target.index_reduce(dim, row, source, name), folded(target, dim, spread, source, fold))
    same(target.scatter_add(dim, where, source), folded(target, dim, where, source, np.add))
    if dim != 1:  # of other dimensions, sums of half precision are rounded at each step
        same(target.index_add(dim, row, source), folded(target, dim, spread, source, np.add))


@pytest.mark.parametrize("dtype", HALVES)
def test_some_sums_are_rounded_at_each_step(dtype):
    target, source = numbers((5, 6), dtype), numbers((40, 6), dtype, 1)
    row = places((40,), 5)
    expected = target.clone()
    for at, number in enumerate(row.tolist()):
        expected[number] = (expected[number].float() + source[at].float()).to(dtype)
    same(target.index_put((row,), source, accumulate=True), expected)
    same(target[:, None].contiguous().movedim(1, 0).contiguous().index_add(1, row, source[None])[0], expected)
    same(target[:, 0].contiguous().index_add(0, row, source[:, 0].contiguous()), expected[:, 0].contiguous())
    same(target[:, 0].contiguous().put(row, source[:, 0].contiguous(), accumulate=True), expected[:, 0].contiguous())
    assert not torch.equal(target.index_add(0, row, source), expected)  # once: other digits


@pytest.mark.parametrize("dtype", HALVES)
def test_means_at_indices(dtype):
    target, source, where = numbers((4, 5), dtype), numbers((9, 5), dtype, 1), places((9, 5), 4)
    for own in (True, False):
        sums = target.scatter_reduce(0, where, source, "sum", include_self=own)
        counts = torch.zeros(4, 5).scatter_add(0, where, torch.ones(9, 5)) + own
        expected = (sums.float() / counts.clamp(min=1)).to(dtype)
        same(target.scatter_reduce(0, where, source, "mean", include_self=own), expected)


def test_kernels_take_them():
    row = np.array([0, 1, 1, 3])
    for kind in (np.float16, bool):
        target, source = np.ones((4, 3), kind), np.ones((4, 3), kind)
        assert index.index_add(target, 0, row, source, 1) is True
        assert index.scatter_add(target, 0, np.zeros((4, 3), np.int64), source) is True
        assert index.index_put(target, [row], source, True) is True
        assert index.index_put(target, [row, row - 1], np.ones(4, kind), True) is True
        assert index.put(target, row, np.ones(4, kind), True) is True


@pytest.mark.parametrize("shape", [(3, 4), (3,), ()])
def test_too_many_indices_are_refused_as_without_kernels(shape):
    x, each = torch.ones(shape), torch.tensor([0])
    with pytest.raises(IndexError, match="too many indices for tensor of dimension"):
        x.index_put_((each,) * (len(shape) + 1), torch.ones(1), accumulate=True)
    assert x.equal(torch.ones(shape))


def test_an_index_outside_changes_nothing():
    target = torch.ones(3, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError):
        target.scatter_add_(0, torch.tensor([[0, 3]]), torch.ones(1, 2, dtype=torch.float16))
    assert target.tolist() == [[1, 1]] * 3


# half precision, rounded at each step ---------------------------------------------------------------------------------


def compared(name, own, *values, **options):
    """Checks that a kernel gives the bits that NumPy gives."""
    declaration = registry.get(name).declaration
    values = tuple(declaration.operator.schema.bind(values, options))
    spec = declaration.family.infer(*values)
    arrays = [getattr(v, "_array", v) for v in values]
    wide = [a.astype(np.float32) if declaration.family.widen and isinstance(a, np.ndarray) else a for a in arrays]
    made = own(*arrays, spec=spec)
    expected = np.asarray(declaration.family.array(xp, *wide, spec=spec)).astype(spec.dtype.np)
    assert made is not None and made.dtype == expected.dtype
    assert made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_where_numpy_rounds_it(dtype):
    x, y = numbers((30, 40), dtype), numbers((30, 40), dtype, 1)
    for special in (None, np.inf, -np.inf, np.nan):
        if special is not None:
            x[3, 4] = special
        for dim in (0, 1, (0, 1)):
            compared("logsumexp", softmax.logsumexp, x, dim)
        compared("linalg_cross", products.cross, x[:3].clone(), y[:3].clone(), dim=0)
        compared("kron", products.kron, x[:5, :6].clone(), y[:4, :3].clone())
        for beta, alpha in ((1, 1), (0, 1), (0.3, 1.7), (2, -1)):
            compared("addr", products.addr, x, y[:, 0].clone(), y[0], beta=beta, alpha=alpha)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES, torch.int64])
def test_diagonals_and_integrals(dtype):
    x = (numbers((40, 50), torch.float32) * 9).to(dtype)
    wide = x.double()
    close = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
    assert abs(x.trace().double() - wide.diagonal().sum()) <= close * wide.diagonal().abs().sum()
    assert x.trace().dtype is dtype
    for dim in (0, 1):
        strips = (wide.narrow(dim, 1, x.size(dim) - 1) + wide.narrow(dim, 0, x.size(dim) - 1)).sum(dim) * 0.75
        made = torch.trapezoid(x, dx=1.5, dim=dim).double()
        assert (made - strips).abs().max() <= max(close, 1e-6) * wide.abs().sum(dim).max() * 1.5


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_filled_with_its_bits(dtype):
    for number in (0.1, -2.7, torch.inf, torch.nan, 6e4):
        expected = str([torch.tensor(number).to(dtype).item()] * 3)
        assert str(torch.full((3,), number, dtype=dtype).tolist()) == expected
        x = torch.zeros(2, 6, dtype=dtype)
        assert str(x[:, ::2].fill_(number)[1].tolist()) == expected and not x[:, 1::2].any()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_products_of_elements_wrap_around(dtype):
    x, y = (places((3, 4), 256, seed).to(dtype) for seed in (1, 2))
    compared("kron", products.kron, x, y)


# functions of integers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digamma", "erfinv", "special_i1e", "exp", "reciprocal", "sigmoid"])
def test_functions_of_integers_are_compiled_for_the_default_type(name):
    operator, x = registry.get(name), torch.arange(-3, 60).reshape(7, 9)
    call = getattr(torch.ops.aten, name)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            for given in (x, x.t(), x.to(torch.uint8), x[0, 0], x > 0):
                compiled = Compiled(operator, operator.declaration.family, "new")
                compiled.scope = {}
                made = compiled.more(given)
                assert made.dtype == dtype.np and not compiled.scope  # no code that would not ask for the type
                expected = call(given.to(dtype)).numpy()
                np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
                assert call(given).dtype is dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_scipy_computes_is_compiled_at_once_for_fewer_elements(monkeypatch):
    monkeypatch.setattr(calls, "_AT_ONCE", False)

    def is_compiled(name, count):
        operator = registry.get(name)
        compiled = Compiled(operator, operator.declaration.family, "new")
        compiled.scope = {}
        return compiled.more(torch.linspace(0.1, 0.9, count)) is not None

    assert is_compiled("digamma", 1 << 15) and is_compiled("erfinv", 1 << 15)
    assert not is_compiled("digamma", 1 << 14)
    assert not is_compiled("exp", 1 << 15) and is_compiled("exp", 1 << 19)


def test_numbers_in_the_place_of_those_that_half_precision_has_not():
    for dtype, highest in ((torch.float16, 65504.0), (torch.bfloat16, torch.finfo(torch.bfloat16).max)):
        x = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.5, -0.0], dtype=dtype)
        operator = registry.get("nan_to_num")
        compiled = Compiled(operator, operator.declaration.family, "new")
        compiled.scope = {}
        assert compiled.more(x, None, None, None).tolist() == [0, highest, -highest, 1.5, 0]
        assert x.nan_to_num(2.1, 3.1, -4.1).tolist() == torch.tensor([2.1, 3.1, -4.1, 1.5, 0], dtype=dtype).tolist()


# complex numbers ------------------------------------------------------------------------------------------------------

PARTS = (0.0, -0.0, 1.0, -2.5, 1e30, -1e-30, np.inf, -np.inf, np.nan)


def alike(made, expected):
    """Whether parts are the same up to rounding of the whole numbers."""
    close = 1e-5 if expected.dtype == np.complex64 else 1e-13
    assert made.dtype == expected.dtype and made.shape == expected.shape
    for own, other in ((made.real, expected.real), (made.imag, expected.imag)):
        with np.errstate(all="ignore"):
            near = np.isclose(own, other, rtol=close, atol=0, equal_nan=True) | (
                np.abs(own - other) <= close * np.abs(expected))
        assert near.all()


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_quotients_of_complex_numbers_are_those_of_numpy(kind):
    x = np.array([complex(*parts) for parts in itertools.product(PARTS, PARTS)]).astype(kind)
    a, b = (each.reshape(-1).copy() for each in np.meshgrid(x, x))
    with np.errstate(all="ignore"):
        alike(xp.true_divide(a, b), np.true_divide(a, b))
        alike(xp.true_divide(x, np.asarray(2 - 1j, kind)), x / kind(2 - 1j))
        alike(xp.true_divide(np.asarray(2 - 1j, kind), x), kind(2 - 1j) / x)
        alike(xp.reciprocal(x), np.reciprocal(x))
        assert xp.negative(x).tobytes() == np.negative(x).tobytes()
        assert (-torch.tensor(x)).numpy().tobytes() == np.negative(x).tobytes()
        wide = np.stack([x, x])
        for given in (wide.T, wide[:, ::2], wide[:, :3]):  # that lie otherwise, and few
            assert xp.negative(given).tolist().__repr__() == np.negative(given).tolist().__repr__()
            alike(xp.true_divide(given, given), np.true_divide(given, given))
            alike(xp.reciprocal(given), np.reciprocal(given))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("shape", [(60, 70), (3, 5, 40), (33,), (1, 7), (4, 1)])
def test_sums_and_products_of_complex_numbers(dtype, shape):
    turns = torch.tensor(np.random.default_rng(0).normal(size=shape))
    x = torch.polar(torch.ones_like(turns), turns).to(dtype)
    close = dict(rtol=1e-4, atol=1e-4) if dtype is torch.complex64 else dict(rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(x.prod().numpy(), np.prod(x.numpy()), **close)
    for dim in range(len(shape)):
        np.testing.assert_allclose(x.prod(dim).numpy(), np.prod(x.numpy(), dim), **close)
        np.testing.assert_allclose(x.prod(dim, True).numpy(), np.prod(x.numpy(), dim, keepdims=True), **close)
        np.testing.assert_allclose(x.cumsum(dim).numpy(), np.cumsum(x.numpy(), dim), **close)
        np.testing.assert_allclose(x.cumprod(dim).numpy(), np.cumprod(x.numpy(), dim), **close)
    assert x[:0].prod().item() == 1 and x.reshape(-1)[0].prod() == x.reshape(-1)[0]


# channels last --------------------------------------------------------------------------------------------------------

SETTINGS = {
    "max_pool2d": [((2,), {}), ((3, 2, 1), {}), ((3, 1, 1, 2), {}), (((3, 1), (2, 1), (1, 0)), {"ceil_mode": True})],
    "avg_pool2d": [((2,), {}), ((3, 2, 1), {"count_include_pad": False}), ((3, 2, 1), {"ceil_mode": True}),
                   ((2,), {"divisor_override": 3})],
    "adaptive_max_pool2d": [((1,), {}), (((2, 5),), {})],
    "adaptive_avg_pool2d": [((1,), {}), (((2, 5),), {})],
    "pad": [(((1, 2, 3, 0),), {}), (((-1, 2, 0, -1),), {"value": 1.0})]
    + [(((1, 2, 2, 1),), {"mode": mode}) for mode in ("reflect", "replicate")],
}
CASES = [(name, args, options) for name, given in SETTINGS.items() for args, options in given]


@pytest.mark.parametrize("name, args, options", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
def test_channels_that_lie_last(name, args, options, dtype):
    call = getattr(F, name)
    options = {**options, **({"return_indices": True} if "max" in name else {})}
    for shape, special in itertools.product(((2, 16, 7, 8), (1, 3, 6, 6), (2, 130, 5, 6)), (False, True)):
        x = numbers(shape, dtype, shape[1])
        if special:
            x[bits(shape, 0.05)] = torch.nan
            x[bits(shape, 0.05, 1)] = -torch.inf
        expected, lying = call(x, *args, **options), x.contiguous(memory_format=torch.channels_last)
        for _ in range(4):  # the launches alone, too
            made = call(lying, *args, **options)
            for own, other in zip(*((made, expected) if "max" in name else ((made,), (expected,))), strict=True):
                assert own.is_contiguous(memory_format=torch.channels_last) and own.dtype is other.dtype
                rtol = 0 if "avg" not in name else {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
                assert torch.allclose(own, other, rtol=rtol, atol=rtol, equal_nan=own.dtype.is_floating_point)


@pytest.mark.parametrize("options", [dict(scale_factor=2), dict(size=(5, 11), mode="nearest-exact"),
                                     dict(scale_factor=1.5, mode="bilinear"), dict(size=(3, 4), mode="bicubic")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_images_of_another_size_lie_as_they_did(options, dtype):
    x = numbers((2, 16, 9, 8), dtype)
    expected = F.interpolate(x, **options)
    for given in (x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        made = F.interpolate(given, **options)
        assert made.is_contiguous(memory_format=torch.channels_last) is (given.stride(1) == 1)
        assert made.stride(1) == 1 or made.is_contiguous()
        assert torch.allclose(made, expected, rtol=2e-3 if dtype is torch.float16 else 1e-5, atol=1e-5)


def test_kernels_take_channels_that_lie_last(monkeypatch):
    launched = []

    def noted(kernel, *args, **constants):
        launched.append(kernel.function.__name__)
        return calls.launched(kernel, *args, **constants)

    monkeypatch.setattr(pool, "launched", noted)
    monkeypatch.setattr(pad, "launched", noted)
    x = numbers((2, 3, 11, 13), torch.float32).contiguous(memory_format=torch.channels_last)
    F.max_pool2d(x, 2)
    F.avg_pool2d(x, 2)
    F.adaptive_max_pool2d(x, 2)
    F.adaptive_avg_pool2d(x, 3)
    F.pad(x, (1, 1))
    F.pad(x, (1, 1, 1, 1), mode="reflect")
    assert launched == ["max_pool_pixels", "avg_pool_pixels", "adaptive_max_pool_pixels", "adaptive_avg_pool_pixels",
                        "pad", "pad_pixels"]


def test_targets_are_not_taken_for_memory_in_another_order():
    x = numbers((4, 4, 4, 4), torch.float32)
    lying, expected = x.contiguous(memory_format=torch.channels_last), F.adaptive_avg_pool2d(x, 4)
    out = torch.empty(4, 4, 4, 4)
    for _ in range(4):
        torch.ops.aten._adaptive_avg_pool2d.out(lying, [4, 4], out=out)
        assert torch.equal(out, expected) and out.is_contiguous()
        out.zero_()


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_the_largest_of_large_windows_is_the_first(dtype):
    x = torch.zeros(1, 2, 9, 40, dtype=dtype)
    x[0, 0, 4, 30] = x[0, 0, 5, 2] = 3
    x[0, 1] = -torch.inf
    largest, where = F.adaptive_max_pool2d(x, 1, return_indices=True)
    assert largest.reshape(-1).tolist() == [3, -torch.inf] and where.reshape(-1).tolist() == [190, 0]
    x[0, 1, 2, 3] = x[0, 1, 7, 5] = torch.nan
    largest, where = F.adaptive_max_pool2d(x, 1, return_indices=True)
    assert largest[0, 1].isnan().item() and where.reshape(-1).tolist() == [190, 285]


# rounding and signs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "neg", "abs"])
def test_all_halves_are_rounded_and_signed_as_float32(name, dtype):
    every = torch.arange(1 << 16).to(torch.int16).view(dtype)
    wide, function = every.float().numpy(), {"round": np.rint, "neg": np.negative}.get(name) or getattr(np, name)
    with np.errstate(invalid="ignore"):
        made, expected = getattr(torch, name)(every).float().numpy(), function(wide)
    nan = np.isnan(wide)
    assert np.isnan(made[nan]).all()
    np.testing.assert_array_equal(made[~nan], expected[~nan])
    np.testing.assert_array_equal(np.signbit(made[~nan]), np.signbit(expected[~nan]))


# whole powers and complex numbers ------------------------------------------------------------------------------------


def power_of(base, exponent, bits, signed):
    """Of Python's numbers, with what overflows cut off, and negative powers as division truncates them."""
    if exponent < 0:
        return 0 if abs(base) != 1 else base if exponent % 2 else 1
    made = pow(int(base), int(exponent), 1 << bits)
    return made - (1 << bits) if signed and made >> (bits - 1) else made


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("largest", [9, 31, 40, None])
def test_powers_of_whole_numbers(kind, largest):
    limits, generator = torch.iinfo(kind), np.random.default_rng(0)
    low, high = (limits.min, limits.max) if largest is None else (max(limits.min, -largest), largest)
    base = generator.integers(limits.min if largest != 9 else max(limits.min, -3), min(limits.max, 1 << 40), 300)
    exponent = generator.integers(low, high, 300, endpoint=True)
    base[:6], exponent[:6] = (0, 0, 1, 1, 2, 3), (0, 5, 0, 7, 0, 1)
    made = torch.tensor(base).to(kind) ** torch.tensor(exponent).to(kind)
    expected = [power_of(b, e, 8 * kind.itemsize, kind.is_signed) for b, e in zip(base, exponent, strict=True)]
    assert made.dtype is kind and made.tolist() == expected
    for one in (0, 1, 4, 5, 70):
        alone = torch.tensor(base).to(kind) ** one
        assert alone.tolist() == [power_of(b, one, 8 * kind.itemsize, kind.is_signed) for b in base]


@pytest.mark.parametrize("kind", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1, -1)])
@pytest.mark.parametrize("shape", [(4, 5, 6), (700, 3, 2), (1, 2, 900)])
def test_sums_and_means_of_complex_numbers(shape, dim, kind):
    x = torch.complex(numbers(shape, kind.to_real()), numbers(shape, kind.to_real(), 1))
    for keepdim in (False, True) if dim is not None else (False,):
        options = {} if dim is None else {"dim": dim, "keepdim": keepdim}
        for name in ("sum", "mean"):
            made, parts = getattr(x, name)(**options), [getattr(p, name)(**options) for p in (x.real, x.imag)]
            torch.testing.assert_close(made, torch.complex(*parts))
            assert made.is_contiguous()


@pytest.mark.filterwarnings("ignore:Casting complex values to real discards")
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.float64], ids=str)
def test_real_parts_in_other_types(kind):
    x = torch.complex(numbers((70, 80), torch.float32) * 50, numbers((70, 80), torch.float32))
    for each in (x, x.t(), x[:, ::2]):
        assert torch.equal(each.to(kind), each.real.to(kind))
