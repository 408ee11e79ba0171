"""Orthogonal polynomials by their degree, which is a floating number as any other operand: its whole part counts."""

from ..language import acos, copysign, cos, function, int64, nan, sin

_MOST = 1 << 30  # steps of a recurrence; degrees above give NaN


@function
def one_like(x):
    """1 in the type of x."""
    return abs(copysign(1.0, x))


@function
def by_recurrence(x, n, first, *, step):
    """Degree n of polynomials of which degree 0 is 1 and degree 1 is `first`; 0 where n is negative."""
    before = one_like(x)
    if n < 1.0:  # first, since a loop costs more than all else
        return before if n > -1.0 else 0.0 * before
    degree = int64((n if n < 1e15 else 1e15) if n > -1.0 else -1.0)
    now = first
    k = 1
    while k < degree and now == now and k <= _MOST:
        after = step(x, k, before, now)
        before = now
        now = after
        k += 1
    value = nan if degree > _MOST and now == now else now
    return 0.0 if degree < 0 else 1.0 if degree == 0 else value


@function
def chebyshev_step(x, k, before, now):
    return 2.0 * x * now - before


@function
def chebyshev(x, n, first, *, inside, at_one, at_minus_one):
    """By recurrence, or from degree 9 on, where |x| <= 1, by trigonometric functions, or values at 1 and -1."""
    if abs(x) <= 1.0 and n >= 9.0 and n < 1e15:
        degree = int64(n)
        whole = one_like(x) * degree
        if abs(x) == 1.0:
            end = at_one(whole) if x > 0.0 else at_minus_one(whole)
            return -end if x < 0.0 and degree % 2 == 1 else end
        return inside(acos(x), whole)
    return by_recurrence(x, n, first, step=chebyshev_step)


@function
def one_at_end(n):
    return one_like(n)


@function
def degree_and_one(n):
    return n + 1.0


@function
def twice_degree_and_one(n):
    return 2.0 * n + 1.0


@function
def inside_t(angle, n):
    return cos(n * angle)


@function
def inside_u(angle, n):
    return sin((n + 1.0) * angle) / sin(angle)


@function
def inside_v(angle, n):
    return cos((n + 0.5) * angle) / cos(angle / 2.0)


@function
def inside_w(angle, n):
    return sin((n + 0.5) * angle) / sin(angle / 2.0)


@function
def chebyshev_polynomial_t(x, n):
    """Chebyshev polynomials of the first kind."""
    return chebyshev(x, n, x, inside=inside_t, at_one=one_at_end, at_minus_one=one_at_end)


@function
def chebyshev_polynomial_u(x, n):
    """Chebyshev polynomials of the second kind."""
    return chebyshev(x, n, 2.0 * x, inside=inside_u, at_one=degree_and_one, at_minus_one=degree_and_one)


@function
def chebyshev_polynomial_v(x, n):
    """Chebyshev polynomials of the third kind."""
    return chebyshev(x, n, 2.0 * x - 1.0, inside=inside_v, at_one=one_at_end, at_minus_one=twice_degree_and_one)


@function
def chebyshev_polynomial_w(x, n):
    """Chebyshev polynomials of the fourth kind."""
    return chebyshev(x, n, 2.0 * x + 1.0, inside=inside_w, at_one=twice_degree_and_one, at_minus_one=one_at_end)


@function
def shifted_chebyshev_polynomial_t(x, n):
    return chebyshev_polynomial_t(2.0 * x - 1.0, n)


@function
def shifted_chebyshev_polynomial_u(x, n):
    return chebyshev_polynomial_u(2.0 * x - 1.0, n)


@function
def shifted_chebyshev_polynomial_v(x, n):
    return chebyshev_polynomial_v(2.0 * x - 1.0, n)


@function
def shifted_chebyshev_polynomial_w(x, n):
    return chebyshev_polynomial_w(2.0 * x - 1.0, n)


@function
def hermite_step(x, k, before, now):
    return 2.0 * (x * now - k * before)


@function
def hermite_e_step(x, k, before, now):
    return x * now - k * before


@function
def laguerre_step(x, k, before, now):
    return ((2 * k + 1 - x) * now - k * before) / (k + 1)


@function
def legendre_step(x, k, before, now):
    return ((2 * k + 1) * x * now - k * before) / (k + 1)


@function
def hermite(x, n, first, limit, *, step):
    """By recurrence; degrees above the limit give NaN."""
    if n >= limit + 1.0:
        return nan
    return by_recurrence(x, n, first, step=step)


@function
def hermite_polynomial_h_f32(x, n):
    """Hermite polynomials of physics."""
    return hermite(x, n, 2.0 * x, 128.0, step=hermite_step)


@function
def hermite_polynomial_h_f64(x, n):
    """Hermite polynomials of physics."""
    return hermite(x, n, 2.0 * x, 512.0, step=hermite_step)


@function
def hermite_polynomial_he_f32(x, n):
    """Hermite polynomials of probability."""
    return hermite(x, n, x, 128.0, step=hermite_e_step)


@function
def hermite_polynomial_he_f64(x, n):
    """Hermite polynomials of probability."""
    return hermite(x, n, x, 512.0, step=hermite_e_step)


@function
def laguerre_polynomial_l(x, n):
    """Laguerre polynomials."""
    return by_recurrence(x, n, 1.0 - x, step=laguerre_step)


@function
def legendre_polynomial_p(x, n):
    """Legendre polynomials."""
    return by_recurrence(x, n, x, step=legendre_step)
