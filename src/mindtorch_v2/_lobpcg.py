"""A few extreme eigenpairs of a symmetric matrix, by the locally optimal block preconditioned conjugate gradient."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ._autograd import enable_grad, is_grad_enabled, no_grad
from ._core.dtype import finfo
from ._core.tensor import Tensor
from ._ops._declare.op import public_functions
from .autograd import Function, grad

__all__ = ["lobpcg"]

_linalg, _torch = public_functions("linalg"), public_functions("torch")


def lobpcg(A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None, iK: Any = None,
           niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: Callable | None = None, ortho_iparams: dict[str, int] | None = None,
           ortho_fparams: dict[str, float] | None = None,
           ortho_bparams: dict[str, bool] | None = None) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues E and eigenvectors X of A X = E B X.

    Both of PyTorch's methods search the same subspaces; here one orthonormal basis of them serves both, so that
    `method` and the parameters of its orthogonalisation change nothing.
    """
    differentiated = A.requires_grad or (B is not None and B.requires_grad)
    assert A.shape[-2] == A.shape[-1], f"A must be square, got shape {A.shape}"
    found = _start(A, k, X, n)
    settings = (found[0], found[1], iK, 1000 if niter is None else niter, tol, largest is None or largest, tracker)
    if differentiated:
        symmetric = (A + A.mH) / 2
        return _Eigenpairs.apply(symmetric, None if B is None else (B + B.mH) / 2, settings)
    with no_grad():
        return _search(A, B, *settings)


def _start(A: Any, k: int | None, X: Any, n: int | None) -> tuple[int, Any]:
    """How many pairs are wanted, and the vectors that the search starts from."""
    rows = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    if not k:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    if rows < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x "
                         f"the number of requested eigenpairs (={n})")
    if X is None:
        X = _torch["randn"]((*A.shape[:-1], n), dtype=A.dtype if A.dtype.is_floating_point else None, device=A.device)
    return k, X


def _search(A: Any, B: Any, k: int, X: Any, iK: Any, niter: int, tol: float | None, largest: bool,
            tracker: Callable | None) -> tuple[Tensor, Tensor]:
    if A.dim() > 2:
        pairs = [_search(A[i], None if B is None else B[i], k, X[i], None if iK is None else iK[i], niter, tol, largest,
                         tracker) for i in range(A.shape[0])]
        return _torch["stack"]([E for E, _ in pairs]), _torch["stack"]([V for _, V in pairs])
    tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    n = X.shape[-1]
    size = X.norm()
    of_a, of_b = A.matmul(X).norm() / size, 1.0 if B is None else B.matmul(X).norm() / size
    E, X, _ = _ritz(A, B, X, n, largest)
    step, P = 0, None
    while True:
        residual = A.matmul(X) - _times(B, X) * E
        error = residual.norm(2, 0) / (X.norm(2, 0) * (of_a + of_b * E.abs()))
        step += 1
        if tracker is not None:
            tracker(SimpleNamespace(ivars={"istep": step}, tvars={"rerr": error}, E=E, X=X, R=residual))
        if step == niter or bool((error[:k] < tol).all()):
            return E[:k], X[:, :k]
        W = residual if iK is None else iK.matmul(residual)
        E, X, P = _ritz(A, B, _torch["cat"]([X, W] if P is None else [X, P, W], -1), n, largest)


def _times(B: Any, X: Any) -> Any:
    return X if B is None else B.matmul(X)


def _ritz(A: Any, B: Any, space: Any, n: int, largest: bool) -> tuple[Any, Any, Any]:
    """The best n eigenpairs in the span of `space`, and what they have outside of its first n vectors."""
    Q = _linalg["qr"](space).Q
    if B is not None:
        Q = _linalg["solve_triangular"](_linalg["cholesky"](Q.mH @ B.matmul(Q)).mH, Q, upper=True, left=False)
    E, Z = _linalg["eigh"](Q.mH @ A.matmul(Q))
    if largest:
        E, Z = E.flip(-1), Z.flip(-1)
    E, Z = E[:n], Z[:, :n]
    return E, Q @ Z, Q[:, n:] @ Z[n:]


class _Eigenpairs(Function):
    """The search, with the derivative of the full decomposition."""

    @staticmethod
    def forward(ctx: Any, A: Any, B: Any, settings: tuple) -> tuple[Tensor, Tensor]:
        E, X = _search(A, B, *settings)
        ctx.save_for_backward(A, X)
        ctx.generalised, ctx.largest = B is not None, settings[5]
        return E, X

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        if ctx.generalised:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        A, X = ctx.saved_tensors
        k, again = X.shape[-1], is_grad_enabled()  # the gradient is itself derived then
        with enable_grad():
            A = A if again else A.detach().requires_grad_()
            E, V = _linalg["eigh"](A)
            if ctx.largest:
                E, V = E.flip(-1), V.flip(-1)
            E, V = E[..., :k], V[..., :k]
            phase = (V.detach().mH @ X.detach()).diagonal(0, -2, -1).sgn()
            return *grad((E, V * phase.unsqueeze(-2)), A, grads, create_graph=again), None, None
