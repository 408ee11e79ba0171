"""Products of vectors, matrices and batches of matrices."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import BOOL, OF_ARRAY, dtype, float32, float64
from .._core.tensor import Tensor
from .._dispatch.keys import REQUIRES_GRAD, SPARSE_MASK
from .._dispatch.registry import Operator
from ._declare.aten import LEAF, Aten
from ._declare.batch import Call, Result, aligned
from ._declare.families import computes
from ._declare.flops import Flops, addmm_flop, mm_flop
from ._declare.formulas import on_arrays
from ._declare.op import composite, function_of, op
from ._declare.out import EXACT, Out, refusal
from ._declare.rules import Spec, broadcast_shape, c_name, check_at_least_1d, number_array, shape_text
from ._declare.samples import case, cases, error, t
from .copy import stored_number
from .linear import linear
from .matrices import (
    QuickFamily,
    check_chain,
    check_expands,
    check_same_addmm,
    check_same_mm,
    check_same_scalar,
    check_supported,
    conj,
    dot_spec,
    lies_turned,
    times_text,
)
from .view import _unsafe_view

_new = object.__new__
FLOAT32, FLOAT64 = float32.np, float64.np


# checks --------------------------------------------------------------------------------------------------------------


def _check_addable(kind: dtype, kernel: str, factor: Tensor) -> None:
    check_supported(kind, kernel, factor)
    if kind.category == BOOL:  # an empty product leaves beta * self
        raise RuntimeError("result type Long can't be cast to the desired output type Bool")


# array functions -----------------------------------------------------------------------------------------------------


def _combined(product: Any, self: Any, beta: Any, alpha: Any) -> Any:
    """`beta * self + alpha * product` in the product's memory; with beta 0, `self` may hold anything."""
    kind = OF_ARRAY[product.dtype]
    if alpha != 1:
        product *= number_array(alpha, kind)[()]
    if beta == 1:
        product += self
    elif beta != 0:
        product += self * number_array(beta, kind)[()]
    return product


def _blas_ready(xp: Any, array: Any) -> Any:
    """The array, copied if BLAS could not take its matrices: NumPy would fall back to a slow loop."""
    row, column = array.strides[-2:]
    step = array.itemsize
    if (column == step and row >= step) or (row == step and column >= step):
        return array
    return xp.ascontiguousarray(array)


def _batched(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(_blas_ready(xp, a), _blas_ready(xp, b))


def _quick_mm(xp: Any) -> Callable:
    dot = xp.dot  # a third of np.matmul's time for small matrices; copies by itself what BLAS cannot take

    def quick(self: Tensor, mat2: Tensor) -> Tensor | None:
        a, b = self._array, mat2._array
        kind = a.dtype
        if kind is not b.dtype or (kind is not FLOAT32 and kind is not FLOAT64):
            return None
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            return None
        made = _new(Tensor)
        made._array = dot(a, b)
        return made

    return quick


def _quick_batches(xp: Any, most: int = 64) -> Callable:
    """For products of batches of the same sizes, of at most so many dimensions in all."""
    product = xp.product

    def quick(self: Tensor, other: Tensor) -> Tensor | None:
        a, b = self._array, other._array
        if a.shape[:-2] != b.shape[:-2] or not 3 <= a.ndim <= most:
            return None
        array = product(a, b)
        if array is None:
            return None
        made = _new(Tensor)
        made._array = array
        return made

    return quick


# matrix and vector ---------------------------------------------------------------------------------------------------


def _mm_spec(self: Tensor, mat2: Tensor) -> Spec:
    a, b = self._array.shape, mat2._array.shape
    if len(a) != 2:
        raise RuntimeError("self must be a matrix")
    if len(b) != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_chain(a, b)
    kind = self.dtype
    check_same_mm(kind, mat2.dtype)
    check_supported(kind, "addmm_impl_cpu_", self, mat2)
    return Spec((a[0], b[1]), kind)


# rules for vmap ------------------------------------------------------------------------------------------------------


def _check_ranks(call: Call, *expected: int) -> None:
    """Raises unless the factors of a product have the dimensions that it takes of a sample."""
    ranks = call.ndim(0), call.ndim(1)
    if ranks != expected:
        name = call.operator.schema.base_name
        raise RuntimeError(f"Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {ranks[0]}and b has dim "
                           f"{ranks[1]}but expected them to have dim {expected[0]} and dim {expected[1]}")


def _mm_each(call: Call) -> Result:
    _check_ranks(call, 2, 2)
    return _product_each(call)


def _bmm_each(call: Call) -> Result:
    _check_ranks(call, 3, 3)
    return _product_each(call)


def _product_each(call: Call) -> Result:
    ndim = max(call.ndim(0), call.ndim(1))
    one, other = (aligned(call.values[i], call.batched[i], ndim) for i in (0, 1))
    return one.matmul(other), True


def _matrix_vector(call: Call, i: int, j: int) -> Any:
    matrix, vector = call.values[i], call.values[j]
    if not call.batched[i]:
        return vector.matmul(matrix.transpose(-1, -2))
    return matrix.matmul(vector.unsqueeze(-1)).squeeze(-1) if call.batched[j] else matrix.matmul(vector)


def _mv_each(call: Call) -> Result:
    _check_ranks(call, 2, 1)
    return _matrix_vector(call, 0, 1), True


def _check_vectors(call: Call) -> None:
    if (call.ndim(0), call.ndim(1)) != (1, 1):
        raise RuntimeError("Got wrong shapes for dot")


def _dot_each(call: Call) -> Result:
    _check_vectors(call)
    return (call.values[0] * call.values[1]).sum(-1), True


def _vdot_each(call: Call) -> Result:
    _check_vectors(call)
    return (call.values[0].conj() * call.values[1]).sum(-1), True


def _addmv_each(call: Call) -> Result:
    return _added(call, _matrix_vector(call, 1, 2))


def _add_product_each(call: Call) -> Result:
    return _added(call, call.values[1].matmul(call.values[2]))


def _added(call: Call, product: Any) -> Result:
    bias, _, _, beta, alpha = call.values
    if not (call.batched[1] or call.batched[2]):
        product = call.expanded(product, False)
    product = product if alpha == 1 else product * alpha
    if beta != 0:
        bias = aligned(bias, call.batched[0], product._array.ndim - 1)
        product = product + (bias if beta == 1 else bias * beta)
    return call.written(product)


def _turned(matrices: Any) -> Any:
    """Transposed matrices; one of a tensor by `t`, which is what PyTorch's formulas call."""
    return matrices.t() if matrices.ndim == 2 and hasattr(matrices, "t") else matrices.mT


@on_arrays
def of_left(xp: Any, grad: Any, mat2: Any) -> Any:
    """What the left factor of a product gets of its gradient."""
    return grad @ _turned(mat2.conj())


@on_arrays
def of_matrix(xp: Any, grad: Any, vec: Any) -> Any:
    """What a matrix gets of the gradient of its product with a vector."""
    return grad.reshape((-1, 1)) * vec.conj()


@on_arrays
def of_right(xp: Any, grad: Any, mat1: Any) -> Any:
    """What the right factor of a product gets of its gradient."""
    return _turned(mat1.conj()) @ grad


# Gradients of matrices lie as the matrices do, so that leaves, of which products often have a transposed view, can take
# them as they are.
@on_arrays
def _of_first(xp: Any, grad: Any, mat2: Any, self_strides: tuple[int, ...] | None) -> Any:
    """What the first matrix of a product gets of its gradient."""
    if lies_turned(self_strides, grad.shape[0], grad) and _are_dense(grad, mat2):
        return _turned(mat2.conj() @ _turned(grad))
    return grad @ _turned(mat2.conj())


@on_arrays
def _of_second(xp: Any, grad: Any, self: Any, mat2_strides: tuple[int, ...] | None) -> Any:
    """What the second one gets."""
    if lies_turned(mat2_strides, self.shape[1], grad) and _are_dense(grad, self):
        return _turned(_turned(grad) @ self.conj())
    return _turned(self.conj()) @ grad


def _are_dense(*matrices: Any) -> bool:
    return not any([getattr(matrix, "_keys", 0) & SPARSE_MASK for matrix in matrices])


_MM = op("mm(Tensor self, Tensor mat2) -> Tensor", packs="mat2",
   kernel=QuickFamily(_mm_spec, lambda xp, self, mat2: xp.dot(self, mat2), _quick_mm),
   kernels={"cuda": "matmul.product", "sparse": "products.product"},
   npu="aclnnMm(self, mat2, out, cubeMathType=0) empty=0", grad=dict(self=_of_first, mat2=_of_second),
   samples=cases(case(t(2, 3), t(3, 4)), case(t(2, 3, layout="transposed"), t(3, 4)), case(t(2, 0), t(0, 3)),
                 case(t(0, 3), t(3, 2)),
                 case(t(2, 3, layout="sliced"), t(3, 2, layout="expanded")),
                 error(RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", t(2, 3), t(4, 5)),
                 error(RuntimeError, "self must be a matrix", t(2), t(2, 3))), linear="each", batch=_mm_each,
   autocast="lower", flops=Flops(mm_flop, by="both"), sharded="product mk,kn->mn")


def _check_factors(kind: dtype, *factors: Any) -> None:
    """Raises unless a type can hold the factors of a sum."""
    for factor in factors:
        if factor.__class__ is not int or factor != 1:
            stored_number(factor, kind)


def _addmm_spec(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Spec:
    a, b, kind = mat1._array.shape, mat2._array.shape, self.dtype
    check_same_addmm(kind, mat2.dtype)
    if mat1.dtype is not kind:
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {mat1.dtype.scalar_name} and "
                           f"{kind.scalar_name}")
    if len(a) != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {len(a)}-D tensor")
    if len(b) != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {len(b)}-D tensor")
    check_chain(a, b)
    shape = (a[0], b[1])
    check_expands(self, shape)
    _check_addable(kind, "addmm_impl_cpu_", mat1)
    _check_factors(self.dtype, beta, alpha)
    return Spec(shape, kind)


def _quick_addmm(xp: Any) -> Callable:
    multiplied = xp.linear

    def quick(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor | None:
        if beta != 1 or alpha != 1:
            return None
        bias, a, b = self._array, mat1._array, mat2._array
        kind = a.dtype
        if kind is not b.dtype or kind is not bias.dtype or (kind is not FLOAT32 and kind is not FLOAT64):
            return None
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or bias.shape != b.shape[1:]:
            return None
        made = _new(Tensor)
        made._array = multiplied(a, b.T, bias)
        return made

    return quick


class _AddsProduct(QuickFamily):
    """A product added to `self`, which in place must have the product's size itself."""

    def __init__(self, infer: Callable, array: Callable, quick: Callable | None = None) -> None:
        super().__init__(infer, array, quick)

    @staticmethod
    def inplace_arguments(functional: Operator, target: Tensor, a: Tensor, b: Tensor, *factors: Any) -> tuple:
        size = (*a._array.shape[:1], *b._array.shape[1:])
        multiplies = (a._array.ndim == 2 and b._array.ndim == (2 if functional.schema.base_name == "addmm" else 1)
                      and a._array.shape[1] == b._array.shape[0] and a.dtype is b.dtype is target.dtype)
        if b._array.ndim == 1:  # what cannot be expanded is refused as such before
            multiplies = multiplies and target._array.shape in ((), (1,))
        if multiplies and target._array.shape != size:
            raise RuntimeError(f"Bad in-place call: input tensor size {shape_text(target.shape)} and output tensor "
                               f"size {shape_text(size)} should match")
        return a, b, *factors


op("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   aligned="self", packs="mat2",
   kernel=_AddsProduct(_addmm_spec, lambda xp, self, mat1, mat2, beta, alpha:
                       _combined(xp.dot(mat1, mat2), self, beta, alpha), _quick_addmm),
   kernels={"cuda": "matmul.sum_with_product", "sparse": "products.plus_product"},
   npu="aclnnAddmm(self, mat1, mat2, beta, alpha, out, cubeMathType=0)",
   grad=dict(self=lambda grad, beta: scaled(grad, beta),
             mat1=lambda grad, mat2, alpha, mat1_strides: scaled(_of_first(grad, mat2, mat1_strides), alpha),
             mat2=lambda grad, mat1, alpha, mat2_strides: scaled(_of_second(grad, mat1, mat2_strides), alpha)),
   inplace=True,
   samples=cases(case(t(2, 4), t(2, 3), t(3, 4)), case(t(4), t(2, 3), t(3, 4), beta=0.5, alpha=2),
                 case(t(2, 4), t(2, 3), t(3, 4), beta=0),
                 case(t(), t(2, 0), t(0, 4)),
                 error(RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", t(2, 5), t(2, 3),
                       t(4, 5)),
                 error(RuntimeError, "The expanded size of the tensor (4) must match the existing size (5) at "
                                     "non-singleton "
                       "dimension 1.  Target sizes: [2, 4].  Tensor sizes: [5]", t(5), t(2, 3), t(3, 4))),
   batch=_add_product_each, autocast="lower", flops=Flops(addmm_flop, by="both"),
   old_orders=("beta self alpha mat1 mat2", "beta self mat1 mat2"), sharded="added mk,kn->mn")


def scaled(grad: Any, factor: Any) -> Any:
    """`grad * conj(factor)`, for a number."""
    if factor == 1:
        return grad
    return grad * (factor.conjugate() if factor.__class__ is complex else factor)


def _check_addmv(self_shape: Sequence[int], mat: Tensor, vec: Tensor) -> None:
    a, b = mat._array.shape, vec._array.shape
    if len(a) != 2 or len(b) != 1 or len(self_shape) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {len(self_shape)}, {len(a)}, {len(b)}")
    if a[1] != b[0] or (self_shape and self_shape[0] not in (a[0], 1)):
        raise RuntimeError(f"size mismatch, got input ({self_shape[0] if self_shape else 1}), mat ({times_text(a)}), "
                           f"vec ({b[0]})")


def _check_addmv_types(kind: dtype, matrix: Tensor, vec: dtype) -> None:
    mat = matrix.dtype
    if not kind is mat is vec:
        raise RuntimeError("addmv input tensors must have the same dtype, but got "
                           f"{kind.scalar_name}, {mat.scalar_name}, and {vec.scalar_name}")
    check_supported(kind, "addmv_impl_cpu", matrix)


def _mv_spec(self: Tensor, vec: Tensor) -> Spec:
    _check_addmv(self._array.shape[:1], self, vec)
    _check_addmv_types(vec.dtype, self, vec.dtype)
    return Spec(self._array.shape[:1], vec.dtype)


_OUT_OF_MV = Out("exact", "addmv input tensors must have the same dtype, but got {given}, {made}, and {other}")
_OUT_OF_DOT = Out("exact", "result dtype {given} does not match input dtype {made}")
op("mv(Tensor self, Tensor vec) -> Tensor",
   kernel=computes(_mv_spec, lambda xp, self, vec: xp.dot(self, vec)),
   kernels={"sparse": "products.product_with_vector"},
   npu="aclnnMv(self, vec, out, cubeMathType=0) empty=0",
   grad=dict(self=of_matrix, vec=lambda grad, self: of_right(grad, self)),
   samples=cases(case(t(2, 3), t(3)), case(t(2, 3, layout="transposed"), t(3)), case(t(2, 0), t(0)),
                 error(RuntimeError, "size mismatch, got input (2), mat (2x3), vec (4)", t(2, 3), t(4))),
   out=_OUT_OF_MV, linear="each",
   batch=_mv_each, autocast=dict(accelerators="lower"), sharded="product mk,k->m")


def _addmv_spec(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Spec:
    _check_addmv(self._array.shape, mat, vec)
    _check_addmv_types(self.dtype, mat, vec.dtype)
    _check_factors(self.dtype, beta, alpha)
    return Spec(mat._array.shape[:1], self.dtype)


op("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   aligned="self",
   kernel=_AddsProduct(_addmv_spec, lambda xp, self, mat, vec, beta, alpha:
                       _combined(xp.dot(mat, vec), self, beta, alpha)),
   npu="aclnnAddmv(self, mat, vec, alpha, beta, out, cubeMathType=0)",
   grad=dict(self=lambda grad, beta: scaled(grad, beta),
             mat=lambda grad, vec, alpha: scaled(of_matrix(grad, vec), alpha),
             vec=lambda grad, mat, alpha: scaled(of_right(grad, mat), alpha)),
   inplace="addmv_",
   samples=cases(case(t(2), t(2, 3), t(3)), case(t(1), t(2, 3), t(3), beta=0.5, alpha=2), case(t(), t(2, 3), t(3)),
                 case(t(2), t(2, 0), t(0), beta=0),
                 error(RuntimeError, "size mismatch, got input (5), mat (2x3), vec (3)", t(5), t(2, 3), t(3))),
   batch=_addmv_each, autocast=dict(accelerators="lower"), old_orders=("beta self alpha mat vec", "beta self mat vec"),
   kernels={"npu": "linalg.addmv", "sparse": "products.plus_product_with_vector"}, sharded="added mk,k->m")


_DOT_SAMPLES = cases(
    case(t(3), t(3)), case(t(0), t(0)), case(t(3, layout="sliced"), t(3)),
    error(RuntimeError, "inconsistent tensor size, expected tensor [2] and src [3]", t(2), t(3)),
    error(RuntimeError, "1D tensors expected, but got 2D and 1D tensors", t(2, 2), t(3)))

op("dot(Tensor self, Tensor tensor) -> Tensor",
   kernel=computes(dot_spec, lambda xp, self, tensor: self.dot(tensor)),
   npu="aclnnDot(self, tensor, out) empty=0",
   grad=dict(self=lambda grad, tensor: grad * conj(tensor), tensor=lambda grad, self: grad * conj(self)),
   samples=_DOT_SAMPLES, linear="each", batch=_dot_each, out=_OUT_OF_DOT, autocast=dict(accelerators="widest"),
   sharded="product k,k->")
op("vdot(Tensor self, Tensor other) -> Tensor",
   kernel=computes(dot_spec, lambda xp, self, other: xp.vdot(self, other)),
   grad=dict(self=lambda grad, other: conj(grad) * other, other=lambda grad, self: grad * self),
   samples=_DOT_SAMPLES, batch=_vdot_each, out=_OUT_OF_DOT, autocast=dict(accelerators="widest"),
   decomposition=lambda self, other: conj(self).dot(other), sharded="product k,k->")


# batches -------------------------------------------------------------------------------------------------------------


def _check_batches(a: Sequence[int], b: Sequence[int]) -> None:
    if len(a) != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if len(b) != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if b[0] != a[0] or b[1] != a[2]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
                           f"[{b[0]}, {b[1]}].")


def _bmm_spec(self: Tensor, mat2: Tensor) -> Spec:
    a, b = self._array.shape, mat2._array.shape
    _check_batches(a, b)
    kind = self.dtype
    check_supported(kind, "bmm", self, mat2)
    if self._array.size and b[2]:  # there is something to multiply
        check_same_scalar(kind, mat2.dtype)
    return Spec((a[0], a[1], b[2]), kind)


op("bmm(Tensor self, Tensor mat2) -> Tensor",
   kernel=QuickFamily(_bmm_spec, _batched, lambda xp: _quick_batches(xp, 3)),
   kernels={"cuda": "matmul.product", "sparse": "products.product_of_batches"},
   npu="aclnnBatchMatMul(self, mat2, out, cubeMathType=0) empty=0",
   grad=dict(self=of_left, mat2=lambda grad, self: of_right(grad, self)),
   samples=cases(case(t(2, 3, 4), t(2, 4, 5)), case(t(0, 3, 4), t(0, 4, 5)), case(t(2, 3, 0), t(2, 0, 5)),
                 case(t(4, 3, 2, layout="transposed"), t(4, 2, 3, layout="sliced")),
                 error(RuntimeError, "batch1 must be a 3D tensor", t(2, 3), t(2, 3, 4)),
                 error(RuntimeError, "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: "
                                     "[3, 4].",
                       t(2, 3, 4), t(3, 4, 5))), linear="each", batch=_bmm_each, autocast="lower",
   flops=Flops(mm_flop, by="both"), sharded="product bmk,bkn->bmn")


def _baddbmm_spec(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Spec:
    a, b = batch1._array.shape, batch2._array.shape
    if len(a) == 3 and len(b) == 3:
        check_expands(self, (a[0], a[1], b[2]))
    _check_batches(a, b)
    kinds = self.dtype, batch1.dtype, batch2.dtype
    if kinds[0] is not kinds[1]:
        names = [c_name(kind) for kind in kinds]
        raise RuntimeError(f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, "
                           f"batch2: {names[2]}")
    check_same_scalar(kinds[0], kinds[2])
    _check_addable(kinds[0], "baddbmm", batch1)
    _check_factors(self.dtype, beta, alpha)
    return Spec((a[0], a[1], b[2]), kinds[0])


_BATCH_SAMPLES = (case(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), case(t(5), t(2, 3, 4), t(2, 4, 5), beta=0.5, alpha=2),
                  case(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), beta=0), case(t(), t(2, 3, 0), t(2, 0, 5)))

op("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   kernel=computes(_baddbmm_spec,
                   lambda xp, self, batch1, batch2, beta, alpha:
                   _combined(_batched(xp, batch1, batch2), self, beta, alpha)),
   kernels={"cuda": "matmul.sum_with_product"},
   npu="aclnnBaddbmm(self, batch1, batch2, beta, alpha, out, cubeMathType=0)",
   grad=dict(self=lambda grad, beta: scaled(grad, beta),
             batch1=lambda grad, batch2, alpha: scaled(of_left(grad, batch2), alpha),
             batch2=lambda grad, batch1, alpha: scaled(of_right(grad, batch1), alpha)),
   inplace=True, aligned="self",
   samples=cases(*_BATCH_SAMPLES, error(RuntimeError, "The expanded size of the tensor (6) must match the existing "
                                                      "size (5) at "
                                        "non-singleton dimension 2.", t(5), t(2, 3, 4), t(2, 4, 6))),
   batch=_add_product_each, autocast="lower", flops=Flops(addmm_flop, by="both"),
   old_orders=("beta self alpha batch1 batch2", "beta self batch1 batch2"), sharded="added bmk,bkn->bmn")


@composite("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           node="AddbmmBackward0", inplace=True, aligned="self",
           samples=cases(case(t(3, 5), t(2, 3, 4), t(2, 4, 5)), case(t(5), t(2, 3, 4), t(2, 4, 5), beta=0.5, alpha=2),
                         error(IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
                               t(3, 5), t(2, 3, 4), t(4, 5))),
           out=Out("exact", "self and mat2 must have the same dtype, but got {given} and {made}", resizes=True),
           aten=LEAF,
           autocast="lower", old_orders=("beta self alpha batch1 batch2", "beta self batch1 batch2"),
           sharded="added bmk,bkn->mn")
def _addbmm(self, batch1, batch2, beta, alpha):
    check_expands(self, (batch1.size(1), batch2.size(2)))
    _check_batches(batch1.shape, batch2.shape)
    count, rows, inner = batch1.shape
    # The sum over the batch is one product of the matrices laid side by side.
    left, right = batch1.transpose(0, 1).reshape(rows, count * inner), batch2.reshape(count * inner, batch2.shape[2])
    return self.addmm(left, right, beta=beta, alpha=alpha)


_mm = function_of(_MM)


# any ranks -----------------------------------------------------------------------------------------------------------


def _broadcast_spec(self: Tensor, other: Tensor) -> Spec:
    a, b = self._array.shape, other._array.shape
    batch = broadcast_shape([a[:-2], b[:-2]])
    if a[-1] != b[-2]:
        count = math.prod(batch)
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{count}, {a[-1]}] but "
                           f"got: [{count}, {b[-2]}].")
    kind = self.dtype
    check_supported(kind, "bmm", self, other)
    check_same_scalar(kind, other.dtype)
    return Spec((*batch, a[-2], b[-1]), kind)


def _batch_matmul_parts(self, other):
    """As torch.matmul has it, when both have batches."""
    if self.dim() > 2 and other.dim() == 2:
        rows = self.reshape((math.prod(self.shape[:-1]), self.shape[-1]))
        return _unsafe_view(rows.mm(other), (*self.shape[:-1], other.shape[-1]))
    batch = broadcast_shape([self._array.shape[:-2], other._array.shape[:-2]])
    flat = [t.expand((*batch, *t.shape[-2:])).reshape((math.prod(batch), *t.shape[-2:])) for t in (self, other)]
    return _unsafe_view(flat[0].bmm(flat[1]), (*batch, self.shape[-2], other.shape[-1]))


_BATCH_MATMUL = op("_batch_matmul(Tensor self, Tensor other) -> Tensor", node="UnsafeViewBackward0",
   kernel=QuickFamily(_broadcast_spec, _batched, _quick_batches),
   kernels={"cuda": "matmul.product"},
   npu="aclnnMatmul(self, other, out, cubeMathType=0) empty=0",
   grad=dict(self=lambda grad, other: of_left(grad, other), other=lambda grad, self: of_right(grad, self)),
   public="",
   samples=cases(case(t(2, 3, 4), t(2, 4, 5)), case(t(2, 1, 3, 4), t(5, 4, 2)), case(t(3, 4), t(2, 4, 5))),
   linear="each", batch=_product_each, aten=Aten(parts=_batch_matmul_parts), autocast="lower",
   flops=Flops(mm_flop, "bmm"))
batch_matmul: Callable = function_of(_BATCH_MATMUL)


def _check_product(target: Tensor, a: Tensor, b: Tensor) -> None:
    """Raises where PyTorch looks at the type of a product's target before it compares those of the factors."""
    left, right, given = a._array.shape, b._array.shape, target.dtype
    if not left or not right:
        return
    first = b.dtype if len(left) <= 2 < len(right) else a.dtype  # the factors change places
    if len(left) == len(right) == 1:
        rule, fits = _OUT_OF_DOT, given is a.dtype
    elif left[-1] != right[-2 if len(right) > 1 else 0] or len(left) == 2 and len(right) == 1:
        return
    elif len(right) == 1:
        rule, fits = _OUT_OF_MV, given is a.dtype is b.dtype
    else:
        rule, fits = EXACT, given is first
    if not fits:
        raise RuntimeError(refusal(rule, first, given, other=b.dtype))


def _matmul_parts(self, other):
    a, b = self.dim(), other.dim()
    return _matmul(self, other) if not a or not b or a <= 2 and b <= 2 else matmul_by_parts(self, other, a, b)


def _loses_a_row(a: Tensor, b: Tensor) -> bool:
    """Whether a vector is multiplied as a row, which PyTorch takes off its result again in place."""
    return a._array.ndim == 1 and b._array.ndim == 2


@composite("matmul(Tensor self, Tensor other) -> Tensor",
           node={"SqueezeBackward4": "self.dim() == 1 and other.dim() == 2"}, special="matmul -rmatmul",
           kernels={"sparse": "products.any_product"},
           out=Out(check=_check_product, check_arguments=check_at_least_1d, rewrites=_loses_a_row),
           samples=cases(case(t(2, 3), t(3, 4)), case(t(3), t(3)), case(t(2, 3), t(3)), case(t(3), t(3, 4)),
                         case(t(2, 3, 4), t(4, 5)),
                         case(t(2, 3, 4), t(4)), case(t(3), t(2, 3, 4)), case(t(2, 3), t(5, 3, 4)),
                         case(t(2, 3, 4), t(2, 4, 5)),
                         case(t(2, 1, 3, 4), t(5, 4, 2)), case(t(0, 3, 4), t(4, 5)), case(t(2, 3, 0), t(2, 0, 5)),
                         error(RuntimeError, "mat1 and mat2 shapes cannot be multiplied (6x4 and 5x6)", t(2, 3, 4),
                               t(5, 6)),
                         error(RuntimeError, "both arguments to matmul need to be at least 1D, but they are 0D and 2D",
                               t(), t(2, 2)),
                         error(RuntimeError, "The size of tensor a (2) must match the size of tensor b (3) at "
                                             "non-singleton dimension 0", t(2, 3, 4), t(3, 4, 5))),
           aten=Aten(parts=_matmul_parts), autocast="lower")
def _matmul(self, other):
    a, b = len(self._array.shape), len(other._array.shape)
    if a == 2 and b == 2:
        return _mm(self, other)
    check_at_least_1d(self, other)
    if b == 1 and a <= 2:
        return self.dot(other) if a == 1 else self.mv(other)
    if a == 1 and b == 2:
        return self.unsqueeze(0).mm(other).squeeze_(0)
    one, two = self._array, other._array
    if a > 1 and b > 1 and one.dtype is two.dtype and one.shape[-1] == two.shape[-2]:
        if b == 2:  # one product over all rows, forward and for the gradient of `other`
            return linear(self, other.t())
        if a > 2 and one.shape[:-2] == two.shape[:-2] or not (self._keys | other._keys) & REQUIRES_GRAD:
            return batch_matmul(self, other)
    return matmul_by_parts(self, other, a, b)


def matmul_by_parts(self: Any, other: Any, a: int, b: int) -> Any:
    """As PyTorch does it, for calls in which that shows: errors, strides, results that are views."""
    if _is_folded(self, other, a, b):
        swapped = b > a
        rows = other.mT if swapped else self
        matrix = (self.t() if a == 2 else self) if swapped else other
        shape = rows._array.shape
        flat = rows.reshape((math.prod(shape[:-1]), shape[-1]))
        if matrix.dim() == 1:
            return _unsafe_view(flat.mv(matrix), shape[:-1])
        made = _unsafe_view(flat.mm(matrix), (*shape[:-1], matrix._array.shape[1]))
        return made.mT.contiguous() if swapped else made
    one, two = self._array.shape, other._array.shape
    if a == b == 3 and one[0] != two[0]:
        if one[0] == 1 and self.requires_grad:
            return self.squeeze(0).matmul(other)
        if two[0] == 1 and other.requires_grad:
            return self.matmul(other.squeeze(0))
    batch = broadcast_shape([one[:-2], two[:-2]])
    count, ends = math.prod(batch), (one[-2:-1], two[-1:] if b > 1 else ())
    left, right = one[-2:] if a > 1 else (1, *one), two[-2:]
    batches = self.expand((*batch, *left)).reshape((count, *left))
    others = other.expand((*batch, *right)).reshape((count, *right))
    made = batches.bmm(others.unsqueeze(2)).squeeze(-1) if b == 1 else batches.bmm(others)
    return _unsafe_view(made, (*batch, *ends[0], *ends[1]))


def _is_folded(self: Any, other: Any, a: int, b: int) -> bool:
    """Whether the batch of one factor is multiplied as the rows of one matrix.

    That is where the other factor is no batch, and either needs a gradient or nothing has to be copied.
    """
    if max(a, b) < 3 or min(a, b) > 2:
        return False
    if (other if a >= b else self).requires_grad:
        return True
    if a == 2:
        return False
    rows = (self if a >= b else other.mT)._array
    steps, shape = rows.strides, rows.shape
    return not rows.size or all(steps[d] == steps[d + 1] * shape[d + 1] for d in range(rows.ndim - 2))
