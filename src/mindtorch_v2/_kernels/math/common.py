"""What several functions are made of."""

from ..language import fma, function, unrolled


@function
def polynomial(x, coefficients):
    """coefficients[0] + coefficients[1] * x + ..., two of them at least."""
    value = fma(coefficients[-1], x, coefficients[-2])
    for k in unrolled(len(coefficients) - 3, -1, -1):
        value = fma(value, x, coefficients[k])
    return value
