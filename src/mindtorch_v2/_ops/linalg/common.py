"""What the operators on matrices share: their argument errors, how results lie, what a singular matrix raises."""

import functools
from collections.abc import Sequence
from typing import Any

from ..._core.dtype import COMPUTE, FLOAT, dtype
from ..._core.elements import has_elements, is_host_array
from ..._core.geometry import contiguous_strides
from ..._core.tensor import Tensor
from ..._dispatch.levels import innermost
from .._declare.op import return_type
from .._declare.rules import Spec
from ..sort import laid_out


class _LinAlgError(RuntimeError):
    """A matrix for which the problem has no solution; users find it as torch.linalg.LinAlgError."""

    __module__ = "torch._C"


LinAlgError = _LinAlgError


# results -------------------------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def columns(shape: tuple[int, ...], kind: dtype) -> Spec:
    """Matrices that lie column by column, as LAPACK leaves them."""
    *batch, m, n = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    return Spec(shape, kind, (*batch, n, m))


@functools.lru_cache(4096)
def _strides_in_bytes(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> tuple[int, ...]:
    return contiguous_strides(shape, itemsize) if strides is None else tuple([s * itemsize for s in strides])


def placed(xp: Any, array: Any, spec: Spec) -> Any:
    """A fresh array in the layout that was inferred; itself if it lies so."""
    if array.dtype == spec.dtype.np and array.strides == _strides_in_bytes(spec.shape, spec.strides, array.itemsize):
        return array
    return laid_out(xp, array, spec)


def named(name: str, *values: Any) -> Any:
    """Several results as the named tuple of an operator."""
    return return_type(name)(*values)


# argument errors -----------------------------------------------------------------------------------------------------


def check_matrix(name: str, A: Tensor, argument: str = "A") -> None:
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(name: str, A: Tensor) -> None:
    check_matrix(name, A)
    m, n = A._array.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}{': ' if name else ''}A must be batches of square matrices, but they are {m} by {n} "
                           "matrices")


def check_floating(name: str, kind: dtype, *, halves: bool = True) -> None:
    """Raises for integers, and for half types where PyTorch's text is of precision."""
    if kind.category < FLOAT:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {kind.scalar_name}")
    if not halves and kind in COMPUTE:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind.scalar_name}")


def check_kernel(kernel: str, A: Tensor, *, even_empty: bool = False) -> None:
    """Raises for the types that LAPACK does not compute in, if there is something to compute."""
    kind = A.dtype
    if (kind in COMPUTE or kind.category < FLOAT) and (A._array.size or even_empty):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def check_system(name: str, a: Sequence[int], b: Sequence[int], left: bool) -> None:
    """Raises unless matrices of these shapes fit the equation."""
    if a[-1] != (b[-2] if left else b[-1]):
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                           f"({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})")


def check_same_type(text: str, one: dtype, other: dtype) -> None:
    """Raises `text`, which names both types, unless they are one."""
    if one is not other:
        raise RuntimeError(text.format(one.scalar_name, other.scalar_name))


# what LAPACK says ----------------------------------------------------------------------------------------------------

_SINGULAR = ("The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
             "singular.")
_ILL = ("The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated {}"
        " (error code: {{}}).")
_FAILURES = {
    "inv": _SINGULAR,
    "cholesky_inverse": _SINGULAR,
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading mino"
                "r of order {} is not positive-definite).",
    "lu_factor": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
                 "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
    "ldl_factor": "Unknown error code: {}.",
    "lstsq": "The least squares solution could not be computed because the input matrix does not have full rank (error "
             "code: {}).",
    "eigh": _ILL.format("eigenvalues"),
    "svd": _ILL.format("singular values"),
}


def check_info(name: str, info: Any) -> None:
    """Raises for the first matrix of a stack that has a code; `info` is a tensor or an array."""
    array = getattr(info, "_array", info)
    if is_host_array(array) and not (array.any() if array.ndim else array):
        return
    info = innermost(info)
    if hasattr(info, "_device") and not has_elements(info) or not info.any():
        return
    codes = info.reshape(-1).tolist()
    at = next(i for i, code in enumerate(codes) if code)
    which = f"(Batch element {at}): " if info.ndim else ""
    function = name.rsplit(".", 1)[-1].removesuffix("_ex")
    text = _FAILURES[function].format(codes[at])
    if function == "svd" and codes[at] < 0:
        text = "The algorithm failed to converge because the input matrix contained non-finite values."
    raise (RuntimeError if function in ("lu_factor", "ldl_factor") else LinAlgError)(f"{name}: {which}{text}")


def check_gauge(phases: Any, text: str) -> None:
    """Raises where a loss depends on the phase of complex vectors, which no decomposition determines."""
    if phases.dtype.is_complex and has_elements(phases):
        imaginary = innermost(phases).detach().imag
        if not imaginary.allclose(imaginary.new_zeros(()), 1e-2, 1e-2):
            raise RuntimeError(text)


# matrices in formulas ------------------------------------------------------------------------------------------------


def identity_like(A: Any, rows: int | None = None, kind: dtype | None = None) -> Any:
    """Ones on the diagonal of one matrix, of A's type and size unless said otherwise."""
    n = A.shape[-1]
    made = A.new_zeros((n if rows is None else rows, n), dtype=kind or A.dtype)
    made.diagonal().fill_(1)
    return made


def with_diagonal(matrices: Any, diagonal: Any) -> Any:
    """The matrices with another diagonal; zeros for None."""
    cleared = matrices.tril(-1) + matrices.triu(1)
    return cleared if diagonal is None else cleared + diagonal.to(matrices.dtype).diag_embed()


def differences(values: Any) -> Any:
    """How much each value of a vector exceeds each other, by columns; 1 on the diagonal, to divide by."""
    return values.unsqueeze(-2) - values.unsqueeze(-1) + identity_like(values, values.shape[-1])
