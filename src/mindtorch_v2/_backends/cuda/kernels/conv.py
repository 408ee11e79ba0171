"""Convolution on a GPU by cuDNN, in the tensors' own types; what cuDNN does not take is im2col over CuPy."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtype import OF_ARRAY, float32
from ...._dispatch.keys import CUDA_MASK
from ...._dispatch.registry import registry
from ...._ops._declare.rules import Spec
from ...._ops.conv import _steps
from ....backends import cudnn as settings
from ..array import CudaArray, Layout, array_on, empty, layout_of, quick_empty
from ..cudnn import TYPES, Convolution, library
from ..families import copy_array, wrap_cuda
from ..plans import planned
from ..runtime import current_device

_FEW_PRODUCTS = 1 << 14  # up to which one launch of a kernel of the language is faster than cuDNN and the bias after it


def _row(values: Sequence[int], rank: int, filler: int) -> tuple[int, ...]:
    """Values of two dimensions where there is one."""
    return (filler, *values) if rank == 1 else tuple(values)


def _described(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides in elements, of one spatial dimension as of two."""
    shape, strides = layout.shape, tuple([s // layout.dtype.itemsize for s in layout.strides])
    return (shape, strides) if len(shape) > 3 else ((*shape[:2], 1, shape[2]), (*strides[:2], strides[1], strides[2]))


def _in_layout(array: CudaArray, layout: Layout) -> CudaArray:
    """The array in that layout, copied if it is not."""
    if array.layout is layout:
        return array
    made = empty(layout, array.device)
    copy_array(made, array)
    return made


class _Geometry:
    """The layouts of input, weight and result, all channels last or none, and the calls on them."""

    def __init__(self, x: Layout, w: Layout, y: tuple[int, ...], last: bool, steps: Any) -> None:
        self.last, self.steps, self.kind = last, steps, x.dtype
        self.x, self.w, self.y = (self._layout(shape) for shape in (x.shape, w.shape, y))
        self.calls: dict[tuple[str, bool, bool, int], Convolution] = {}

    def _layout(self, shape: Sequence[int]) -> Layout:
        if not self.last:
            return layout_of(tuple(shape), self.kind)
        size, strides = self.kind.itemsize, [0] * len(shape)
        step = size
        for d in (1, *range(len(shape) - 1, 1, -1), 0):
            strides[d] = step
            step *= shape[d]
        return layout_of(tuple(shape), self.kind, tuple(strides))

    def call(self, what: str, device: int, places: int = 0) -> Convolution:
        """The product, for arrays at addresses whose union is given; LookupError where cuDNN has none."""
        aligned = not places & 15
        key = what, settings.allow_tf32, aligned, device
        made = self.calls.get(key)
        if made is None:
            rank, steps = len(self.w.shape) - 2, self.steps
            moves = [_row(v, rank, n) for v, n in ((steps.stride, 1), (steps.padding, 0), (steps.dilation, 1))]
            arrays = {"x": _described(self.x), "w": _described(self.w), "y": _described(self.y)}
            made = self.calls[key] = Convolution(what, self.kind, arrays, moves, device, settings.allow_tf32,
                                                 16 if aligned else self.kind.itemsize)
        return made

    def run(self, what: str, first: CudaArray, second: CudaArray, made: CudaArray) -> CudaArray:
        """Queues a product into `made`."""
        a, b, out, device = first.pointer, second.pointer, made.pointer, made.device.index or 0
        known = self.calls.get((what, settings.allow_tf32, not (a | b | out) & 15, device))
        (known or self.call(what, device, a | b | out))(a, b, out)
        return made


def _geometry(x: Layout, w: Layout, y: tuple[int, ...], strides: Any, steps: Any, needed: Sequence[str]) -> Any:
    """The geometry, if cuDNN does what is needed; x and y of a plain convolution, also if it is transposed."""
    if not settings.enabled or library() is None or x.dtype.name not in TYPES or not x.size or not w.size or 0 in y:
        return None
    made = _Geometry(x, w, y, strides is not None, steps)
    try:
        for what in needed:
            made.call(what, current_device())
    except LookupError:
        return None
    return made


@planned
def convolution(spec: Spec, input: CudaArray, weight: CudaArray, bias: CudaArray | None, stride: tuple, padding: tuple,
                dilation: tuple, transposed: bool, output_padding: tuple, groups: int) -> Callable | None:
    source, matrix, result = input.layout, weight.layout, tuple(spec.shape)
    plain = source.contiguous and matrix.contiguous and source.dtype.itemsize > 2 and spec.strides is None
    if plain and not transposed and math.prod(result) * math.prod(matrix.shape[1:]) <= _FEW_PRODUCTS:
        return None
    steps = _steps(len(matrix.shape) - 2, stride, padding, dilation, groups)
    what = "input" if transposed else "forward"
    outer = layout_of(result, source.dtype) if transposed else source
    known = _geometry(outer, matrix, source.shape if transposed else result, spec.strides, steps, (what,))
    if known is None:
        return None
    taken, given = (known.y, known.x) if transposed else (known.x, known.y)
    added, rest = registry.get("add_").lookup(CUDA_MASK), len(result) - 2

    def run(input: CudaArray, weight: CudaArray, bias: CudaArray | None, *options: Any) -> CudaArray:
        x = input if input.layout is taken else _in_layout(input, taken)
        w = weight if weight.layout is known.w else _in_layout(weight, known.w)
        made = quick_empty(given, input.device)
        known.run(what, *((w, x) if transposed else (x, w)), made)
        if bias is not None:
            column = layout_of((*bias.shape, *(1,) * rest), bias.dtype, (*bias.strides, *(0,) * rest))
            added(wrap_cuda(made), wrap_cuda(array_on(column, bias.memory, bias.pointer, bias.device)), 1)
        return made

    return run


@planned
def convolution_backward(specs: Any, grad_output: CudaArray, input: CudaArray, weight: CudaArray, bias_sizes: Any,
                         stride: tuple, padding: tuple, dilation: tuple, transposed: bool, output_padding: tuple,
                         groups: int, output_mask: tuple) -> Callable | None:
    source, matrix, grads = input.layout, weight.layout, grad_output.layout
    steps = _steps(len(matrix.shape) - 2, stride, padding, dilation, groups)
    outer, inner = (grads, source) if transposed else (source, grads)
    of_input = "forward" if transposed else "input"
    needed = [what for what, wanted in ((of_input, output_mask[0]), ("weight", output_mask[1])) if wanted]
    strides = next((spec.strides for spec in specs[:2] if spec is not None), None)
    known = _geometry(outer, matrix, inner.shape, strides, steps, needed)
    if known is None:
        return None
    rank, summed = len(matrix.shape) - 2, registry.get("sum").lookup(CUDA_MASK)
    taken, given = (known.y, known.x) if transposed else (known.x, known.y)

    def run(grad_output: CudaArray, input: CudaArray, weight: CudaArray, *options: Any) -> Any:
        made: list[Any] = [None, None, None]
        where, grad = input.device, _in_layout(grad_output, given)
        if output_mask[0]:
            w = _in_layout(weight, known.w)
            made[0] = known.run(of_input, *((grad, w) if transposed else (w, grad)), quick_empty(taken, where))
        if output_mask[1]:
            x = _in_layout(input, taken)
            made[1] = known.run("weight", *((grad, x) if transposed else (x, grad)), quick_empty(known.w, where))
        if output_mask[2]:
            kind = OF_ARRAY[input.dtype]
            wide = float32 if kind.itemsize < 4 else kind
            each = summed(wrap_cuda(grad), tuple(range(2, rank + 2)), False, wide)
            made[2] = summed(each, (0,), False, kind)._array
        return made

    return run
