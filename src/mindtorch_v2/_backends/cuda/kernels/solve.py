"""Inverses of what was factored, on a GPU, made of kernels that are recorded."""

from collections.abc import Callable

import numpy as np

from ...._dispatch.keys import CUDA_MASK
from ...._dispatch.registry import registry
from ...._ops._declare.rules import Spec
from ..array import CudaArray, array_on, from_host, layout_of
from ..families import wrap_cuda
from ..plans import planned

_MOST = 1 << 18  # elements of identities that are kept


@planned
def cholesky_inverse(spec: Spec, self: CudaArray, upper: bool) -> Callable | None:
    """The solution for the identity; CuPy's way says which element of a diagonal is zero, if one is."""
    if not 0 < self.size <= _MOST or self.dtype.kind != "f":
        return None
    *batch, n, _ = self.shape
    identity = from_host(np.broadcast_to(np.eye(n, dtype=self.dtype), self.shape), self.device)
    diagonal = layout_of((*batch, n), self.dtype, (*self.strides[:-2], self.strides[-2] + self.strides[-1]))
    solved, tested = (registry.get(name).lookup(CUDA_MASK) for name in ("cholesky_solve", "all"))

    def run(self: CudaArray, upper: bool) -> CudaArray | None:
        shown = array_on(diagonal, self.memory, self.pointer, self.device)
        if not tested(wrap_cuda(shown), None, False)._array.to_host():
            return None
        return solved(wrap_cuda(identity), wrap_cuda(self), upper)._array

    return run
