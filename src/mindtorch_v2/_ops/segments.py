"""Segments of a dimension folded, tensors cut into chunks side by side, and all elements hashed to one number."""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import COMPLEX, FLOAT, INT, uint64
from .._core.elements import has_elements
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from .._dispatch.keys import modes
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.batch import one_by_one
from ._declare.composites import Composite, Parts
from ._declare.families import moves
from ._declare.op import composite, function_of, op
from ._declare.out import JOINED, Out
from ._declare.recorded import gradients_by_parts, once, recorded_gradients
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, ints, t, values
from .join import constant_pad_nd
from .reduce import folded, folded_shape, reduced_dims

_arange, _cat, _searchsorted, _where = (function_of(registry.get(f"aten::{name}"))
                                        for name in ("arange.start_step", "cat", "searchsorted", "where.self"))
INF = float("inf")

# reduce -> (what scatter_reduce calls it, the value of an empty segment)
_FOLDS = {"sum": ("sum", 0.0), "mean": ("sum", float("nan")), "prod": ("prod", 1.0), "max": ("amax", -INF),
          "amax": ("amax", -INF), "min": ("amin", INF), "amin": ("amin", INF)}


def _check_segments(data: Any, lengths: Any) -> None:
    if has_elements(data) and bool((lengths < 0).any()):
        raise RuntimeError("Expected segment_length >= 0 to be true, but got false.")


def _check_bounds(data: Any, given: Any, axis: int, name: str) -> None:
    if given.dtype.category != INT:
        raise NotImplementedError(f"\"_segment_reduce_lengths_cpu_kernel1\" not implemented for "
                                  f"'{given.dtype.scalar_name}'")
    if data.dim() < given.dim():
        raise RuntimeError("Expected data.dim() >= lengths_value.dim() to be true, but got false.")
    if axis != given.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")


def _ends(data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> tuple[Any, Any]:
    """Where segments begin and end along the axis."""
    if offsets is not None:
        begin, ends = offsets[..., :-1], offsets[..., 1:]
        _check_segments(data, ends - begin)
        return begin, ends
    ends = lengths.cumsum(-1)
    if unsafe:
        _check_segments(data, lengths)
    elif has_elements(data):
        if bool((lengths < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((lengths.sum(-1) != data.shape[axis]).any()):
            raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to "
                               "data.size(lengths.dim()-1) when !unsafe.")
    return ends - lengths, ends


def _folded(data: Any, segment: Any, dim: int, count: int, fold: str, initial: Any) -> Any:
    data = data.detach()
    base = data.new_full([count + 1 if d == dim else n for d, n in enumerate(data.shape)], initial)
    return base.scatter_reduce(dim, segment, data, fold).narrow(dim, 0, count).clone()


def _extreme_grad(grad: Any, data: Any, segment: Any, dim: int, count: int, result: Any) -> Any:
    """Shares for the elements that a segment's result is equal to, and for NaN; none for an initial value."""
    inside, counted = _inside(segment, count)
    chosen = ((data == result.gather(dim, inside)) | data.isnan()) & counted
    counts = _numbers_of(chosen, inside, dim, grad)
    return (grad / counts.clamp(min=1)).gather(dim, inside).masked_fill(~chosen, 0)


def _product_grad(grad: Any, data: Any, segment: Any, dim: int, count: int, initial: Any, result: Any) -> Any:
    """The product of all other elements: where it is not result / element, that of all but zeros and NaN counts."""
    inside, counted = _inside(segment, count)
    unknown = data.isnan()
    holes = (data == 0) | unknown
    others = _numbers_of(holes & counted, inside, dim, grad).gather(dim, inside) - holes.to(grad.dtype)
    other_unknown = _numbers_of(unknown & counted, inside, dim, grad).gather(dim, inside) - unknown.to(grad.dtype)
    rest = _segment_product(data.masked_fill(holes, 1), segment, dim, count, "prod", initial).gather(dim, inside)
    rest = rest.masked_fill(others > 0, 0).masked_fill(other_unknown > 0, float("nan"))
    share = _where(holes, rest, result.gather(dim, inside) / data.masked_fill(holes, 1))
    return (grad.gather(dim, inside) * share).masked_fill(~counted, 0)


def _inside(segment: Any, count: int) -> tuple[Any, Any]:
    """The segment of each element, any for those that belong to none, and which belong to one."""
    return segment.clamp(max=max(count - 1, 0)), segment < count


def _numbers_of(chosen: Any, inside: Any, dim: int, like: Any) -> Any:
    """How many elements of each segment are chosen."""
    return like.new_zeros(like.shape).scatter_add(dim, inside, chosen.to(like.dtype))


_segment_extreme, _segment_product = (function_of(op(
    f"_segment_{name}(Tensor data, Tensor segment, int dim, int count, str fold, Scalar initial) -> Tensor", public="",
    kernel=Composite(_folded), grad=dict(data=formula)))
    for name, formula in (("extreme", _extreme_grad), ("product", _product_grad)))


def _check_floating(data: Any) -> None:
    if data.dtype.category != FLOAT:
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.scalar_name}'")


def _segment_spec(data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool,
                  initial: Any) -> Spec:
    """What comes out; lengths are looked at where segments are folded."""
    if reduce not in _FOLDS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    at = wrapped_dim(axis, data.dim())
    if lengths is None and offsets is None:
        if indices is not None:
            raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = lengths if offsets is None else offsets
    _check_bounds(data, given, at, "lengths" if offsets is None else "offsets")
    if data.dtype.category != FLOAT:
        _ends(data, lengths, offsets, at, unsafe)
        _check_floating(data)
    count = given._array.shape[-1] - (offsets is not None)
    shape = data._array.shape
    return Spec((*shape[:at], max(count, 0), *shape[at + 1 :]), data.dtype)


def _segment_reduce(data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool,
                    initial: Any) -> Any:
    _segment_spec(data, reduce, lengths, indices, offsets, axis, unsafe, initial)
    at = wrapped_dim(axis, data.dim())
    starts, ends = _ends(data, lengths, offsets, at, unsafe)
    _check_floating(data)
    count, after = ends.shape[-1], data.dim() - at - 1
    place = _arange(data.shape[at], device=data._device).expand((*ends.shape[:-1], data.shape[at])).contiguous()
    segment = _searchsorted(ends.contiguous(), place, right=True)
    # Elements that belong to no segment go to one more, which is cut off.
    segment = segment.masked_fill(place < starts[..., :1], count).reshape((*segment.shape, *(1,) * after))
    segment = segment.expand(data.shape)
    fold, empty = _FOLDS[reduce]
    if fold != "sum":
        function = _segment_product if fold == "prod" else _segment_extreme
        return function(data, segment, at, count, fold, empty if initial is None else initial)
    base = data.new_zeros([count + 1 if d == at else n for d, n in enumerate(data.shape)])
    made = base.scatter_add(at, segment, data).narrow(at, 0, count).clone()
    made = made if initial is None else made + initial
    if reduce == "mean":
        sizes = (ends - starts).reshape((*ends.shape, *(1,) * after))
        none = made.new_full((), empty if initial is None else initial)
        made = _where(sizes == 0, none, made / sizes.clamp(min=1))
    return made


def _segment_backward_by_parts(grad: Any, data: Any, result: Any, reduce: str, lengths: Any, offsets: Any, axis: int,
                               initial: Any) -> Any:
    return gradients_by_parts(lambda x: (_segment_reduce(x, reduce, lengths, None, offsets, axis, True, initial),),
                              (data,), (grad,), (True,))[0]


_segment_backward = function_of(op(
    "_segment_reduce_backward(Tensor grad, Tensor data, Tensor result, str reduce, Tensor? lengths, Tensor? offsets, "
    "int axis, Scalar? initial) -> Tensor", public="",
    kernel=Parts(lambda grad, data, *rest: Spec(data._array.shape, data.dtype)),
    kernels={"cpu": "segments.segment_reduce_backward"}, decomposition=_segment_backward_by_parts, batch=one_by_one))


@once
def _segment_grad(grad, data, reduce, lengths, offsets, axis, initial, result):
    if modes.grad_enabled:
        return recorded_gradients(lambda x: (_segment_reduce(x, reduce, lengths, None, offsets, axis, True, initial),),
                                  (data,), (grad,), (True,))[0]
    return _segment_backward(grad, data, result, reduce, lengths, offsets, axis, initial)


op("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int "
   "axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor", aliases=("_segment_reduce",),
   kernel=Parts(_segment_spec), kernels={"cpu": "segments.segment_reduce"}, decomposition=_segment_reduce,
   grad=dict(data=_segment_grad), batch=one_by_one,
   samples=cases(*[case(t(5, 2), reduce, lengths=values([2, 0, 3]), initial=initial)
                           for reduce in ("sum", "mean", "prod", "max", "min") for initial in (None, 1.5)],
                         case(t(2, 5), "sum", lengths=values([[2, 3], [4, 1]]), axis=1),
                         case(t(5), "max", offsets=values([0, 2, 5])),
                         error(RuntimeError, "Either lengths or offsets must be defined.", t(3), "sum"),
                         error(RuntimeError, "reduce argument must be either sum, prod, mean, amax or amin, got x",
                               t(3), "x", lengths=values([3]))), out=None)


@composite("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", public="torch",
           apart="tensors",
           samples=cases(case((t(5, grad=False), t(3, grad=False)), 0, 2),
                         case((t(2, 3, grad=False), t(2, 4, grad=False)), 1, 2),
                         case((t(3, 2, grad=False), t(3, grad=False)), 0, 2),
                         error(RuntimeError, "_chunk_cat expects positive num_chunks", (t(3, grad=False),), 0, 0)),
           out=JOINED, aten=LEAF)
def _chunk_cat(tensors: Sequence[Any], dim: int, num_chunks: int) -> Any:
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]
    at = wrapped_dim(dim, first.dim())
    rows = []
    for tensor in tensors:
        if not tensor.numel():
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if tensor.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
        if at >= tensor.dim():
            raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
        if tensor.shape[:at] != first.shape[:at]:
            raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
        missing = -tensor.shape[at] % num_chunks
        padding = [0] * (2 * (tensor.dim() - 1 - at)) + [0, missing]
        whole = constant_pad_nd(tensor, padding) if missing else tensor
        rows.append(whole.reshape((*tensor.shape[:at], num_chunks, -1)))
    return _cat(rows, at + 1)


def _hash_spec(self: Tensor, dim: Sequence[int], keepdim: bool, mode: int) -> Spec:
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if self.dtype.category == COMPLEX:
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{self.dtype.scalar_name}'")
    shape = self._array.shape
    if not self._array.size and not dim:
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
                           "reduction dim with the 'dim' argument.")
    return Spec(folded_shape(shape, reduced_dims(dim, len(shape)), keepdim), uint64)


def _hash(xp: Any, self: Any, dim: Sequence[int], keepdim: bool, mode: int) -> Any:
    wide = self.astype(xp.int64 if self.dtype.kind in "biu" else xp.float64)
    reduce: Callable = xp.bitwise_xor.reduce
    return folded(reduce, wide.view(xp.uint64), reduced_dims(dim, self.ndim), keepdim)


op("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
   kernel=moves(_hash_spec, _hash), kernels={"cpu": "reduce.hashed", "cuda": "reduce.folded"},
   samples=cases(case(t(5)), case(t(2, 3), 1), case(ints(2, 3), (0,), keepdim=True), case(t(2, 3), ()), case(t()),
                 error(RuntimeError, "Unknown hash_tensor mode: 1", t(2), mode=1)),
   out=Out("exact", "Expected result to be of dtype uint64, but got {given}"))
