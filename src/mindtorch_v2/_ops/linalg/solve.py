"""Solving systems of equations: general, with known factors, and in the sense of least squares; inverses."""

import math
from collections.abc import Sequence
from typing import Any

from ..._core.dtype import INT, int32
from ..._core.tensor import Tensor
from ..._core.warn import warn_once
from .._declare.batch import Call, Result, aligned, in_front, matrices
from .._declare.families import computes
from .._declare.op import composite, function_of, op
from .._declare.out import AS_MADE, Out, safely
from .._declare.rules import Spec, broadcast_shape, shape_text
from .._declare.samples import case, cases, error, t, values
from .common import (
    check_floating,
    check_info,
    check_kernel,
    check_matrix,
    check_same_type,
    check_square,
    check_system,
    columns,
    identity_like,
    placed,
)
from .factor import POSITIVE, _lu_unpack, no_derivative
from .triangular import check_right_side, solve_triangular

REGULAR = values([[3.0, 1.0, -0.5], [0.5, -2.0, 1.0], [1.0, 0.25, 2.5]])


# general systems -----------------------------------------------------------------------------------------------------


def is_vector(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the right side is one vector, or one for each matrix."""
    return len(b) == 1 or (len(b) == len(a) - 1 and tuple(b) == tuple(a[:-1]))


def _solve_spec(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Spec, Spec]:
    name = "linalg.solve"
    check_square(name, A)
    check_floating(name, A.dtype)
    check_same_type(f"{name}: Expected A and B to have the same dtype, but found A of type {{}} and B of type {{}} "
                    "instead", A.dtype, B.dtype)
    a, b = A._array.shape, B._array.shape
    vector = is_vector(a, b)
    b = (*b, 1) if vector else b
    if len(b) < 2:
        check_matrix(name, B, "B")
    check_system(name, a, b, left)
    check_kernel("lu_cpu", A)
    batch = broadcast_shape([b[:-2], a[:-2]])
    shape = (*batch, *b[-2:-1]) if vector else (*batch, *b[-2:])
    result = columns(shape, A.dtype) if left and len(shape) > 1 else Spec(shape, A.dtype)
    return result, Spec(a[:-2], int32)


def _solve(xp: Any, A: Any, B: Any, left: bool, check_errors: bool, spec: tuple[Spec, Spec]) -> tuple:
    vector = is_vector(A.shape, B.shape)
    B = B[..., None] if vector else B
    if left:
        X, info = xp.lapack.solve(A, B)
    else:
        X, info = xp.lapack.solve(A.swapaxes(-1, -2), B.swapaxes(-1, -2))
        X = X.swapaxes(-1, -2)
    if check_errors:
        check_info("torch.linalg.solve_ex", info)
    return placed(xp, X[..., 0] if vector else X, spec[0]), info


def _solve_grads(grads: tuple, A: Any, B_shape: tuple, result: Any, left: bool, needs: tuple) -> tuple:
    grad = grads[0]
    if grad is None:
        return None, None
    of_b = _solve_ex(A.mH, grad, left=left)[0]
    if not needs[0]:
        return None, of_b
    if is_vector(A.shape, B_shape):
        return -(of_b.unsqueeze(-1) * result.conj().unsqueeze(-2)), of_b
    return -(of_b @ result.mH) if left else -(result.mH @ of_b), of_b


def _solve_each(call: Call) -> Result:
    matrix, other, *rest = call.values
    shape = call.args[0].shape
    is_vector = call.ndim(1) == 1 or call.ndim(0) - 1 == call.ndim(1) and shape[:-1] == call.args[1].shape
    other = call.full(1).unsqueeze(-1) if is_vector else call.full(1)
    ndim = max(call.ndim(0), other._array.ndim - 1)
    result, info = call.run(aligned(call.full(0), True, ndim), aligned(other, True, ndim), *rest)
    return (result.squeeze(-1) if is_vector else result, info.reshape((call.size, *shape[:-2]))), True


def _solve_by_parts(A: Any, B: Any, left: bool, check_errors: bool) -> tuple[Any, Any]:
    inverse, info = linalg_inv_ex(A, check_errors=check_errors)
    vector = is_vector(A.shape, B.shape)
    right = B.unsqueeze(-1) if vector else B
    made = inverse.matmul(right) if left else right.matmul(inverse)
    return made.squeeze(-1) if vector else made, info


_solve_ex = function_of(op(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    out=AS_MADE,
    kernel=computes(_solve_spec, _solve), grad={"A, B": _solve_grads}, public="", aliases=("linalg.solve_ex",),
    decomposition=_solve_by_parts,
    samples=cases(case(REGULAR, t(3, 2)), case(REGULAR, t(3)), case(t(2, 3, 3, low=1.0, high=4.0), t(2, 3)),
                  case(REGULAR, t(2, 2, 3), left=False), case(t(0, 0), t(0, 2)), case(t(3, 3), t(3, 0)),
                  error(RuntimeError, "linalg.solve: Incompatible shapes of A and B for the equation AX = B (3x3 and "
                                      "4x1)", t(3, 3), t(4)),
                  error(RuntimeError, "linalg.solve: A must be batches of square matrices", t(2, 3), t(3, 2))),
    batch=_solve_each))


@composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
           out=AS_MADE, public="", aliases=("linalg.solve",),
           samples=cases(case(REGULAR, t(3, 2)), case(REGULAR, t(2, 3), left=False), case(REGULAR, t(3))),
           autocast=dict(cpu="float32"))
def linalg_solve(A, B, left):
    result, info = _solve_ex(A, B, left=left)
    check_info("torch.linalg.solve", info)
    return result


def _inv_spec(A: Tensor, check_errors: bool) -> tuple[Spec, Spec]:
    check_square("linalg.inv", A)
    check_floating("linalg.inv", A.dtype, halves=False)
    return columns(A._array.shape, A.dtype), Spec(A._array.shape[:-2], int32)


def _inv(xp: Any, A: Any, check_errors: bool, spec: tuple[Spec, Spec]) -> tuple:
    made, info = xp.lapack.inverse(A)
    if check_errors:
        check_info("linalg.inv_ex", info)
    return placed(xp, made, spec[0]), info


def _inv_grad(grad: Any, inverse: Any) -> Any:
    return None if grad is None else -(inverse.mH @ (grad @ inverse.mH))


linalg_inv_ex = function_of(op(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", out=AS_MADE,
    kernel=computes(_inv_spec, _inv), grad=dict(A=_inv_grad), public="", aliases=("linalg.inv_ex",),
    samples=cases(case(REGULAR), case(t(2, 3, 3, low=1.0, high=4.0)), case(t(0, 0)),
                  error(RuntimeError, "linalg.inv: A must be batches of square matrices", t(2, 3)),
                  error(RuntimeError, "linalg.inv: The input tensor A must have at least 2 dimensions.", t(3))),
    batch=in_front, autocast=dict(cpu="float32"), kernels={"npu": "linalg.inverse"}, sharded="whole"))


def _inverse(A: Any, name: str = "linalg.inv") -> Any:
    inverse, info = linalg_inv_ex(A)
    check_info(name, info)
    return inverse


@composite("linalg_inv(Tensor A) -> Tensor", out=AS_MADE, public="", aliases=("linalg.inv",),
           samples=cases(case(REGULAR), case(t(2, 3, 3, low=1.0, high=4.0))), autocast=dict(cpu="float32"))
def linalg_inv(A):
    return _inverse(A)


@composite("inverse(Tensor self) -> Tensor", out=AS_MADE, samples=cases(case(REGULAR)), autocast=dict(cpu="float32"))
def _torch_inverse(self):
    return _inverse(self)


# tensors as matrices -------------------------------------------------------------------------------------------------


@composite("linalg_tensorinv(Tensor self, int ind=2) -> Tensor", public="", aliases=("linalg.tensorinv",),
           samples=cases(case(t(2, 3, 6)), case(t(6, 2, 3), ind=1),
                         error(RuntimeError, "Expected a strictly positive integer for 'ind', but got 0", t(3, 3), 0),
                         error(RuntimeError, "prod(self.shape[ind:]) == prod(self.shape[:ind]), but got 1 != 6",
                               t(2, 3))), out=safely("tensorinv"), autocast=dict(cpu="float32"))
def _tensorinv(self, ind):
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = tuple(self.shape)
    if ind > len(shape):
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {len(shape)}")
    rows, size = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != size:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
                           f"but got {size} != {rows}")
    return _inverse(self.reshape((rows, size)), "inv").reshape((*shape[ind:], *shape[:ind]))


@composite("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", public="",
           aliases=("linalg.tensorsolve",),
           samples=cases(case(t(2, 3, 6), t(2, 3)), case(t(3, 2, 2, 3), t(2, 3), dims=(0, 1)),
                         error(RuntimeError, "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got"
                                             " 5 != 6", t(2, 3, 5), t(2, 3))), out=safely("tensorsolve"),
           autocast=dict(cpu="float32"))
def _tensorsolve(self, other, dims):
    if dims is not None:
        self = self.movedim(dims, tuple(range(self.dim() - len(dims), self.dim())))
    shape = tuple(self.shape)[other.dim() :]
    rows, size = other.numel(), math.prod(shape)
    if rows != size:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                           f"prod(self.shape[:other.ndim]), but got {size} != {rows}")
    return linalg_solve(self.reshape((rows, size)), other.reshape((rows,)), True).reshape(shape)


# known factors -------------------------------------------------------------------------------------------------------


def _lu_solve_spec(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Spec:
    name, shape = "linalg.lu_solve", LU._array.shape
    if pivots.dtype is not int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check_square(f"torch.{name}", LU)
    check_floating(f"torch.{name}", LU.dtype)
    check_same_type(f"{name}: Expected LU and B to have the same dtype, but found LU of type {{}} and B of type {{}} "
                    "instead", LU.dtype, B.dtype)
    check_matrix(name, B, "B")
    b = B._array.shape
    check_system(name, shape, b, left)
    if shape[:-1] != pivots._array.shape:
        raise RuntimeError(f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{shape_text(pivots._array.shape)} instead")
    check_kernel("linalg.lu_solve_cpu", LU)
    made = (*broadcast_shape([b[:-2], shape[:-2]]), *b[-2:])
    return columns(made, LU.dtype) if left else Spec(made, LU.dtype)


def _lu_solve(xp: Any, LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool, spec: Spec) -> Any:
    if left:
        return placed(xp, xp.lapack.lu_solve(LU, pivots, B, adjoint), spec)
    flipped = xp.lapack.lu_solve(LU, pivots, B.conj().swapaxes(-1, -2), not adjoint)
    return placed(xp, flipped.conj().swapaxes(-1, -2), spec)


def _lu_solve_grads(grad: Any, LU: Any, pivots: Any, result: Any, left: bool, adjoint: bool, needs: tuple) -> tuple:
    of_b = _linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, of_b
    one, other = (of_b, result.mH) if left else (result.mH, of_b)
    of_a = -(other.mH @ one.mH) if adjoint else -(one @ other)
    P, L, U = _lu_unpack(LU, pivots, True, True)
    rows = P.mT @ of_a
    return (rows @ U.mH).tril(-1) + (L.mH @ rows).triu(), of_b


_linalg_lu_solve = function_of(op(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    kernel=computes(_lu_solve_spec, _lu_solve), grad={"LU, B": _lu_solve_grads}, public="",
    aliases=("linalg.lu_solve",), out=Out(columns_of="B", lies_as_made="resized")))


@composite("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", autocast=dict(cpu="float32"),
           out=Out(columns_of="self", lies_as_made="resized"))
def _torch_lu_solve(self, LU_data, LU_pivots):
    warn_once("torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorc"
              "h release.\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, "
              "pivots)\nshould be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)")
    return _linalg_lu_solve(LU_data, LU_pivots, self)


def _cholesky_solve_spec(self: Tensor, input2: Tensor, upper: bool) -> Spec:
    for name, tensor in (("b", self), ("u", input2)):
        if tensor._array.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {tensor._array.ndim} dimensions "
                               "instead")
    check_right_side("cholesky_solve", self, input2)
    b = self._array.shape
    batch = broadcast_shape([b[:-2], input2._array.shape[:-2]])
    check_kernel("cholesky_solve_cpu", self, even_empty=True)
    return columns((*batch, *b[-2:]), self.dtype)


def _cholesky_solve(xp: Any, self: Any, input2: Any, upper: bool, spec: Spec) -> Any:
    return placed(xp, xp.lapack.cholesky_solve(input2, self, upper), spec)


def _cholesky_solve_grads(grad: Any, input2: Any, result: Any, upper: bool, needs: tuple) -> tuple:
    """The factor's gradient is that of L L^H with both triangles of L read, as PyTorch has it."""
    of_b = _torch_cholesky_solve(grad, input2, upper)
    if not needs[1]:
        return of_b, None
    common = of_b @ result.mH
    common = common + common.mH
    return of_b, -(input2 @ common) if upper else -(common @ input2)


def _cholesky_solve_by_parts(self: Any, input2: Any, upper: bool) -> Any:
    lower = input2.mH if upper else input2
    half = solve_triangular(lower, self, upper=False)
    return solve_triangular(lower.mH, half, upper=True)


_torch_cholesky_solve = function_of(op(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    kernel=computes(_cholesky_solve_spec, _cholesky_solve), grad={"self, input2": _cholesky_solve_grads},
    decomposition=_cholesky_solve_by_parts,
    samples=cases(case(t(3, 2), POSITIVE), case(t(2, 3, 2), POSITIVE, True), case(t(0, 2), t(0, 0)),
                  error(RuntimeError, "Incompatible matrix sizes for cholesky_solve: each A matrix is 3 by 3 but each"
                                      " b matrix is 4 by 2", t(4, 2), t(3, 3))), batch=matrices,
    out=safely("cholesky_solve"), autocast=dict(cpu="float32")))


def _cholesky_inverse_spec(self: Tensor, upper: bool) -> Spec:
    check_square("cholesky_inverse", self)
    check_kernel("cholesky_inverse_out_cpu", self, even_empty=True)
    return columns(self._array.shape, self.dtype)


def _cholesky_inverse(xp: Any, self: Any, upper: bool, spec: Spec) -> Any:
    made, info = xp.lapack.cholesky_inverse(self, upper)
    check_info("cholesky_inverse", info)
    return placed(xp, made, spec)


def _cholesky_inverse_grad(grad: Any, self: Any, result: Any, upper: bool) -> Any:
    common = result @ (grad + grad.mH) @ result
    return -(self @ common) if upper else -(common @ self)


def _cholesky_inverse_by_parts(self: Any, upper: bool) -> Any:
    inverse = solve_triangular(self.mH if upper else self, identity_like(self, self.shape[-1]), upper=False)
    return inverse.mH @ inverse


op("cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
   kernel=computes(_cholesky_inverse_spec, _cholesky_inverse), kernels={"cuda": "solve.cholesky_inverse"},
   grad=dict(self=_cholesky_inverse_grad),
   decomposition=_cholesky_inverse_by_parts,
   samples=cases(case(POSITIVE), case(POSITIVE, True), case(t(0, 0)),
                 error(RuntimeError, "cholesky_inverse: A must be batches of square matrices", t(2, 3))),
   batch=in_front,
   out=safely("cholesky_inverse")._replace(lies_as_made="emptied"), autocast=dict(cpu="float32"))


def _ldl_solve_spec(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Spec:
    name, shape, b = "torch.linalg.ldl_solve", LD._array.shape, B._array.shape
    check_square(name, LD)
    check_floating(name, LD.dtype)
    if len(b) < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {-2})")
    check_right_side(name, B, LD)
    if shape[:-1] != pivots._array.shape:
        raise RuntimeError(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"{shape_text(pivots._array.shape)} instead")
    if pivots.dtype.category != INT:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.scalar_name}")
    check_kernel("ldl_solve_kernel_cpu", LD)
    return columns((*broadcast_shape([b[:-2], shape[:-2]]), *b[-2:]), LD.dtype)


def _check_block_pivots(xp: Any, pivots: Any) -> None:
    """Raises for rows that are not there, and for a 2 by 2 block (two negative pivots) of which one half is missing."""
    if not pivots.size:
        return
    n, rows = pivots.shape[-1], abs(pivots.astype(xp.int64))
    if rows.min() < 1 or rows.max() > n:
        raise RuntimeError("torch.linalg.ldl_solve: pivots must be between 1 and LD.size(-2) inclusive, negative for "
                           "2-by-2 blocks. Did you properly pass the result of ldl_factor?")
    positive = pivots > 0
    opened = xp.cumsum(~positive, -1) % 2  # 1 after the first half of a block
    if (opened[..., -1] | (positive & (opened == 1)).any(-1)).any():
        raise RuntimeError("torch.linalg.ldl_solve: negative pivots must come in pairs, one for each 2-by-2 block. Did "
                           "you properly pass the result of ldl_factor?")


def _ldl_solve(xp: Any, LD: Any, pivots: Any, B: Any, hermitian: bool, spec: Spec) -> Any:
    _check_block_pivots(xp, pivots)
    return placed(xp, xp.lapack.ldl_solve(LD, pivots, B, hermitian), spec)


op("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
   kernel=computes(_ldl_solve_spec, _ldl_solve), grad={"LD, B": no_derivative("linalg_ldl_solve")}, public="",
   aliases=("linalg.ldl_solve",), out=Out(columns_of="B", lies_as_made="resized"))
