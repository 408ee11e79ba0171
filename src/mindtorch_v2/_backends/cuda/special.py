"""Functions that CUDA's C library lacks, as C: those of NumPy's and SciPy's names, `f` at their end for float.

They are written in the kernel language (_kernels/math) and rendered from there.
"""

import functools

from ..._kernels import cuda
from ..._kernels.math import FUNCTIONS as _WRITTEN
from ..._kernels.reader import read_function

# What the C library has besides the functions of all C libraries.
_LIBRARY = ("erfinv", "erfcx", "rsqrt", "j0", "j1", "y0", "y1")
_CHEBYSHEV = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
_RENDERED = ("airy_ai", "digamma", "entr", "gammainc", "gammaincc", "hermite_polynomial_h", "hermite_polynomial_he",
             "i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e", "laguerre_polynomial_l", "legendre_polynomial_p",
             "log_ndtr", "logaddexp", "ndtr", "ndtri", "sigmoid", "zeta", *_CHEBYSHEV)  # fmt: skip
_C = {"logaddexp2": "".join(f"""
__device__ inline {kind} logaddexp2{end}({kind} x, {kind} y) {{
    if (x != x || y != y) return x + y;
    return x == y ? x + 1 : (x > y ? x : y) + log2{end}(1 + exp2{end}(x > y ? y - x : x - y));
}}
""" for kind, end in (("float", "f"), ("double", "")))}
FUNCTIONS = frozenset((*_LIBRARY, *_C, *_RENDERED)) - {"sigmoid", "logaddexp"}  # which `compute` writes out


@functools.cache
def _source(name: str) -> str:
    """A function for both types, after those that it calls."""
    if name in _C:
        return _C[name]
    text = ""
    for own, kind in ((f"{name}f", "f32"), (name, "f64")):
        written = _WRITTEN.get(f"{name}_{kind}") or _WRITTEN[name]
        text += cuda.written_function(read_function(written, own, [kind] * len(written.tree.args.args)))
    return text


def source_of(text: str) -> str:
    """The functions that a text calls; others would only take time to compile."""
    used: dict[str, str] = {}

    def look(text: str) -> None:
        for name in (*_C, *_RENDERED):
            if name not in used and (f" {name}(" in text or f" {name}f(" in text):
                used[name] = ""
                look(_source(name).replace(f"inline float {name}f(", "").replace(f"inline double {name}(", ""))
                del used[name]  # those that it calls stand before it
                used[name] = _source(name)

    look(text)
    return "".join(used.values())
