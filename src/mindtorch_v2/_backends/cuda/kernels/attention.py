"""Attention on a GPU without the matrix of scores; heads too wide for shared memory go over CuPy."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...._dispatch.registry import Operator
from ...._ops.families import result_of
from ...._settings import are_deterministic_algorithms_enabled
from ...._tensor import Tensor
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..attention import Mask, Problem, fits, launch_of
from ..families import copy_array, generic_kernel, layout_for, wrap_cuda
from ..plans import planned

_TYPES = ("float32", "float16", "bfloat16", "float64")


def _together(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride that goes over several dimensions; None where there is none."""
    step, size = 0, 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1:
            if size > 1 and stride != step * size:
                return None
            step, size = stride if size == 1 else step, size * length
    return step


def _steps(shape: Sequence[int], strides: Sequence[int], size: int) -> list[int] | None:
    """Strides in elements over batch, heads, rows and columns; None where batches lie irregularly."""
    within = [0 if n == 1 else s for n, s in zip(shape[-3:], strides[-3:], strict=True)]
    batch = _together(shape[:-3], strides[:-3])
    return None if batch is None else [s // size for s in ([batch, 0, 0, 0][:4 - len(within)] + within)]


class _Call(NamedTuple):
    """What is the same for all calls with tensors of some layouts."""

    problem: Problem
    aligned: bool  # rows can be loaded 16 bytes at a time
    mask: Mask | None
    mask_layout: Layout | None  # to which a mask is copied, where it cannot be read as it lies
    device: int

    def reads(self, tensor: Tensor) -> bool:
        """Whether the kernels can read tensors of that layout as they lie, alignment of the first element aside."""
        array = tensor._array
        found = _steps(array.shape, array.strides, array.itemsize)
        if found is None or (found[3] != 1 and array.shape[-1] != 1):
            return False
        return not self.aligned or not any(s * array.itemsize & 15 for s in found[:3])

    def taken(self, tensor: Tensor, readable: bool) -> CudaArray:
        """A tensor's array, or a copy that the kernels can read."""
        array = tensor._array
        if readable and not (self.aligned and array.pointer & 15):
            return array
        made = empty(layout_of(array.shape, array.dtype), array.device)
        copy_array(made, array)
        return made

    def mask_array(self, mask: Tensor | None) -> CudaArray | None:
        if mask is None or self.mask_layout is None:
            return None if mask is None else mask._array
        shape, array = self.mask_layout.shape, mask._array
        made = empty(self.mask_layout, array.device)
        layout = layout_of(shape, array.dtype, _spread(array.shape, array.strides, shape))
        copy_array(made, array_on(layout, array.memory, array.pointer, array.device))
        return made

    def launch(self, name: str, *arrays: CudaArray) -> Callable:
        """The launch of a kernel for arrays of queries, keys, values, output and the output's gradient."""
        steps = [(_steps(each.shape, each.strides, each.itemsize) or [0])[:3] for each in arrays]
        return launch_of(name, self.problem, self.device, self.aligned, steps, self.mask)


def _spread(shape: Sequence[int], strides: Sequence[int], full: Sequence[int]) -> tuple[int, ...]:
    """Strides broadcast to a shape."""
    kept = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return (0,) * (len(full) - len(shape)) + kept


def _call(query: CudaArray, key: CudaArray, value: CudaArray, mask: Tensor | None, is_causal: bool,
          scale: float) -> _Call | None:
    """The call that such arrays make; None where the tiles do not fit."""
    if query.dtype.name not in _TYPES or not query.size or not key.size or not value.size:
        return None
    (*outer, queries, width), keys, v_width = query.shape, key.shape[-2], value.shape[-1]
    heads, key_heads = (outer[-1], key.shape[-3]) if outer else (1, 1)
    problem = Problem(query.dtype, math.prod(outer[:-1]), heads, heads // key_heads, queries, keys, width, v_width,
                      is_causal, scale)
    where = query.device.index or 0
    if not fits(problem, where):
        return None
    aligned = not (width * query.itemsize | v_width * query.itemsize) & 15
    if mask is None:
        return _Call(problem, aligned, None, None, where)
    full, given = (*outer, queries, keys), mask._array
    for copied in (None, given.shape, full):  # as it lies, in C order, or for every head
        layout = given.layout if copied is None else layout_of(copied, given.dtype)
        found = _steps(full, _spread(layout.shape, layout.strides, full), given.itemsize)
        if found is not None and found[3] in (0, 1):
            break
    assert found is not None
    return _Call(problem, aligned, Mask(given.dtype, tuple(found)), None if copied is None else layout, where)


@planned
def attention(specs: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float,
              operator: Operator) -> Callable | None:
    call = _call(query._array, key._array, value._array, mask, is_causal, scale)
    if call is None:
        return None
    kind = operator.declaration.result_type
    launches: dict[tuple, Callable] = {}
    readable = [call.reads(each) for each in (query, key, value)]
    made_layout, norms_layout = map(layout_for, specs)

    def run(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float) -> Any:
        q, k, v = map(call.taken, (query, key, value), readable)
        made, norms = empty(made_layout, q.device), empty(norms_layout, q.device)
        found = q.layout, k.layout, v.layout
        launch = launches.get(found)
        if launch is None:
            launch = launches[found] = call.launch("attend", q, k, v, made, made)
        hiding = call.mask_array(mask)
        launch(q.pointer, k.pointer, v.pointer, 0 if hiding is None else hiding.pointer, made.pointer, norms.pointer)
        return kind(wrap_cuda(made), wrap_cuda(norms))

    return run


@planned
def attention_backward(specs: Any, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Any,
                       is_causal: bool, scale: float, norms: Tensor, output: Tensor,
                       operator: Operator) -> Callable | None:
    call = _call(query._array, key._array, value._array, mask, is_causal, scale)
    if call is None:
        return None
    in_order = generic_kernel(operator)
    launches: dict[tuple, tuple[Callable, Callable]] = {}
    layouts = [layout_for(spec) for spec in specs]
    readable = [call.reads(each) for each in (query, key, value, output, grad_out)]
    saved = norms._array.dtype
    sums_layout, added = layout_of(query._array.shape[:-1], saved), layout_of(query._array.shape, saved)

    def run(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float,
            norms: Tensor, output: Tensor) -> Any:
        if are_deterministic_algorithms_enabled():  # the tiles add to the gradient of queries in any order
            return in_order(grad_out, query, key, value, mask, is_causal, scale, norms, output)
        q, k, v, out, grad = map(call.taken, (query, key, value, output, grad_out), readable)
        found = q.layout, k.layout, v.layout, out.layout, grad.layout
        pair = launches.get(found)
        if pair is None:
            pair = launches[found] = (call.launch("begin", q, k, v, out, grad),
                                      call.launch("give_back", q, k, v, out, grad))
        of_query, of_key, of_value = (empty(layout, q.device) for layout in (added, *layouts[1:]))
        sums, hiding = empty(sums_layout, q.device), call.mask_array(mask)
        pair[0](grad.pointer, out.pointer, sums.pointer, of_query.pointer)
        pair[1](grad.pointer, q.pointer, k.pointer, v.pointer, 0 if hiding is None else hiding.pointer,
                norms._array.pointer, sums.pointer, of_query.pointer, of_key.pointer, of_value.pointer)
        if layouts[0] is not added:
            rounded = empty(layouts[0], q.device)
            copy_array(rounded, of_query)
            of_query = rounded
        return result_of(operator, [wrap_cuda(each) for each in (of_query, of_key, of_value)])

    return run
