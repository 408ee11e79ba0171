"""Tables looked up by index, and indices as vectors of zeros and a one."""

from typing import Any

import numpy as np

from .._dispatch.callers import call_bound
from .._dispatch.keys import changed_modes
from .._dtype import FLOAT, int32, int64
from .._tensor import Tensor
from .declare import composite, op
from .families import computes, moves, writes
from .rules import Spec
from .samples import case, cases, error, ints, t, values


def _check_indices(indices: Tensor) -> None:
    if indices.dtype is not int64 and indices.dtype is not int32:
        raise RuntimeError("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                           f"Int; but got {indices.type()} instead (while checking arguments for "
                           "embedding)")  # type: ignore[attr-defined]


def _embedding_spec(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Spec:
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(indices)
    if sparse:
        raise NotImplementedError("embedding: sparse gradients (sparse=True) are not available")
    return Spec((*indices._array.shape, weight._array.shape[1]), weight.dtype)


def _rows_at(xp: Any, weight: Any, indices: Any, *options: Any) -> Any:
    try:
        made = weight.take(indices, axis=0)
    except IndexError:
        raise IndexError("index out of range in self") from None
    if indices.size and xp.minimum.reduce(indices, axis=None) < 0:  # which NumPy counts from the end
        raise IndexError("index out of range in self")
    return made


def _embedding_grad(grad, indices, weight_shape, padding_idx, scale_grad_by_freq):
    return call_bound(_DENSE_BACKWARD, (grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq))


_EMBEDDING = op("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool "
                "sparse=False) -> Tensor",
   kernel=moves(_embedding_spec, _rows_at),
   npu="aclnnEmbedding(weight, indices, out)",
   grad=dict(weight=_embedding_grad),
   samples=cases(case(t(5, 3), ints(4)), case(t(5, 3, grad=False), ints(2, 3), 1),
                 case(t(5, 3, grad=False), ints(2, 3), 1, True), case(t(5, 3), ints()),
                 case(t(5, 3), ints(0)), error(IndexError, "index out of range in self", t(2, 3), values([0, 2])),
                 error(RuntimeError, "'weight' must be 2-D", t(3), ints(2))))


def _summed_rows(xp: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int,
                 scale_grad_by_freq: bool) -> Any:
    """For each row of the table, the sum of the gradients of the places that show it."""
    width = grad_output.shape[-1]
    flat, grads = indices.reshape(-1), grad_output.reshape((indices.size, width))
    if padding_idx >= 0:
        kept = flat != padding_idx
        flat, grads = flat[kept], grads[kept]
    made = xp.summed_rows(flat, grads, num_weights)
    if scale_grad_by_freq:
        made = made / xp.maximum(xp.bincount(flat, minlength=num_weights), 1).astype(made.dtype)[:, None]
    return made


def _dense_backward_grad(grad, indices, padding_idx, scale_grad_by_freq):
    made = grad.index_select(0, indices.reshape(-1)).reshape((*indices.shape, grad.shape[1]))
    if scale_grad_by_freq:
        made = made / _frequency(indices).unsqueeze(-1)
    return made if padding_idx < 0 else made.masked_fill((indices == padding_idx).unsqueeze(-1), 0)


def _frequency(indices: Any) -> Any:
    """How often each index occurs."""
    flat = indices.reshape(-1)
    return (flat.unsqueeze(0) == flat.unsqueeze(1)).sum(1).reshape(indices.shape)


_DENSE_BACKWARD = op(
   "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool "
   "scale_grad_by_freq) -> Tensor",
   kernel=computes(lambda grad_output, indices, num_weights,
                   *rest: Spec((num_weights, grad_output._array.shape[-1]), grad_output.dtype),
                   _summed_rows),
   npu="aclnnEmbeddingDenseBackward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq, out) empty=0",
   grad=dict(grad_output=_dense_backward_grad),
   public="",
   samples=cases(case(t(4, 3), ints(4), 5, -1, False), case(t(2, 2, 3), ints(2, 2), 5, 1, True),
                 case(t(0, 3), ints(0), 5, -1, False)))


def _check_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    _check_indices(indices)
    if self.dtype.category < FLOAT:
        raise RuntimeError("norm(): input dtype should be either floating point or complex. "
                           f"Got {self.dtype.scalar_name} instead.")


def _shorten_rows(xp: Any, self: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    for i in (indices.min(), indices.max()) if indices.size else ():
        if not -len(self) <= i < len(self):
            raise IndexError(f"select(): index {i} out of range for tensor of size {list(self.shape)} at dimension 0")
    used = xp.unique(indices)
    rows = self[used].astype(np.promote_types(self.dtype, np.float32) if self.dtype.isbuiltin == 1 else np.float32)
    length = xp.linalg.norm(rows, norm_type, axis=1, keepdims=True)
    self[used] = xp.where(length > max_norm, rows * (max_norm / (length + 1e-7)), rows).astype(self.dtype)


_RENORM = op("embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
   kernel=writes(_check_renorm, _shorten_rows),
   npu="aclnnEmbeddingRenorm(self, indices, max_norm, norm_type)", public="torch")


@composite("functional_embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float "
           "norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", public="",
           aliases=("nn.functional.embedding",),
           samples=cases(case(ints(4), t(5, 3)), case(ints(2, 2), t(5, 3, grad=False), padding_idx=-1),
                         case(ints(2), t(5, 3, grad=False), max_norm=1.0),
                         error(AssertionError, "Padding_idx must be within num_embeddings", ints(2), t(5, 3),
                               padding_idx=7)))
def _functional_embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        with changed_modes(grad_enabled=False):
            call_bound(_RENORM, (weight, input.contiguous(), max_norm, norm_type))
    return call_bound(_EMBEDDING, (weight, input, padding_idx, scale_grad_by_freq, sparse))


def _one_hot_size(self: Tensor, num_classes: int) -> int:
    if self.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not self._array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return num_classes
    if self._array.__class__ is not np.ndarray:
        if num_classes < 0:
            raise RuntimeError("one_hot on a meta tensor needs num_classes: there are no values to infer it from.")
        return num_classes
    if self._array.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    top = int(self._array.max())
    if num_classes == -1:
        return top + 1
    if top >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return num_classes


op("one_hot(Tensor self, int num_classes=-1) -> Tensor",
   kernel=moves(lambda self, num_classes: Spec((*self._array.shape, _one_hot_size(self, num_classes)), int64),
                lambda xp, self, num_classes, spec: (self[..., None] == xp.arange(spec.shape[-1])).astype(np.int64)),
   public="nn.functional",
   samples=cases(case(values([0, 2, 1]), 3), case(ints(2, 2), 7), case(ints(0), 3),
                 error(RuntimeError, "Class values must be smaller than num_classes.", values([3]), 2)))
