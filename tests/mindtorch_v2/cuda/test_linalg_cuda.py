"""Decompositions on a GPU beyond what samples reach: matrices of all small shapes, of low rank, and of odd numbers."""

import numpy as np
import pytest

import mindtorch_v2 as torch

SHAPES = ((1, 1), (2, 2), (5, 5), (2, 3, 7), (3, 9, 4), (32, 32), (2, 40, 6), (6, 64), (64, 32), (40, 40))
DIGITS = {"float32": 2e-5, "float64": 1e-12}


def matrices(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def check_svd(given: np.ndarray, full: bool, tolerance: float) -> None:
    """Singular values as on the CPU, vectors that are orthogonal and give the matrix again."""
    A = torch.from_numpy(given)
    U, S, Vh = torch.linalg.svd(A.cuda(), full_matrices=full)
    wanted = torch.linalg.svd(A, full_matrices=full)
    for made, expected in zip((U, S, Vh), wanted, strict=True):
        assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
    scale = max(float(np.abs(given).max(initial=0)), 1e-300)
    s, u, vh = (x.numpy(force=True) for x in (S, U, Vh))
    np.testing.assert_allclose(s, wanted[1].numpy(), rtol=0, atol=tolerance * scale * 8)
    k = s.shape[-1]
    np.testing.assert_allclose(u[..., :k] * s[..., None, :] @ vh[..., :k, :], given, rtol=0, atol=tolerance * scale * 8)
    for left in (u, vh.swapaxes(-1, -2)):
        products = left.swapaxes(-1, -2) @ left
        np.testing.assert_allclose(products, np.broadcast_to(np.eye(left.shape[-1]), products.shape), rtol=0,
                                   atol=tolerance)
    values = torch.linalg.svdvals(A.cuda()).numpy(force=True)
    np.testing.assert_allclose(values, s, rtol=0, atol=tolerance * scale * 8)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape: tuple[int, ...], dtype: str) -> None:
    for full in (False, True):
        check_svd(matrices(shape, dtype), full, DIGITS[dtype])


@pytest.mark.parametrize("dtype", DIGITS)
def test_singular_values_of_low_rank(dtype: str) -> None:
    """Zero, repeated, large and tiny ones; columns that are zero leave vectors to be chosen."""
    one = np.ones((6, 4), dtype)
    some = matrices((6, 2), dtype) @ matrices((2, 5), dtype)
    for given in (one, np.zeros((3, 4), dtype), np.eye(4, dtype=dtype), some, some * 1e30, some * 1e-30, some.T.copy()):
        for full in (False, True):
            check_svd(given, full, DIGITS[dtype])
    assert torch.linalg.matrix_rank(torch.from_numpy(some).cuda()).item() == 2


def test_numbers_that_are_not_finite() -> None:
    given = torch.eye(3).repeat(2, 1, 1)
    given[1, 0, 1] = float("inf")
    assert torch.linalg.svdvals(given.cuda()).isnan().any(-1).tolist() == [False, True]
    given[1, 0, 1] = float("nan")
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\).*non-finite values"):
        torch.linalg.svdvals(given.cuda())


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [1, 2, 5, 31, 32, 40])
def test_eigenvalues(n: int, uplo: str) -> None:
    """Of one triangle, positive and negative ones, in pairs of equal size too."""
    A = matrices((3, n, n), "float32")
    A[2] = np.diag([(-1.0) ** i for i in range(n)])
    given = torch.from_numpy(A)
    values, vectors = torch.linalg.eigh(given.cuda(), uplo)
    wanted = torch.linalg.eigh(given, uplo)
    assert vectors.stride() == wanted[1].stride()
    L, V = values.numpy(force=True), vectors.numpy(force=True)
    np.testing.assert_allclose(L, wanted[0].numpy(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(torch.linalg.eigvalsh(given.cuda(), uplo).numpy(force=True), L, rtol=0, atol=1e-5)
    triangle = np.tril(A) if uplo == "L" else np.triu(A)
    whole = triangle + triangle.swapaxes(-1, -2) - np.eye(n) * A
    np.testing.assert_allclose(V * L[:, None, :] @ V.swapaxes(-1, -2), whole, rtol=0, atol=1e-4)
