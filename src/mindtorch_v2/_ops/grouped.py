"""Products of matrices in groups, as layers of experts use them.

A 2d matrix has its groups one after the other along its rows or columns, with the places where they end in a tensor; a
3d one has them along its first dimension.
"""

from typing import Any

from .._core.dtype import bfloat16, float16, float32, int32
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from ._declare.composites import Parts
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec

_TAKEN = (float32, bfloat16, float16)
bmm, cat, stack = (function_of(registry.get(name)) for name in ("bmm", "cat", "stack"))


def _product_spec(left: Tensor, right: Tensor, ends: Tensor) -> Spec:
    groups = (len(ends),) if left.dim() == right.dim() == 2 else ()
    return Spec((*groups, left.shape[-2], right.shape[-1]), left.dtype)


def _product_by_parts(left: Any, right: Any, ends: Any) -> Any:
    stops = ends.tolist()
    spans = list(zip([0, *stops], stops, strict=False))
    if left.dim() == right.dim() == 2:
        return stack([left[:, start:end] @ right[start:end] for start, end in spans])
    if left.dim() == 3:
        return _product_by_parts(right.t(), left.transpose(1, 2), ends).t()
    rows = [left[start:end] @ matrix for matrix, (start, end) in zip(right, spans, strict=True)]
    rest = left.shape[0] - stops[-1]  # belongs to no group
    return cat([*rows, left.new_zeros((rest, right.shape[-1]))] if rest else rows)


# Of two 2d matrices the groups lie along what is summed; of one, along what is not. The derivatives are such products.
_PRODUCT = op("_grouped_product(Tensor left, Tensor right, Tensor ends) -> Tensor", kernel=Parts(_product_spec),
   kernels={"npu": "linalg.grouped_product"}, public="", decomposition=_product_by_parts,
   grad=dict(left=lambda grad, right, ends: call_bound(_PRODUCT, (grad, right.transpose(-2, -1), ends)),
             right=lambda grad, left, ends: call_bound(_PRODUCT, (left.transpose(-2, -1), grad, ends))))


def _check(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None) -> None:
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
        if matrix.dtype not in _TAKEN:
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
                               f"{matrix.dtype.scalar_name}")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is not None) != (mat_a.dim() == 2 or mat_b.dim() == 2):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dtype is not int32:
        raise RuntimeError("Offsets have to be int32")
    groups = [len(matrix) for matrix in (mat_a, mat_b) if matrix.dim() == 3] + ([] if offs is None else [len(offs)])
    if len(set(groups)) > 1:
        raise RuntimeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")


@composite("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> "
           "Tensor", public="torch", out=None)
def _grouped_mm(self: Any, mat2: Any, offs: Any, bias: Any, out_dtype: Any) -> Any:
    _check(self, mat2, offs, bias)
    result = bmm(self, mat2) if offs is None else call_bound(_PRODUCT, (self, mat2, offs))
    return result if out_dtype is None else result.to(out_dtype)
