"""A run of the pipeline's plan as a CUDA graph: inputs are copied to where it reads them, results out of its memory."""

import functools
import threading
from collections.abc import Callable, Collection, Sequence
from operator import is_
from typing import Any

import cupy
import numpy as np

from . import memory
from .array import CudaArray, array_on, copy_bytes, empty, layout_of, write_bytes
from .graphs import CUDAGraph, graph, is_capturing
from .launch import Launch, compiled
from .streams import current_handle

_ALIGNED = 512  # bytes, as the pool's memory is
_CHUNK, _THREADS = 1 << 16, 256  # bytes that a block copies, and its threads
_PARTS = r"""
extern "C" __global__ void copy_parts(char* out, const int64* parts) {
    const int64* own = parts + 3 * blockIdx.x;
    const char* from = (const char*)own[0];
    char* to = out + own[1];
    int64 count = own[2], wide = ((size_t)from & 15) == 0 ? count / 16 : 0;
    for (int64 i = threadIdx.x; i < wide; i += blockDim.x) ((int4*)to)[i] = ((const int4*)from)[i];
    for (int64 i = wide * 16 + threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}
"""


def captured(
    run: Callable[[Sequence[Any]], list[Any]],
    inputs: Sequence[CudaArray],
    copied: Collection[int],
    given: Collection[int],
) -> "Captured | None":
    """The run as a graph; None where it waits for the device, or something else that cannot be captured is in it."""
    if is_capturing():
        return None
    own = list(inputs)
    for at in copied:
        own[at] = inputs[at].copy()
    made = CUDAGraph()
    try:
        with graph(made):
            outputs = run(own)
    except Exception:  # what is wrong with the run itself, it says when it runs step by step
        return None
    return Captured(made, own, sorted(copied), outputs, sorted(given))


class Captured:
    """A graph, with the arrays that it reads and those that it makes."""

    def __init__(self, made: CUDAGraph, inputs: list[CudaArray], copied: list[int], outputs: list[CudaArray],
                 given: list[int]) -> None:  # fmt: skip
        self.graph, self.outputs, self.given = made, outputs, given
        self.where = threading.get_ident(), cupy.cuda.runtime.getDevice(), current_handle()
        self.copied = [(at, inputs[at].pointer, inputs[at].layout.nbytes) for at in copied]
        self.fixed = [at for at in range(len(inputs)) if at not in set(copied)]
        self.arrays = [inputs[at] for at in self.fixed]
        self.inputs = inputs  # whose memory the graph reads
        self.places, at = [], 0  # of what is given away, in one block of memory
        for number in given:
            self.places.append(at)
            at += -(-outputs[number].layout.nbytes // _ALIGNED) * _ALIGNED
        self.nbytes = at
        self.parts: CudaArray | None = None

    def usable(self) -> bool:
        """Whether work comes from the same thread, goes where it did, and is not captured itself."""
        return (
            self.where == (threading.get_ident(), cupy.cuda.runtime.getDevice(), current_handle())
            and not is_capturing()
        )

    def holds(self, inputs: Sequence[CudaArray]) -> bool:
        """Whether the arrays that are not copied are where they were."""
        own = [inputs[at] for at in self.fixed]
        return all(map(is_, own, self.arrays)) or all(
            a.pointer == b.pointer for a, b in zip(own, self.arrays, strict=True)
        )

    def run(self, inputs: Sequence[CudaArray]) -> list[CudaArray]:
        """The outputs; those that are given away in new memory."""
        for at, pointer, count in self.copied:
            copy_bytes(pointer, inputs[at].pointer, count)
        self.graph.replay()
        return self._given()

    def _given(self) -> list[CudaArray]:
        made, outputs = list(self.outputs), self.outputs
        if not self.nbytes:
            return made
        where = outputs[self.given[0]].device
        block = memory.allocate(self.nbytes, where)
        for number, at in zip(self.given, self.places, strict=True):
            source = outputs[number]
            made[number] = array_on(source.layout, block if source.layout.nbytes else None, block.ptr + at, where)
        if len(self.given) == 1:
            only = outputs[self.given[0]]
            copy_bytes(block.ptr, only.pointer, only.layout.nbytes)
            return made
        if self.parts is None:
            self._find_parts(where)
        assert self.parts is not None
        _copying().over((self.blocks,), (_THREADS,), block.ptr, self.parts.pointer)
        return made

    def _find_parts(self, where: Any) -> None:
        """Notes on the device what is copied where, a row for each block."""
        rows = []
        for number, place in zip(self.given, self.places, strict=True):
            pointer, count = self.outputs[number].pointer, self.outputs[number].layout.nbytes
            rows += [(pointer + at, place + at, min(_CHUNK, count - at)) for at in range(0, count, _CHUNK)]
        table = np.array(rows, np.int64)
        self.parts = empty(layout_of(table.shape, table.dtype), where)
        write_bytes(self.parts.pointer, table, False)
        self.blocks = len(rows)


@functools.cache
def _copying() -> Launch:
    return Launch(compiled(_PARTS, "copy_parts"), "qq")
