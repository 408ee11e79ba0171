"""torch.linalg beyond the generated tests: defining equations, derivatives of decompositions, singular matrices."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import linalg

TYPES = ("float64", "complex128")
both_types = pytest.mark.parametrize("dtype", TYPES)


def draw(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng((seed, *shape))
    made = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        made = made + 1j * rng.standard_normal(shape)
    return torch.from_numpy(np.asarray(made).astype(dtype))


def hermitian(A: Any) -> Any:
    return A + A.mH


def positive(A: Any) -> Any:
    return A @ A.mH + 2 * torch.eye(A.shape[-1], dtype=A.dtype)


def regular(A: Any) -> Any:
    """Well away from singular, its singular values and eigenvalues apart."""
    n = A.shape[-1]
    return 0.3 * A + torch.diag(torch.arange(1.0, n + 1)).to(A.dtype)


def assert_close(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)


# defining equations --------------------------------------------------------------------------------------------------

SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 3, 3), (0, 3), (3, 0), (2, 0, 3), (0, 3, 3)]


@both_types
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    A = draw(*shape, dtype=dtype)
    Q, R = linalg.qr(A)
    assert_close(Q @ R, A)
    Q, R = linalg.qr(A, "complete")
    assert_close(Q @ R, A)
    U, S, Vh = linalg.svd(A, full_matrices=False)
    assert_close((U * S.unsqueeze(-2)) @ Vh, A)
    U, S, Vh = linalg.svd(A)
    assert_close(U @ U.mH, torch.eye(A.shape[-2], dtype=A.dtype).expand(U.shape))
    assert_close(Vh @ Vh.mH, torch.eye(A.shape[-1], dtype=A.dtype).expand(Vh.shape))
    P, L, U = linalg.lu(A)
    assert_close(P @ L @ U, A)
    P, L, U = torch.lu_unpack(*torch.lu(A))
    assert_close(P @ L @ U, A)
    pinv = linalg.pinv(A)
    assert_close(A @ pinv @ A, A)


@both_types
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 0), (0, 3, 3)])
def test_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    A, B = regular(draw(*shape, dtype=dtype)), draw(*shape[:-1], 2, dtype=dtype)
    eye = torch.eye(shape[-1], dtype=A.dtype).expand(shape)
    assert_close(linalg.inv(A) @ A, eye)
    assert_close(A @ linalg.solve(A, B), B)
    assert_close(linalg.solve(A, B.mT, left=False) @ A, B.mT)
    L, V = linalg.eig(A)
    assert_close(A.to(V.dtype) @ V, V * L.unsqueeze(-2))
    L, V = linalg.eigh(hermitian(A))
    assert_close(hermitian(A) @ V, V * L.unsqueeze(-2))
    assert_close(linalg.eigvalsh(hermitian(A), UPLO="U"), L)
    C = linalg.cholesky(positive(A))
    assert_close(C @ C.mH, positive(A))
    upper = linalg.cholesky(positive(A), upper=True)
    assert_close(upper.mH @ upper, positive(A))
    assert_close(torch.cholesky_solve(B, C), linalg.solve(positive(A), B))
    assert_close(torch.cholesky_solve(B, upper, upper=True), linalg.solve(positive(A), B))
    assert_close(torch.cholesky_inverse(C), linalg.inv(positive(A)))
    sign, logabsdet = linalg.slogdet(A)
    assert_close(sign * logabsdet.exp(), linalg.det(A))
    assert_close(linalg.matrix_power(A, -3) @ linalg.matrix_power(A, 3), eye)
    assert_close(linalg.matrix_exp(A) @ linalg.matrix_exp(-A), eye, 1e-7)


@both_types
@pytest.mark.parametrize("left, adjoint", itertools.product((True, False), repeat=2))
def test_solving_with_lu_factors(left: bool, adjoint: bool, dtype: str) -> None:
    A, B = regular(draw(2, 1, 3, 3, dtype=dtype)), draw(4, 3, 3, dtype=dtype)
    LU, pivots = linalg.lu_factor(A)
    X = linalg.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)
    assert X.shape == (2, 4, 3, 3)
    matrix = A.mH if adjoint else A
    assert_close(matrix @ X if left else X @ matrix, B.expand(X.shape))


@both_types
@pytest.mark.parametrize("is_hermitian", [False, True])
def test_ldl(is_hermitian: bool, dtype: str) -> None:
    A = draw(5, 7, 7, dtype=dtype, seed=3)
    A = hermitian(A) if is_hermitian else A + A.mT
    A = A - torch.diag_embed(A.diagonal(0, -2, -1))  # a diagonal of zeros takes blocks of 2 by 2
    LD, pivots = linalg.ldl_factor(A, hermitian=is_hermitian)
    assert bool((pivots < 0).any())
    B = draw(7, 2, dtype=dtype)
    X = linalg.ldl_solve(LD, pivots, B, hermitian=is_hermitian)
    assert_close(A @ X, B.expand(X.shape), 1e-8)


@both_types
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3), (3, 3)])
def test_reflectors(shape: tuple[int, ...], dtype: str) -> None:
    A = draw(*shape, dtype=dtype)
    reflectors, tau = torch.geqrf(A)
    Q = linalg.householder_product(reflectors, tau)
    assert_close(Q, linalg.qr(A).Q)
    assert_close(torch.orgqr(reflectors, tau), Q)
    full = linalg.qr(A, "complete").Q
    C = draw(*shape[:-1], 2, dtype=dtype)
    assert_close(torch.ormqr(reflectors, tau, C), full @ C)
    assert_close(torch.ormqr(reflectors, tau, C, transpose=True), full.mH @ C)
    assert_close(torch.ormqr(reflectors, tau, C.mT, left=False), C.mT @ full)


@both_types
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_least_squares(shape: tuple[int, ...], driver: str, dtype: str) -> None:
    A, B = draw(*shape, dtype=dtype), draw(*shape[:-1], 2, dtype=dtype)
    solution, residuals, rank, singular_values = linalg.lstsq(A, B, driver=driver)
    assert_close(solution, linalg.pinv(A) @ B)
    if shape == (5, 3) and driver != "gelsy":
        assert_close(residuals, (A @ solution - B).abs().square().sum(-2))
    if driver != "gels":
        assert bool((rank == min(shape[-2:])).all())
    if driver in ("gelsd", "gelss"):
        assert_close(singular_values, linalg.svdvals(A))


def test_rank_deficient_least_squares() -> None:
    A = torch.ones(4, 2, dtype=torch.float64)
    solution, residuals, rank, _ = linalg.lstsq(A, torch.ones(4, 1, dtype=torch.float64), driver="gelsd")
    assert (rank.item(), residuals.numel()) == (1, 0)
    assert_close(solution, torch.full((2, 1), 0.5, dtype=torch.float64))


def test_results_lie_column_by_column() -> None:
    A = draw(2, 4, 4)
    for made in (linalg.inv(A), linalg.qr(A).Q, linalg.svd(A).U, linalg.svd(A).Vh, linalg.eigh(A)[1],
                 linalg.lu_factor(A)[0], linalg.solve(A, A), linalg.cholesky(positive(A)),
                 linalg.householder_product(*torch.geqrf(A))):  # fmt: skip
        assert made.stride() == (16, 1, 4)
    for made in (linalg.pinv(A), linalg.lu(A).L, linalg.matrix_exp(A), linalg.solve(A, A, left=False)):
        assert made.stride() == (16, 4, 1)
    assert linalg.lstsq(draw(5, 3), draw(5, 2)).solution.stride() == (1, 5)


# singular matrices ---------------------------------------------------------------------------------------------------

SINGULAR = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])
INVERSION = "could not be completed because the input matrix is singular."
FAILURES: list[tuple[Callable[[Any], Any], str]] = [
    (linalg.inv, f"linalg.inv: (Batch element 1): The diagonal element 2 is zero, the inversion {INVERSION}"),
    (torch.inverse, f"linalg.inv: (Batch element 1): The diagonal element 2 is zero, the inversion {INVERSION}"),
    (lambda A: linalg.inv(A[1]), f"linalg.inv: The diagonal element 2 is zero, the inversion {INVERSION}"),
    (lambda A: linalg.inv_ex(A, check_errors=True), "linalg.inv_ex: (Batch element 1): The diagonal element 2 is zero"),
    (lambda A: linalg.solve(A, A),
     "torch.linalg.solve: (Batch element 1): The solver failed because the input matrix is singular."),
    (lambda A: linalg.cholesky(-A), "linalg.cholesky: (Batch element 0): The factorization could not be completed "
     "because the input is not positive-definite (the leading minor of order 1 is not positive-definite)."),
    (torch.cholesky_inverse,
     f"cholesky_inverse: (Batch element 1): The diagonal element 2 is zero, the inversion {INVERSION}"),
    (lambda A: linalg.svd(A * float("nan")), "linalg.svd: (Batch element 0): The algorithm failed to converge because "
     "the input matrix contained non-finite values."),
    (lambda A: linalg.eigh(torch.full((3, 3), float("nan"))), "linalg.eigh: The algorithm failed to converge because "
     "the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: "),
]  # fmt: skip


@pytest.mark.parametrize("call, text", FAILURES)
def test_what_a_singular_matrix_raises(call: Callable, text: str) -> None:
    given = torch.tril(SINGULAR) if call is torch.cholesky_inverse else SINGULAR
    if call is torch.cholesky_inverse:
        given = given * torch.tensor([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]]])
    with pytest.raises(linalg.LinAlgError) as caught:
        call(given)
    assert text in str(caught.value)
    assert isinstance(caught.value, RuntimeError)


def test_lu_factor_refuses_a_zero_pivot() -> None:
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): U\[2,2\] is zero and using it on lu_solve"):
        linalg.lu_factor(SINGULAR)
    assert linalg.lu_factor_ex(SINGULAR).info.tolist() == [0, 2]


def test_codes_instead_of_errors() -> None:
    inverse, info = linalg.inv_ex(SINGULAR)
    assert info.tolist() == [0, 2]
    assert info.dtype is torch.int32
    assert_close(inverse[0], SINGULAR[0])
    assert inverse[1].isinf().all()
    result, info = linalg.solve_ex(SINGULAR, torch.ones(2, 1))
    assert info.tolist() == [0, 2]
    assert linalg.cholesky_ex(torch.tensor([[1.0, 2.0], [2.0, 1.0]])).info.item() == 2


def test_eig_refuses_what_is_not_finite() -> None:
    with pytest.raises(RuntimeError, match="torch.linalg.eig: input tensor should not contain infs or NaNs."):
        linalg.eig(SINGULAR * float("inf"))


def test_condition_of_a_singular_matrix_is_infinite() -> None:
    assert linalg.cond(SINGULAR, 1)[1].isinf()
    assert linalg.matrix_rank(SINGULAR).tolist() == [2, 1]


# derivatives ---------------------------------------------------------------------------------------------------------


def triangle(A: Any) -> Any:
    """A Cholesky factor: its diagonal is real."""
    return regular(A).tril(-1) + torch.diag_embed(regular(A).diagonal(0, -2, -1).real).to(A.dtype)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda A: linalg.cholesky(positive(A)),
    "cholesky upper": lambda A: linalg.cholesky(positive(A), upper=True),
    "cholesky_solve": lambda A: torch.cholesky_solve(A, triangle(A)),
    "cholesky_solve upper": lambda A: torch.cholesky_solve(A, triangle(A).mT, upper=True),
    "cholesky_inverse": lambda A: torch.cholesky_inverse(triangle(A)),
    "inv": lambda A: linalg.inv(regular(A)),
    "solve": lambda A: linalg.solve(regular(A), A),
    "solve right": lambda A: linalg.solve(regular(A), A, left=False),
    "solve vector": lambda A: linalg.solve(regular(A), A[..., 0]),
    "solve_triangular": lambda A: linalg.solve_triangular(regular(A), A, upper=True, left=False),
    "lu": lambda A: linalg.lu(regular(A))[1:],
    "lu wide": lambda A: linalg.lu(regular(A)[..., :2, :])[1:],
    "lu tall": lambda A: linalg.lu(regular(A)[..., :2])[1:],
    "lu_factor": lambda A: linalg.lu_factor(regular(A))[0],
    "lu_solve": lambda A: linalg.lu_solve(*linalg.lu_factor(regular(A)), A),
    "lu_solve right adjoint": lambda A: linalg.lu_solve(*linalg.lu_factor(regular(A)), A, left=False, adjoint=True),
    "qr": lambda A: linalg.qr(regular(A)),
    "qr wide": lambda A: linalg.qr(regular(A)[..., :2, :]),
    "householder_product": lambda A: linalg.householder_product(A, A[..., 0]),
    "ormqr": lambda A: torch.ormqr(A, A[..., 0], A),
    "eigvalsh": lambda A: linalg.eigvalsh(hermitian(regular(A))),
    "eigh": lambda A: linalg.eigh(hermitian(regular(A)))[1].abs(),
    "eigvals": lambda A: linalg.eigvals(regular(A)),
    "eig": lambda A: linalg.eig(regular(A))[1].abs(),
    "svdvals": lambda A: linalg.svdvals(regular(A)),
    "svd": lambda A: tuple(part.abs() for part in linalg.svd(regular(A))),
    "svd tall": lambda A: tuple(part.abs() for part in linalg.svd(regular(A)[..., :2], full_matrices=False)),
    "svd wide": lambda A: tuple(part.abs() for part in linalg.svd(regular(A)[..., :2, :], full_matrices=False)),
    "pinv": lambda A: linalg.pinv(A[..., :2]),
    "pinv hermitian": lambda A: linalg.pinv(hermitian(regular(A)), hermitian=True),
    "lstsq": lambda A: linalg.lstsq(A[..., :2], A, driver="gelsd")[:2],
    "lstsq wide": lambda A: linalg.lstsq(A[..., :2, :], A[..., :2, :1]).solution,
    "det": linalg.det,
    "slogdet": lambda A: linalg.slogdet(regular(A)),
    "logdet": lambda A: torch.logdet(positive(A)),
    "matrix_exp": linalg.matrix_exp,
    "matrix_power": lambda A: linalg.matrix_power(regular(A), -2),
    "nuclear norm": lambda A: linalg.matrix_norm(A, "nuc"),
    "spectral norm": lambda A: linalg.matrix_norm(A, 2),
    "cond": lambda A: linalg.cond(regular(A), "fro"),
    "tensorinv": lambda A: linalg.tensorinv(regular(A), 1) if A.dim() == 2 else A,
    "multi_dot": lambda A: linalg.multi_dot([A[..., 0], A, A]) if A.dim() == 2 else A,
}  # fmt: skip


@both_types
@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_derivatives(name: str, shape: tuple[int, ...], dtype: str) -> None:
    function = DERIVATIVES[name]
    A = draw(*shape, dtype=dtype, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(function, A)
    if len(shape) == 2:
        assert torch.autograd.gradgradcheck(function, A, atol=1e-4)


def test_determinant_of_singular_matrices_has_a_gradient() -> None:
    A = torch.stack([draw(3, 3), torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 2]], dtype=torch.float64)])
    assert torch.autograd.gradcheck(linalg.det, A.requires_grad_())
    assert torch.autograd.gradgradcheck(linalg.det, A[1].detach().requires_grad_(), atol=1e-3)


GAUGES: list[tuple[Callable, str]] = [
    (lambda A: linalg.eigh(hermitian(A))[1], "linalg_eigh_backward: The eigenvectors in the complex case are"),
    (lambda A: linalg.eig(A)[1], "linalg_eig_backward: The eigenvectors in the complex case are specified"),
    (lambda A: linalg.svd(A).U, "svd_backward: The singular vectors in the complex case are specified"),
]


@pytest.mark.parametrize("vectors, text", GAUGES)
def test_losses_that_depend_on_a_phase_are_refused(vectors: Callable, text: str) -> None:
    A = draw(3, 3, dtype="complex128").requires_grad_()
    with pytest.raises(RuntimeError, match=text):
        vectors(A).real.sum().backward()


def test_what_has_no_derivative_says_so() -> None:
    A = positive(draw(3, 3)).requires_grad_()
    with pytest.raises(RuntimeError, match="derivative for aten::linalg_ldl_factor_ex is not implemented"):
        linalg.ldl_factor(A)[0].sum().backward()
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented."):
        torch.geqrf(A)[0].sum().backward()
    with pytest.raises(RuntimeError, match="which is not computed when mode='r'"):
        linalg.qr(A, "r").R.sum().backward()
    singular_values = linalg.lstsq(A, A, driver="gelsd").singular_values
    assert not singular_values.requires_grad


# the rest ------------------------------------------------------------------------------------------------------------


def test_norms_agree() -> None:
    A = draw(3, 4)
    S = linalg.svdvals(A)
    for made in (torch.norm(A, p="nuc"), A.norm("nuc"), torch.nuclear_norm(A), linalg.norm(A, "nuc")):
        assert_close(made, S.sum())
    assert_close(linalg.norm(A, -2), S[-1])
    assert linalg.matrix_norm(draw(2, 3, 4), "nuc", (2, 0), keepdim=True).shape == (1, 3, 1)
    with pytest.raises(RuntimeError, match="Order x not supported"):
        torch.norm(A, p="x")


def test_tolerances_of_rank_and_pseudoinverse() -> None:
    A = torch.diag(torch.tensor([1.0, 0.1, 1e-3], dtype=torch.float64))
    assert linalg.matrix_rank(A).item() == 3
    assert linalg.matrix_rank(A, 0.01).item() == 2
    assert linalg.matrix_rank(A, rtol=0.5).item() == 1
    assert linalg.matrix_rank(A, tol=torch.tensor([0.5, 0.01, 0.0])).tolist() == [1, 2, 3]
    assert linalg.matrix_rank(-A, hermitian=True, atol=torch.tensor(0.05)).item() == 2
    assert_close(linalg.pinv(A, atol=0.05), torch.diag(torch.tensor([1.0, 10.0, 0.0], dtype=torch.float64)))
    assert_close(linalg.pinv(-A, rcond=0.5, hermitian=True), torch.diag(torch.tensor([-1.0, 0, 0], dtype=A.dtype)))


def test_deprecated_functions_warn_once() -> None:
    torch.set_warn_always(True)
    A = positive(draw(3, 3))
    try:
        for call in (lambda: torch.cholesky(A), lambda: torch.qr(A), lambda: torch.lu(A), lambda: torch.chain_matmul(A),
                     lambda: torch.triangular_solve(A, A)):  # fmt: skip
            with pytest.warns(UserWarning, match="is deprecated"):
                call()
    finally:
        torch.set_warn_always(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.cholesky(A)


def test_low_rank_decompositions() -> None:
    A = draw(9, 3) @ draw(3, 7)
    for matrix in (A, A.mT):
        U, S, V = torch.svd_lowrank(matrix, q=3)
        assert_close((U * S) @ V.mT, matrix)
    U, S, V = torch.pca_lowrank(A, q=3)
    assert_close((U * S) @ V.mT, A - A.mean(0))
    with pytest.raises(ValueError, match="must be non-negative integer and not greater than min"):
        torch.pca_lowrank(A, q=8)


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg(largest: bool) -> None:
    A = positive(draw(2, 12, 12))
    E, X = torch.lobpcg(A, k=2, largest=largest, tol=1e-10)
    expected = linalg.eigvalsh(A)
    assert_close(E, expected.flip(-1)[:, :2] if largest else expected[:, :2], 1e-6)
    assert_close(A @ X, X * E.unsqueeze(-2), 1e-4)
    B = positive(draw(12, 12, seed=5))
    E, X = torch.lobpcg(A[0], k=2, B=B, largest=largest, tol=1e-10)
    assert_close(A[0] @ X, B @ X * E, 1e-3)
    with pytest.raises(ValueError, match="is smaller than 3 x the number of requested eigenpairs"):
        torch.lobpcg(A[0], k=5)


def test_lobpcg_has_the_derivatives_of_eigh() -> None:
    A, weights = positive(draw(9, 9)), draw(9, 9)
    first, second = [], []
    for values in (lambda A: torch.lobpcg(A, k=2, tol=1e-12), lambda A: [part[..., -2:] for part in linalg.eigh(A)]):
        leaf = A.clone().requires_grad_()
        E, X = values((leaf + leaf.mT) / 2)
        (gradient,) = torch.autograd.grad(E.square().sum() + X.square()[0].sum(), leaf, create_graph=True)
        first.append(gradient.detach())
        second += torch.autograd.grad((gradient * weights).sum(), leaf)
    assert_close(*first, 1e-6)
    assert_close(*second, 1e-6)
    assert second[0].abs().max() > 0.1


def test_out_takes_several_tensors() -> None:
    A = draw(3, 3)
    out = (torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64))
    made = linalg.qr(A, out=out)
    assert made.Q is out[0]
    assert_close(out[0] @ out[1], A)


def test_meta_tensors_have_results_without_values() -> None:
    A = torch.empty(2, 3, 3, device="meta", requires_grad=True)
    for made in (linalg.inv(A), linalg.cholesky(A), linalg.eigh(A)[1], linalg.det(A), linalg.svd(A).U):
        assert made.device.type == "meta"
        (gradient,) = torch.autograd.grad(made.sum(), A)
        assert gradient.shape == A.shape


def test_addmm_asks_for_one_type_before_it_asks_for_matrices() -> None:
    whole, vector, matrix = torch.ones(2, 2, dtype=torch.int64), torch.ones(2), torch.ones(2, 2)
    for call in (torch.addmm, torch.Tensor.addmm_):
        with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype, but got Long and Float"):
            call(whole, whole, vector)
        with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype, but got Long and Float"):
            call(vector, whole, vector)
        with pytest.raises(RuntimeError, match="mat2 must be a matrix, got 1-D tensor"):
            call(torch.ones(()), matrix, vector)
        with pytest.raises(RuntimeError, match="mat2 must be a matrix, got 0-D tensor"):
            call(matrix, matrix, torch.ones(()))


@pytest.mark.parametrize(("left", "right", "message"), (
    ((2,), (2,), "result dtype Double does not match input dtype Long"),
    ((2,), (2, 2), "Expected out tensor to have dtype long int, but got double instead"),
    ((2, 2), (2, 2, 2), "Expected out tensor to have dtype float, but got double instead"),
    ((2, 2), (2,), "addmv input tensors must have the same dtype, but got Float, Long, and Float"),
    ((2, 2, 2), (2,), "addmv input tensors must have the same dtype, but got Double, Long, and Float"),
))
def test_matmul_says_first_what_the_type_of_out_should_be(left: Any, right: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.matmul(torch.ones(left, dtype=torch.int64), torch.ones(right), out=torch.empty(0, dtype=torch.float64))


def test_many_rows_have_the_distances_of_few() -> None:
    rng = np.random.default_rng(2)
    x, y = (torch.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((40, 3), (5, 3)))
    many, each = torch.cdist(x, y), torch.stack([torch.cdist(row, y)[0] for row in x.split(1)])
    assert type(many.grad_fn).__name__ == "EuclideanDistBackward0"
    assert type(torch.cdist(x[:4], y).grad_fn).__name__ == "CdistBackward0"
    torch.testing.assert_close(many, each)
    for found, wanted in zip(*(torch.autograd.grad((made**2).sum(), (x, y)) for made in (many, each)), strict=True):
        torch.testing.assert_close(found, wanted)


def test_the_copy_that_triangular_solve_returns_has_a_gradient() -> None:
    A = torch.tensor([[2.0, 1.0], [0.0, 4.0]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    solution, copied = torch.triangular_solve(b, A)
    assert solution.stride() == (1, 2) and copied.stride() == (1, 2)
    (solution.sum() + (copied * 3).sum()).backward()
    assert A.grad.tolist() == [[2.875, 2.75], [3.0, 2.9375]]


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128])
@pytest.mark.parametrize("factors", [3, 2])
def test_products_of_reflectors_are_differentiated_twice(kind: torch.dtype, factors: int) -> None:
    torch.manual_seed(1)
    A = torch.randn(4, 3, dtype=kind, requires_grad=True)
    tau = torch.randn(factors, dtype=kind, requires_grad=True)
    assert torch.autograd.gradcheck(torch.linalg.householder_product, (A, tau))
    assert torch.autograd.gradgradcheck(torch.linalg.householder_product, (A, tau))
    if factors == 3:
        other = torch.randn(4, 2, dtype=kind, requires_grad=True)
        for transpose in (False, True):
            assert torch.autograd.gradcheck(lambda *x, t=transpose: torch.ormqr(*x, True, t), (A, tau, other))
            assert torch.autograd.gradcheck(lambda a, b, c, t=transpose: torch.ormqr(a, b, c.mT, False, t),
                                            (A, tau, other))  # fmt: skip


def test_nothing_is_multiplied_by_reflectors_of_nothing() -> None:
    for shape, left in (((5, 0), False), ((0, 5), True)):
        made = torch.ormqr(torch.ones(0, 5), torch.ones(0), torch.ones(shape), left, True)
        assert tuple(made.shape) == shape
    batch = torch.ormqr(torch.ones(2, 3, 0), torch.ones(2, 0), torch.ones(2, 3, 4))
    assert (batch == 1).all() and batch.shape == (2, 3, 4)


def test_products_of_small_integers_are_exact() -> None:
    left = torch.tensor([[127, -128], [100, 3]], dtype=torch.int8)
    made = torch._int_mm(left, left.t())
    assert made.dtype is torch.int32 and made.tolist() == [[32513, 12316], [12316, 10009]]
    assert torch._int_mm(left.to(torch.uint8), left).tolist() == [[28929, -15872], [13000, -12791]]
    with pytest.raises(RuntimeError, match="Expected mat2 dtype to be of type int8"):
        torch._int_mm(left, left.float())
    half = torch.tensor([[1.0, -2.0]])
    assert torch._addmm_activation(torch.zeros(2), half, torch.eye(2)).tolist() == [[1.0, 0.0]]
    assert torch._weight_int8pack_mm(half, left, torch.tensor([1.0, 0.5])).tolist() == [[383.0, 47.0]]


def test_a_product_with_gelu_after_it() -> None:
    bias, a, b = torch.ones(2), torch.tensor([[1.0, -2.0, 0.5]]), torch.full((3, 2), 0.3)
    expected = torch.nn.functional.gelu(torch.addmm(bias, a, b))
    torch.testing.assert_close(torch._addmm_activation(bias, a, b, use_gelu=True), expected)
