"""What several functions are made of."""

from ..language import fma, function, unrolled


def every_second(coefficients: tuple[float, ...], first: int) -> tuple[float, ...]:
    return coefficients[first::2]


@function
def polynomial(x, coefficients):
    """coefficients[0] + coefficients[1] * x + ..., two of them at least.

    A long one is summed as two of x**2, of even and of odd terms: each has half as many steps that wait for another.
    """
    if len(coefficients) < 12:
        return horner(x, coefficients)
    square = x * x
    return fma(x, horner(square, every_second(coefficients, 1)), horner(square, every_second(coefficients, 0)))


@function
def horner(x, coefficients):
    """The same, from the last term downwards."""
    value = fma(coefficients[-1], x, coefficients[-2])
    for k in unrolled(len(coefficients) - 3, -1, -1):
        value = fma(value, x, coefficients[k])
    return value
