"""Tables looked up by index, and indices as vectors of zeros and a one."""

from typing import Any

import numpy as np

from .._core.dtype import FLOAT, float64, int32, int64, promote_types
from .._core.elements import at_hand, type_text
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.keys import changed_modes
from .._dispatch.registry import registry
from ._declare.batch import Call, Result, one_by_one, row_numbers
from ._declare.families import computes, moves, writes
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, ints, t, values
from .index import check_has_places

arange, cat, searchsorted = (
    function_of(registry.get(name)) for name in ("arange.start_step", "cat", "searchsorted"))


def _check_indices(indices: Tensor, number: int = 1, function: str = "embedding") -> None:
    if indices.dtype is not int64 and indices.dtype is not int32:
        raise RuntimeError(f"Expected tensor for argument #{number} 'indices' to have one of the following scalar "
                           f"types: Long, Int; but got {indices.type()} instead (while checking arguments for "
                           f"{function})")  # type: ignore[attr-defined]


def _embedding_spec(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Spec:
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(indices)
    return Spec((*indices._array.shape, weight._array.shape[1]), weight.dtype)


def _rows_at(xp: Any, weight: Any, indices: Any, *options: Any) -> Any:
    check_has_places(weight.ndim, len(weight), indices.size)
    try:
        made = weight.take(indices, axis=0)
    except IndexError:
        raise IndexError("index out of range in self") from None
    if indices.size and xp.minimum.reduce(indices, axis=None) < 0:  # which NumPy counts from the end
        raise IndexError("index out of range in self")
    return made


def _embedding_grad(grad, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse):
    if sparse:
        return _sparse_rows(grad, indices, weight_shape, padding_idx, scale_grad_by_freq)
    return call_bound(_DENSE_BACKWARD, (grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq))


def _sparse_rows(grad: Any, indices: Any, weight_shape: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """The gradient of a table as a COO tensor: a row for each place that shows one, in their order."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    places, rows = indices.reshape(-1), grad.reshape(-1, weight_shape[1])
    if padding_idx >= 0:
        kept = (places != padding_idx).nonzero().reshape(-1)
        places, rows = places.index_select(0, kept), rows.index_select(0, kept)
    return call_bound(registry.get("_sparse_coo_tensor_with_dims_and_tensors"),
                      (1, 1, weight_shape, places.to(int64).unsqueeze(0), rows, False))


def _embedding_each(call: Call) -> Result:
    weight, indices, padding_idx, by_frequency, sparse = call.values
    if not call.batched[0]:
        return call.run(*call.values), True
    if padding_idx >= 0 or by_frequency:
        return one_by_one(call)
    if not call.batched[1]:
        made = weight.index_select(1, indices.reshape((-1,)))
        return made.reshape((call.size, *indices.shape, weight.shape[2])), True
    places = indices + row_numbers(call, indices) * weight.shape[1]
    return call.run(weight.reshape((-1, weight.shape[2])), places, -1, False, sparse), True


def _embedding_at(g: Any, weight: Any, indices: Any, *options: Any) -> Any:
    *places, column = g.at
    return weight[g.within(indices.index(*places), weight.shape[0]), column]


_EMBEDDING = op("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool "
                "sparse=False) -> Tensor",
   kernel=moves(_embedding_spec, _rows_at), gathers=_embedding_at,
   kernels={"cpu": "index.embedding", "cuda": "embedding.embedding", "npu": "index.embedding"},
   npu="aclnnEmbedding(weight, indices, out)",
   grad=dict(weight=_embedding_grad),
   samples=cases(case(t(5, 3), ints(4)), case(t(5, 3, grad=False), ints(2, 3), 1),
                 case(t(5, 3, grad=False), ints(2, 3), 1, True), case(t(5, 3), ints()),
                 case(t(5, 3), ints(0)), error(IndexError, "index out of range in self", t(2, 3), values([0, 2])),
                 error(RuntimeError, "'weight' must be 2-D", t(3), ints(2))), linear=True, batch=_embedding_each,
   out=None, sharded="embedded")


def _summed_rows(xp: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int,
                 scale_grad_by_freq: bool) -> Any:
    """For each row of the table, the sum of the gradients of the places that show it."""
    width = grad_output.shape[-1]
    flat, grads = indices.reshape(-1), grad_output.reshape((indices.size, width))
    if padding_idx >= 0:
        kept = flat != padding_idx
        flat, grads = flat[kept], grads[kept]
    if flat.size and (flat.min() < 0 or flat.max() >= num_weights):  # rows that the table has not, PyTorch passes by
        kept = (flat >= 0) & (flat < num_weights)
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


def _dense_backward_spec(grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
                         scale_grad_by_freq: bool) -> Spec:
    _check_indices(indices, 2, "embedding_backward")
    if num_weights < 0:
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    count, width = indices._array.size, grad_output._array.shape[-1]
    if grad_output._array.size != count * width:
        raise RuntimeError(f"shape '[{count}, {width}]' is invalid for input of size {grad_output._array.size}")
    return Spec((num_weights, width), grad_output.dtype)


def _embedding_backward_each(call: Call) -> Result:
    _, _, count, padding_idx, by_frequency = call.values
    if by_frequency:
        return one_by_one(call)
    grad, indices = call.full(0), call.full(1)
    if padding_idx >= 0:
        grad = grad.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    places = indices + row_numbers(call, indices) * count
    made = call.run(grad, places, call.size * count, -1, False)
    return made.reshape((call.size, count, grad.shape[-1])), True


_DENSE_BACKWARD = op(
   "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool "
   "scale_grad_by_freq) -> Tensor",
   kernel=computes(_dense_backward_spec, _summed_rows),
   kernels={"cpu": "index.embedding_backward", "cuda": "embedding.embedding_backward"},
   npu="aclnnEmbeddingDenseBackward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq, out) empty=0",
   grad=dict(grad_output=_dense_backward_grad),
   public="",
   samples=cases(case(t(4, 3), ints(4), 5, -1, False), case(t(2, 2, 3), ints(2, 2), 5, 1, True),
                 case(t(0, 3), ints(0), 5, -1, False)), batch=_embedding_backward_each, sharded="embedding_gradient")


def _check_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    _check_indices(indices)
    if self.dtype.category < FLOAT:
        raise RuntimeError("norm(): input dtype should be either floating point or complex. "
                           f"Got {self.dtype.scalar_name} instead.")


def shorten_rows(xp: Any, self: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    for i in (indices.min(), indices.max()) if indices.size else ():
        if not -len(self) <= i < len(self):
            raise IndexError(f"select(): index {i} out of range for tensor of size {list(self.shape)} at dimension 0")
    used = xp.unique(indices)
    rows = self[used].astype(np.promote_types(self.dtype, np.float32) if self.dtype.isbuiltin == 1 else np.float32)
    length = xp.linalg.norm(rows, norm_type, axis=1, keepdims=True)
    self[used] = xp.where(length > max_norm, rows * (max_norm / (length + 1e-7)), rows).astype(self.dtype)


_RENORM = op("embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
   kernel=writes(_check_renorm, shorten_rows),
   kernels={"cpu": "embedding.embedding_renorm_", "cuda": "embedding.embedding_renorm_"},
   npu="aclnnEmbeddingRenorm(self, indices, max_norm, norm_type)", public="torch")


@composite("functional_embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float "
           "norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", public="",
           aliases=("nn.functional.embedding",),
           samples=cases(case(ints(4), t(5, 3)), case(ints(2, 2), t(5, 3, grad=False), padding_idx=-1),
                         case(ints(2), t(5, 3, grad=False), max_norm=1.0),
                         error(AssertionError, "Padding_idx must be within num_embeddings", ints(2), t(5, 3),
                               padding_idx=7)))
def _functional_embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
    if weight.dim() != 2 and padding_idx is None:
        raise RuntimeError("'weight' must be 2-D")
    rows = weight.size(0)
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


# bags ----------------------------------------------------------------------------------------------------------------

SUM, MEAN, MAX = range(3)


def _check_index_type(name: str, tensor: Tensor) -> None:
    if tensor.dtype is not int64 and tensor.dtype is not int32:
        raise RuntimeError(f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: Long, "
                           f"Int; but got {type_text(tensor)} instead (while checking arguments for embedding_bag)")


def _bag_specs(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int, sparse: bool,
               per_sample_weights: Tensor | None, include_last_offset: bool, padding_idx: int) -> tuple[Spec, ...]:
    if indices._array.ndim not in (1, 2):
        raise RuntimeError(f"input has to be a 1D or 2D Tensor, but got Tensor of dimension {indices._array.ndim}")
    if indices._array.ndim == 1 and offsets._array.ndim != 1:
        raise RuntimeError(f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets._array.ndim}")
    _check_index_type("indices", indices)
    _check_index_type("offsets", offsets)
    if weight.dtype.category != FLOAT:
        raise RuntimeError("Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
                           f"BFloat16, Float, Double; but got {type_text(weight)} instead (while checking arguments "
                           "for embedding_bag)")
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError("Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                           f"'per_sample_weights'; but type {type_text(weight)} does not equal "
                           f"{type_text(per_sample_weights)} (while checking arguments for embedding_bag)")
    given, width = offsets._array.shape[0], weight._array.shape[1]
    if include_last_offset and not given:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    made = given - 1 if include_last_offset else given
    kind = promote_types(indices.dtype, offsets.dtype)
    # Which bag an index is in is told where PyTorch had to find out.
    told = mode != SUM or padding_idx >= 0 or weight.dtype is float64
    sizes = (given if mode == SUM else made,)
    return (Spec((made, width), weight.dtype), Spec((indices._array.shape[0] if told else 0,), kind),
            Spec(sizes, kind), Spec((made, width) if mode == MAX else sizes, kind))


def stops_at_last_offset(mode: int, dtype: Any, padding_idx: int, include_last_offset: bool) -> bool:
    """Whether indices behind the last offset are left out of the sums; elsewhere they are in the last bag."""
    return include_last_offset and mode != MAX and padding_idx < 0 and dtype is not float64


def _bag_array(xp: Any, weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
               per_sample_weights: Any, include_last_offset: bool, padding_idx: int, spec: tuple[Spec, ...]) -> tuple:
    count, rows = len(indices), len(weight)
    if offsets.size and offsets[0] != 0:
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                           f"position 0. However, got {offsets[0]}\n[ torch.LongTensor{{}} ]")
    if offsets.size and offsets[-1] > count:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
                           f"{offsets[-1]}")
    if offsets.size > 1:  # each bag must begin where another could: none before it, none before the first index
        if mode != SUM and xp.minimum.reduce(offsets) < 0:
            raise IndexError("index out of range in self")
        if (offsets[1:] < offsets[:-1]).any():
            raise RuntimeError("Expected i < index_size to be true, but got false.")
    wrong = xp.flatnonzero((indices < 0) | (indices >= rows))
    if wrong.size:
        raise RuntimeError(f"Index {wrong[0]} of input takes value {indices[wrong[0]]} which is not in the valid range "
                           f"[0, {rows})")
    made = spec[0].shape[0]
    bag = xp.minimum(xp.searchsorted(offsets, xp.arange(count), side="right"), made) - 1
    kept = (bag >= 0) & (indices != padding_idx)
    sizes = xp.bincount(bag[kept], minlength=made) if made else xp.zeros(0, xp.int64)
    starts = xp.concatenate((xp.zeros(1, xp.int64), xp.cumsum(sizes)))
    told = bag if spec[1].shape[0] == count else bag[:0]
    bag_size = xp.zeros(spec[2].shape, xp.int64)
    if mode == MAX:
        output, largest = _largest_rows(xp, weight, indices[kept], bag[kept], sizes, starts)
    else:
        if stops_at_last_offset(mode, spec[0].dtype, padding_idx, include_last_offset):
            kept &= xp.arange(count) < offsets[-1]
            starts = xp.minimum(starts, offsets[-1])
        used = indices[kept]
        factors = None if per_sample_weights is None else per_sample_weights[kept]
        output = xp.bag_sums(weight, used, starts, factors)
    if mode == MEAN:
        output /= xp.maximum(sizes, 1)[:, None].astype(output.dtype)
    if mode != SUM:
        bag_size[:] = sizes
    return output, told, bag_size, largest if mode == MAX else bag_size.copy()


def _largest_rows(xp: Any, weight: Any, indices: Any, bag: Any, sizes: Any, starts: Any) -> tuple[Any, Any]:
    """The largest element of each column in each bag, and the index of the row that has it (the first)."""
    filled = xp.flatnonzero(sizes)
    output = xp.zeros((len(sizes), weight.shape[1]), weight.dtype)
    largest = xp.zeros(output.shape, xp.int64)
    if filled.size:
        rows, begin = weight[indices], starts[filled]
        output[filled] = xp.maximum.reduceat(rows, begin, axis=0)
        place = xp.where((rows == output[bag]) | xp.isnan(rows), xp.arange(len(rows))[:, None], len(rows))
        largest[filled] = indices[xp.minimum.reduceat(place, begin, axis=0)]
    return output, largest


def _grad_of_rows(grad: Any, indices: Any, offsets: Any) -> Any:
    """For each index the gradient of its bag; zeros where there are no bags."""
    bag = searchsorted(offsets, arange(indices.size(0), device=indices.device), right=True) - 1
    return cat((grad, grad.new_zeros(1, grad.size(1)))).index_select(0, bag.clamp(0, max(grad.size(0) - 1, 0)))


def _bag_grad(grads, weight_shape, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
              include_last_offset, padding_idx, bag_size, max_indices):
    grad, rows = grads[0], weight_shape[0]
    if mode == MAX:
        grad = grad * (bag_size > 0).unsqueeze(1)
        return grad.new_zeros(weight_shape).scatter_add(0, max_indices.to(int64), grad)
    if mode == MEAN:
        grad = grad / bag_size.clamp_min(1).unsqueeze(1)
    each = _grad_of_rows(grad, indices, offsets)
    if mode == SUM and stops_at_last_offset(mode, grad.dtype, padding_idx, include_last_offset):
        behind = arange(indices.size(0), device=indices.device) >= offsets[-1]
        each = each.masked_fill(behind.unsqueeze(1), 0)
    if per_sample_weights is not None:
        each = each * per_sample_weights.unsqueeze(1)
    if sparse:
        return _sparse_rows(each, indices, weight_shape, padding_idx, scale_grad_by_freq)
    return call_bound(_DENSE_BACKWARD, (each, indices, rows, padding_idx, scale_grad_by_freq))


def _bag_weights_grad(grads, weight, indices, offsets, padding_idx):
    made = (_grad_of_rows(grads[0], indices, offsets) * weight.index_select(0, indices)).sum(1)
    return made.masked_fill(indices == padding_idx, 0)


_BAG_ARGUMENTS = ("Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq{}, int mode{}, bool sparse{},"
                  " Tensor? per_sample_weights{}, bool include_last_offset{}")
_BAG_DEFAULTS = _BAG_ARGUMENTS.format("=False", "=0", "=False", "=None", "=False")
_BAG = op(f"_embedding_bag({_BAG_DEFAULTS}, int padding_idx=-1) -> (Tensor output, Tensor offset2bag, Tensor bag_size,"
          " Tensor max_indices)",
   kernel=computes(_bag_specs, _bag_array),
   kernels={"cpu": "embedding.embedding_bag", "cuda": "embedding.embedding_bag", "npu": "layers.embedding_bag"},
   npu="aclnnEmbeddingBag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, "
       "include_last_offset, padding_idx, output, offset2bag, bag_size, max_indices)",
   grad=dict(weight=_bag_grad, per_sample_weights=_bag_weights_grad), public="")

_BAG_INDICES, _BAG_OFFSETS = values([1, 2, 4, 4, 0]), values([0, 2, 2])
_FOUR = "(Tensor result, Tensor result1, Tensor result2, Tensor result3)"


@composite(f"embedding_bag({_BAG_DEFAULTS}) -> {_FOUR}",
           samples=cases(case(t(5, 3), _BAG_INDICES, _BAG_OFFSETS),
                         case(t(5, 3), _BAG_INDICES, _BAG_OFFSETS, False, 1),
                         case(t(5, 3), _BAG_INDICES, _BAG_OFFSETS, False, 2),
                         case(t(5, 3), _BAG_INDICES, _BAG_OFFSETS, False, 0, False, t(5)),
                         case(t(5, 3), _BAG_INDICES, values([0, 2, 4]), include_last_offset=True),
                         error(RuntimeError, "offsets[0] has to be 0", t(5, 3), _BAG_INDICES, values([1, 2])),
                         error(RuntimeError, "Index 0 of input takes value 7 which is not in the valid range [0, 5)",
                               t(5, 3), values([7]), values([0]))), out=None)
def _embedding_bag(weight, indices, offsets, *options):
    output, *told = call_bound(_BAG, (weight, indices, offsets, *options, -1))
    return output, *(x.detach() for x in told)


@composite(f"embedding_bag.padding_idx({_BAG_ARGUMENTS.format(*[''] * 5)}, int? padding_idx) -> {_FOUR}",
           samples=cases(case(t(5, 3, grad=False), _BAG_INDICES, _BAG_OFFSETS, False, 1, False, None, False, 4),
                         case(t(5, 3, grad=False), _BAG_INDICES, _BAG_OFFSETS, False, 2, False, None, False, -1)),
           out=None)
def _embedding_bag_padded(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                          include_last_offset, padding_idx):
    rows = weight.size(0)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got "
                           f"{padding_idx}")
    padding = -1 if padding_idx is None else padding_idx % rows
    output, *told = call_bound(_BAG, (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                      include_last_offset, padding))
    return output, *(x.detach() for x in told)


# indices as vectors --------------------------------------------------------------------------------------------------


def _one_hot_size(self: Tensor, num_classes: int) -> int:
    if self.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not self._array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return num_classes
    if not at_hand(self._array):
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


def _one_hot(xp: Any, self: Any, num_classes: int, spec: Spec) -> Any:
    made = xp.zeros(spec.shape, np.int64)
    made.reshape(-1, spec.shape[-1] or 1)[xp.arange(self.size), self.reshape(-1)] = 1
    return made


def _one_hot_each(call: Call) -> Result:
    if call.values[1] == -1:
        call.level.refuse("item()")
    return call.run(*call.values), True


def _one_hot_at(g: Any, self: Any, num_classes: int) -> Any:
    *places, column = g.at
    return g.where(g.within(self.index(*places), num_classes) == column, 1, 0)


op("one_hot(Tensor self, int num_classes=-1) -> Tensor", gathers=_one_hot_at,
   kernel=moves(lambda self, num_classes: Spec((*self._array.shape, _one_hot_size(self, num_classes)), int64),
                _one_hot),
   public="nn.functional",
   samples=cases(case(values([0, 2, 1]), 3), case(ints(2, 2), 7), case(ints(0), 3),
                 error(RuntimeError, "Class values must be smaller than num_classes.", values([3]), 2)),
   batch=_one_hot_each, kernels={"npu": "index.one_hot"})
