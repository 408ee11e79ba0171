"""Copies on a GPU that are flipped, rolled or cut to triangles."""

from collections.abc import Callable, Sequence

from ...._core.tensor import wrapped_dim
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ..array import CudaArray, Layout, layout_of, quick_empty
from ..families import layout_for
from ..launch import kernel
from ..plans import dense, planned
from ..pointwise import copying

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}


@planned(by_value=False)
def flip(spec: Spec, self: CudaArray, dims: Sequence[int]) -> Callable | None:
    array, size = self, self.itemsize
    if not array.size or not array.shape:
        return None
    flipped = {wrapped_dim(d, len(array.shape)) for d in dims}
    behind = sum(array.strides[d] * (array.shape[d] - 1) for d in flipped)
    source = Layout(array.shape, array.dtype, tuple([-s if d in flipped else s for d, s in enumerate(array.strides)]))
    strides = None if spec.strides is None else tuple([s * size for s in spec.strides])
    layout = layout_of(tuple(spec.shape), array.dtype, strides)
    launch = copying(source, layout)

    def run(self: CudaArray, dims: Sequence[int]) -> CudaArray:
        made = quick_empty(layout, self.device)
        launch(self.pointer + behind, made.pointer)  # type: ignore[misc]
        return made

    return launch and run


@planned(by_value=False)
def roll(spec: Spec, self: CudaArray, shifts: Sequence[int], dims: Sequence[int]) -> Callable | None:
    shape = self.shape if dims else (self.size,)
    if not self.size or not self.shape or len(shifts) > 2:
        return None
    layout, strides = layout_for(spec), layout_of(shape, self.dtype).strides
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
        part = layout_of(tuple(sizes), self.dtype, strides)
        copies.append((copying(part, part), source, target))
    if any(launch is None for launch, _, _ in copies):
        return None

    def run(self: CudaArray, shifts: Sequence[int], dims: Sequence[int]) -> CudaArray:
        array, made = dense(self), quick_empty(layout, self.device)
        for launch, source, target in copies:
            launch(array.pointer + source, made.pointer + target)  # type: ignore[misc]
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


@planned(by_value=False)
def triangle(spec: Spec, self: CudaArray, diagonal: int, operator: Operator) -> Callable | None:
    """`tril` and `triu`."""
    layout, lower = layout_for(spec), int(operator.schema.base_name == "tril")
    if not layout.size:
        return None
    height, width = layout.shape[-2:]
    rows = layout.size // width
    launch = kernel(f"typedef {_WORDS[layout.dtype.itemsize]} T;\n{_TRIANGLE}", "triangle", "qqqqqqq")
    block = (32, 8) if width <= 128 else (128, 2)

    def run(self: CudaArray, diagonal: int) -> CudaArray:
        source, made = dense(self), quick_empty(layout, self.device)
        launch.over((-(-rows // block[1]),), block, source.pointer, made.pointer, rows, height, width,
                    diagonal, lower)
        return made

    return run
