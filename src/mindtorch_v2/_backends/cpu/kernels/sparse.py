"""Products with compressed sparse matrices. None where there is no machine code, or where indices lie outside."""

from typing import Any

from ...._kernels.library import sparse
from ..jit.calls import launched
from ..jit.repeats import empty, flag, repeats


@repeats
def csr_product(starts: Any, columns: Any, values: Any, dense: Any, reduce: str) -> Any:
    bad, made = flag(), empty((len(starts) - 1, dense.shape[1]), values.dtype)
    done = launched(sparse.csr_product, made, bad, starts, columns, values, dense, reduce=reduce)
    return made if done and not bad[0] else None


@repeats
def csr_sampled(starts: Any, columns: Any, left: Any, right: Any, rows: bool) -> Any:
    bad, made = flag(), empty(len(columns), left.dtype)
    done = launched(sparse.csr_sampled, made, bad, starts, columns, left, right, rows=rows)
    return made if done and not bad[0] else None
