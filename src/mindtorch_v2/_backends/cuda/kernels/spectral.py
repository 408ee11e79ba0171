"""Singular values and eigenvalues of small matrices on a GPU."""

from collections.abc import Callable
from typing import Any

from ...._ops._declare.rules import Spec
from ...._ops.linalg.common import check_info
from .. import jacobi
from ..array import CudaArray, empty
from ..families import layout_for
from ..plans import planned


@planned
def svd(specs: tuple[Spec, ...], A: CudaArray, full_matrices: bool, compute_uv: bool,
        driver: str | None) -> Callable | None:
    if not jacobi.is_small(A.shape, A.dtype):
        return None
    nothing = layout_for(specs[0])

    def run(A: CudaArray, *options: Any) -> list[CudaArray]:
        U, S, Vh, info = jacobi.svd(A, full_matrices, compute_uv)
        check_info("linalg.svd", info.to_host())
        return [empty(nothing, A.device) if U is None else U, S, empty(nothing, A.device) if Vh is None else Vh]

    return run


@planned
def eigh(specs: tuple[Spec, Spec], A: CudaArray, UPLO: str, compute_v: bool) -> Callable | None:
    if not jacobi.may_shift(A.shape, A.dtype):
        return None
    nothing, lower = layout_for(specs[1]), UPLO.upper() == "L"

    def run(A: CudaArray, *options: Any) -> list[CudaArray]:
        values, vectors = jacobi.eigh(A, lower, compute_v)
        return [values, empty(nothing, A.device) if vectors is None else vectors]

    return run
