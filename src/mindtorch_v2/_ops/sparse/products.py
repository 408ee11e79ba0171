"""Products in which a matrix is sparse, through SciPy."""

from typing import Any

import numpy as np

from ..._core.device import sparse_bsc, sparse_coo, sparse_csc, sparse_csr
from ..._core.dtype import REDUCED
from ..._core.sparse import BLOCKED, COMPRESSED, SparseArray, is_sparse, wrap_sparse
from ..._core.tensor import Tensor, wrap
from ..._dispatch.argument_checks import expected, takes
from ..._dispatch.callers import call_bound
from ..._dispatch.registry import registry
from .. import matmul  # noqa: F401 - declares the products
from .._declare.families import computes
from .._declare.op import function_of, op
from .._declare.rules import Spec, records, shape_text
from ..matrices import check_same_scalar, conj
from .layouts import (
    Layouts,
    coalesce,
    composed,
    from_parts,
    indices_of,
    plain,
    rebuilt,
    refusal,
    to_sparse,
    values_of,
)


def _matrix(array: SparseArray) -> Any:
    """A sparse array of two dimensions as SciPy's."""
    import scipy.sparse

    places = array.cells()  # which sees that each index is inside: SciPy does not look
    values = array.values._array
    if values.dtype in REDUCED:
        values = values.astype(np.float32)
    if array.layout is sparse_coo:
        return scipy.sparse.coo_array((values, tuple(places)), shape=array.shape).tocsr()
    starts, inner = (part._array for part in array.parts)
    if array.layout is sparse_bsc:  # SciPy has blocks by rows only: the transpose of the transpose
        return scipy.sparse.bsr_array((values.swapaxes(1, 2), inner, starts), shape=array.shape[::-1]).T
    kind = {sparse_csr: scipy.sparse.csr_array, sparse_csc: scipy.sparse.csc_array}.get(
        array.layout, scipy.sparse.bsr_array)
    return kind((values, inner, starts), shape=array.shape)


def _check_factors(self: Tensor, mat2: Tensor) -> None:
    for tensor in (self, mat2):
        if is_sparse(tensor) and (tensor._array.dense_dim or tensor.dim() != 2):
            raise RuntimeError(f"addmm: matrices expected, got {tensor._array.sparse_dim}D tensor")
        if tensor.dim() != 2:
            raise RuntimeError(f"addmm: matrices expected, got {tensor.dim()}D tensor")
    (rows, inner), (length, columns) = self.shape, mat2.shape
    if inner != length:
        if self.layout is sparse_coo and not is_sparse(mat2):
            raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {inner}, got {length}")
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {length}x{columns})")
    check_same_scalar(self.dtype, mat2.dtype)


def _csr_product(xp: Any, starts: Any, columns: Any, values: Any, dense: Any, reduce: str) -> Any:
    """The products of each place of a CSR matrix times a dense one, reduced; zeros where there are none."""
    shape = (len(starts) - 1, dense.shape[0])
    matrix = _matrix(SparseArray(sparse_csr, (wrap(starts), wrap(columns)), wrap(values), shape))
    counts = np.diff(starts)
    if reduce in ("sum", "mean"):
        made = np.ascontiguousarray(matrix @ np.ascontiguousarray(dense))
        return made if reduce == "sum" else made / np.maximum(counts, 1)[:, None].astype(made.dtype)
    made, filled = np.zeros((shape[0], dense.shape[1]), dense.dtype), np.flatnonzero(counts)
    if filled.size and made.size:
        made[filled] = _REDUCTIONS[reduce].reduceat(values[:, None] * dense[columns], starts[filled], axis=0)
    return made


def _csr_sampled(xp: Any, starts: Any, others: Any, left: Any, right: Any, rows: bool) -> Any:
    """The elements of `left right^T` at the places of a compressed matrix, of which `rows` or columns are listed."""
    kind = sparse_csr if rows else sparse_csc
    row, column = SparseArray(kind, (wrap(starts), wrap(others)), wrap(others), (len(left), len(right))).places()
    return (left[row] * right[column]).sum(-1)


_product_by_rows = function_of(op(
    "_csr_product(Tensor starts, Tensor columns, Tensor values, Tensor dense, str reduce) -> Tensor",
    kernel=computes(lambda starts, columns, values, dense, reduce: Spec(
        (starts._array.shape[0] - 1, dense._array.shape[1]), values.dtype), _csr_product),
    kernels={"cpu": "sparse.csr_product"}, public=""))
_sampled_product = function_of(op(
    "_csr_sampled(Tensor starts, Tensor others, Tensor left, Tensor right, bool rows) -> Tensor",
    kernel=computes(lambda starts, others, left, right, rows: Spec(others._array.shape, left.dtype), _csr_sampled),
    kernels={"cpu": "sparse.csr_sampled"}, public=""))


def product(self: Tensor, mat2: Tensor) -> Tensor:
    _check_factors(self, mat2)
    if self.layout is sparse_csr and not is_sparse(mat2):
        return _product_by_rows(*self._array.parts, self._array.values, mat2.detach(), "sum")
    kind = self._array.dtype
    factors = [_matrix(t._array) if is_sparse(t) else t._array.astype(np.float32) if kind in REDUCED else t._array
               for t in (self, mat2)]
    if not is_sparse(mat2):
        return wrap(np.ascontiguousarray(factors[0] @ np.ascontiguousarray(factors[1])).astype(kind, copy=False))
    if not is_sparse(self):
        product = factors[1].T @ np.ascontiguousarray(factors[0].T)
        return wrap(np.ascontiguousarray(product.T).astype(kind, copy=False))
    made = (factors[0].tocsr() @ factors[1].tocsr()).tocsr()
    made.sort_indices()
    parts = tuple(wrap(np.asarray(a, np.int64)) for a in (made.indptr, made.indices))
    product = wrap_sparse(SparseArray(sparse_csr, parts, wrap(made.data.astype(kind, copy=False)), made.shape))
    return to_sparse(product) if self.layout is sparse_coo else product


def product_with_vector(self: Tensor, vec: Tensor) -> Tensor:
    if self.dim() != 2 or vec.dim() != 1 or self.size(1) != vec.size(0):
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return product(self, vec.detach().unsqueeze(1)).squeeze(1)


def product_of_batches(self: Tensor, mat2: Tensor) -> Tensor:
    """A block diagonal matrix times the batches on top of each other."""
    if self.layout is not sparse_coo or is_sparse(mat2):
        refusal(registry.get("bmm"), "SparseCPU")(self, mat2)
    if self.dim() != 3 or mat2.dim() != 3 or self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError("Expected size for first two dimensions of batch2 tensor to be: "
                           f"{[self.size(0), self.size(2)]} but got: {list(mat2.shape[:2])}.")
    (batches, rows, inner), columns = self.shape, mat2.size(2)
    batch, row, column = self._array.places()
    blocks = SparseArray(sparse_coo, (wrap(np.stack((batch * rows + row, batch * inner + column))),),
                         self._array.values, (batches * rows, batches * inner))
    return product(wrap_sparse(blocks), mat2.detach().reshape(batches * inner, columns)).reshape(batches, rows, columns)


def _added(self: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (self.detach() if beta == 1 else self.detach() * beta).expand(product.shape) + product


def plus_product(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _added(self, product(plain(mat1), plain(mat2)), beta, alpha)


def plus_product_with_vector(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _added(self, product_with_vector(plain(mat), plain(vec)), beta, alpha)


@composed
def any_product(self: Tensor, other: Tensor) -> Tensor:
    dims = self.dim(), other.dim()
    if dims == (2, 2):
        return self.mm(other)
    if dims == (2, 1) and not is_sparse(other):
        return self.mv(other)
    if dims == (1, 2) and not is_sparse(self):
        return other.t().mv(self)
    if dims == (3, 3) and self.layout is sparse_coo:
        return self.bmm(other)
    raise NotImplementedError(f"matmul: sparse tensors are multiplied as matrices, got {shape_text(self.shape)} and "
                              f"{shape_text(other.shape)}")


@composed
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = input if is_sparse(input) else input.reshape(-1, input.size(-1))
    made = rows.mm(weight.t()).reshape((*input.shape[:-1], weight.size(0)))
    return made if bias is None else made + bias


# torch.sparse.mm and its like: the gradient of the sparse factor is sparse too ---------------------------------------


def _sampled(pattern: Tensor, left: Tensor, right: Tensor, alpha: Any) -> Tensor:
    """The product of two dense matrices at the places of a sparse one: `left @ right.T`, with history."""
    *batch, row, column = (wrap(place) for place in indices_of(pattern)._array)
    made = (left[(*batch, row)] * right[(*batch, column)]).sum(-1) * alpha
    return rebuilt(pattern, made.reshape(pattern._array.values._array.shape))


def _left_grad(grad: Any, mat1: Any, mat2: Any, alpha: Any) -> Any:
    if not is_sparse(mat1):
        return grad.mm(conj(mat2).t()) * alpha
    return _sampled(coalesce(mat1) if mat1.layout is sparse_coo else mat1, grad, conj(mat2), alpha)


def _right_grad(grad: Any, mat1: Any, mat2: Any, alpha: Any) -> Any:
    if not is_sparse(mat2):
        return conj(mat1).t().mm(grad) * alpha
    return _sampled(coalesce(mat2) if mat2.layout is sparse_coo else mat2, conj(mat1).t(), grad.t(), alpha)


_SPARSE_ADDMM = op("_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   kernel=Layouts(plus_product, plus_product, plus_product), public="",
   grad=dict(self=lambda grad, beta: grad * beta, mat1=_left_grad, mat2=_right_grad))
_SPARSE_MATMUL = op("_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor",
   kernel=Layouts(product, product), public="",
   grad=dict(self=lambda grad, self, other: grad.mm(conj(other).t()).sparse_mask(self),
             other=lambda grad, self, other: conj(self).t().mm(grad).sparse_mask(other)))


@takes("_sparse_addmm(Tensor mat, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)")
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """`beta * mat + alpha * (mat1 @ mat2)` for a sparse factor, whose gradient is sparse."""
    return call_bound(_SPARSE_ADDMM, (mat, mat1, mat2, beta, alpha))


def _check_reduced(mat1: Tensor, mat2: Tensor, reduce: str) -> None:
    if not isinstance(reduce, str):
        raise TypeError(expected("_sparse_mm", "reduce", "str", reduce, 3))
    if reduce == "prod" or reduce not in _REDUCTIONS:
        raise RuntimeError(f"sparse_mm_reduce: reduce type of {reduce} has not been enabled.")
    if mat1.layout is not sparse_csr:
        refusal(registry.get("_sparse_addmm"), "SparseCPU")(mat1, mat2)
    if mat1.size(1) != mat2.size(0):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied "
                           f"({'x'.join(map(str, mat1.shape))} and {'x'.join(map(str, mat2.shape))})")


_REDUCTIONS: dict[str, Any] = {"sum": None, "mean": None, "amax": np.maximum, "amin": np.minimum}


def mm_reduced(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """A CSR matrix times a dense one, the products of each place reduced in another way than by their sum."""
    _check_reduced(mat1, mat2, reduce)
    if not records(mat1) and not records(mat2):
        check_same_scalar(mat1.dtype, mat2.dtype)
        return _product_by_rows(*mat1._array.parts, mat1._array.values, mat2, reduce)
    starts = mat1._array.parts[0]._array
    counts = np.diff(starts)
    choose = _REDUCTIONS[reduce]
    if choose is None:
        total = addmm(mat2.new_zeros(()), mat1, mat2, beta=0)
        return total if reduce == "sum" else total / wrap(np.maximum(counts, 1)[:, None].astype(total._array.dtype))
    products = values_of(mat1).unsqueeze(1) * mat2.index_select(0, wrap(np.asarray(mat1._array.places()[1])))
    filled = np.flatnonzero(counts)
    made = products.new_zeros((mat1.size(0), mat2.size(1)))
    if not filled.size or not mat2.size(1):
        return made
    seen = products._array if products._array.dtype not in REDUCED else products._array.astype(np.float32)
    best = choose.reduceat(seen, starts[filled], axis=0)
    hit = (seen == np.repeat(best, counts[filled], axis=0)) | np.isnan(seen)
    number = np.where(hit, np.arange(len(seen))[:, None], len(seen))
    first = np.minimum.reduceat(number, starts[filled], axis=0)  # of several that are as good, the first
    return made.index_copy(0, wrap(filled), products.gather(0, wrap(first)))


def _check_sampled(self: Tensor, mat1: Tensor, mat2: Tensor) -> None:
    if self.layout not in COMPRESSED or self.layout in BLOCKED:
        refusal(registry.get("sparse_sampled_addmm"), "SparseCPU" if is_sparse(self) else "CPU")(self, mat1, mat2)
    shapes = f"({'x'.join(map(str, mat1.shape[-2:]))} and {'x'.join(map(str, mat2.shape[-2:]))})"
    if mat1.size(-1) != mat2.size(-2):
        raise RuntimeError(f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied {shapes}")
    for matrix, at in ((mat1, -2), (mat2, -1)):
        if matrix.size(at) != self.size(at):
            raise RuntimeError(f"sampled_addmm: self.shape[{at}] must match mat{1 if at == -2 else 2}.shape[{at}]")


@composed
def _sampled_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    _check_sampled(self, mat1, mat2)
    array = self._array
    if not array.batch and not any(map(records, (self, mat1, mat2))):
        made = _sampled_product(*array.parts, mat1, mat2.mT, self.layout is sparse_csr)
        made = made if alpha == 1 else made * alpha
        made = made if beta == 0 else array.values * beta + made
        return wrap_sparse(SparseArray(array.layout, array.parts, made, array.shape))
    product = _sampled(self, mat1, mat2.transpose(-1, -2), alpha)
    return rebuilt(self, values_of(product) if beta == 0 else values_of(self) * beta + values_of(product))


op("sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   kernel=Layouts(_sampled_addmm, _sampled_addmm, _sampled_addmm), public="", aliases=("sparse.sampled_addmm",))


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices of which one is sparse; for CSR, `reduce` may be other than "sum"."""
    for position, (name, matrix) in enumerate((("sparse", mat1), ("dense", mat2)), 1):
        if not isinstance(matrix, Tensor):
            raise TypeError(expected("_sparse_mm", name, "Tensor", matrix, position))
    if reduce is not None:
        return mm_reduced(mat1, mat2, reduce)
    if is_sparse(mat1) and is_sparse(mat2):
        return call_bound(_SPARSE_MATMUL, (mat1, mat2))
    return addmm(mat2.new_zeros(()) if is_sparse(mat1) else mat1.new_zeros(()), mat1, mat2, beta=0)


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """A COO matrix times a dense one, as a COO tensor of those rows that are not empty."""
    rows = np.unique(mat1._array.parts[0]._array[0])
    return from_parts(rows[None], mat1.mm(mat2).index_select(0, wrap(rows)), (mat1.size(0), mat2.size(1)), True)


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """A COO matrix times a dense one, as a COO matrix."""
    rows = hspmm(input, mat)
    number, width = rows._array.parts[0]._array[0], mat.size(1)
    places = np.stack((np.repeat(number, width), np.tile(np.arange(width), len(number))))
    return from_parts(places, values_of(rows).reshape(-1), rows.shape, True)
