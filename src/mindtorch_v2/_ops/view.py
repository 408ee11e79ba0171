"""Views: other geometries on the same memory.

Geometry functions are called as `infer` is, with the call's arguments, and give shape, strides and offset in bytes.
They are on the path of every index expression, so they are written without generators where it is cheap to do so.
"""

import math
from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from .._core.elements import is_c_contiguous, is_contiguous, type_text
from .._core.geometry import contiguous_strides, wrapped_dim
from .._core.tensor import Tensor
from .._core.warn import warn_once
from .._dispatch.argument_checks import takes
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from ._declare.aten import Aten
from ._declare.batch import Call, Result, called, inner, shifted, sized, spread
from ._declare.composites import Composite
from ._declare.families import moves
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec, broadcast_shape, shape_text
from ._declare.samples import case, cases, error, t
from ._declare.view_family import view

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


# one shape for another -----------------------------------------------------------------------------------------------


def resolved_size(size: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`size` with its -1 replaced by what makes it hold `numel` elements."""
    if -1 not in size:
        if math.prod(size) == numel and (not size or min(size) >= 0):
            return size
    known, unknown = 1, -1
    for i, n in enumerate(size):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {shape_text(size)}")
        else:
            known *= n
    if unknown >= 0 and known == 0 == numel:
        raise RuntimeError(f"cannot reshape tensor of 0 elements into shape {shape_text(size)} because the unspecified "
                           "dimension size -1 can be any value and is ambiguous")
    if unknown < 0 or known == 0 or numel % known:
        raise RuntimeError(f"shape '{shape_text(size)}' is invalid for input of size {numel}")
    return (*size[:unknown], numel // known, *size[unknown + 1 :])


def viewed_strides(array: Any, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """Byte strides that show the array's elements in order under `size`; None if there are none."""
    strides = array.strides
    if not strides or not array.size:
        return strides if size == array.shape else contiguous_strides(size, array.itemsize)
    step = strides[-1]
    if step == array.itemsize and is_c_contiguous(array):
        made = []
        for n in size[:0:-1]:
            made.append(step)
            step *= n
        if size:
            made.append(step)
        return tuple(made[::-1])
    return chunked_strides(array.shape, strides, size)


def chunked_strides(shape: tuple[int, ...], strides: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...] | None:
    """As `viewed_strides`: dimensions that lie densely in each other are a chunk; a new one may not cross chunks."""
    made = [0] * len(size)
    at = len(size) - 1
    step, old, new = strides[-1], 1, 1
    for d in range(len(shape) - 1, -1, -1):
        old *= shape[d]
        if d and (shape[d - 1] == 1 or strides[d - 1] == old * step):
            continue
        while at >= 0 and (new < old or size[at] == 1):
            made[at] = new * step
            new *= size[at]
            at -= 1
        if new != old:
            return None
        if d:
            step, old, new = strides[d - 1], 1, 1
    return tuple(made) if at == -1 else None


def _view(self: Tensor, size: tuple[int, ...]) -> Geometry:
    array = self._array
    size = resolved_size(size, array.size)
    strides = viewed_strides(array, size)
    if strides is None:
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension "
                           "spans across two contiguous subspaces). Use .reshape(...) instead.")
    return size, strides, 0


def _reshaped(array: ndarray, size: tuple[int, ...]) -> ndarray | None:
    """NumPy's view of an array in row-major order; None where the geometry has to say more."""
    shape = array.shape
    if not shape or not array.flags.c_contiguous:
        return None
    made = array.reshape(size)
    if 1 in shape and (made.shape == shape or array.strides[-1] != array.itemsize):
        return None  # NumPy leaves alone what has this shape, with any stride of a size of 1
    return made if made.shape == size or -1 in size else None  # NumPy takes any negative size for -1


op("view(Tensor(a) self, int[] size) -> Tensor(a)", copied=True, inverse=lambda written, size: written.shaped(),
   kernel=view(_view, _reshaped), grad=dict(self=lambda grad, self_shape: grad.reshape(self_shape)), public="Tensor",
   samples=cases(case(t(2, 3), (3, 2)), case(t(2, 3), (-1,)), case(t(0, 3), (3, 0)), case(t(), (1, 1)),
                 case(t(4, 1), (2, 2)),
                 case(t(2, 1, 3, layout="transposed"), (2, 3)),
                 error(RuntimeError, "shape '[4, 2]' is invalid for input of size 6", t(2, 3), (4, 2)),
                 error(RuntimeError, "Use .reshape(...) instead", t(3, 2, layout="transposed"), (6,)),
                 error(RuntimeError, "only one dimension can be inferred", t(2, 3), (-1, -1)),
                 error(RuntimeError, "invalid shape dimension -2 at index 0 of shape [-2, 3]", t(2, 3), (-2, 3))),
   batch=sized, sharded="viewed")

_unsafe_view = function_of(op(
   "_unsafe_view(Tensor self, int[] size) -> Tensor",
   kernel=moves(lambda self, size: Spec(resolved_size(size, self._array.size), self.dtype),
                lambda xp, self, size, spec: xp.ascontiguousarray(self).reshape(spec.shape)),
   kernels={"cuda": "copy.unsafe_view", "npu": "copies.unsafe_view"},
   grad=dict(self=lambda grad, self_shape: grad.reshape(self_shape)), public="",
   samples=cases(case(t(3, 2), (6,))), linear=True, batch=sized, sharded="viewed"))


_reshape_alias = function_of(op(
   "_reshape_alias(Tensor(a) self, int[] size) -> Tensor(a)",
   kernel=view(_view), grad=dict(self=lambda grad, self_shape: grad.reshape(self_shape)), public="", batch=sized,
   aten=Aten(name="view")))


@composite("reshape(Tensor(a) self, int[] shape) -> Tensor(a)",
           samples=cases(case(t(2, 3), (3, 2)), case(t(3, 2, layout="transposed"), (6,)), case(t(0, 3), (0,)),
                         case(t(), (1,)),
                         error(RuntimeError, "shape '[4, 2]' is invalid for input of size 6", t(2, 3), (4, 2))))
def _reshape(self, shape):
    array = self._array
    if is_c_contiguous(array):
        return self.view(shape)
    shape = resolved_size(shape, array.size)
    if viewed_strides(array, shape) is None:
        return _unsafe_view(self, shape)
    return _reshape_alias(self, shape)


# order of dimensions -------------------------------------------------------------------------------------------------


def _transpose(self: Tensor, dim0: int, dim1: int) -> Geometry:
    array = self._array
    shape, strides = list(array.shape), list(array.strides)
    if not shape:
        wrapped_dim(dim0, 0), wrapped_dim(dim1, 0)
        return (), (), 0
    try:
        shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
        strides[dim0], strides[dim1] = strides[dim1], strides[dim0]
    except IndexError:
        wrapped_dim(dim0, len(shape)), wrapped_dim(dim1, len(shape))
        raise
    return tuple(shape), tuple(strides), 0


op("transpose(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", copied=True, inverse="transpose",
   kernel=view(_transpose, "a.swapaxes(dim0, dim1)"),
   kernels={"sparse_coo": "rearrange.transposed", "sparse_compressed": "rearrange.transposed_compressed"},
   grad=dict(self=lambda grad, dim0, dim1: grad.transpose(dim0, dim1)),
   aliases=("swapaxes", "swapdims"),
   samples=cases(case(t(2, 3), 0, 1), case(t(2, 3, 4), -1, 0), case(t(), 0, -1), case(t(0, 3), 0, 1),
                 error(IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)", t(2, 3),
                       0, 2)), aten="int", sharded="permuted")


def _t(self: Tensor) -> Geometry:
    array = self._array
    if array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {array.ndim}D")
    return array.shape[::-1], array.strides[::-1], 0


def _t_each(call: Call) -> Result:
    value = call.values[0]
    if call.ndim(0) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {call.ndim(0)}D")
    return (called("transpose", value, 1, 2) if call.ndim(0) == 2 else value.view(value.shape)), True


op("t(Tensor(a) self) -> Tensor(a)", copied=True, inverse="t", kernel=view(_t, "a.T if a.ndim == 2 else None"),
   kernels={"sparse_coo": "rearrange.matrix_transposed", "sparse_compressed": "rearrange.matrix_transposed_compressed"},
   grad=dict(self=lambda grad: grad.t()),
   samples=cases(case(t(2, 3)), case(t(3)), case(t()),
                 error(RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is 3D", t(2, 3, 4))),
   batch=_t_each, sharded="permuted")


_known_orders: set[tuple[int, ...]] = set()  # that were checked: NumPy wraps large numbers around


def _permute(self: Tensor, dims: tuple[int, ...]) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    ndim = len(shape)
    if len(dims) != ndim:
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                           f"the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = "
                           f"{len(dims)}")
    made, steps, seen = [], [], 0
    for d in dims:
        if not 0 <= d < ndim:
            d = wrapped_dim(d, ndim)  # noqa: PLW2901
        seen |= 1 << d
        made.append(shape[d])
        steps.append(strides[d])
    if seen != (1 << ndim) - 1:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if len(_known_orders) < 4096:
        _known_orders.add(dims)
    return tuple(made), tuple(steps), 0


def inverse_order(dims: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    made = [0] * len(dims)
    for i, d in enumerate(dims):
        made[d] = i
    return tuple(made)


def _permute_each(call: Call) -> Result:
    dims = call.values[1]
    if len(dims) != call.ndim(0):
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length "
                           f"of the desired ordering of dimensions i.e. input.dim() = {call.ndim(0)} is not equal to "
                           f"len(dims) = {len(dims)}")
    return call.run(call.values[0], (0, *shifted(dims, call.ndim(0)))), True


op("permute(Tensor(a) self, int[] dims) -> Tensor(a)", copied=True,
   inverse=lambda written, dims: written.again("permute", list(inverse_order(dims))),
   kernel=view(_permute, "a.transpose(dims) if dims in known else None", known=_known_orders),
   kernels={"sparse_coo": "rearrange.permuted"},
   grad=dict(self=lambda grad, dims: grad.permute(inverse_order(dims))),
   samples=cases(case(t(2, 3, 4), (2, 0, 1)), case(t(2, 3), (-1, 0)), case(t(0, 3), (1, 0)),
                 error(RuntimeError, "input.dim() = 2 is not equal to len(dims) = 1", t(2, 3), (0,)),
                 error(RuntimeError, "permute(): duplicate dims are not allowed.", t(2, 3), (0, 0))),
   batch=_permute_each, sharded="permuted")


# size-1 dimensions ---------------------------------------------------------------------------------------------------


def _array_expand(array: ndarray, size: tuple[int, ...], implicit: bool) -> ndarray | None:
    """A single number seen as many, or an array as it is; other shapes go the long way."""
    if array.ndim:
        return array[...] if array.shape == size else None
    if not size or min(size) < 0 or array.dtype.isbuiltin != 1:
        return None
    return ndarray(size, array.dtype, array, 0, (0,) * len(size))


def _expand(self: Tensor, size: tuple[int, ...], implicit: bool) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    if shape == size:
        return shape, strides, 0
    lead = len(size) - len(shape)
    if lead > 0 and size[lead:] == shape and min(size[:lead]) > 1:
        return size, (0,) * lead + strides, 0
    if lead < 0:
        raise RuntimeError(f"expand({type_text(self)}{{{shape_text(shape)}}}, size={shape_text(size)}): the number of "
                           f"sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the "
                           f"tensor ({len(shape)})")
    made, steps = list(size), [0] * len(size)
    for i in range(len(size) - 1, -1, -1):
        d, n = i - lead, size[i]
        if d < 0:
            if n < 0:
                raise RuntimeError(f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing "
                                   f"dimension {i}")
            if n == 1 and shape:
                steps[i] = made[i + 1] * steps[i + 1]
        elif n == shape[d] or n == -1:
            made[i], steps[i] = shape[d], strides[d]
        elif shape[d] != 1 or n < 0:
            raise RuntimeError(f"The expanded size of the tensor ({n}) must match the existing size ({shape[d]}) at "
                               f"non-singleton dimension {i}.  Target sizes: {shape_text(size)}.  Tensor sizes: "
                               f"{shape_text(shape)}")
    return tuple(made), tuple(steps), 0


def _sum_of_expanded(written: Any, size: Sequence[int], implicit: bool) -> Tensor:
    base, seen = written.base.shape, written.mutated.shape
    leading = len(seen) - len(base)
    return written.summed([*range(leading), *(leading + i for i, n in enumerate(base) if n == 1 != seen[leading + i])])


op("expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)", copied=True, inverse=_sum_of_expanded,
   kernel=view(_expand, _array_expand),
   grad=dict(self=lambda grad: grad), public="Tensor",
   samples=cases(case(t(2, 1), (2, 3)), case(t(3), (2, -1)), case(t(), (3,)), case(t(1, 3), (0, 3)),
                 case(t(2, 3), (2, 3)),
                 error(RuntimeError, "must be greater or equal to the number of dimensions in the tensor (2)", t(2, 3),
                       (3,)),
                 error(RuntimeError, "The expanded size of the tensor (4) must match the existing size (3) at "
                                     "non-singleton "
                       "dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]", t(2, 3), (2, 4)),
                 error(RuntimeError, "isn't allowed in a leading, non-existing dimension 0", t(2, 3), (-1, 2, 3))),
   batch=spread(lambda call: call.size), sharded="expanded")


def _without(self: Tensor, dims: set[int] | range) -> Geometry:
    array = self._array
    shape, steps = [], []
    for d, (n, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        if n != 1 or d not in dims:
            shape.append(n)
            steps.append(step)
    return tuple(shape), tuple(steps), 0


def _squeeze_dim(self: Tensor, dim: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    if not shape:
        wrapped_dim(dim, 0)
        return shape, strides, 0
    dim = wrapped_dim(dim, len(shape))
    if shape[dim] != 1:
        return shape, strides, 0
    return shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], 0


def _squeezed(array: ndarray, dim: int) -> ndarray:
    return array.squeeze(dim) if array.shape[dim] == 1 else array[...]


def _unsqueezed(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The gradient in the shape before squeezing; itself if nothing was squeezed."""
    return grad if grad._array.shape == shape else grad.reshape(shape)


def distinct_dims(dims: Sequence[int], ndim: int) -> set[int]:
    """The dimensions counted from the front; each may be given once."""
    made: set[int] = set()
    for dim in dims:
        d = wrapped_dim(dim, ndim)
        if d in made:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        made.add(d)
    return made


_OUT_OF_RANGE_3 = "Dimension out of range (expected to be in range of [-2, 1], but got 3)"


def _squeeze_each(call: Call) -> Result:
    return called("squeeze.dims", call.values[0], inner(call.values[0])), True


def _squeeze_dims_each(call: Call) -> Result:
    value, dim = call.values
    return (call.run(value, shifted(dim, call.ndim(0))) if call.ndim(0) else value.view(value.shape)), True



def _unsqueeze_written(written: Any, dim: Any = None) -> Tensor:
    shape, made = written.base.shape, written.mutated
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    for d in sorted(d % len(shape) for d in dims) if shape else ():
        if shape[d] == 1:
            made = written.again("unsqueeze", d, of=made)
    return made


op("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", copied=True, inverse=_unsqueeze_written,
   kernel=view(_squeeze_dim, _squeezed), grad=dict(self=lambda grad, self_shape: _unsqueezed(grad, self_shape)),
   samples=cases(case(t(1, 2, 1), 0), case(t(1, 2, 1), -1), case(t(2, 3), 0), case(t(), 0),
                 error(IndexError, _OUT_OF_RANGE_3, t(2, 3), 3)), batch=_squeeze_dims_each, node="SqueezeBackward1",
   sharded="squeezed")
op("squeeze(Tensor(a) self) -> Tensor(a)", copied=True, inverse=_unsqueeze_written,
   kernel=view(lambda self: _without(self, range(self._array.ndim)), lambda array: array.squeeze()),
   grad=dict(self=lambda grad, self_shape: _unsqueezed(grad, self_shape)),
   samples=cases(case(t(1, 2, 1)), case(t(2, 3)), case(t(1, 1)), case(t(1, 0))), batch=_squeeze_each,
   sharded="squeezed")
op("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", copied=True, inverse=_unsqueeze_written,
   kernel=view(lambda self, dim: _without(self, distinct_dims(dim, self._array.ndim))),
   grad=dict(self=lambda grad, self_shape: _unsqueezed(grad, self_shape)),
   samples=cases(case(t(1, 2, 1), (0, 2)), case(t(1, 2, 1), ()), case(t(1, 2, 1), (0, 1)),
                 error(RuntimeError, "dim 0 appears multiple times in the list of dims", t(1, 2), (0, 0))),
   batch=_squeeze_dims_each, node="SqueezeBackward2", sharded="squeezed")


def _unsqueeze(self: Tensor, dim: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    ndim = len(shape)
    if not 0 <= dim <= ndim:
        dim = wrapped_dim(dim, ndim + 1)
    step = array.itemsize if dim == ndim else shape[dim] * strides[dim]
    return (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:]), 0


def _with_one(array: ndarray, dim: int) -> ndarray | None:
    """A dimension of size 1 put in where reshaping gives it PyTorch's stride."""
    shape = array.shape
    if not array.flags.c_contiguous or 1 in shape or not -len(shape) - 1 <= dim <= len(shape):
        return None
    if dim < 0:
        dim += len(shape) + 1
    return array.reshape((*shape[:dim], 1, *shape[dim:]))


def _unsqueeze_each(call: Call) -> Result:
    return call.run(call.values[0], shifted(call.values[1], call.ndim(0) + 1)), True


unsqueeze = function_of(op(
   "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", copied=True, inverse="squeeze.dim",
   kernel=view(_unsqueeze, _with_one), kernels={"sparse_coo": "rearrange.unsqueezed"},
   grad=dict(self=lambda grad, dim: grad.squeeze(dim)),
   samples=cases(case(t(2, 3), 0), case(t(2, 3), -1), case(t(), 0), case(t(0, 3), 1),
                 error(IndexError, "Dimension out of range (expected to be in range of [-3, 2], but got 3)", t(2, 3),
                       3)), batch=_unsqueeze_each, sharded="unsqueezed"))


# written as the above ------------------------------------------------------------------------------------------------


@composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", public="Tensor", samples=cases(case(t(2, 3), t(3, 2))))
def _view_as(self, other):
    return self.view(other._array.shape)


@composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", public="Tensor",
           samples=cases(case(t(3, 2, layout="transposed"), t(6))))
def _reshape_as(self, other):
    return self.reshape(other._array.shape)


@composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", public="Tensor", samples=cases(case(t(3), t(2, 3))))
def _expand_as(self, other):
    return self.expand(other._array.shape)


@composite("broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)", samples=cases(case(t(3), (2, 3)),
                                                                                  case(t(2, 1), (2, 3))))
def _broadcast_to(self, size):
    return self.expand(size)


@composite("broadcast_tensors(Tensor[] tensors) -> Tensor[]", public="",
           samples=cases(case([t(2, 3), t(3), t(2, 1)]), case([t(), t(0, 2)])))
def _broadcast_tensors(tensors):
    shape = broadcast_shape([tensor._array.shape for tensor in tensors])
    return tuple(tensor if tensor._array.shape == shape else tensor.expand(shape) for tensor in tensors)


@composite("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", aliases=("moveaxis",),
           samples=cases(case(t(2, 3, 4), 0, 2), case(t(2, 3), 0, -1)))
def _movedim(self, source, destination):
    return _movedims(self, (source,), (destination,))


@composite("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", aliases=("moveaxis",),
           samples=cases(case(t(2, 3, 4), (0, 1), (-1, 0)),
                         error(RuntimeError, "movedim: repeated dim in `source` ([0, 0])", t(2, 3), (0, 0), (1, 0))))
def _movedims(self, source, destination):
    if len(source) != len(destination):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({shape_text(source)} dims) should "
                           f"contain the same number of dims as destination ({shape_text(destination)} dims)")
    ndim = self._array.ndim
    taken = [wrapped_dim(d, ndim) for d in source]
    places = [wrapped_dim(d, ndim) for d in destination]
    for name, given, dims in (("source", source, taken), ("destination", destination, places)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({shape_text(given)})")
    if not ndim:
        return call_bound(registry.get("alias"), (self,))
    order = [-1] * ndim
    for d, place in zip(taken, places, strict=True):
        order[place] = d
    if -1 in order:
        rest = iter([d for d in range(ndim) if d not in taken])
        order = [next(rest) if d < 0 else d for d in order]
    return self.permute(tuple(order))


@composite("flatten(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
           samples=cases(case(t(2, 3, 4)), case(t(2, 3, 4), 1), case(t(2, 3, 4), 0, 1), case(t()),
                         case(t(3, 2, layout="transposed")),
                         error(RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim",
                               t(2, 3), 1, 0)), refuses_coo="reshape is not implemented for sparse tensors")
def _flatten(self, start_dim, end_dim):
    shape = self._array.shape
    start, end = wrapped_dim(start_dim, len(shape)), wrapped_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return self.reshape((1,))
    if start == end:
        return self
    if len(shape) == end - start + 1 and is_c_contiguous(self._array):
        return self.view((self._array.size,))
    return self.reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite("unflatten(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)",
           samples=cases(case(t(2, 6), 1, (2, 3)), case(t(2, 6), -1, (3, -1)),
                         error(RuntimeError, "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 "
                                             "(3) in the input "
                               "tensor", t(2, 3), 1, (2, 2))))
def _unflatten(self, dim, sizes):
    shape = self._array.shape
    dim = wrapped_dim(dim, len(shape))
    if not shape:
        raise RuntimeError("unflatten got an unexpected error:\nDimension specified as 0 but tensor has no dimensions")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1:
        raise RuntimeError("unflatten got an unexpected error:\nonly one dimension can be inferred")
    if -1 in sizes and not known and not shape[dim]:
        raise RuntimeError(f"unflatten got an unexpected error:\ncannot reshape tensor of 0 elements into shape "
                           f"{shape_text(sizes)} because the unspecified dimension size -1 can be any value and is "
                           "ambiguous")
    if -1 in sizes and known and not shape[dim] % known:
        sizes = tuple(shape[dim] // known if n == -1 else n for n in sizes)
    elif -1 in sizes or known != shape[dim]:
        raise RuntimeError(f"unflatten: Provided sizes {shape_text(sizes)} don't multiply up to the size of dim {dim} "
                           f"({shape[dim]}) in the input tensor")
    return self.view((*shape[:dim], *sizes, *shape[dim + 1 :]))


@composite("ravel(Tensor(a) self) -> Tensor(a)", samples=cases(case(t(2, 3)), case(t(3, 2, layout="transposed")),
                                                               case(t())), refuses_coo=NO_CONTIGUOUS)
def _ravel(self):
    return self.contiguous().view((-1,))


_LEAST = cases(case(t()), case(t(3)), case(t(2, 3)), case(t(1, 2, 3, 4)))


def _grown_to_3d(self: Tensor) -> Tensor:
    ndim = self._array.ndim
    if ndim < 2:
        return self.unsqueeze(0).unsqueeze(-1) if ndim else self.reshape((1, 1, 1))
    return self.unsqueeze(-1) if ndim == 2 else self


atleast_1d = function_of(op(
   "atleast_1d(Tensor(a) self) -> Tensor(a)", kernel=Composite(lambda self: self if self._array.ndim
                                                               else self.reshape((1,))),
   public="", samples=_LEAST))
atleast_2d = function_of(op(
   "atleast_2d(Tensor(a) self) -> Tensor(a)",
   kernel=Composite(lambda self: self if self._array.ndim > 1 else self.unsqueeze(0) if self._array.ndim
                    else self.reshape((1, 1))),
   public="", samples=_LEAST))
atleast_3d = function_of(op(
   "atleast_3d(Tensor(a) self) -> Tensor(a)", kernel=Composite(_grown_to_3d), public="", samples=_LEAST))


# transposes as attributes --------------------------------------------------------------------------------------------

def _numpy_transpose(self: Tensor) -> Tensor:
    ndim = self._array.ndim
    if ndim == 2:
        return self.permute((1, 0))
    if ndim == 0:
        warn_once("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")
    else:
        warn_once("The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
                  "will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
                  "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.")
    return self.permute(tuple(range(ndim - 1, -1, -1)))


def _matrix_transpose(self: Tensor, name: str, *, conjugate: bool) -> Tensor:
    """The last two dimensions swapped, and conjugated if so asked."""
    ndim = self._array.ndim
    if ndim == 0:
        call = name if name == "adjoint()" else f"Tensor.{name}"
        warn_once(f"{call} is deprecated on 0-D tensors. " + (
            "Consider using x.conj()." if conjugate else "This function is the identity in these cases."))
    elif ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    swapped = self.transpose(-2, -1) if ndim else self
    return swapped.conj() if conjugate and self.dtype.is_complex else swapped


def _hermitian(self: Tensor) -> Tensor:
    ndim = self._array.ndim
    if ndim not in (0, 2):
        more = " For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{more}")
    return _matrix_transpose(self, "H", conjugate=True)


@composite("adjoint(Tensor(a) self) -> Tensor(a)",
           samples=cases(case(t(2, 3)), case(t(2, 3, 4)),
                         error(RuntimeError, "tensor.adjoint() is only supported on matrices or batches of matrices. "
                                             "Got 1-D tensor.",
                               t(3))))
def _adjoint(self):
    return _matrix_transpose(self, "adjoint()", conjugate=True)


def _transposed_matrices(self: Tensor) -> Tensor:
    return _matrix_transpose(self, "mT", conjugate=False)


def _adjoint_matrices(self: Tensor) -> Tensor:
    return _matrix_transpose(self, "mH", conjugate=True)


for _name, _property in (("T", _numpy_transpose), ("H", _hermitian), ("mT", _transposed_matrices),
                         ("mH", _adjoint_matrices)):  # fmt: skip
    setattr(Tensor, _name, property(_property))


# contiguity ----------------------------------------------------------------------------------------------------------


@takes("is_set_to(Tensor self, Tensor tensor)")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same elements of the same memory in the same shape."""
    return (self._shared_storage() is tensor._shared_storage() and self._offset == tensor._offset
            and self._array.shape == tensor._array.shape and self._array.strides == tensor._array.strides)


Tensor.is_contiguous, Tensor.is_set_to = is_contiguous, is_set_to  # type: ignore[assignment, method-assign]
