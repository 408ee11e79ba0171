"""The kernel language's own functions of numbers, compiled, against NumPy and SciPy in more digits."""

import functools
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the compiler is an optional extra")

from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._kernels import language, llvm, math
from mindtorch_v2._kernels.language import kernel, parallel
from mindtorch_v2._kernels.reader import read

POINTS = 30_000
TYPES = {"f32": np.float32, "f64": np.float64}
LIMITS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 10.0, 100.0, 1000.0]
# around the smallest and largest numbers of both types, and where exponentials of them over- and underflow
LIMITS += [1e-310, -1e-310, 5e-324, -5e-324, 1e-45, -1e-45, 1.1754944e-38, 3.4e38, -3.4e38, 1.7e308, -1.7e308, 1e-8,
           1e-20, 88.7, 88.73, -87.4, -103.9, -104.1, 89.4, 89.5, 709.7, 709.79, -745.1, -745.2, 710.4,
           710.5]  # fmt: skip


@kernel
def mapped(out, x, *, f):
    for i in parallel(out.shape[0], 1):
        out[i] = f(x[i])


@kernel
def combined(out, x, y, *, f):
    for i in parallel(out.shape[0], 1):
        out[i] = f(x[i], y[i])


@functools.cache
def compiled(name: str, kind: str, count: int) -> Callable:
    written = mapped if count == 1 else combined
    arrays = {argument: (kind, 1, "c") for argument in ("out", "x", "y")[: count + 1]}
    own = math.FUNCTIONS.get(f"{name}_{kind}") or math.FUNCTIONS[name]
    text = llvm.module_of(read(written, arrays, {}, {"f": getattr(language, name, own)}), exact=True)
    return machine.callable_from(machine.load(text, ["entry"])["entry"], name)


def computed(name: str, kind: str, *arguments: np.ndarray) -> np.ndarray:
    given = [np.ascontiguousarray(a, TYPES[kind]) for a in arguments]
    out = np.empty_like(given[0])
    assert compiled(name, kind, len(given))(out, *given)
    return out


def errors(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How far numbers lie from others, in units of the last digit that their type has there."""
    facts, expected = np.finfo(got.dtype), np.asarray(expected, np.longdouble)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(expected), expected, 1))[1] - 1
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent, facts.minexp) - facts.nmant)
        error = np.abs(got.astype(np.longdouble) - expected) / unit
        overflown = np.isinf(got) & (np.abs(expected) > facts.max) & (np.sign(got) == np.sign(expected))
        same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)
    return np.where(overflown | same, 0, np.where(np.isnan(error) | (error == 0), np.inf, error))


def between(low: float, high: float) -> Callable:
    return lambda random, kind: random.uniform(low, high, POINTS)


def magnitudes(low: float, high: float, around: float = 0.0) -> Callable:
    """Numbers of all sizes and both signs, beside another one."""
    return lambda random, kind: (
        around + random.choice([-1, 1], POINTS) * np.exp(random.uniform(np.log(low), np.log(high), POINTS))
    )


def any_bits(random: np.random.Generator, kind: str) -> np.ndarray:
    """Whatever floating numbers there are, with denormal ones, infinities and NaN."""
    if kind == "f32":
        return random.integers(0, 1 << 32, POINTS, np.uint64).astype(np.uint32).view(np.float32)
    return random.integers(0, (1 << 64) - 1, POINTS, np.uint64).view(np.float64)


def limits(random: np.random.Generator, kind: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(LIMITS).astype(TYPES[kind])


EVERYWHERE = (between(-1, 1), between(-20, 20), between(-110, 110), between(-750, 750), magnitudes(1e-45, 1e38),
              any_bits, limits)  # fmt: skip
# name: what it should be, where else to look, largest errors of float32 and float64 in units of the last digit
UNARY: dict[str, tuple[Callable, tuple[Callable, ...], float, float]] = {
    "exp": (np.exp, (), 1.1, 1.1),
    "exp2": (np.exp2, (), 1.0, 1.2),
    "expm1": (np.expm1, (), 1.6, 2.0),
    "sinh": (np.sinh, (), 2.3, 2.5),
    "cosh": (np.cosh, (), 1.7, 1.7),
    "tanh": (np.tanh, (), 2.5, 2.7),
    "log": (np.log, (magnitudes(1e-17, 0.5, 1.0),), 1.0, 1.0),
    "log2": (np.log2, (magnitudes(1e-17, 0.5, 1.0),), 1.1, 1.0),
    "log10": (np.log10, (magnitudes(1e-17, 0.5, 1.0),), 1.0, 1.0),
    "log1p": (np.log1p, (magnitudes(1e-17, 0.5, 0.0), magnitudes(1e-17, 0.5, -1.0)), 1.6, 1.6),
    "asinh": (np.arcsinh, (), 2.0, 2.0),
    "acosh": (np.arccosh, (magnitudes(1e-17, 1e10, 1.0),), 2.5, 2.7),
    "atanh": (np.arctanh, (magnitudes(1e-17, 0.5, 1.0),), 2.3, 2.3),
    "sin": (np.sin, (between(-1e5, 1e5), magnitudes(1e-9, 1e-3, 710 * np.pi)), 1.7, 1.0),
    "cos": (np.cos, (between(-1e5, 1e5), magnitudes(1e-9, 1e-3, 710.5 * np.pi)), 1.7, 1.0),
    "tan": (np.tan, (between(-1e5, 1e5), magnitudes(1e-9, 1e-3, 710.5 * np.pi)), 1.5, 1.3),
    "asin": (np.arcsin, (magnitudes(1e-17, 0.6, 1.0), magnitudes(1e-3, 0.1, 0.5)), 0.9, 0.9),
    "acos": (np.arccos, (magnitudes(1e-17, 0.6, 1.0), magnitudes(1e-17, 0.6, -1.0)), 0.9, 0.9),
    "atan": (np.arctan, (), 2.0, 2.0),
    "cbrt": (np.cbrt, (), 0.9, 0.9),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str, kind: str) -> None:
    expected, more, *bounds = UNARY[name]
    bound = bounds[list(TYPES).index(kind)]
    random = np.random.default_rng(3)
    for numbers in (*EVERYWHERE, *more):
        with np.errstate(all="ignore"):
            x = numbers(random, kind).astype(TYPES[kind])
            wanted = expected(x.astype(np.longdouble))
        wrong = errors(computed(name, kind, x), wanted)
        worst = int(np.argmax(wrong))
        assert wrong[worst] <= bound, (name, kind, x[worst], wanted[worst])


@pytest.mark.parametrize(("kind", "least"), [("f32", -87.3), ("f64", -708.3)])
def test_the_logistic_function(kind: str, least: float) -> None:
    """Close where it is a normal number; below, it fades to zero, as 1 / (1 + exp(-x)) does."""
    random = np.random.default_rng(3)
    for numbers in EVERYWHERE:
        with np.errstate(all="ignore"):
            x = numbers(random, kind).astype(TYPES[kind])
            wanted = 1 / (1 + np.exp(-x.astype(np.longdouble)))
        made, small = computed("sigmoid", kind, x), x < least
        assert np.max(errors(made, wanted), where=~small, initial=0) <= 2.6
        assert np.all((made[small] >= 0) & (made[small] <= 1.5 * wanted[small]))
        assert not made[x < least - 4].any()


@pytest.mark.parametrize("kind", TYPES)
def test_hyperbolic_tangents_do_not_pass_one(kind: str) -> None:
    x = np.linspace(0, 25, 1 << 18, dtype=TYPES[kind])
    made = computed("tanh", kind, x)
    assert made.max() == 1 and np.array_equal(computed("tanh", kind, -x), -made)


def test_quotients_by_one_and_a_power_are_logistic_functions() -> None:
    """What `compute` of activations writes out gives the same digits as the function; other denominators stay."""
    from mindtorch_v2._kernels import ir, llvm_body

    x, one = ir.Node("arg", "f32", (), "x"), ir.Node("const", "f32", (), 1.0)
    power = ir.Node("exp", "f32", (ir.Node("neg", "f32", (x,)),))
    for terms in ((one, power), (power, one)):
        gate = llvm_body._logistic(ir.Node("div", "f32", (one, ir.Node("add", "f32", terms))))
        assert gate is not None and gate.op == "sigmoid" and gate.args[0] is x
        gated = llvm_body._logistic(ir.Node("div", "f32", (x, ir.Node("add", "f32", terms))))
        assert gated is not None and gated.op == "mul" and gated.args[0] is x
    for denominator in (power, ir.Node("add", "f32", (power, power)), ir.Node("add", "f32", (x, one))):
        assert llvm_body._logistic(ir.Node("div", "f32", (one, denominator))) is None


def pairs(first: Callable, second: Callable) -> Callable:
    return lambda random, kind: (first(random, kind), second(random, kind))


def all_limits(random: np.random.Generator, kind: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(limits(random, kind), limits(random, kind))
    return x.ravel(), y.ravel()


def whole(low: int, high: int) -> Callable:
    return lambda random, kind: random.integers(low, high, POINTS).astype(float)


def near_one(random: np.random.Generator, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Bases near 1 with exponents that lead anywhere from the smallest to the largest numbers."""
    base = (1 + random.uniform(-1e-3, 1e-3, POINTS)).astype(TYPES[kind])
    logarithm = np.log(np.finfo(TYPES[kind]).max) / np.maximum(np.abs(np.log(base.astype(np.float64))), 1e-12)
    return base, random.uniform(-1, 1, POINTS) * logarithm


PAIRS = (pairs(between(-3, 3), between(-3, 3)), pairs(magnitudes(1e-30, 1e30), magnitudes(1e-30, 1e30)),
         pairs(any_bits, any_bits), all_limits)  # fmt: skip
BINARY: dict[str, tuple[Callable, tuple[Callable, ...], float, float]] = {
    "atan2": (np.arctan2, (), 2.0, 2.0),
    "hypot": (np.hypot, (), 0.6, 1.3),
    "pow": (np.power, (pairs(any_bits, between(-3, 3)), pairs(between(-9, 9), whole(-30, 30)), near_one), 0.6, 1.1),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str, kind: str) -> None:
    expected, more, *bounds = BINARY[name]
    bound = bounds[list(TYPES).index(kind)]
    random = np.random.default_rng(4)
    for numbers in (*PAIRS, *more):
        with np.errstate(all="ignore"):
            x, y = (a.astype(TYPES[kind]) for a in numbers(random, kind))
            wanted = expected(x.astype(np.longdouble), y.astype(np.longdouble))
        wrong = errors(computed(name, kind, x, y), wanted)
        worst = int(np.argmax(wrong))
        assert wrong[worst] <= bound, (name, kind, x[worst], y[worst], wanted[worst])


@pytest.mark.parametrize("kind", TYPES)
def test_sigmoid_is_as_its_formula(kind: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 30.0, -80.0, -1e3], TYPES[kind])
    with np.errstate(all="ignore"):
        wanted = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    assert errors(computed("sigmoid", kind, x), wanted).max() <= 2.5


@pytest.mark.parametrize("kind", TYPES)
def test_logaddexp(kind: str) -> None:
    random = np.random.default_rng(5)
    x, y = (random.uniform(1, 50, POINTS).astype(TYPES[kind]) for _ in range(2))
    assert errors(computed("logaddexp", kind, x, y), np.logaddexp(x.astype(np.longdouble), y)).max() <= 2
    for values in ((np.inf, np.inf), (-np.inf, -np.inf), (np.inf, -np.inf), (1.0, np.nan), (0.0, 1e30)):
        given = [np.array([v], TYPES[kind]) for v in values]
        np.testing.assert_array_equal(computed("logaddexp", kind, *given), np.logaddexp(*given))


@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_numbers_far_from_zero_among_near_ones(name: str) -> None:
    x = np.tile([0.25, 1e22, -3.0, 1e300, 5e8, -2e9, np.inf], 9)
    with np.errstate(all="ignore"):
        assert errors(computed(name, "f64", x), getattr(np, name)(x.astype(np.longdouble))).max() <= 1.3


def test_whole_logarithms_are_exact() -> None:
    for kind, largest in (("f32", 38), ("f64", 308)):
        tens = np.array([float(f"1e{n}") for n in range(1, 11 if kind == "f32" else 23)], TYPES[kind])
        np.testing.assert_array_equal(computed("log10", kind, tens), np.arange(1, len(tens) + 1))
        twos = np.ldexp(np.ones(2 * largest + 1, TYPES[kind]), np.arange(-largest, largest + 1))
        np.testing.assert_array_equal(computed("log2", kind, twos), np.arange(-largest, largest + 1))
        np.testing.assert_array_equal(computed("exp2", kind, np.arange(-largest, largest + 1)), twos)


# name: SciPy's, where to look, units of the last digit that results may differ by (of 1 where they are smaller)
SPECIAL: dict[str, tuple[tuple[Callable, ...], float, float]] = {
    "erf": ((between(-6, 6), magnitudes(1e-45, 1e38), limits), 1.5, 4),
    "erfc": ((between(-6, 30), magnitudes(1e-45, 1e38), limits), 4, 6),
    "erfcx": ((between(-5, 30), magnitudes(1e-45, 5), limits), 4, 40),
    "erfinv": ((between(-1, 1), magnitudes(1e-12, 0.5, 1.0), limits), 4, 8),
    "ndtr": ((between(-5, 5), limits), 2, 4),
    "log_ndtr": ((between(-30, 30), limits), 4, 8),
    "ndtri": ((between(0, 1), magnitudes(1e-36, 0.5)), 4, 10),
    "lgamma": ((between(0, 10), between(0.5, 3), between(-9.9, 0), magnitudes(1e-30, 1e30, 1e-30)), 2, 30),
    "digamma": ((between(0, 10), between(0.1, 1e3), limits), 2, 40),
    "i0": ((between(-8, 8), between(-80, 80)), 5, 10),
    "i0e": ((between(-8, 8), magnitudes(1e-30, 1e30), limits), 5, 10),
    "i1": ((between(-8, 8), between(-80, 80)), 5, 30),
    "i1e": ((between(-8, 8), magnitudes(1e-30, 1e30), limits), 5, 30),
    "j0": ((between(-8, 8), between(-100, 100), limits), 8, 300),
    "j1": ((between(-8, 8), between(-100, 100), limits), 8, 300),
    "y0": ((between(0, 8), between(0, 100), magnitudes(1e-30, 1)), 20, 300),
    "y1": ((between(0.1, 8), between(0.1, 100)), 20, 300),
    "k0": ((between(0, 2), between(0, 90), magnitudes(1e-30, 1)), 20, 40),
    "k1": ((between(0, 2), between(0, 90), magnitudes(1e-30, 1)), 20, 40),
    "k0e": ((between(0, 2), between(0, 90), magnitudes(1e-30, 1e30)), 20, 40),
    "k1e": ((between(0, 2), between(0, 90), magnitudes(1e-30, 1e30)), 20, 40),
    "airy_ai": ((between(-10, 10), between(-30, 110), magnitudes(1e-30, 1)), 4, 4000),
    "entr": ((between(0, 10), magnitudes(1e-30, 1e30), limits), 4, 4),
    "trigamma": ((between(0.1, 10), between(0.1, 1e3)), 6, 8),
}  # fmt: skip
SCIPY_NAMES = {"lgamma": "gammaln"}


def expected_special(name: str, x: np.ndarray) -> np.ndarray:
    import scipy.special

    if name == "airy_ai":
        return scipy.special.airy(x)[0]
    if name == "trigamma":
        return scipy.special.polygamma(1, x)
    return getattr(scipy.special, SCIPY_NAMES.get(name, name))(x)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str, kind: str) -> None:
    ranges, *bounds = SPECIAL[name]
    tolerance = bounds[list(TYPES).index(kind)] * np.finfo(TYPES[kind]).eps
    random = np.random.default_rng(6)
    for numbers in ranges:
        with np.errstate(all="ignore"):
            x = numbers(random, kind).astype(TYPES[kind])
            wanted = expected_special(name, x.astype(np.float64)).astype(TYPES[kind])
        got = computed(name, kind, x)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{name} {kind}")


def test_relative_errors_in_tails() -> None:
    """Where the functions above nearly vanish; values from an arithmetic of 40 digits."""
    for name, values in {
        "erfc": {5.0: 1.5374597944280349e-12, 12.0: 1.3562611692059042e-64, 26.0: 5.663192408856143e-296},
        "log_ndtr": {-40.0: -804.6084420137538, 8.0: -6.220960574271786e-16},
        "ndtri": {1e-300: -37.0470962993612},
    }.items():
        got = computed(name, "f64", np.array(list(values)))
        np.testing.assert_allclose(got, list(values.values()), rtol=2e-14, err_msg=name)


def test_limits_of_special_functions() -> None:
    for name, values in {
        "lgamma": {0.0: np.inf, -3.0: np.inf, np.inf: np.inf, -np.inf: np.inf, 1.0: 0.0, 2.0: 0.0},
        "digamma": {0.0: -np.inf, -3.0: np.nan, np.inf: np.inf, -np.inf: np.nan},
        "erfinv": {1.0: np.inf, -1.0: -np.inf, 1.5: np.nan, 0.0: 0.0},
        "ndtri": {0.0: -np.inf, 1.0: np.inf, -0.5: np.nan, 1.5: np.nan, 0.5: 0.0},
        "i0": {np.inf: np.nan, 1e4: np.inf, 0.0: 1.0},
        "i1e": {np.inf: 0.0, 0.0: 0.0},
        "j0": {0.0: 1.0, np.inf: np.nan, -np.inf: np.nan},
        "y0": {0.0: -np.inf, -1.0: np.nan, np.inf: np.nan},
        "y1": {0.0: -np.inf, -1.0: np.nan, np.inf: np.nan},
        "k1": {0.0: np.inf, -1.0: np.nan, np.inf: 0.0},
        "airy_ai": {np.inf: np.nan, -np.inf: np.nan, 200.0: 0.0},
    }.items():
        for kind in TYPES:
            got = computed(name, kind, np.array([*values, np.nan]))
            np.testing.assert_array_equal(got, np.array([*values.values(), np.nan], TYPES[kind]), err_msg=name)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ("gammainc", "gammaincc"))
def test_incomplete_gamma_functions(name: str, kind: str) -> None:
    import scipy.special

    random = np.random.default_rng(7)
    large = np.exp(random.uniform(0, 18, POINTS))
    ends = np.array([0, 1, np.inf, np.nan, -1, 0.5, 5, 1e3])
    for a, x in (
        (random.uniform(0, 5, POINTS), random.uniform(0, 5, POINTS)),
        (random.uniform(0, 100, POINTS), random.uniform(0, 100, POINTS)),
        (np.exp(random.uniform(-30, 1, POINTS)), np.exp(random.uniform(-30, 1, POINTS))),
        (large, large * (1 + random.normal(size=POINTS) / np.sqrt(large))),
        tuple(v.ravel() for v in np.meshgrid(ends, ends)),
    ):
        given = [v.astype(TYPES[kind]) for v in (a, x)]
        wanted = getattr(scipy.special, name)(*[v.astype(float) for v in given]).astype(TYPES[kind])
        tolerance = dict(rtol=2e-7, atol=1e-38) if kind == "f32" else dict(rtol=5e-13, atol=1e-290)
        np.testing.assert_allclose(computed(name, kind, *given), wanted, **tolerance)


@pytest.mark.parametrize("kind", TYPES)
def test_zeta(kind: str) -> None:
    import scipy.special

    random = np.random.default_rng(8)
    given = [v.astype(TYPES[kind]) for v in (random.uniform(1.01, 30, POINTS), random.uniform(0.1, 30, POINTS))]
    wanted = scipy.special.zeta(*[v.astype(float) for v in given])
    np.testing.assert_allclose(
        computed("zeta", kind, *given), wanted, rtol=2e-6 if kind == "f32" else 3e-15, atol=1e-38
    )
    for s, q, value in ((1, 2, np.inf), (0.5, 2, np.nan), (2, 0, np.inf), (2, -3, np.inf), (2.5, -3.5, np.nan),
                        (np.nan, 2, np.nan), (2, np.nan, np.nan), (3, -1.5, 0.118102)):  # fmt: skip
        got = computed("zeta", kind, np.array([float(s)]), np.array([float(q)]))
        np.testing.assert_allclose(got, [value], rtol=1e-5)


# degree -> values at -2, -1, -0.5, 0.25, 1 and 1.5, as PyTorch has them in float64
POLYNOMIALS: dict[str, dict[float, list[float]]] = {
    "chebyshev_polynomial_t": {
        3: [-26, -1, 1, -0.6875, 1, 9],
        10: [262087, 1, -0.500000000000003, 0.81689453125, 1, 7563.5],
    },
    "chebyshev_polynomial_u": {
        3: [-56, -4, 1, -0.875, 4, 21],
        10: [564719, 11, -1, 0.9658203125, 11, 17711],
    },
    "chebyshev_polynomial_v": {
        3: [-71, -7, 1, -0.125, 1, 13],
        10: [716035, 21, -2, 0.370117187499999, 1, 10946],
    },
    "chebyshev_polynomial_w": {
        3: [-41, -1, 1, -1.625, 7, 29],
        10: [413403, 1, -3.11245017480836e-15, 1.5615234375, 21, 24476],
    },
    "shifted_chebyshev_polynomial_t": {
        3: [-485, -99, -26, 1, 1, 26],
        10: [4517251249, 22619537, 262087, -0.500000000000003, 1, 262087],
    },
    "shifted_chebyshev_polynomial_u": {
        3: [-980, -204, -56, 1, 4, 56],
        10: [9127651499, 46611179, 564719, -1, 11, 564719],
    },
    "shifted_chebyshev_polynomial_v": {
        3: [-1079, -239, -71, 1, 1, 41],
        10: [10049731549, 54608393, 716035, -2, 1, 413403],
    },
    "shifted_chebyshev_polynomial_w": {
        3: [-881, -169, -41, 1, 7, 71],
        10: [8205571449, 38613965, 413403, -3.11245017480836e-15, 21, 716035],
    },
    "hermite_polynomial_h": {
        3: [-40, 4, 5, -2.875, -4, 9],
        10: [200416, 8224, 22591, -12875.9755859375, 8224, -85401],
    },
    "hermite_polynomial_he": {
        3: [-2, 2, 1.375, -0.734375, -2, -1.125],
        10: [-2621, 1216, 49.0439453125, -661.839064598083, 1216, -180.1669921875],
    },
    "laguerre_polynomial_l": {
        3: [14.3333333333333, 5.66666666666667, 2.89583333333333, 0.341145833333333, -0.666666666666667, -0.6875],
        10: [500.214391534391, 64.6666200947972, 14.7422477173174, -0.374051322360676, 0.418945932539682,
             0.418017774309431],
    },
    "legendre_polynomial_p": {
        3: [-17, -1, 0.4375, -0.3359375, 1, 6.1875],
        10: [96060.51953125, 1, -0.188228607177734, 0.221200216561556, 1, 2897.2815284729],
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials(name: str, kind: str) -> None:
    x = np.array([-2, -1, -0.5, 0.25, 1, 1.5])
    for degree, values in POLYNOMIALS[name].items():
        got = computed(name, kind, x, np.full(x.shape, degree))
        np.testing.assert_allclose(
            got, values, rtol=1e-5 if kind == "f32" else 1e-13, atol=1e-5 if kind == "f32" else 1e-13
        )
        np.testing.assert_array_equal(computed(name, kind, x, np.full(x.shape, degree + 0.75)), got)
    for degree, value in ((-1, 0), (-3.5, 0), (np.nan, 0), (-0.5, 1), (0, 1)):
        np.testing.assert_array_equal(computed(name, kind, x, np.full(x.shape, degree)), np.full(6, value))


def test_hermite_polynomials_of_high_degree_are_undefined() -> None:
    for name in ("hermite_polynomial_h", "hermite_polynomial_he"):
        for kind, limit in (("f32", 128), ("f64", 512)):
            got = computed(name, kind, np.full(3, 1e-3), np.array([limit + 1.0, limit + 1e6, 3.0]))
            assert np.isnan(got).tolist() == [True, True, False]


def test_recurrences_that_overflow_end() -> None:
    got = computed("legendre_polynomial_p", "f64", np.array([3.0, np.inf, np.nan]), np.array([1e9, 5.0, 1e9]))
    assert np.isnan(got).all()
