"""Made by tools/stubs.py: do not edit."""

# ruff: noqa
# mypy: disable-error-code="misc, overload-overlap, overload-cannot-match, override, assignment"

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from ._core.tensor import Tensor

class _attention(NamedTuple):
    output: Tensor
    norms: Tensor

class _attention_dropped(NamedTuple):
    output: Tensor
    norms: Tensor

class _batch_norm(NamedTuple):
    output: Tensor
    mean: Tensor
    rstd: Tensor

class _cross_entropy(NamedTuple):
    output: Tensor
    top: Tensor
    total: Tensor

class _ctc_loss(NamedTuple):
    neg_log_likelihood: Tensor
    log_alpha: Tensor

class _embedding_bag(NamedTuple):
    output: Tensor
    offset2bag: Tensor
    bag_size: Tensor
    max_indices: Tensor

class _group_norm(NamedTuple):
    output: Tensor
    mean: Tensor
    rstd: Tensor

class _linalg_eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class _linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class _linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _linalg_svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class _lu_triangles(NamedTuple):
    L: Tensor
    U: Tensor

class _lu_with_info(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class _native_layer_norm(NamedTuple):
    output: Tensor
    mean: Tensor
    rstd: Tensor

class _native_rms_norm(NamedTuple):
    output: Tensor
    rstd: Tensor

class _recurrent_layer(NamedTuple):
    output: Tensor
    h_n: Tensor
    c_n: Tensor
    gates: Tensor
    kept: Tensor

class _triangular_solve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor

class aminmax(NamedTuple):
    min: Tensor
    max: Tensor

class cummax(NamedTuple):
    values: Tensor
    indices: Tensor

class cummin(NamedTuple):
    values: Tensor
    indices: Tensor

class frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class geqrf(NamedTuple):
    a: Tensor
    tau: Tensor

class histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class histogramdd(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor

class linalg_cholesky_ex(NamedTuple):
    L: Tensor
    info: Tensor

class linalg_eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class linalg_eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class linalg_inv_ex(NamedTuple):
    inverse: Tensor
    info: Tensor

class linalg_ldl_factor(NamedTuple):
    LD: Tensor
    pivots: Tensor

class linalg_ldl_factor_ex(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor

class linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class linalg_lu(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class linalg_lu_factor(NamedTuple):
    LU: Tensor
    pivots: Tensor

class linalg_lu_factor_ex(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class linalg_qr(NamedTuple):
    Q: Tensor
    R: Tensor

class linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class linalg_solve_ex(NamedTuple):
    result: Tensor
    info: Tensor

class linalg_svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class log_sigmoid_forward(NamedTuple):
    output: Tensor
    buffer: Tensor

class lu_unpack(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class max(NamedTuple):
    values: Tensor
    indices: Tensor

class median(NamedTuple):
    values: Tensor
    indices: Tensor

class min(NamedTuple):
    values: Tensor
    indices: Tensor

class mode(NamedTuple):
    values: Tensor
    indices: Tensor

class nanmedian(NamedTuple):
    values: Tensor
    indices: Tensor

class nll_loss_forward(NamedTuple):
    output: Tensor
    total_weight: Tensor

class qr(NamedTuple):
    Q: Tensor
    R: Tensor

class slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class sort(NamedTuple):
    values: Tensor
    indices: Tensor

class svd(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class topk(NamedTuple):
    values: Tensor
    indices: Tensor

class triangular_solve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor
