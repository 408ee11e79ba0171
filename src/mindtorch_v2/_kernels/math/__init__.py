"""Elementary functions in the kernel language, by type: `exp_f32`, `exp_f64`; or `tanh` for both.

They are straight-line code, so that a loop over them becomes vector code. What is not here is the C library's.
"""

from ..language import function
from . import bessel, division, errors, exponential, gamma, logarithm, power, trigonometric

FUNCTIONS: dict[str, function] = {
    name: written
    for module in (bessel, division, errors, exponential, gamma, logarithm, power, trigonometric)
    for name, written in vars(module).items()
    if isinstance(written, function)
}
