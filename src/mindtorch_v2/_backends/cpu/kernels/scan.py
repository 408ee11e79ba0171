"""Running sums, products and extrema: kernels of the language on arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import BOOL, COMPLEX, FLOAT
from ...._kernels.language import logaddexp
from ...._kernels.library import reduce, scan
from ...._ops._declare.rules import Spec
from ..jit.calls import prepared
from ..jit.repeats import empty, repeats
from .arrays import overwrites, takes_halves
from .reduce import contiguous
from .softmax import along, columns_at_once


def _goes_through_once(x: Any, dim: int, *others: Any) -> bool:
    """Whether no row is gone through again, as the last one is where rows are no multiple of those taken together."""
    outer, _, inner = along(x.shape, dim)
    return inner > 1 or outer % scan.ROWS == 0


def _of_parts(array: Any, kind: Any) -> Any:
    """The real and imaginary parts of complex numbers that lie in order, as numbers of their type."""
    return array.reshape(-1).view(kind)


def _running(combine: Any, start: float) -> Callable:
    launches = [[prepared(kernel, combine=combine, start=start, wide=wide) for kernel in
                 (scan.running_rows, scan.running_columns)] for wide in (False, True)]

    @repeats
    @takes_halves
    @overwrites(_goes_through_once)
    def kernel(x: Any, dim: int, dtype: Any, *, spec: Spec) -> Any:
        category = spec.dtype.category
        parts = category == COMPLEX and start == 0 and x.dtype == spec.dtype.np and x.dtype.kind == "c"
        if category in (BOOL, COMPLEX) and not parts or category < FLOAT and x.dtype.kind not in "iub":
            return None
        x = contiguous(x)
        made = empty(x.shape, spec.dtype.np)
        outer, n, inner = along(x.shape, dim)
        if parts:  # of complex numbers, which have their own sums
            kind, inner = spec.dtype.to_real().np, 2 * inner
            done = launches[True][1](_of_parts(made, kind), _of_parts(x, kind), outer, n, inner,
                                     columns_at_once(outer, n, inner))
            return made if done else None
        rows, columns = launches[category == FLOAT]
        if inner == 1:
            return made if rows(made, x, outer, n) else None
        return made if columns(made, x, outer, n, inner, columns_at_once(outer, n, inner)) else None

    return kernel


cumsum, cumprod = _running(reduce.sum_of, 0), _running(reduce.product_of, 1)


_logarithms = _running(logaddexp, -float("inf"))


@repeats
@takes_halves
def logcumsumexp(x: Any, dim: int, *, spec: Spec) -> Any:
    return _logarithms(x, dim, None, spec=spec)


def _extremes(largest: bool) -> Callable:
    rows = prepared(scan.extreme_rows, largest=largest)
    columns = prepared(scan.extreme_columns, largest=largest)

    @repeats
    @takes_halves
    def kernel(x: Any, dim: int) -> Any:
        if not x.size:
            return None
        x = contiguous(x)
        made = empty(x.shape, x.dtype), empty(x.shape, np.int64)
        outer, n, inner = along(x.shape, dim)
        if inner == 1:
            return made if rows(*made, x, outer, n) else None
        return made if columns(*made, x, outer, n, inner, columns_at_once(outer, n, inner)) else None

    return kernel


cummax, cummin = _extremes(True), _extremes(False)
