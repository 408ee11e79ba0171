"""NPU kernels that join, place and find elements: what indices, masks and data-dependent sizes need around a row."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import int64
from ...._core.geometry import contiguous_strides, wrapped_dim
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator, registry
from ...._dispatch.schema import NUMBERS
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec, shape_text
from ...._ops.index import check_mask
from ..array import empty
from ..families import cast, given, number_tensor, prepares, uninitialised, wrap_npu
from ..launch import launch, run
from .operators import call, infer, laid_out, number_of, reshaped, untouched

# joining and placing -------------------------------------------------------------------------------------------------


@given("operator", "row")
def cat(operator: Operator, row: Callable, tensors: Sequence[Tensor], dim: int) -> Tensor:
    spec = infer(operator, tensors, dim)
    ndim = len(spec.shape)
    kept = [cast(x, spec.dtype) for x in tensors if x._array.ndim == ndim and x._array.size]
    if not kept:
        return uninitialised(spec, tensors[0]._device)
    made = row(kept, dim % ndim)
    return made if spec.strides is None else laid_out(made, spec)


@given("operator", "row")
def stack(operator: Operator, row: Callable, tensors: Sequence[Tensor], dim: int) -> Tensor:
    spec = infer(operator, tensors, dim)
    return row([cast(x, spec.dtype) for x in tensors], dim % len(spec.shape))


def _zeros(shape: Sequence[int], like: Tensor) -> Tensor:
    return like.new_zeros(tuple(shape))


def select_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, index: int) -> Tensor:
    made = _zeros(input_sizes, self)
    made.select(dim, index).copy_(self)
    return untouched(made)


def slice_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, start: Any, end: Any, step: int) -> Tensor:
    made = _zeros(input_sizes, self)
    call("slice.Tensor", made, dim, start, end, step).copy_(self)
    return untouched(made)


def diagonal_backward(self: Tensor, input_sizes: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros(input_sizes, self)
    made.diagonal(offset, dim1, dim2).copy_(self)
    return untouched(made)


def unfold_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Tensor:
    if not input_sizes:
        return self.sum().reshape(())
    made = uninitialised(Spec(tuple(input_sizes), self.dtype), self._device)
    if made._array.size:
        run("aclnnUnfoldGrad", (self._array, tuple(input_sizes), wrapped_dim(dim, len(input_sizes)), size, step,
                                made._array), "aten::unfold_backward")
    return made


@given("operator")
def diag_embed(operator: Operator, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros(infer(operator, self, offset, dim1, dim2).shape, self)
    made.diagonal(offset, dim1, dim2).copy_(self)
    return untouched(made)


@given("operator")
def block_diag(operator: Operator, tensors: Sequence[Tensor]) -> Tensor:
    spec = infer(operator, tensors)
    made = uninitialised(spec, tensors[0]._device).zero_()
    row = column = 0
    for tensor in tensors:
        block = tensor if tensor.dim() == 2 else tensor.reshape((1, -1))
        made.narrow(0, row, block.shape[0]).narrow(1, column, block.shape[1]).copy_(block)
        row, column = row + block.shape[0], column + block.shape[1]
    return untouched(made)


# indexing ------------------------------------------------------------------------------------------------------------


def nonzero(self: Tensor) -> Tensor:
    if not self._array.size:
        return uninitialised(Spec((0, self.dim()), int64), self._device)
    out = empty((self._array.size, self.dim()), int64.np, self._device)
    if not self.dim():
        return uninitialised(Spec((int(bool(self.item())), 0), int64), self._device)
    (shape,) = launch("aclnnNonzero", {"self": self._array, "out": out}, op="aten::nonzero", shapes_of=("out",))
    return wrap_npu(out.storage.array(shape, out.dtype, 0, (8 * self.dim(), 8)))


def nonzero_static(self: Tensor, size: int, fill_value: int) -> Tensor:
    found = self.nonzero()
    made = call("full", (size, self.dim()), fill_value, int64, None, self._device, None, False)
    count = min(size, found.shape[0])
    made.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
    return untouched(made)


@given("operator")
def masked_select(operator: Operator, self: Tensor, mask: Tensor) -> Tensor:
    infer(operator, self, mask)
    shape = np.broadcast_shapes(self._array.shape, mask._array.shape)
    out = empty((math.prod(shape),), self._array.dtype, self._device)
    if not out.size:
        return wrap_npu(out)
    values = {"self": self.expand(shape)._array, "mask": mask.expand(shape)._array, "out": out}
    (found,) = launch("aclnnMaskedSelect", values, op="aten::masked_select", shapes_of=("out",))
    return wrap_npu(out.storage.array(found, out.dtype, 0, (out.itemsize,)))


def _places(self: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices without masks: the places of their True instead. A mask's number of places is in its data."""
    made: list[Tensor | None] = []
    for index in indices:
        if index is None:
            made.append(None)
        elif index.dtype.category == 0 or index.dtype.name == "uint8":
            check_mask(self._array.shape, index._array.shape, len(made))
            at = _on(self, index).nonzero()
            if not index.dim():
                made.append(at.new_zeros((at.shape[0],)))
            made.extend(at.select(1, d).contiguous() for d in range(index.dim()))
        else:
            made.append(_on(self, index))
    return made


def _on(self: Tensor, index: Tensor) -> Tensor:
    return index.to(self._device) if index._device != self._device else index


@given("operator", "row")
def index(operator: Operator, row: Callable, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    places = _places(self, indices)
    spec = infer(operator, self, places)
    if 0 in spec.shape or not self._array.size:
        return uninitialised(spec, self._device)
    return row(self, tuple(places))


@given("row")
def flip(row: Callable, self: Tensor, dims: tuple[int, ...]) -> Tensor:
    return row(self, dims) if dims and self.dim() else untouched(self.clone())


@given("operator", "row")
def picked(operator: Operator, row: Callable, self: Tensor, dim: int, index: Tensor, *rest: Any) -> Tensor:
    if self.dim() and index.dim():
        return row(self, dim, index, *rest)
    shape = infer(operator, self, dim, index, *rest).shape
    made = row(*(x.reshape((1,)) if not x.dim() else x for x in (self,)), dim, index.reshape((-1,)), *rest)
    return reshaped(made, shape)


@prepares
def prepare_put(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> tuple | None:
    places = _places(self, indices)
    values = cast(_on(self, values), self.dtype)
    shape = infer(registry.get("aten::index.Tensor"), self, places).shape
    if 0 in shape:
        return None
    if len(values._array.shape) > len(shape) or any(
            n not in (1, m) for n, m in zip(reversed(values._array.shape), reversed(shape), strict=False)):
        raise RuntimeError(f"shape mismatch: value tensor of shape {shape_text(values._array.shape)} cannot be "
                           f"broadcast to indexing result of shape {shape_text(shape)}")
    return tuple(places), values, accumulate


@prepares
def prepare_masked_fill(self: Tensor, mask: Tensor, value: Any) -> tuple:
    return mask, value if value.__class__ in NUMBERS else cast(_on(self, value), self.dtype)


@prepares
def prepare_index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> tuple:
    return dim, index.reshape((-1,)), number_of(value)


@prepares
def prepare_along(self: Tensor, dim: int, index: Tensor, source: Tensor, *rest: Any) -> tuple:
    return dim, index.reshape((-1,)), source, *rest


def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    picked = grad_output.masked_select(mask)
    made = _zeros((math.prod(sizes),), grad_output)
    made.narrow(0, 0, picked.shape[0]).copy_(picked)
    return reshaped(made, tuple(sizes))


@given("operator")
def one_hot(operator: Operator, self: Tensor, num_classes: int) -> Tensor:
    if num_classes == -1 and self._array.size:
        num_classes = int(self.max().item()) + 1
    infer(operator, self, num_classes)
    made = call("zeros", (*self.shape, num_classes), int64, None, self._device, None, False)
    return untouched(made.scatter_(-1, self.unsqueeze(-1), 1))


@given("operator", "row")
def embedding(operator: Operator, row: Callable, weight: Tensor, indices: Tensor, *rest: Any) -> Tensor:
    infer(operator, weight, indices, *rest)
    return row(weight, indices, *rest)


@given("operator")
def searchsorted(operator: Operator, sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool,
                 side: str | None, sorter: Tensor | None) -> Tensor:
    spec = infer(operator, sorted_sequence, self, out_int32, right, side, sorter)
    if self.__class__ in NUMBERS:
        self = number_tensor(self, sorted_sequence.dtype, sorted_sequence._device)
    made = uninitialised(spec, sorted_sequence._device)
    if made._array.size:
        run("aclnnSearchSorted", (sorted_sequence._array, self._array, out_int32, right or side == "right",
                                  None if sorter is None else sorter._array, made._array), "aten::searchsorted")
    return made


@given("operator")
def unique(operator: Operator, self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    infer(operator, self)
    return _distinct("aclnnUnique2", operator, self, return_inverse, return_counts,
                     {"sorted": sorted, "returnInverse": return_inverse, "returnCounts": return_counts})


@given("operator")
def unique_consecutive(operator: Operator, self: Tensor, return_inverse: bool, return_counts: bool,
                       dim: int | None) -> Any:
    infer(operator, self, return_inverse, return_counts, dim)
    no_dim = 1000  # what the operator takes for "all elements as one row"
    return _distinct("aclnnUniqueConsecutive", operator, self, return_inverse, return_counts,
                     {"returnInverse": return_inverse, "returnCounts": return_counts,
                      "dim": no_dim if dim is None else wrapped_dim(dim, self.dim())}, dim)


def _distinct(symbol: str, operator: Operator, self: Tensor, return_inverse: bool, return_counts: bool,
              options: dict[str, Any], dim: int | None = None) -> Any:
    size, shape = self._array.size, self._array.shape
    length = size if dim is None else shape[wrapped_dim(dim, self.dim())]
    nothing = uninitialised(Spec((0,), int64), self._device)
    if not size:
        return result_of(operator, (uninitialised(Spec((0,), self.dtype), self._device), nothing, nothing))
    values = empty((size,) if dim is None else shape, self._array.dtype, self._device)
    inverse = empty(shape if dim is None else (length,), int64.np, self._device)
    counts = empty((length,), int64.np, self._device)
    arguments = {"self": self._array, "valueOut": values, "inverseOut": inverse, "countsOut": counts, **options}
    found, counted = launch(symbol, arguments, op=operator.name, shapes_of=("valueOut", "countsOut"))
    tensor = wrap_npu(values.storage.array(found, values.dtype, 0, contiguous_strides(found, values.itemsize)))
    number = found[0 if dim is None else wrapped_dim(dim, self.dim())]
    counted_out = counts.storage.array((number,), counts.dtype, 0, (8,))
    return result_of(operator, (tensor, wrap_npu(inverse) if return_inverse else nothing,
                                wrap_npu(counted_out) if return_counts else nothing))


@given("operator")
def bincount(operator: Operator, self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    spec = infer(operator, self, weights, minlength)
    if not self.numel():
        return call("zeros", (minlength,), spec.dtype, None, self._device, None, False)
    largest, smallest = (int(x) for x in call("stack", (self.max(), self.min()), 0).tolist())
    if smallest < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    made = uninitialised(Spec((max(largest + 1, minlength),), spec.dtype), self._device)
    run("aclnnBincount", (self._array, None if weights is None else weights._array, minlength, made._array),
        "aten::bincount")
    return made


def repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    count = int(repeats.sum().item()) if output_size is None and repeats.numel() else output_size or 0
    made = uninitialised(Spec((count,), repeats.dtype), repeats._device)
    if count:
        at = call("arange.start_step", 0, repeats.numel(), 1, repeats.dtype, None, repeats._device, None, False)
        run("aclnnRepeatInterleave", (at._array, repeats._array, count, made._array), "aten::repeat_interleave")
    return made
