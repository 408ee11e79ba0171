"""Elementary functions in the kernel language, by type: `exp_f32`, `exp_f64`; or `tanh` for both.

Most are straight-line code, so that a loop over them becomes vector code. What is not here is the C library's.
"""

from ..language import function
from . import (
    bessel,
    cylinder,
    division,
    errors,
    exponential,
    gamma,
    incomplete_gamma,
    logarithm,
    neighbours,
    orthogonal,
    power,
    trigonometric,
)

_MODULES = (bessel, cylinder, division, errors, exponential, gamma, incomplete_gamma, logarithm, neighbours, orthogonal,
            power, trigonometric)  # fmt: skip
FUNCTIONS: dict[str, function] = {
    name: written for module in _MODULES for name, written in vars(module).items() if isinstance(written, function)
}
