"""Softmax, its logarithm, their derivatives and the logarithm of the sum: kernels of the language on arrays."""

from collections.abc import Callable
from typing import Any

from ...._core.dtype import REDUCED
from ...._core.threads import get_num_threads
from ...._kernels.library import softmax as library
from ...._ops._declare.rules import Spec
from ..jit.calls import prepared
from ..jit.repeats import empty, repeats
from .arrays import takes_halves
from .reduce import SHARED, contiguous, parts_of, shared_width, steps_of


def along(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """A contiguous array seen as [outer, n, inner], n being one of its dimensions."""
    if not shape:
        return 1, 1, 1
    at = dim % len(shape)
    outer = inner = 1
    for n in shape[:at]:
        outer *= n
    for n in shape[at + 1 :]:
        inner *= n
    return outer, shape[at], inner


def columns_at_once(outer: int, n: int, inner: int) -> int:
    """So many columns that all passes over them but the first find them in the cache."""
    threads = get_num_threads() if outer * n * inner >= SHARED else 1
    return shared_width(outer, inner, threads, min(max((1 << 18) // max(n, 1) & -16, 64), library.COLUMNS))


def _softmax(logarithm: bool) -> tuple[Callable, Callable]:
    """The kernels of softmax and of its derivative; or of its logarithm."""
    rows, columns, back_rows, back_columns = (
        prepared(kernel, logarithm=logarithm)
        for kernel in (library.softmax_rows, library.softmax_columns, library.backward_rows, library.backward_columns))

    @repeats
    @takes_halves
    def forward(x: Any, dim: int, dtype: Any, *, spec: Spec) -> Any:
        x = contiguous(x)
        made = empty(x.shape, spec.dtype.np)
        outer, n, inner = along(x.shape, dim)
        if inner == 1:
            return made if rows(made, x, outer, n) else None
        return made if columns(made, x, outer, n, inner, columns_at_once(outer, n, inner)) else None

    @repeats
    @takes_halves
    def backward(grad: Any, result: Any, dim: int, input_dtype: Any, *, spec: Spec) -> Any:
        grad, result = contiguous(grad), contiguous(result)
        made = empty(result.shape, spec.dtype.np)
        outer, n, inner = along(result.shape, dim)
        if inner == 1:
            return made if back_rows(made, grad, result, outer, n) else None
        width = columns_at_once(outer, n, inner)
        return made if back_columns(made, grad, result, outer, n, inner, width) else None

    return forward, backward


softmax, softmax_backward = _softmax(False)
log_softmax, log_softmax_backward = _softmax(True)

_rows, _columns = prepared(library.logsumexp_rows), prepared(library.logsumexp_columns)


@repeats
@takes_halves
def logsumexp(x: Any, dim: Any, keepdim: bool, *, spec: Spec) -> Any:
    if x.dtype.kind == "c":
        return None
    axes = (dim,) if dim.__class__ is int else tuple(dim) or None
    steps = steps_of(x.shape, axes) if x.flags.c_contiguous else ()
    if len(steps) != 1:
        return None
    outer, n, inner = steps[0]
    made = empty(spec.shape, spec.dtype.np)
    if inner == 1:
        parts = parts_of(outer, n, get_num_threads())
        if parts == 1 or spec.dtype.np in REDUCED:  # parts would be rounded, too
            return made if _rows(made, x, outer, n, 1, n) else None
        some = empty(outer * parts, spec.dtype.np)
        done = _rows(some, x, outer, n, parts, -(-n // parts)) and _rows(made, some, outer, parts, 1, parts)
        return made if done else None
    return made if _columns(made, x, outer, n, inner, columns_at_once(outer, n, inner)) else None
