"""Solving with triangular matrices, which the factors of all others come down to."""

from typing import Any

from ..._core.tensor import Tensor
from ..._core.warn import warn_once
from .._declare.aten import LEAF
from .._declare.batch import matrices
from .._declare.families import computes
from .._declare.op import composite, function_of, op
from .._declare.out import FOUND
from .._declare.rules import Spec, broadcast_shape
from .._declare.samples import case, cases, error, t
from .common import check_kernel, check_matrix, check_same_type, check_square, check_system, columns, named, placed


def _solve_triangular_spec(self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Spec:
    name = "linalg.solve_triangular"
    check_square(name, self)
    check_matrix(name, B, "B")
    a, b = self._array.shape, B._array.shape
    check_system(name, a, b, left)
    check_kernel("triangular_solve_cpu", self)
    return columns((*broadcast_shape([b[:-2], a[:-2]]), *b[-2:]), self.dtype)


def _solve_triangular(xp: Any, self: Any, B: Any, upper: bool, left: bool, unitriangular: bool, spec: Spec) -> Any:
    B = B.astype(spec.dtype.np, copy=False)
    return placed(xp, xp.lapack.solve_triangular(self, B, upper, left, unitriangular), spec)


def _solve_triangular_grads(grad: Any, self: Any, result: Any, upper: bool, left: bool, unitriangular: bool,
                            needs: tuple) -> tuple:
    of_b = solve_triangular(self.mH, grad, upper=not upper, left=left, unitriangular=unitriangular)
    if not needs[0]:
        return None, of_b
    of_a = -(of_b @ result.mH) if left else -(result.mH @ of_b)
    return of_a.triu(int(unitriangular)) if upper else of_a.tril(-int(unitriangular)), of_b


solve_triangular = function_of(op(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    aligned="B",
    kernel=computes(_solve_triangular_spec, _solve_triangular),
    grad={"self, B": _solve_triangular_grads}, public="", aliases=("linalg.solve_triangular",),
    samples=cases(case(t(3, 3, low=1.0, high=2.0), t(3, 2), upper=True),
                  case(t(2, 3, 3, low=1.0, high=2.0), t(3, 2), upper=False),
                  case(t(3, 3, low=1.0, high=2.0), t(2, 3), upper=True, left=False),
                  case(t(3, 3, low=-0.5, high=0.5), t(3, 1), upper=False, unitriangular=True),
                  case(t(0, 0), t(0, 2), upper=True),
                  error(RuntimeError, "must be batches of square matrices", t(2, 3), t(3, 2), upper=True),
                  error(RuntimeError, "Incompatible shapes of A and B for the equation AX = B (3x3 and 4x2)", t(3, 3),
                        t(4, 2), upper=True)), batch=matrices, out=FOUND._replace(lies_as_made="resized"),
    kernels={"npu": "linalg.solve_triangular"}, sharded="whole"))


def check_right_side(name: str, b: Any, A: Any, square: str = "") -> None:
    """Raises unless b may stand on the right of A X = b; the texts of PyTorch's older functions."""
    check_same_type("Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
                    b.dtype, A.dtype)
    m, n = A.shape[-2:]
    if m != n:
        raise RuntimeError(f"{square}A must be batches of square matrices, but they are {m} by {n} matrices")
    if b.shape[-2] != n:
        raise RuntimeError(f"Incompatible matrix sizes for {name}: each A matrix is {m} by {n} but each b matrix is "
                           f"{b.shape[-2]} by {b.shape[-1]}")


def _old_spec(self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Spec, Spec]:
    b, a = self._array.shape, A._array.shape
    for name, shape in (("b", b), ("A", a)):
        if len(shape) < 2:
            raise RuntimeError(f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has "
                               f"{len(shape)} dimensions instead")
    check_right_side("triangular_solve", self, A)
    check_kernel("triangular_solve_cpu", A)
    batch = broadcast_shape([b[:-2], a[:-2]])
    return columns((*batch, *b[-2:]), self.dtype), columns((*batch, *a[-2:]), A.dtype)


def _old(xp: Any, self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool,
         spec: tuple[Spec, Spec]) -> tuple[Any, Any]:
    matrix, flipped = (A.swapaxes(-1, -2), not upper) if transpose else (A, upper)
    solution = xp.lapack.solve_triangular(matrix, self, flipped, True, unitriangular)
    full = A if A.shape == spec[1].shape else xp.broadcast_to(A, spec[1].shape)
    return placed(xp, solution, spec[0]), xp.lapack.in_columns(full)


def _old_grads(grads: tuple, A: Any, solution: Any, upper: bool, transpose: bool, unitriangular: bool,
               needs: tuple) -> tuple:
    of_solution, of_copy = grads
    if of_solution is None:
        return None, of_copy
    matrix, flipped = (A.mT, not upper) if transpose else (A, upper)
    of_a, of_b = _solve_triangular_grads(of_solution, matrix, solution, flipped, True, unitriangular, needs[::-1])
    if of_a is not None:
        of_a = of_a.mT if transpose else of_a
        of_a = of_a if of_copy is None else of_a + of_copy
    return of_b, of_a


def _old_by_parts(self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> tuple:
    matrix, flipped = (A.mT, not upper) if transpose else (A, upper)
    solution = solve_triangular(matrix, self, upper=flipped, unitriangular=unitriangular)
    return solution, A.mT.expand((*solution.shape[:-2], *A.shape[-2:])).clone().contiguous().mT


_OLD_ARGUMENTS = ("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
                  "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)")
_old_solve = function_of(op("_" + _OLD_ARGUMENTS, kernel=computes(_old_spec, _old), grad={"self, A": _old_grads},
                            node="TriangularSolveBackward0", batch=matrices, public="",
                            decomposition=_old_by_parts))


@composite(_OLD_ARGUMENTS,
           samples=cases(case(t(3, 2), t(3, 3, low=1.0, high=2.0)), case(t(2, 3, 2), t(3, 3, low=1.0), False),
                         case(t(3, 2), t(3, 3, low=1.0), True, True), case(t(3, 2), t(3, 3), False, False, True),
                         error(RuntimeError, "Incompatible matrix sizes for triangular_solve: each A matrix is 3 by 3 "
                                             "but each b matrix is 4 by 2", t(4, 2), t(3, 3))),
           autocast=dict(cpu="float32"), aten=LEAF, sharded="whole")
def _triangular_solve(self, A, upper, transpose, unitriangular):
    warn_once("torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed i"
              "n a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not "
              "return a copy of one of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced "
              "with\nX = torch.linalg.solve_triangular(A, B).")
    return named("triangular_solve", *_old_solve(self, A, upper, transpose, unitriangular))
