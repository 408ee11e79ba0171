"""Views of parts of a tensor: one index, a range, pieces, diagonals, windows."""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.device import contiguous_format
from .._core.dtype import INT, int64
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor, wrap
from .._dispatch.schema import Argument
from ._declare.aten import LEAF
from ._declare.batch import Call, Result, along_dimensions, one_by_one
from ._declare.families import computes, moves
from ._declare.op import composite, function_of, op
from ._declare.out import Out
from ._declare.rules import Spec, shape_text, writable_copy
from ._declare.samples import case, cases, error, ints, t, values
from ._declare.view_family import View, view, views
from .join import cat, stack
from .view import Geometry

_FULL = slice(None)


class PartView(View):
    """A view that may begin elsewhere: `part(ndarray, *arguments)` is NumPy's, with its offset in bytes; or None."""

    moves_on = True

    def __init__(self, geometry: Callable, part: Callable) -> None:
        super().__init__(geometry, names={"part": part})

    def _expression(self, arguments: Sequence[Argument]) -> str:
        return f"part(a{''.join(f', {a.name}' for a in arguments[1:])})"


def _select(self: Tensor, dim: int, index: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    if not 0 <= dim < len(shape):
        dim = wrapped_dim(dim, len(shape))
    n = shape[dim]
    if not 0 <= index < n:
        if not -n <= index < 0:
            raise IndexError(f"select(): index {index} out of range for tensor of size {shape_text(shape)} at "
                             f"dimension {dim}")
        index += n
    return shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], index * strides[dim]


def _selected(array: Any, dim: int, index: int) -> tuple | None:
    shape = array.shape
    if not 0 <= dim < len(shape) or not 0 <= index < shape[dim] or not array.size:
        return None
    return array[(_FULL,) * dim + (index, ...)] if dim else array[index, ...], index * array.strides[dim]


select_view = function_of(op(
   "select(Tensor(a) self, int dim, int index) -> Tensor(a)", inverse="select_scatter",
   kernel=PartView(_select, _selected),
   kernels={"sparse_coo": "rearrange.selected", "sparse_compressed": "rearrange.selected_compressed"},
   copied={"sparse_coo": "rearrange.selected", "sparse_compressed": "rearrange.selected_compressed_copy"},
   grad=dict(self=lambda grad, self_shape, dim, index: select_backward(grad, self_shape, dim, index)),
   samples=cases(case(t(2, 3), 0, 1), case(t(2, 3), -1, -1), case(t(2, 3), 1, 0), case(t(3), 0, 2), case(t(2, 0), 0, 1),
                 error(IndexError, "select(): index 2 out of range for tensor of size [2, 3] at dimension 0", t(2, 3),
                       0, 2),
                 error(IndexError, "select() cannot be applied to a 0-dim tensor.", t(), 0, 0)), aten="int",
   sharded="untouched"))


def _placed(where: Any) -> Any:
    """The `array` of an operator that puts `grad` at a place among zeros; `where(*arguments)` gives the index."""

    def array(xp: Any, grad: Any, input_sizes: tuple[int, ...], *place: Any) -> Any:
        made = xp.zeros(input_sizes, grad.dtype)
        made[where(input_sizes, *place)] = grad
        return made

    return array


def _select_place(shape: tuple[int, ...], dim: int, index: int) -> tuple:
    return (slice(None),) * (dim % len(shape)) + (index,)


select_backward: Callable = function_of(op(
   "select_backward(Tensor self, int[] input_sizes, int dim, int index) -> Tensor",
   kernel=moves(lambda self, input_sizes, dim, index: Spec(input_sizes, self.dtype), _placed(_select_place),
                rearranges=True), public="",
   grad=dict(self=lambda grad, dim, index: grad.select(dim, index)),
   samples=cases(case(t(3), (2, 3), 0, 1), case(t(2), (2, 3), -1, -1)), linear=True,
   kernels={"npu": "index.select_backward"}, sharded="untouched_backward"))


def slice_bounds(n: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Python's bounds of a slice with a positive step, clamped to a dimension of size n."""
    if start is None:
        start = 0
    elif start < 0:
        start = max(start + n, 0)
    elif start > n:
        start = n
    if end is None or end >= n:
        end = n
    elif end < 0:
        end += n
    return start, max(start, end)


def _slice(self: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if not 0 <= dim < len(shape):
        dim = wrapped_dim(dim, len(shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    start, end = slice_bounds(shape[dim], start, end)
    stride = strides[dim]
    return ((*shape[:dim], (end - start + step - 1) // step, *shape[dim + 1 :]),
            (*strides[:dim], stride * step, *strides[dim + 1 :]), start * stride)


def _sliced(array: Any, dim: int, start: int | None, end: int | None, step: int) -> tuple | None:
    shape = array.shape
    if not 0 <= dim < len(shape) or step <= 0 or not array.size:
        return None
    shown = array[(_FULL,) * dim + (slice(start, end, step),)] if dim else array[start:end:step]
    if not start:
        return shown, 0
    return shown, (min(start, shape[dim]) if start > 0 else max(start + shape[dim], 0)) * array.strides[dim]


slice_view = function_of(op(
   "slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)", copied=True,
   kernel=PartView(_slice, _sliced), public="", inverse="slice_scatter",
   grad=dict(self=lambda grad, self_shape, dim, start, end, step: slice_backward(grad, self_shape, dim, start, end,
                                                                                 step)),
   samples=cases(case(t(4, 3), 0, 1, 3), case(t(4, 3), -1, -2, None, 1), case(t(5), 0, None, None, 2),
                 case(t(3), 0, 5, 9),
                 error(RuntimeError, "slice step must be positive", t(2, 3), 0, 0, 1, 0)), sharded="untouched"))


def _slice_place(shape: tuple[int, ...], dim: int, start: int | None, end: int | None, step: int) -> tuple:
    dim %= len(shape)
    return (slice(None),) * dim + (slice(*slice_bounds(shape[dim], start, end), step),)


slice_backward: Callable = function_of(op(
   "slice_backward(Tensor self, int[] input_sizes, int dim, int? start, int? end, int step) -> Tensor",
   kernel=moves(lambda self, input_sizes, dim, start, end, step: Spec(input_sizes, self.dtype), _placed(_slice_place),
                rearranges=True),
   public="",
   grad=dict(self=lambda grad, dim, start, end, step: slice_view(grad, dim, start, end, step)),
   samples=cases(case(t(2, 3), (4, 3), 0, 1, 3, 1), case(t(3), (5,), 0, None, None, 2)), linear=True,
   kernels={"npu": "index.slice_backward"}, sharded="untouched_backward"))


@composite("narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
           samples=cases(case(t(4, 3), 0, 1, 2), case(t(4, 3), 1, -1, 1), case(t(2, 3), 0, 2, 0),
                         error(RuntimeError, "start (0) + length (3) exceeds dimension size (2).", t(2, 3), 0, 0, 3)))
def _narrow(self, dim, start, length):
    if not self._array.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    n = self.size(dim)
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start > n - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return slice_view(self, dim, start, start + length, 1)


@composite("narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)",
           samples=cases(case(t(4, 3), 0, ints(high=2), 2),
                         error(RuntimeError, "start must be an 0-dim integral Tensor.", t(4, 3), 0, ints(1), 2)))
def _narrow_tensor(self, dim, start, length):
    if start._array.ndim or start.dtype.category != INT:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return self.narrow(dim, start.item(), length)


@composite("narrow_copy(Tensor self, int dim, int start, int length) -> Tensor",
           node="NarrowCopyBackward0", samples=cases(case(t(4, 3), 0, 1, 2)),
           out=Out(resizes=True), aten=LEAF, kernels={"sparse_coo": "rearrange.narrowed"})
def _narrow_copy(self, dim, start, length):
    return self.narrow(dim, start, length).clone(memory_format=contiguous_format)

# pieces --------------------------------------------------------------------------------------------------------------


def _pieces(self: Tensor, sizes: Sequence[int], dim: int) -> list[Geometry]:
    """Consecutive ranges of a dimension."""
    array = self._array
    shape, strides = array.shape, array.strides
    step, offset, made = strides[dim], 0, []
    for n in sizes:
        made.append(((*shape[:dim], n, *shape[dim + 1 :]), strides, offset))
        offset += n * step
    return made


def _split(self: Tensor, split_size: int, dim: int) -> list[Geometry]:
    if not self._array.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    dim = wrapped_dim(dim, self._array.ndim)
    n = self._array.shape[dim]
    if split_size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    return _pieces(self, [min(split_size, n - at) for at in range(0, n, split_size)] if n else [0], dim)


def _split_with_sizes(self: Tensor, split_sizes: tuple[int, ...], dim: int) -> list[Geometry]:
    if not self._array.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    at = wrapped_dim(dim, self._array.ndim)
    if split_sizes and min(split_sizes) < 0:
        raise RuntimeError("split_with_sizes expects split_sizes have only non-negative entries, but got "
                           f"split_sizes={shape_text(split_sizes)}")
    n = self._array.shape[at]
    if sum(split_sizes) != n:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at "
                           f"dimension {dim}), but got split_sizes={shape_text(split_sizes)}")
    return _pieces(self, split_sizes, at)


def _unbind(self: Tensor, dim: int) -> list[Geometry]:
    array = self._array
    shape, strides = array.shape, array.strides
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrapped_dim(dim, len(shape))
    shape_left, strides_left, step = shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], strides[dim]
    return [(shape_left, strides_left, i * step) for i in range(shape[dim])]


def _joined_grads(grads: Sequence[Tensor | None], shapes: Sequence[tuple[int, ...]], join: Callable,
                  dim: int) -> Tensor:
    """The gradients of pieces put together; zeros for a piece that has none."""
    some = next(g for g in grads if g is not None)
    return join([some.new_zeros(shape) if g is None else g for g, shape in zip(grads, shapes, strict=True)], dim)


def _piece_shapes(shape: tuple[int, ...], sizes: Sequence[int], dim: int) -> list[tuple[int, ...]]:
    dim %= len(shape)
    return [(*shape[:dim], n, *shape[dim + 1 :]) for n in sizes]


def _split_grad(grads: Any, self_shape: tuple[int, ...], split_size: int, dim: int) -> Tensor:
    n = self_shape[dim]
    sizes = [min(split_size, n - at) for at in range(0, n, split_size)] if n else [0]
    return _joined_grads(grads, _piece_shapes(self_shape, sizes, dim), cat, dim)


def _unbind_grad(grads: Any, self_shape: tuple[int, ...], dim: int) -> Tensor:
    dim %= len(self_shape)
    return _joined_grads(grads, [self_shape[:dim] + self_shape[dim + 1 :]] * len(grads), stack, dim)


def _with_piece(written: Any, split_size: int, dim: int) -> Tensor:
    start = written.nr * split_size
    return written.scattered("slice_scatter", dim, start, min(start + split_size, written.base.shape[dim]), 1)


def _with_piece_of_sizes(written: Any, split_sizes: Sequence[int], dim: int) -> Tensor:
    start = sum(split_sizes[: written.nr])
    return written.scattered("slice_scatter", dim, start, start + split_sizes[written.nr], 1)


_split_evenly = function_of(op(
   "split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]", copied=True, inverse=_with_piece,
   kernel=views(_split), grad=dict(self=_split_grad), public="",
   samples=cases(case(t(5, 2), 2), case(t(2, 5), 2, -1), case(t(0, 3), 0), case(t(2, 3), 4),
                 error(RuntimeError, "split expects split_size be non-negative, but got split_size=-1", t(2, 3), -1),
                 error(RuntimeError, "split_size can only be 0 if dimension size is 0, but got dimension size of 2",
                       t(2, 3), 0)), sharded="untouched"))
op("split_with_sizes(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]", copied=True,
   kernel=views(_split_with_sizes), inverse=_with_piece_of_sizes,
   grad=dict(self=lambda grads, self_shape, split_sizes, dim:
             _joined_grads(grads, _piece_shapes(self_shape, split_sizes, dim), cat, dim)),
   samples=cases(case(t(5, 2), (2, 0, 3)), case(t(2, 5), (1, 4), 1),
                 error(RuntimeError, "split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at "
                                     "dimension -1), "
                       "but got split_sizes=[1, 1]", t(2, 3), (1, 1), -1)), sharded="untouched")
op("unbind(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", copied=True,
   inverse=lambda written, dim: written.scattered("select_scatter", dim, written.nr),
   kernel=views(_unbind), kernels={"sparse": "rearrange.unbound"}, grad=dict(self=_unbind_grad),
   samples=cases(case(t(2, 3)), case(t(2, 3), -1), case(t(3)), case(t(0, 2)),
                 error(IndexError, "Dimension specified as 0 but tensor has no dimensions", t())), aten="int",
   sharded="untouched")


@composite("split.sizes(Tensor(a -> *) self, int[] split_size, int dim=0) -> Tensor(a)[]", public="",
           samples=cases(case(t(5, 2), (2, 3))))
def _split_sizes(self, split_size, dim):
    return self.split_with_sizes(split_size, dim)


def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of equal size, or of the given sizes, as views."""
    if split_size.__class__ is int:
        return _split_evenly(self, split_size, dim)
    if isinstance(split_size, (tuple, list)):
        return self.split_with_sizes(tuple(split_size), dim)
    return _split_evenly(self, split_size, dim)


Tensor.split = split  # type: ignore[assignment, method-assign]


@composite("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
           samples=cases(case(t(7), 3), case(t(2, 5), 2, 1), case(t(0, 3), 3),
                         error(RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0", t(2), 0)))
def _chunk(self, chunks, dim):
    if not self._array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = self.size(dim)
    size = -(-n // chunks)
    return _split_evenly(self, size, dim) if size else self.split_with_sizes((0,) * chunks, dim)


@composite("unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
           node="UnsafeSplitBackward0", samples=cases(case(t(5, 2), 2)), aten=LEAF)
def _unsafe_split(self, split_size, dim):
    return _split_evenly(self, split_size, dim)


@composite("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", node="UnsafeSplitBackward0",
           samples=cases(case(t(7), 3)))
def _unsafe_chunk(self, chunks, dim):
    return self.chunk(chunks, dim)


@composite("unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
           node="UnsafeSplitWithSizesBackward0",
           samples=cases(case(t(5, 2), (2, 3))), aten=LEAF)
def _unsafe_split_with_sizes(self, split_sizes, dim):
    return self.split_with_sizes(split_sizes, dim)


def _refuse_0d(self: Tensor) -> None:
    if not self._array.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")


_MOST_PARTS = 2**60 - 1  # of which PyTorch could hold a list


@composite("tensor_split.sections(Tensor(a -> *) self, int sections, int dim=0) -> Tensor(a)[]",
           samples=cases(case(t(7), 3), case(t(2, 5), 2, 1), case(t(2), 3),
                         error(RuntimeError, "number of sections must be larger than 0, got 0", t(2), 0)))
def _tensor_split_sections(self, sections, dim):
    _refuse_0d(self)
    dim = wrapped_dim(dim, self._array.ndim)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    if sections > _MOST_PARTS:
        raise RuntimeError("cannot create std::vector larger than max_size()")
    size, larger = divmod(self._array.shape[dim], sections)
    ends = [size * i + min(i, larger) for i in range(sections + 1)]
    return tuple(slice_view(self, dim, start, end) for start, end in zip(ends, ends[1:], strict=False))


@composite("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
           samples=cases(case(t(7), (2, 5)), case(t(2, 5), (3,), 1), case(t(3), ())))
def _tensor_split_indices(self, indices, dim):
    _refuse_0d(self)
    dim = wrapped_dim(dim, self._array.ndim)
    bounds = (0, *indices, self._array.shape[dim])
    return tuple(slice_view(self, dim, start, end) for start, end in zip(bounds, bounds[1:], strict=False))


@composite("tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) "
           "-> Tensor(a)[]", samples=cases(case(t(7), values([2, 5]))))
def _tensor_split_tensor(self, tensor_indices_or_sections, dim):
    given = tensor_indices_or_sections
    _refuse_0d(self)
    if given.dtype is not int64:
        raise RuntimeError("tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                           f"{given.dtype.scalar_name}")
    if given._array.ndim > 1:
        raise RuntimeError("tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                           f"one-dimensional tensor, but got a tensor with {given._array.ndim} dims")
    return self.tensor_split(given.item() if not given._array.ndim else tuple(given.tolist()), dim)


def _axis_split(name: str, axis: int, ranks: int) -> None:
    """Declares hsplit, vsplit or dsplit."""

    def dim_of(self: Tensor) -> int:
        ndim = self._array.ndim
        if ndim < ranks:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {ranks} dimension, but got a tensor with "
                               f"{ndim} dimensions!")
        return 0 if name == "hsplit" and ndim == 1 else axis

    def by_sections(self, sections):
        dim = dim_of(self)
        n = self._array.shape[dim]
        if sections <= 0 or n % sections:
            raise RuntimeError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                               f"{n} is not divisible by the split_size {sections}!")
        return self.tensor_split(sections, dim)

    samples = cases(case(t(4, 4, 4), 2), error(RuntimeError, f"torch.{name} requires a tensor with at least {ranks} "
                                                             "dimension", t(), 1))
    composite(f"{name}.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", samples=samples)(by_sections)
    composite(f"{name}.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
              samples=cases(case(t(4, 4, 4), (1, 3))))(
        lambda self, indices: self.tensor_split(indices, dim_of(self)))


_axis_split("hsplit", 1, 1)
_axis_split("vsplit", 0, 2)
_axis_split("dsplit", 2, 3)


# diagonals and windows -----------------------------------------------------------------------------------------------


def _diagonal(self: Tensor, offset: int, dim1: int, dim2: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    first, second = wrapped_dim(dim1, len(shape)), wrapped_dim(dim2, len(shape))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if offset >= 0:
        n, start = min(shape[first], shape[second] - offset), offset * strides[second]
    else:
        n, start = min(shape[first] + offset, shape[second]), -offset * strides[first]
    if n <= 0:
        n, start = 0, 0
    kept = [d for d in range(len(shape)) if d not in (first, second)]
    return ((*(shape[d] for d in kept), n), (*(strides[d] for d in kept), strides[first] + strides[second]), start)


op("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", copied=True,
   kernel=view(_diagonal), inverse="diagonal_scatter",
   grad=dict(self=lambda grad, self_shape, offset, dim1, dim2: diagonal_backward(grad, self_shape, offset, dim1, dim2)),
   samples=cases(case(t(2, 3)), case(t(3, 3), 1), case(t(3, 2), -1), case(t(2, 3, 4), 1, 0, 2), case(t(2, 3), 5),
                 error(RuntimeError, "diagonal dimensions cannot be identical 0, 0", t(2, 3), 0, 0, 0)),
   sharded="whole")


def _on_diagonal(xp: Any, grad: Any, input_sizes: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    made = wrap(xp.zeros(input_sizes, grad.dtype))
    shape, strides, start = _diagonal(made, offset, dim1, dim2)
    made._shared_storage().array(shape, grad.dtype, start, strides)[...] = grad
    return made._array


diagonal_backward: Callable = function_of(op(
   "diagonal_backward(Tensor self, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
   kernel=moves(lambda self, input_sizes, offset, dim1, dim2: Spec(input_sizes, self.dtype), _on_diagonal,
                rearranges=True), public="",
   kernels={"cuda": "index.diagonal_backward", "npu": "index.diagonal_backward"},
   grad=dict(self=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)),
   samples=cases(case(t(2), (2, 3), 0, 0, 1), case(t(3, 2), (2, 3, 4), 1, 0, 2)), linear=True, sharded="whole"))


def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Geometry:
    array = self._array
    shape, strides = array.shape, array.strides
    dim = wrapped_dim(dimension, len(shape))
    limit = shape[dim] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > limit:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {limit} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not shape:
        return (size,), (array.itemsize,), 0
    count, stride = (limit - size) // step + 1, strides[dim]
    return (*shape[:dim], count, *shape[dim + 1 :], size), (*strides[:dim], stride * step, *strides[dim + 1 :],
                                                            stride), 0


def _unfold_each(call: Call) -> Result:
    return along_dimensions(call) if call.ndim(0) else one_by_one(call)


def _with_windows(written: Any, dimension: int, size: int, step: int) -> Tensor:
    if step < size and written.mutated.shape[dimension] > 1:
        raise RuntimeError(
            "While executing unfold, functionalization encountered a tensor being mutated that has internal overlap. "
            "When using torch.compile (or running functionalization directly), this is banned as the behavior is not "
            "well defined. Consider cloning the tensor before mutating it, or removing the mutation from your model.")
    return unfold_backward(written.mutated, list(written.base.shape), dimension, size, step)


op("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", copied=True, inverse=_with_windows,
   kernel=view(_unfold), public="Tensor",
   grad=dict(self=lambda grad, self_shape, dimension, size, step: unfold_backward(grad, self_shape, dimension, size,
                                                                                  step)),
   samples=cases(case(t(2, 5), 1, 2, 1), case(t(5), 0, 3, 2), case(t(6, 2), 0, 2, 3), case(t(), 0, 1, 1),
                 error(RuntimeError, "maximum size for tensor at dimension 0 is 2 but size is 3", t(2, 3), 0, 3, 1),
                 error(RuntimeError, "step is 0 but must be > 0", t(2, 3), 1, 2, 0)), batch=_unfold_each,
   sharded="whole")


def _summed_windows(xp: Any, grad: Any, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    """Windows added up where they overlap: over the places in a window or over the windows, whichever are fewer."""
    made = xp.zeros(input_sizes, grad.dtype)
    if not input_sizes:
        return grad.reshape(()).copy() if size else made
    dim %= len(input_sizes)
    target, source = xp.moveaxis(made, dim, -1), xp.moveaxis(grad, dim, -2)
    count = source.shape[-2]
    if size <= count:
        for place in range(size):
            target[..., place : place + (count - 1) * step + 1 : step] += source[..., place]
    else:
        for window in range(count):
            target[..., window * step : window * step + size] += source[..., window, :]
    return made


def _summed_spec(self: Tensor, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Spec:
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise ValueError(f"step is {step} but must be > 0")
    return Spec(input_sizes, self.dtype)


unfold_backward: Callable = function_of(op(
   "unfold_backward(Tensor self, int[] input_sizes, int dim, int size, int step) -> Tensor",
   kernel=computes(_summed_spec, _summed_windows),
   public="",
   grad=dict(self=lambda grad, dim, size, step: grad.unfold(dim, size, step)),
   samples=cases(case(t(2, 4, 2), (2, 5), 1, 2, 1), case(t(2, 3), (5,), 0, 3, 2)), linear=True,
   kernels={"npu": "index.unfold_backward"}, sharded="whole"))


# a part replaced -----------------------------------------------------------------------------------------------------


def _check_part(src: Tensor, part: Tensor) -> None:
    if src._array.shape != part._array.shape:
        raise RuntimeError("expected src to have a size equal to the slice of self. src size = "
                           f"{shape_text(src.shape)}, slice size = {shape_text(part.shape)}")


def _replaced(self: Tensor, src: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """A copy of `self` whose part holds `src`."""
    made = writable_copy(self, src)
    shown = part(made)
    _check_part(src, shown)
    shown.copy_(src)
    return made


@composite("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor", node="SelectScatterBackward0",
           samples=cases(case(t(2, 3), t(3), 0, 1), case(t(2, 3), t(2), -1, -1)), out=None, aten=LEAF)
def _select_scatter(self, src, dim, index):
    return _replaced(self, src, lambda made: made.select(dim, index))


@composite("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
           node="SliceScatterBackward0",
           samples=cases(case(t(4, 3), t(2, 3), 0, 1, 3), case(t(4, 3), t(2, 3), 0, None, None, 2)), aten=LEAF)
def _slice_scatter(self, src, dim, start, end, step):
    return _replaced(self, src, lambda made: slice_view(made, dim, start, end, step))


@composite("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
           node="DiagonalScatterBackward0",
           samples=cases(case(t(3, 3), t(3)), case(t(2, 3), t(2), 1)), out=None, aten=LEAF)
def _diagonal_scatter(self, src, offset, dim1, dim2):
    return _replaced(self, src, lambda made: made.diagonal(offset, dim1, dim2))
