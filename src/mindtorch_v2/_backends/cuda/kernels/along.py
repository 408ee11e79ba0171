"""Best elements, running sums and ordered rows on a GPU, and copies that are flipped, rolled or cut to triangles."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._dispatch.registry import registry
from ...._dtype import REDUCED
from ...._ops.families import result_of
from ...._ops.rules import Spec
from ...._tensor import Tensor, wrapped_dim
from ..along import SELECTED, Scanning, best_launch, best_parts, select_launch
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..families import copy_array, fresh_tensor, layout_for, wrap_cuda
from ..launch import C_TYPES, kernel
from .plans import dense, planned
from .pointwise import copying

_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}


def _grouped(shape: Sequence[int], dim: int | None) -> tuple[int, int, int]:
    """(outer, length, inner) of a contiguous array around a dimension; without one, all elements are one row."""
    if dim is None or not shape:
        return 1, math.prod(shape), 1
    dim = wrapped_dim(dim, len(shape))
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


# the largest or smallest ---------------------------------------------------------------------------------------------


def _finding(array: CudaArray, dim: int | None, largest: bool) -> Callable[[CudaArray, int, int], None] | None:
    """`run(array, address for the elements or 0, address for their places)`; None where CuPy does it."""
    kind = array.dtype
    if not array.size or kind.name not in C_TYPES:
        return None
    outer, length, inner = _grouped(array.shape, dim)
    parts = best_parts(outer * inner, length)
    if parts > 65535:
        return None
    first = best_launch(kind, largest, outer, length, inner, parts)
    if parts == 1:
        return lambda array, values, places: first(array.pointer, 0, values, places)
    second = best_launch(kind, largest, outer, parts, inner, 1)
    some, some_places = (layout_of((outer * parts * inner,), k) for k in (kind, _INT64))

    def run(array: CudaArray, values: int, places: int) -> None:
        best, best_places = empty(some, array.device), empty(some_places, array.device)
        first(array.pointer, 0, best.pointer, best_places.pointer)
        second(best.pointer, best_places.pointer, values, places)

    return run


def _declare_extremum(word: str, largest: bool) -> None:
    @planned(f"arg{word}", by_value=False)
    def place(spec: Spec, self: Tensor, dim: int | None, keepdim: bool) -> Callable | None:
        finding, layout = _finding(self._array, dim, largest), layout_for(spec)

        def run(self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
            made = fresh_tensor(layout, self._device)
            finding(dense(self), 0, made._array.pointer)  # type: ignore[misc]
            return made

        return finding and run

    operator = registry.get(f"{word}.dim")

    @planned(f"{word}.dim", by_value=False)
    def both(specs: Sequence[Spec], self: Tensor, dim: int, keepdim: bool) -> Callable | None:
        finding, layouts = _finding(self._array, dim, largest), [layout_for(spec) for spec in specs]

        def run(self: Tensor, dim: int, keepdim: bool) -> Any:
            made = [fresh_tensor(layout, self._device) for layout in layouts]
            finding(dense(self), made[0]._array.pointer, made[1]._array.pointer)  # type: ignore[misc]
            return result_of(operator, made)

        return finding and run


_declare_extremum("max", True)
_declare_extremum("min", False)


# running sums and products -------------------------------------------------------------------------------------------


def _declare_scan(name: str) -> None:
    @planned(name, by_value=False)
    def scan(spec: Spec, self: Tensor, dim: int, dtype: Any) -> Callable | None:
        array, layout = self._array, layout_for(spec)
        made = layout.dtype
        if not array.size or not {array.dtype.name, made.name} <= C_TYPES.keys() or made.kind == "b" or (
                made.kind in "iu" and array.dtype.kind not in "biu"):
            return None
        wide = _FLOAT32 if made in REDUCED else _INT64 if made.kind in "iu" else made
        outer, length, inner = _grouped(array.shape, dim)
        scanning = Scanning(name, array.dtype, made, wide, outer, length, inner)
        room = layout_of((2, scanning.cells * scanning.parts), wide)

        def run(self: Tensor, dim: int, dtype: Any) -> Tensor:
            source, result = dense(self), fresh_tensor(layout, self._device)
            if scanning.parts == 1:
                scanning(source.pointer, result._array.pointer, 0, 0)
            else:
                sums = empty(room, self._device)
                scanning(source.pointer, result._array.pointer, sums.pointer, sums.pointer + room.nbytes // 2)
            return result

        return run


_declare_scan("cumsum")
_declare_scan("cumprod")


# ordered rows --------------------------------------------------------------------------------------------------------


def _with_last(array: CudaArray, dim: int) -> CudaArray:
    """The same memory with a dimension moved to the end."""
    order = [d for d in range(len(array.shape)) if d != dim] + [dim]
    layout = layout_of(tuple([array.shape[d] for d in order]), array.dtype, tuple([array.strides[d] for d in order]))
    return array_on(layout, array.memory, array.pointer, array.device)


def _selecting(specs: Sequence[Spec], self: Tensor, k: int, dim: int, largest: bool) -> Callable | None:
    """`run(self)`, which gives the best k along a dimension and where they are, in order."""
    array = self._array
    if not array.size or not array.shape or not 0 < k <= SELECTED or array.dtype.name not in C_TYPES:
        return None
    dim, kind = wrapped_dim(dim, len(array.shape)), array.dtype
    length = array.shape[dim]
    launch = select_launch(kind, largest, array.size // length, length, k)
    layouts = [layout_of(tuple(s.shape), s.dtype.np, None if s.strides is None else tuple(
        [n * s.dtype.itemsize for n in s.strides])) for s in specs]
    rows = tuple([n for d, n in enumerate(specs[0].shape) if d != dim] + [k])
    direct = dim == len(array.shape) - 1 and all(layout.contiguous for layout in layouts)

    def run(self: Tensor) -> list[Tensor]:
        source = dense(self) if direct else dense(wrap_cuda(_with_last(self._array, dim)))
        made = [fresh_tensor(layout, self._device) for layout in layouts]
        values, places = (m._array if direct else empty(layout_of(rows, m._array.dtype), self._device) for m in made)
        launch(source.pointer, values.pointer, places.pointer)
        if not direct:
            for target, found in zip(made, (values, places), strict=True):
                copy_array(_with_last(target._array, dim), found)
        return made

    return run


@planned("topk", by_value=False)
def _topk(specs: Any, self: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> Callable | None:  # noqa: A002
    run, operator = _selecting(specs, self, k, dim, largest), registry.get("topk")
    return run and (lambda self, *options: result_of(operator, run(self)))


@planned("sort", by_value=False)
def _sort(specs: Any, self: Tensor, dim: int, descending: bool, stable: bool | None) -> Callable | None:
    shape, operator = self._array.shape, registry.get("sort")
    run = _selecting(specs, self, shape[dim], dim, descending) if shape else None
    return run and (lambda self, *options: result_of(operator, run(self)))


# copies --------------------------------------------------------------------------------------------------------------


@planned("flip", by_value=False)
def _flip(spec: Spec, self: Tensor, dims: Sequence[int]) -> Callable | None:
    array, size = self._array, self._array.itemsize
    if not array.size or not array.shape:
        return None
    flipped = {wrapped_dim(d, len(array.shape)) for d in dims}
    behind = sum(array.strides[d] * (array.shape[d] - 1) for d in flipped)
    source = Layout(array.shape, array.dtype, tuple([-s if d in flipped else s for d, s in enumerate(array.strides)]))
    strides = None if spec.strides is None else tuple([s * size for s in spec.strides])
    layout = layout_of(tuple(spec.shape), array.dtype, strides)
    launch = copying(source, layout)

    def run(self: Tensor, dims: Sequence[int]) -> Tensor:
        made = fresh_tensor(layout, self._device)
        launch(self._array.pointer + behind, made._array.pointer)  # type: ignore[misc]
        return made

    return launch and run


@planned("roll", by_value=False)
def _roll(spec: Spec, self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Callable | None:
    shape = self._array.shape if dims else (self._array.size,)
    if not self._array.size or not self._array.shape or len(shifts) > 2:
        return None
    layout, strides = layout_for(spec), layout_of(shape, self._array.dtype).strides
    moves: dict[int, int] = {}
    for d, shift in zip(dims or (0,), shifts, strict=True):
        d = wrapped_dim(d, len(shape))
        moves[d] = (moves.get(d, 0) + shift) % shape[d]
    pieces: list[tuple[list[int], int, int]] = [(list(shape), 0, 0)]  # shape, and where from and to
    for d, shift in moves.items():
        if shift:
            pieces = [([*sizes[:d], count, *sizes[d + 1 :]], source + start * strides[d], target + end * strides[d])
                      for sizes, source, target in pieces
                      for count, start, end in ((shape[d] - shift, 0, shift), (shift, shape[d] - shift, 0))]
    copies = []
    for sizes, source, target in pieces:
        part = layout_of(tuple(sizes), self._array.dtype, strides)
        copies.append((copying(part, part), source, target))
    if any(launch is None for launch, _, _ in copies):
        return None

    def run(self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
        array, made = dense(self), fresh_tensor(layout, self._device)
        for launch, source, target in copies:
            launch(array.pointer + source, made._array.pointer + target)  # type: ignore[misc]
        return made

    return run


_TRIANGLE = r"""
extern "C" __global__ void triangle(const T* in, T* out, int64 rows, int64 height, int64 width, int64 diagonal,
                                    int64 lower) {
    int64 row = blockIdx.x * (int64)blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int64 edge = row % height + diagonal, start = row * width;
    for (int64 i = threadIdx.x; i < width; i += blockDim.x) {
        T x = {};
        if (lower ? i <= edge : i >= edge) x = in[start + i];
        out[start + i] = x;
    }
}
"""


def _declare_triangle(name: str) -> None:
    @planned(name, by_value=False)
    def triangle(spec: Spec, self: Tensor, diagonal: int) -> Callable | None:
        layout = layout_for(spec)
        if not layout.size:
            return None
        height, width = layout.shape[-2:]
        rows = layout.size // width
        launch = kernel(f"typedef {_WORDS[layout.dtype.itemsize]} T;\n{_TRIANGLE}", "triangle", "qqqqqqq")
        block = (32, 8) if width <= 128 else (128, 2)

        def run(self: Tensor, diagonal: int) -> Tensor:
            source, made = dense(self), fresh_tensor(layout, self._device)
            launch.over((-(-rows // block[1]),), block, source.pointer, made._array.pointer, rows, height, width,
                        diagonal, int(name == "tril"))
            return made

        return run


_declare_triangle("tril")
_declare_triangle("triu")
