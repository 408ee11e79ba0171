"""Factorisations and solutions of stacks of small matrices: arrays are [stack, rows, columns], changed where they lie.

Steps that depend on each other follow each other; within one, elements are by themselves (`parallel`), so that a team
of threads can share a matrix.
"""

from ..language import copysign, function, kernel, larger, like, parallel, sqrt


@kernel
def factor(LU, pivots, info):
    """L below the diagonal, U on and above it; the rows exchanged, and the first zero on U's diagonal, from 1 on."""
    m, n = LU.shape[1], LU.shape[2]
    for s in parallel(LU.shape[0], LU.shape[1] * LU.shape[2] * LU.shape[2]):
        code = 0
        for k in range(min(m, n)):
            top = like(0, LU)
            for i in parallel(m - k):
                top = larger(top, abs(LU[s, k + i, k]))
            row = m
            for i in parallel(m - k):
                row = min(row, k + i if abs(LU[s, k + i, k]) == top else m)
            row = k if row == m else row  # NaN
            pivots[s, k] = row + 1
            if row != k:
                for j in parallel(n):
                    here, there = LU[s, k, j], LU[s, row, j]
                    LU[s, k, j] = there
                    LU[s, row, j] = here
            pivot = LU[s, k, k]
            if pivot == 0:
                code = k + 1 if code == 0 else code
            else:
                for i in parallel(m - k - 1):
                    LU[s, k + 1 + i, k] = LU[s, k + 1 + i, k] / pivot
                width = n - k - 1
                for t in parallel((m - k - 1) * width):
                    i, j = k + 1 + t // width, k + 1 + t % width
                    LU[s, i, j] = LU[s, i, j] - LU[s, i, k] * LU[s, k, j]
        info[s] = code


@kernel
def exchange(X, pivots, *, backwards):
    """Rows exchanged as they were in a factorisation, or back."""
    n = pivots.shape[1]
    for s in parallel(X.shape[0], 4 * n * X.shape[2]):
        for step in range(n):
            k = n - 1 - step if backwards else step
            row = pivots[s, k] - 1
            if row != k and row >= 0 and row < X.shape[1]:
                for j in parallel(X.shape[2]):
                    here, there = X[s, k, j], X[s, row, j]
                    X[s, k, j] = there
                    X[s, row, j] = here


@kernel
def order(places, pivots):
    """Where the rows of a product L U come from."""
    rows = places.shape[1]
    for s in parallel(places.shape[0], 2 * rows):
        for i in range(rows):
            places[s, i] = i
        for k in range(pivots.shape[1]):
            row = pivots[s, k] - 1
            if row >= 0 and row < rows:
                here, there = places[s, k], places[s, row]
                places[s, k] = there
                places[s, row] = here


@kernel
def solve_triangle(X, A, *, upper, unit):
    """X of A X = B, in B's place, for a triangle of A."""
    n, width = A.shape[1], X.shape[2]
    for s in parallel(X.shape[0], n * n * X.shape[2]):
        for step in range(n):
            k = n - 1 - step if upper else step
            if not unit:
                pivot = A[s, k, k]
                for j in parallel(width):
                    X[s, k, j] = X[s, k, j] / pivot
            first = 0 if upper else k + 1
            for t in parallel((k if upper else n - 1 - k) * width):
                i, j = first + t // width, t % width
                X[s, i, j] = X[s, i, j] - A[s, i, k] * X[s, k, j]


@kernel
def factor_positive(L, info):
    """The lower triangular L of A = L L^T, in the lower triangle's place; the first minor that is not positive."""
    n = L.shape[1]
    for s in parallel(L.shape[0], L.shape[1] * L.shape[1] * L.shape[1]):
        code = 0
        for k in range(n):
            if code == 0:
                pivot = L[s, k, k]
                if not pivot > 0:
                    code = k + 1
                else:
                    root = sqrt(pivot)
                    L[s, k, k] = root
                    below = n - k - 1
                    for i in parallel(below):
                        L[s, k + 1 + i, k] = L[s, k + 1 + i, k] / root
                    for t in parallel(below * below):
                        i, j = k + 1 + t // below, k + 1 + t % below
                        if j <= i:
                            L[s, i, j] = L[s, i, j] - L[s, i, k] * L[s, j, k]
        info[s] = code


@kernel
def clear_above(L):
    """Zeros above the diagonal."""
    n = L.shape[1]
    for s in parallel(L.shape[0], L.shape[1] * L.shape[1]):
        for t in parallel(n * n):
            if t % n > t // n:
                L[s, t // n, t % n] = like(0, L)


@function
def reflect(C, A, s, k, tau, first, width):
    """The columns of C from `first` on without their part along the k-th reflector of A, tau times."""
    for j in range(width):
        along = C[s, k, first + j]
        for i in parallel(A.shape[1] - k - 1):
            along += A[s, k + 1 + i, k] * C[s, k + 1 + i, first + j]
        along = along * tau
        C[s, k, first + j] = C[s, k, first + j] - along
        for i in parallel(A.shape[1] - k - 1):
            C[s, k + 1 + i, first + j] = C[s, k + 1 + i, first + j] - A[s, k + 1 + i, k] * along


@kernel
def factor_orthogonal(A, taus):
    """R on and above the diagonal, and below it what defines the reflectors whose product is Q; their factors."""
    m, n = A.shape[1], A.shape[2]
    for s in parallel(A.shape[0], A.shape[1] * A.shape[2] * A.shape[2]):
        for k in range(taus.shape[1]):
            squares = like(0, A)
            for i in parallel(m - k - 1):
                squares += A[s, k + 1 + i, k] * A[s, k + 1 + i, k]
            head = A[s, k, k]
            if squares == 0:
                taus[s, k] = like(0, A)
            else:
                beta = -copysign(sqrt(head * head + squares), head)
                taus[s, k] = (beta - head) / beta
                for i in parallel(m - k - 1):
                    A[s, k + 1 + i, k] = A[s, k + 1 + i, k] / (head - beta)
                A[s, k, k] = beta
                reflect(A, A, s, k, taus[s, k], k + 1, n - k - 1)


@kernel
def multiply_reflectors(C, A, taus, *, backwards):
    """The product of the reflectors, or, not `backwards`, its transpose, times C, in C's place."""
    for s in parallel(C.shape[0], 4 * A.shape[1] * taus.shape[1] * C.shape[2]):
        for step in range(taus.shape[1]):
            k = taus.shape[1] - 1 - step if backwards else step
            reflect(C, A, s, k, taus[s, k], 0, C.shape[2])
