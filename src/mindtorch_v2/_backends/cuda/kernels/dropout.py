"""Dropout on a GPU: what is kept, drawn alone or together with the result."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import FLOAT, OF_ARRAY
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ..array import CudaArray, Layout, empty
from ..families import Maker, copy_array, fill, infer_of, layout_for, store, wrap_cuda
from ..generator import default_generator
from ..launch import PACKS, Launch, c_type, compiled, longs
from ..plans import attempt
from .random import PHILOX, draw, signed

# Four elements for each draw, V for each thread.
_DROPOUT = """
typedef pack<T, V> values;
typedef pack<bool, V> flags;
extern "C" __global__ void drop(const T* in, T* out, bool* mask, unsigned long long seed, unsigned long long offset,
                                const unsigned long long* base, unsigned long long limit, double scale, int64 count) {
    int64 at = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * V;
    if (at >= count) return;
    bool whole = at + V <= count;
    values x;
    flags kept;
    if (whole) x = *(const values*)(in + at);
    else for (int k = 0; k < V; ++k) if (at + k < count) x.v[k] = in[at + k];
    if (base) { seed = base[0]; offset += base[1]; }
    #pragma unroll
    for (int k = 0; k < V; k += 4) {
        uint4 w = philox(seed, offset, (at + k) / 4);
        kept.v[k] = w.x < limit; kept.v[k + 1] = w.y < limit; kept.v[k + 2] = w.z < limit; kept.v[k + 3] = w.w < limit;
    }
    #pragma unroll
    for (int k = 0; k < V; ++k)
        if (whole || at + k < count)
            x.v[k] = narrow<T>::of((A)widened(x.v[k]) * (kept.v[k] ? (A)scale : (A)0));
    if (whole) { *(values*)(out + at) = x; *(flags*)(mask + at) = kept; }
    else for (int k = 0; k < V; ++k) if (at + k < count) { out[at + k] = x.v[k]; mask[at + k] = kept.v[k]; }
}
"""


@functools.lru_cache(1024)
def _dropping(kind: np.dtype, count: int) -> Launch:
    vector = 8 if kind.itemsize == 2 else 4
    text = (f"{PACKS}{PHILOX}typedef {c_type(kind)} T;\ntypedef {'double' if kind.itemsize == 8 else 'float'} A;\n"
            f"#define V {vector}\n{_DROPOUT}")
    blocks = -(-count // (vector * 256))
    return Launch(compiled(text, "drop"), "qqqqqqqd", (blocks,), (256,), longs(count))


def _drop(source: CudaArray, made: CudaArray, mask: CudaArray, p: float) -> None:
    """Draws which elements are kept, and writes them scaled and which they are; all three are equally laid out."""
    seed, offset, base = default_generator(source.device.index).taken()
    limit = round((1 - p) * (1 << 32))
    _dropping(source.dtype, source.size)(source.pointer, made.pointer, mask.pointer, signed(seed), offset, base, limit,
                                         1 / (1 - p))


@attempt
def noise(spec: Spec, self: CudaArray, p: float, features: bool, scaled: bool) -> CudaArray:
    """What to multiply with: zeros, and ones or what keeps the mean."""
    array = empty(layout_for(spec), self.device)
    if array.size:
        flat = array if array.layout.contiguous else array.storage.array((array.size,), array.dtype, 0,
                                                                          (array.itemsize,))
        draw(flat, None, "bernoulli", 1 - p, 1 / (1 - p) if scaled else 1.0)
    return array


@Maker
def native_dropout(operator: Operator) -> Callable:
    """The result and what was kept, both drawn and written by one launch."""
    infer, plans = infer_of(operator), dict[Layout, list[Layout]]()

    def kernel(input: Tensor, p: float, train: bool | None) -> Any:
        array = input._array
        layouts = plans.get(array.layout)
        if layouts is None:
            if len(plans) > 4096:
                plans.clear()
            layouts = plans[array.layout] = [layout_for(spec) for spec in infer(input, p, train)]
        made, mask = (empty(layout, array.device) for layout in layouts)
        if not array.size:
            pass
        elif train is False or p == 0:
            fill(mask, True)
            copy_array(made, array)
        elif p < 1 and OF_ARRAY[array.dtype].category == FLOAT:
            source = array
            if array.layout is not made.layout or array.pointer & 15:
                source = empty(made.layout, array.device)
                copy_array(source, array)
            _drop(source, made, mask, p)
        else:
            draw(mask, None, "bernoulli", 1 - p, 1.0)
            store(made.view, array.view * mask.view * array.dtype.type(0.0 if p == 1 else 1 / (1 - p)))
        return result_of(operator, [wrap_cuda(made), wrap_cuda(mask)])

    return kernel
