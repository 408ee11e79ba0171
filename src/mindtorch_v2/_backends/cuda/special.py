"""Functions that CUDA's C library lacks, as C: those of NumPy's and SciPy's names, `f` at their end for float.

What is written in the kernel language for both types is rendered from there.
"""

import functools

from ..._kernels import cuda
from ..._kernels.language import read_function
from ..._kernels.math import FUNCTIONS as _WRITTEN

# What the C library has besides the functions of all C libraries.
_LIBRARY = ("erfinv", "erfcx", "rsqrt", "j0", "j1", "y0", "y1")

_NUMBERS = """
#define HUGE_NUMBER __int_as_float(0x7f800000)
#define ROOT_HALF (T)0.7071067811865476
"""
_PAIR = r"""
__device__ inline float {name}f({floats}) {{ return (float){name}_of<float>({names}); }}
__device__ inline double {name}({doubles}) {{ return {name}_of<double>({names}); }}
"""

_UNARY = {
    "ndtr": "normcdf((double)x)", "ndtri": "normcdfinv((double)x)",
    "entr": "x != x ? x : x > 0 ? -x * log(x) : x == 0 ? (T)0 : (T)-HUGE_NUMBER",
    "log_ndtr": "x < -1 ? log(erfcx(-x * ROOT_HALF) / 2) - x * x / 2 : log1p(-erfc(x * ROOT_HALF) / 2)",
}  # fmt: skip
_BINARY = {
    "logaddexp2": "x == y ? x + 1 : x != x || y != y ? x + y : (x > y ? x : y) + log2(1 + exp2(x > y ? y - x : x - y))",
}

# The gamma function's logarithm, differentiated; and the zeta function of Hurwitz, by Euler and Maclaurin's sum.
_SERIES = {"digamma": r"""
template <typename T> __device__ inline double digamma_of(double x) {
    double made = 0;
    if (x == 0) return copysign((double)HUGE_NUMBER, -x);
    if (x < 0) {
        if (floor(x) == x) return HUGE_NUMBER - HUGE_NUMBER;
        made = -3.141592653589793 * cospi(x) / sinpi(x);
        x = 1 - x;
    }
    for (; x < 10; x += 1) made -= 1 / x;
    double z = 1 / (x * x);
    double tail = z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 -
                  z / 12))))));
    return made + log(x) - 0.5 / x - tail;
}
""", "zeta": r"""
template <typename T> __device__ inline double zeta_of(double x, double y) {
    if (x == 1) return HUGE_NUMBER;
    if (x < 1 || x != x || y != y) return HUGE_NUMBER - HUGE_NUMBER;
    if (y <= 0) {
        if (floor(y) == y) return HUGE_NUMBER;
        if (floor(x) != x) return HUGE_NUMBER - HUGE_NUMBER;
    }
    const double factors[12] = {12., -720., 30240., -1209600., 47900160., -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
        -7.1661652561756670113e18};
    double total = 0, power = 0, rising = x;
    for (int i = 0; i < 10 || y <= 9; ++i, y += 1) {
        power = pow(y, -x);
        total += power;
        if (fabs(power) < 1e-17 * fabs(total)) return total;
    }
    power = pow(y, -x);
    total += power * y / (x - 1) + power / 2;
    for (int j = 0; j < 12; ++j) {
        power /= y;
        total += rising * power / factors[j];
        rising *= (x + 2 * j + 1) * (x + 2 * j + 2);
        power /= y;
    }
    return total;
}
"""}  # fmt: skip

# Polynomials by degree y: 1, `first`, then `step` of k and the two before. Those of Chebyshev are, of a high degree and
# between -1 and 1, functions of the angle.
_POLYNOMIAL = r"""
template <typename T> __device__ inline T {name}_of(T x, T y) {{
    int64 degree = (int64)y;
    if (degree < 0) return 0;
    if (degree == 0) return 1;
    {early}
    T before = 1, now = {first};
    for (int64 k = 1; k < degree && k < (1 << 20) && now == now; ++k) {{
        T next = {step};
        before = now; now = next;
    }}
    return now;
}}
"""
_ANGLE = r"""
    {{ T z = {point};
    if (degree > 8 && fabs(z) <= 1) {{
        T n = (T)degree, angle = acos(z), sign = degree % 2 ? -1 : 1;
        return z == 1 ? ({at_one}) : z == -1 ? sign * ({at_minus_one}) : ({inside});
    }} }}
"""
_CHEBYSHEV = {"t": ("z", "cos(n * angle)", "(T)1", "(T)1"),
              "u": ("2 * z", "sin((n + 1) * angle) / sin(angle)", "n + 1", "n + 1"),
              "v": ("2 * z - 1", "cos((n + (T)0.5) * angle) / cos(angle / 2)", "(T)1", "2 * n + 1"),
              "w": ("2 * z + 1", "sin((n + (T)0.5) * angle) / sin(angle / 2)", "2 * n + 1", "(T)1")}
_LIMIT = "if (degree > (sizeof(T) == 8 ? 512 : 128)) return (T)(HUGE_NUMBER - HUGE_NUMBER);"


def _chebyshev(kind: str, point: str) -> tuple[str, str, str]:
    first, inside, at_one, at_minus_one = _CHEBYSHEV[kind]
    early = _ANGLE.format(point=point, inside=inside, at_one=at_one, at_minus_one=at_minus_one)
    return early, first.replace("z", f"({point})"), f"2 * ({point}) * now - before"


_POLYNOMIALS = {f"chebyshev_polynomial_{kind}": _chebyshev(kind, "x") for kind in _CHEBYSHEV}
_POLYNOMIALS |= {f"shifted_chebyshev_polynomial_{kind}": _chebyshev(kind, "2 * x - 1") for kind in _CHEBYSHEV}
_POLYNOMIALS |= {
    "hermite_polynomial_h": (_LIMIT, "2 * x", "2 * (x * now - k * before)"),
    "hermite_polynomial_he": (_LIMIT, "x", "x * now - k * before"),
    "laguerre_polynomial_l": ("", "1 - x", "((2 * k + 1 - x) * now - k * before) / (k + 1)"),
    "legendre_polynomial_p": ("", "x", "((2 * k + 1) * x * now - k * before) / (k + 1)"),
}  # fmt: skip


def _sources() -> dict[str, str]:
    made = dict(_SERIES)
    for name, code in (_UNARY | _BINARY).items():
        given = "T x, T y" if name in _BINARY else "T x"
        made[name] = f"template <typename T> __device__ inline T {name}_of({given}) {{ return (T)({code}); }}\n"
    for name, (early, first, step) in _POLYNOMIALS.items():
        made[name] = _POLYNOMIAL.format(name=name, early=early, first=first, step=step)
    for name in made:
        count = 1 if name in _UNARY or name == "digamma" else 2
        made[name] += _PAIR.format(name=name, names=", ".join("xy"[:count]),
                                   floats=", ".join(f"float {n}" for n in "xy"[:count]),
                                   doubles=", ".join(f"double {n}" for n in "xy"[:count]))
    return made


_SOURCES = _sources()
# Functions of SciPy's names that the language has; others of its functions are parts of these.
_ADDED = [name for name in ("airy_ai", "gammainc", "gammaincc", "i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e")
          if f"{name}_f32" in _WRITTEN and f"{name}_f64" in _WRITTEN]
FUNCTIONS = frozenset((*_LIBRARY, *_SOURCES, *_ADDED))


@functools.cache
def _of_language(name: str) -> str:
    made = [read_function(_WRITTEN[f"{name}_{kind}"], own, [kind] * len(_WRITTEN[f"{name}_{kind}"].tree.args.args))
            for own, kind in ((f"{name}f", "f32"), (name, "f64"))]
    return "".join(map(cuda.written_function, made))


def source_of(text: str) -> str:
    """The functions that a text calls; others would only take time to compile."""

    def is_called(name: str) -> bool:
        return f" {name}(" in text or f" {name}f(" in text

    used = [source for name, source in _SOURCES.items() if is_called(name)]
    used += [_of_language(name) for name in _ADDED if is_called(name)]
    return _NUMBERS + "".join(used) if used else ""
