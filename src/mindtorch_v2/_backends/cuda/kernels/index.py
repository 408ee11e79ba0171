"""Reading and writing at places that tensors name, on a GPU: a call finds its launch by the layouts of its tensors.

A launch walks over a shape. For each point of it the strides say where it is in `other` (what is read into or from)
and, with the indices, where in `data`. An index that leaves its dimension stops the device, as PyTorch's assertions do.
"""

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...._core.dtype import OF_ARRAY, REDUCED, bool_, uint8
from ...._core.geometry import collapsed, contiguous_strides, wrapped_dim
from ...._core.tensor import Tensor, wrap_meta
from ...._dispatch.keys import CUDA_MASK
from ...._dispatch.registry import Operator, registry
from ...._dispatch.schema import NUMBERS
from ...._ops._declare.rules import Spec, check_operands, is_expanded
from ...._ops._declare.updates import Updates, check_update
from ...._ops.copy import stored_number
from ...._ops.index import check_mask, index_spec, picked, place_shape, shown_shape, whole_key
from ...._ops.scatter import filling_mask, refuse_values, start_value
from ..array import CudaArray, Layout, empty, from_host, layout_of, of_view, quick_empty
from ..families import (
    Maker,
    copy_array,
    fill,
    finished,
    fresh_tensor,
    generic_kernel,
    inplace_generic,
    layout_for,
    view_of,
    wrap_cuda,
)
from ..fuse import Traced, Untraceable
from ..launch import ASSERTIONS, C_TYPES, Launch, compiled
from ..namespace import xp
from ..plans import array, dense, layouts_of, planned, with_operator
from ..pointwise import launch_of
from .found import WORDS as _WORDS
from .found import columns_of, is_served, picked_by, places_of

_THREADS, _RANK, _MANY = 256, 12, 1 << 18
_COMBINED = {"add": "a + b", "multiply": "a * b", "maximum": "(a != a || a > b) ? a : b",
             "minimum": "(a != a || a < b) ? a : b"}
# Types whose sums the device itself makes, and the type that it makes them of.
_SUMMED = {"float": "float", "double": "double", "int": "int", "unsigned int": "unsigned int",
           "long long": "unsigned long long", "unsigned long long": "unsigned long long"}


class Index(NamedTuple):
    """One index array: strides over the shape walked over, and what an index counts, in elements."""

    kind: np.dtype
    strides: Sequence[int]
    step: int
    limit: int


_SOURCE = ASSERTIONS.replace("{", "{{").replace("}", "}}") + r"""
#define R {rank}
#define EACH(k) for (int k = 0; k < {items}; ++k)
typedef {N} N; typedef {S} S; typedef {T} T; typedef {U} U;
struct Table {{
    int64 size[R], magic[R], shift[R], data[R], other[R], index[{count}][R], step[{count}], limit[{count}];
}};
union Value {{ int64 words[2]; T value; __device__ Value() {{}} }};
{functions}
extern "C" __global__ void indexed(T* data, U* other, {indices}, int64 low, int64 high, int64 count, Table table) {{
    int64 at[{items}], of[{items}], {keys};
    Value given;
    given.words[0] = low; given.words[1] = high;
    #pragma unroll
    EACH(k) {{
        N rest = blockIdx.x * (N)({threads} * {items}) + k * {threads} + threadIdx.x;
        int64 a = 0, o = 0, {starts};
        if (rest >= (N)count) {{ at[k] = -1; continue; }}
        #pragma unroll
        for (int d = 0; d < R; ++d) {{
            N own = rest;
            if (d < R - 1) {{ rest = {quotient}; own -= rest * (N)table.size[d]; }}
            a += (int64)(S)own * (S)table.data[d];
            o += (int64)(S)own * (S)table.other[d];
            {places}
        }}
        at[k] = a; of[k] = o;
        {loads}
    }}
    #pragma unroll
    EACH(k) if (at[k] >= 0) {{ {bounds} }}
    {body}
}}
"""

_BODIES = {
    "read": "T held[{items}];\n    #pragma unroll\n    EACH(k) if (at[k] >= 0) held[k] = data[at[k]];\n"
            "    #pragma unroll\n    EACH(k) if (at[k] >= 0) other[of[k]] = held[k];",
    "write": "T held[{items}];\n    #pragma unroll\n    EACH(k) if (at[k] >= 0) held[k] = other[of[k]];\n"
             "    #pragma unroll\n    EACH(k) if (at[k] >= 0) data[at[k]] = held[k];",
    "fill": "#pragma unroll\n    EACH(k) if (at[k] >= 0) data[at[k]] = given.value;",
    "combine": "#pragma unroll\n    EACH(k) if (at[k] >= 0) combine(data + at[k], {value});",
}

# The device compares and exchanges words of 4 or 8 bytes, so a smaller element is changed within its word.
_EXCHANGE = r"""
typedef {word} word_t; typedef {bits} bits_t;
union Element {{ bits_t bits; T value; __device__ Element() {{}} }};
__device__ inline void combine(T* place, T value) {{
    size_t behind = (size_t)place & (sizeof(word_t) - 1);
    word_t* word = (word_t*)((size_t)place - behind);
    int shift = (int)behind * 8;
    word_t kept = ~((word_t)(bits_t)~(bits_t)0 << shift), seen = *(volatile word_t*)word, old;
    do {{
        old = seen;
        Element element;
        element.bits = (bits_t)(old >> shift);
        auto a = widened(element.value), b = widened(value);
        element.value = narrow<T>::of({expression});
        word_t made = (old & kept) | (word_t)element.bits << shift;
        if (made == old) return;
        seen = atomicCAS(word, old, made);
    }} while (seen != old);
}}
"""
_SUM = "__device__ inline void combine(T* place, T value) {{ atomicAdd(({own}*)place, ({own})value); }}\n"


def _combining(how: str, kind: str, size: int) -> str:
    if how == "add" and kind in _SUMMED:
        return _SUM.format(own=_SUMMED[kind])
    word = "unsigned long long" if size == 8 else "unsigned int"
    return _EXCHANGE.format(word=word, bits=_WORDS[size], expression=_COMBINED[how])


@functools.cache
def _kernel(action: str, data: str, other: str, size: int, kinds: tuple[str, ...], rank: int, items: int, small: bool,
            wraps: bool, scalar: bool) -> Any:
    several = range(len(kinds))
    body = _BODIES.get(action, _BODIES["combine"])
    taken = "given.value" if scalar else "narrow<T>::of(widened(other[of[k]]))"
    bound = "require(key{j}[k] >= {low} && key{j}[k] < table.limit[{j}]);{wrap} at[k] += (int64)(S)key{j}[k] * " \
            "(S)table.step[{j}];"
    text = _SOURCE.format(
        rank=rank, items=items, threads=_THREADS, count=len(kinds), T=data, U=other,
        N="unsigned int" if small else "unsigned long long", S="int" if small else "int64",
        functions=_combining(action, data, size) if action in _COMBINED else "",
        indices=", ".join(f"const {kind}* index{j}" for j, kind in enumerate(kinds)),
        keys=", ".join(f"key{j}[{items}]" for j in several), starts=", ".join(f"p{j} = 0" for j in several),
        quotient="(__umulhi(rest, (unsigned int)table.magic[d]) + rest) >> (int)table.shift[d]" if small
        else "rest / (N)table.size[d]",
        places=" ".join(f"p{j} += (int64)(S)own * (S)table.index[{j}][d];" for j in several),
        loads=" ".join(f"key{j}[k] = (int64)index{j}[p{j}];" for j in several),
        bounds=" ".join(bound.format(j=j, low=f"-table.limit[{j}]" if wraps else "0", wrap=(
            f" if (key{j}[k] < 0) key{j}[k] += table.limit[{j}];" if wraps else "")) for j in several),
        body=body.format(items=items, value=taken))
    return compiled(text, "indexed")


def _bits_of(number: Any, kind: np.dtype) -> tuple[int, int]:
    """A number as two words that begin with an element of that type."""
    return struct.unpack("qq", np.full(1, number, kind).tobytes().ljust(16, b"\0"))


class _Indexed:
    """The launches of one call: called with the addresses of `data`, `other` and the indices, and a number's bits.

    The action is read, write, fill, or one of COMBINED; `other` is None where the number is what is written.
    """

    def __init__(self, action: str, data: np.dtype, shape: Sequence[int], data_strides: Sequence[int],
                 indices: Sequence[Index], *, other: np.dtype | None = None, other_strides: Sequence[int] | None = None,
                 wraps: bool = False) -> None:
        self.action, self.scalar, self.wraps = action, other is None, wraps
        steps, size = [index.step for index in indices], data.itemsize
        sources = [list(data_strides), list(other_strides or [0] * len(shape)), *(list(i.strides) for i in indices)]
        moves = action not in _COMBINED
        if data.kind == "c" and not moves:  # sums of real and imaginary parts
            shape = (*shape, 2)
            sources = [[2 * s for s in each] + [1] if n < 2 else [*each, 0] for n, each in enumerate(sources)]
            steps, data, size = [2 * s for s in steps], np.dtype(f"f{size // 2}"), size // 2
            other = data if other is not None else None
        self.types = ("", "") if moves else (C_TYPES[data.name], C_TYPES[(data if other is None else other).name])
        self.kinds = tuple([C_TYPES[index.kind.name] for index in indices])
        self.limits = [index.limit for index in indices]
        sizes, strides = collapsed(range(len(shape) - 1, -1, -1), shape, sources)
        self.aligned, self.narrow = 0, self._launch(sizes, strides, steps, size)
        self.wide = self.narrow
        wider = self._wider(sizes, strides, steps, size) if moves and other is not None else 1
        if wider > 1:
            self.aligned = size * wider - 1
            parts = [[s if k == 0 else s // wider for k, s in enumerate(each)] for each in strides[:2]] + strides[2:]
            self.wide = self._launch([sizes[0] // wider, *sizes[1:]], parts, [s // wider for s in steps], size * wider)

    @staticmethod
    def _wider(sizes: list[int], strides: list[list[int]], steps: list[int], size: int) -> int:
        """How many neighbours can be moved as one element."""
        if strides[0][0] != 1 or strides[1][0] != 1 or any(each[0] for each in strides[2:]):
            return 1
        counts = [sizes[0], *steps, *strides[0][1:], *strides[1][1:]]
        return next((n for n in (16, 8, 4, 2) if n * size <= 16 and not any(c % n for c in counts)), 1)

    def _launch(self, sizes: list[int], strides: list[list[int]], steps: list[int], size: int) -> Launch:
        count = functools.reduce(int.__mul__, sizes, 1)
        small = max(count, *self.limits, *steps, *(s for each in strides for s in each)) < 1 << 31
        items = 4 if count >= _MANY else 1
        types = self.types if self.types[0] else (_WORDS[size],) * 2
        kernel = _kernel(self.action, *types, size, self.kinds, len(sizes), items, small, self.wraps, self.scalar)
        shifts = [(n - 1).bit_length() for n in sizes]
        magics = [((1 << 32) * ((1 << s) - n)) // n + 1 if small else 0 for n, s in zip(sizes, shifts, strict=True)]
        words = [*sizes, *magics, *shifts, *(s for each in strides for s in each), *steps, *self.limits]
        fixed = [ctypes.c_longlong(count), (ctypes.c_longlong * len(words))(*words)]
        return Launch(kernel, "q" * (4 + len(self.kinds)), (-(-count // (_THREADS * items)),), (_THREADS,), fixed)

    def __call__(self, data: int, other: int, *rest: int) -> None:
        (self.narrow if (data | other) & self.aligned else self.wide)(data, other, *rest)


def _fits(shape: Sequence[int]) -> bool:
    """Whether a shape has few enough dimensions for a kernel's table."""
    return len(shape) <= _RANK


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return contiguous_strides(tuple(shape))


_FLOAT32, _INT32, _PLANS = np.dtype(np.float32), np.dtype(np.int32), 4096
_MASKS = (bool_.np, uint8.np)


def steps(layout: Layout) -> tuple[int, ...]:
    """Strides in elements, none where there is one element; a tensor without dimensions is a vector."""
    size = layout.dtype.itemsize
    return tuple([0 if n == 1 else s // size for s, n in zip(layout.strides, layout.shape, strict=True)]) or (0,)


def _shape(layout: Layout) -> tuple[int, ...]:
    return layout.shape or (1,)


def _without(strides: Sequence[int], dim: int) -> list[int]:
    return [0 if d == dim else s for d, s in enumerate(strides)]


def _along(index: Layout, target: Layout, dim: int, rank: int) -> Index:
    """A vector of places along a dimension of `target`, in a walk of `rank` dimensions."""
    own = steps(index)[0]
    return Index(index.dtype, [own if d == dim else 0 for d in range(rank)], steps(target)[dim], _shape(target)[dim])


def _everywhere(index: Layout, target: Layout, dim: int) -> Index:
    """Places along a dimension, one for each point of the walk."""
    return Index(index.dtype, steps(index), steps(target)[dim], _shape(target)[dim])


# reading -------------------------------------------------------------------------------------------------------------


def reading(source: Layout, shape: Sequence[int], strides: Sequence[int], indices: Sequence[Index],
             wraps: bool = False) -> _Indexed | None:
    if 0 in shape or not source.size or not _fits(shape):
        return None
    return _Indexed("read", source.dtype, shape, strides, indices, other=source.dtype, other_strides=_row_major(shape),
                    wraps=wraps)


def read_along(spec: Spec, indexed: _Indexed | None, at: int) -> Callable | None:
    """A function of the arguments, of which the index is the `at`-th."""
    layout = layout_for(spec)
    if indexed is None:
        return None

    def run(self: CudaArray, *args: Any) -> CudaArray:
        made = quick_empty(layout, self.device)
        indexed(self.pointer, made.pointer, args[at].pointer, 0, 0)
        return made

    return run


def _index_select_over_cupy(xp: Any, self: Any, dim: int, index: Any, spec: Any) -> Any:
    return self.take(index.reshape(-1), dim) if self.ndim else self.copy()


def _gather_over_cupy(xp: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    if not index.size:
        return xp.empty(index.shape, self.dtype)
    if not self.ndim or not index.ndim:
        return self.reshape(-1)[index]
    dim %= self.ndim
    within = tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape)])
    return xp.take_along_axis(self[within], index, dim)


@planned(by_value=False, array=_index_select_over_cupy)
def index_select(spec: Spec, self: CudaArray, dim: int, index: CudaArray) -> Callable | None:
    layout = self.layout
    if not layout.shape:
        return None
    dim, shape = wrapped_dim(dim, len(layout.shape)), tuple(spec.shape)
    return read_along(spec, reading(layout, shape, _without(steps(layout), dim),
                                            [_along(index.layout, layout, dim, len(shape))]), 1)


@planned(by_value=False, array=_gather_over_cupy)
def gather(spec: Spec, self: CudaArray, dim: int, index: CudaArray, sparse_grad: bool) -> Callable | None:
    layout, places = self.layout, index.layout
    dim = wrapped_dim(dim, len(layout.shape))
    return read_along(spec, reading(layout, _shape(places), _without(steps(layout), dim),
                                            [_everywhere(places, layout, dim)]), 1)


@planned(by_value=False)
def take(spec: Spec, self: CudaArray, index: CudaArray) -> Callable | None:
    layout, places = self.layout, index.layout
    if not layout.contiguous:
        return None
    shape = _shape(places)
    named = Index(places.dtype, steps(places), 1, layout.size)
    return read_along(spec, reading(layout, shape, [0] * len(shape), [named], wraps=True), 0)


# writing -------------------------------------------------------------------------------------------------------------


def updating(prepare: Callable) -> Maker:
    """The kernels of `prepare(target layout, *arguments)` for an operator that writes elements, in a copy or in place.

    It gives `write(target, *arguments)` for all calls of these layouts, or None for a call that is CuPy's.
    """

    def make(operator: Operator) -> Callable:
        family: Updates = operator.declaration.family
        given, plans = with_operator(prepare, operator), dict[tuple, tuple[Layout, Callable]]()
        slow = functools.cache(lambda: generic_kernel(operator))

        def kernel(source: Tensor, *args: Any) -> Tensor:
            try:
                key = layouts_of((source, *args))
                plan = plans.get(key)
            except AttributeError:
                return kernel(source, *_moved(source, args))
            if plan is None:
                layout = layout_for(family.spec(source, args))
                write = given(layout, *args)
                if write is None:
                    return slow()(source, *args)
                plan = _kept(plans, key, (layout, write))
            made = empty(plan[0], source._device)
            copy_array(made, source._array)
            plan[1](made, *args)
            return wrap_cuda(made)

        return kernel

    def make_in_place(operator: Operator, functional: Operator) -> Callable:
        family: Updates = functional.declaration.family
        given, plans = with_operator(prepare, functional), dict[tuple, Callable]()
        slow = functools.cache(lambda: inplace_generic(operator, functional))

        def kernel(target: Tensor, *args: Any) -> Tensor:
            try:
                key = layouts_of((target, *args))
                write = plans.get(key)
            except AttributeError:
                return kernel(target, *_moved(target, args))
            if write is None:
                if is_expanded(target._array):
                    return slow()(target, *args)
                check_update(family, operator, target, args)
                write = given(target._array.layout, *args)
                if write is None:
                    return slow()(target, *args)
                _kept(plans, key, write)
            else:
                check_operands(functional, target, (target, *args))
            write(target._array, *args)
            target._bump_version()
            return target

        return kernel

    return Maker(make, make_in_place)


def _kept(plans: dict, key: tuple, plan: Any) -> Any:
    if len(plans) > _PLANS:
        plans.clear()
    plans[key] = plan
    return plan


def _moved(target: Tensor, args: Sequence[Any]) -> list[Any]:
    """Arguments of which those on the host are copied to the device."""
    if target._array.__class__ is not CudaArray:
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor "
                           f"({target._device})")
    return [_on_device(v, target) if hasattr(v, "_array") else [_on_device(i, target) for i in v]
            if v.__class__ in (tuple, list) else v for v in args]


def _on_device(tensor: Tensor | None, like: Tensor) -> Tensor | None:
    if tensor is None or tensor._array.__class__ is CudaArray:
        return tensor
    return wrap_cuda(from_host(tensor._array, like._device))


def writing(action: str, target: Layout, shape: Sequence[int], strides: Sequence[int], indices: Sequence[Index],
             source: Layout | None = None, source_strides: Sequence[int] | None = None,
             wraps: bool = False) -> Callable[..., None] | None:
    """`write(target, source or number, *index arrays)`; sums of half types are rounded once where that costs little."""
    kind, combines = target.dtype, action in _COMBINED
    if not target.size or 0 in shape or not _fits(shape):
        return None if target.size else _nothing
    if combines and kind.name not in C_TYPES and (kind.kind != "c" or action != "add" or source is None):
        return None
    options: dict[str, Any] = {"wraps": wraps}
    if source is not None:
        options |= {"other": source.dtype, "other_strides": source_strides}
    wide = None
    if combines and kind in REDUCED and math.prod(shape) * 4 >= target.size:
        wide = layout_of(target.shape, _FLOAT32, tuple([s * 2 for s in target.strides]))
    number_kind = kind if wide is None else _FLOAT32
    indexed = _Indexed(action, number_kind, shape, strides, indices, **options)

    def write(array: CudaArray, value: Any, *places: CudaArray) -> None:
        pointer, words = (value.pointer, (0, 0)) if value.__class__ is CudaArray else (0, _bits_of(value, number_kind))
        if wide is None:
            indexed(array.pointer, pointer, *[p.pointer for p in places], *words)
            return
        sums = empty(wide, array.device)
        copy_array(sums, array)
        indexed(sums.pointer, pointer, *[p.pointer for p in places], *words)
        copy_array(array, sums)

    return write


def _nothing(*args: Any) -> None:
    """Writes to a tensor without elements."""


def _source(value: Any, kind: np.dtype, target: CudaArray) -> Any:
    """What is written: an array of the target's type on its device, or a number."""
    if value.__class__ in NUMBERS:
        return stored_number(value, OF_ARRAY[kind])
    array = getattr(value, "_array", value)
    if array.dtype == kind:
        return array
    made = empty(layout_of(array.shape, kind), target.device)
    copy_array(made, array)
    return made


def _scattering(action: str, target: Layout, dim: int, index: Tensor, src: Any) -> Callable | None:
    """`write(target, source or number, index)` of the scatter family."""
    places = index._array.layout
    if not places.size:
        return _nothing
    dim = wrapped_dim(dim, len(target.shape))
    source = None if src.__class__ in NUMBERS else src._array.layout
    if source is None and action == "write":
        action = "fill"
    return writing(action, target, _shape(places), _without(steps(target), dim), [_everywhere(places, target, dim)],
                    source, None if source is None else steps(source))


@updating
def scatter(layout: Layout, dim: int, index: Tensor, src: Any, *reduce: str, operator: Operator) -> Callable | None:
    """`scatter`, with what it does to the elements that are there, and `scatter_add`."""
    action = reduce[0] if reduce else "add" if operator.schema.base_name == "scatter_add" else "write"
    scattering = _scattering(action, layout, dim, index, src)

    def write(target: CudaArray, dim: int, index: Tensor, src: Any, *reduce: str) -> None:
        scattering(target, _source(src, target.dtype, target), index._array)  # type: ignore[misc]

    return scattering and write


_REDUCED = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


@updating
def scatter_reduce(layout: Layout, dim: int, index: Tensor, src: Tensor, reduce: str,
                   include_self: bool) -> Callable | None:
    combine = _scattering(_REDUCED[reduce], layout, dim, index, src)
    if combine is None or not index._array.size:
        return combine
    start = None if include_self else _scattering("write", layout, dim, index, 0)
    counts = layout_of(layout.shape, _INT32)
    count = _scattering("add", counts, dim, index, 1) if reduce == "mean" else None
    first = start_value(reduce, layout.dtype)
    divide, at_least = (registry.get(n).lookup(CUDA_MASK) for n in ("div_", "clamp_min_"))

    def write(target: CudaArray, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> None:
        places = index._array
        if start is not None:
            start(target, first, places)
        combine(target, src._array, places)
        if count is not None:
            counted = wrap_cuda(empty(counts, target.device))
            fill(counted._array, int(include_self))
            count(counted._array, 1, places)
            divide(wrap_cuda(target), at_least(counted, 1), None if target.dtype.kind not in "iu" else "floor")

    return write


@updating
def index_add(layout: Layout, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Callable | None:
    dim, given = wrapped_dim(dim, len(layout.shape)), source._array.layout
    shape, scales = _shape(given), alpha.__class__ is not int or alpha != 1
    adding = writing("add", layout, shape, _without(steps(layout), dim),
                      [_along(index._array.layout, layout, dim, len(shape))], given,
                      _row_major(shape) if scales else steps(given))
    multiply = registry.get("mul").lookup(CUDA_MASK)

    def write(target: CudaArray, dim: int, index: Tensor, source: Tensor, alpha: Any) -> None:
        if scales:
            factor = stored_number(alpha, source.dtype)
            source = multiply(source, getattr(factor, "item", lambda: factor)())
        adding(target, dense(source._array) if scales else source._array, index._array)  # type: ignore[misc]

    return adding and write


@updating
def index_copy(layout: Layout, dim: int, index: Tensor, source: Tensor) -> Callable | None:
    dim, given = wrapped_dim(dim, len(layout.shape)), source._array.layout
    copying = writing("write", layout, _shape(given), _without(steps(layout), dim),
                       [_along(index._array.layout, layout, dim, len(_shape(given)))], given, steps(given))
    return copying and (lambda target, dim, index, source: copying(target, source._array, index._array))


@updating
def index_fill(layout: Layout, dim: int, index: Tensor, value: Any) -> Callable | None:
    dim, places = wrapped_dim(dim, len(layout.shape)), index._array.layout
    shape = tuple([places.size if d == dim else n for d, n in enumerate(_shape(layout))])
    from_tensor = value.__class__ not in NUMBERS
    filling = writing("write" if from_tensor else "fill", layout, shape, _without(steps(layout), dim),
                       [_along(places, layout, dim, len(shape))], layout if from_tensor else None,
                       [0] * len(shape) if from_tensor else None, wraps=True)
    return filling and (lambda target, dim, index, value:
                        filling(target, _source(value, target.dtype, target), index._array))


@updating
def put(layout: Layout, index: Tensor, source: Tensor, accumulate: bool) -> Callable | None:
    places, size = index._array.layout, index._array.size
    if not layout.contiguous:
        return None
    putting = writing("add" if accumulate else "write", layout, (size,), (0,),
                       [Index(places.dtype, (1,), 1, layout.size)], source._array.layout, (1,), wraps=True)
    return putting and (lambda target, index, source, accumulate:
                        putting(target, dense(source._array), dense(index._array)))


# lists of indices ----------------------------------------------------------------------------------------------------


def _integers(self: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices on the device, masks as the places of their True: how many those are is waited for, as in PyTorch."""
    placed = [_on_device(index, self) for index in indices]
    if all(i is None or i._array.dtype not in _MASKS for i in placed):
        return placed
    if all(i is None or i._array.dtype not in _MASKS or i.dtype is bool_ and is_served(i._array) for i in placed):
        found: list[Tensor | None] = []
        for index in placed:
            if index is None or index.dtype is not bool_:
                found.append(index)
            else:
                check_mask(self._array.shape, index._array.shape, len(found))
                found += map(wrap_cuda, columns_of(places_of(index._array)))
        if len(found) <= len(self._array.shape):
            return found
    key = whole_key(self._array.shape, [None if i is None else view_of(i) for i in placed], xp)
    return [None if part.__class__ is slice else wrap_cuda(of_view(part, self._device)) for part in key]


def _listed(layout: Layout, indices: Sequence[Tensor | None]) -> tuple[tuple[int, ...], list[int], list[Index]]:
    """The shape that a list of integer indices shows, the strides of what they leave, and they themselves."""
    own, at = steps(layout), [d for d, index in enumerate(indices) if index is not None]
    places = place_shape([indices[d]._array.shape for d in at])  # type: ignore[union-attr]
    shape = shown_shape(layout.shape, at, places)
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    kept = [own[d] for d in range(len(layout.shape)) if d not in at]
    made = []
    for d in at:
        array: CudaArray = indices[d]._array  # type: ignore[union-attr]
        lead = front + len(places) - len(array.shape)
        strides = [0] * lead + list(steps(array.layout) if array.shape else ()) + [0] * (len(kept) - front)
        made.append(Index(array.dtype, strides, own[d], layout.shape[d]))
    return shape, [*kept[:front], *[0] * len(places), *kept[front:]], made


_index_plans: dict[tuple, Callable] = {}


def picked_elements(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Indexing by arrays and masks."""
    try:
        run = _index_plans[self._array.layout, *[None if i is None else i._array.layout for i in indices]]
    except (KeyError, AttributeError):
        return _pick(self, indices)
    return run(self, indices)


def _pick(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """A call whose launch is not at hand: masks, indices on the host, or layouts that are new."""
    if self._array.__class__ is not CudaArray:
        _moved(self, ())
    array = self._array
    if len(indices) == 1 and indices[0].dtype is bool_ and indices[0]._array.shape == array.shape:  # type: ignore[union-attr]
        mask = _on_device(indices[0], self)
        spec = Spec((-1,), self.dtype)
        if is_served(mask._array) and array.itemsize in _WORDS:  # type: ignore[union-attr]
            return wrap_cuda(picked_by(mask._array, array))  # type: ignore[union-attr]
        if array.layout.contiguous and array.shape:
            return finished(picked(xp, array.view, [view_of(mask)]), spec, self._device)  # type: ignore[arg-type]
    placed = _integers(self, indices)
    known = _index_plans.get((array.layout, *[None if i is None else i._array.layout for i in placed]))
    if known is not None:  # of indices that were on the host, or masks
        return known(self, placed)
    spec = index_spec(self, placed)
    shape, strides, named = _listed(array.layout, placed)
    if 0 in shape or not array.size or not _fits(shape):
        return finished(picked(xp, array.view, [None if i is None else view_of(i) for i in placed]), spec, self._device)
    made_strides = _row_major(spec.shape) if spec.strides is None else spec.strides
    layout = layout_of(tuple(spec.shape), array.dtype, tuple([s * array.itemsize for s in made_strides]))
    indexed = _Indexed("read", array.dtype, shape, strides, named, other=array.dtype, other_strides=made_strides,
                       wraps=True)

    def run(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
        made = fresh_tensor(layout, self._device)
        indexed(self._array.pointer, made._array.pointer, *[i._array.pointer for i in indices if i is not None], 0, 0)
        return made

    if len(_index_plans) > _PLANS:
        _index_plans.clear()
    _index_plans[array.layout, *[None if i is None else i._array.layout for i in placed]] = run
    return run(self, placed)


@updating
def index_put(layout: Layout, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Callable | None:
    if any(i is not None and i._array.dtype in _MASKS for i in indices):
        return _put_masked
    index_spec(wrap_meta(layout.shape, layout.dtype, layout.strides), indices)
    shape, strides, named = _listed(layout, indices)
    given = values._array.layout
    refuse_values(given.shape, shape)
    spread = [0] * (len(shape) - len(given.shape)) + list(steps(given) if given.shape else ())
    putting = writing("add" if accumulate else "write", layout, shape, strides, named, given, spread, wraps=True)
    return putting and (lambda target, indices, values, accumulate:
                        putting(target, values._array, *[i._array for i in indices if i is not None]))


def _put_masked(target: CudaArray, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> None:
    self = wrap_cuda(target)
    mask = None if accumulate else filling_mask(self, indices, values)
    if mask is not None and mask.dtype is bool_:
        registry.get("masked_fill_").lookup(CUDA_MASK)(self, mask, values.reshape(()))
        return
    registry.get("index_put_").lookup(CUDA_MASK)(self, _integers(self, indices), values, accumulate)


# choices -------------------------------------------------------------------------------------------------------------


@functools.cache
def _choice(kinds: tuple, wide: np.dtype) -> Traced:
    """`first` where the condition, which comes first, holds, else `second`; classes stand for numbers."""
    plain = [kind if isinstance(kind, np.dtype) else kind(0) for kind in kinds]
    return Traced(lambda xp, condition, first, second: xp.where(condition, first, second), plain, range(3), wide, None)


def _choosing(condition: Layout, first: Any, second: Any, made: Layout) -> Callable[..., None] | None:
    """`run(condition, first, second, result)`, for arrays or numbers of the result's type."""
    wide = _FLOAT32 if made.dtype in REDUCED else made.dtype
    layouts = [condition, *(v for v in (first, second) if isinstance(v, Layout))]
    number = int if wide.kind in "iub" else float
    kinds = tuple([v.dtype if isinstance(v, Layout) else number for v in (condition, first, second)])
    if not made.size or wide.name == "uint64":
        return None
    try:
        launch = launch_of(_choice(kinds, wide), layouts, made)
    except (Untraceable, KeyError):
        return None

    def run(condition: CudaArray, first: Any, second: Any, made: CudaArray) -> None:
        given: tuple[Any, ...] = (condition, first, second)
        launch(*[v.pointer for v in given if v.__class__ is CudaArray], made.pointer,
               *[number(v) for v in given if v.__class__ is not CudaArray])

    return run


@planned(by_value=False)
def where(spec: Spec, condition: CudaArray, first: Any, second: Any) -> Callable | None:
    layout = layout_for(spec)
    one, two = (v.__class__ if v.__class__ in NUMBERS else v.layout for v in (first, second))
    choosing = _choosing(condition.layout, one, two, layout)
    kind = spec.dtype

    def run(condition: CudaArray, first: Any, second: Any) -> CudaArray:
        made = empty(layout, condition.device)
        choosing(condition, *[stored_number(v, kind) if v.__class__ in NUMBERS else v  # type: ignore[misc]
                              for v in (first, second)], made)
        return made

    return choosing and run


@updating
def _masked_fill(layout: Layout, mask: Tensor, value: Any) -> Callable | None:
    kind = layout.dtype
    single = layout_of((), kind) if value.__class__ not in NUMBERS else value.__class__
    choosing = _choosing(mask._array.layout, single, layout, layout)
    return choosing and (lambda target, mask, value:
                         choosing(mask._array, _source(value, target.dtype, target), target, target))


@planned(by_value=False)
def _masked_copy(spec: Spec, self: CudaArray, mask: CudaArray, value: Any) -> Callable | None:
    layout, kind = layout_for(spec), self.dtype
    single = value.__class__ if value.__class__ in NUMBERS else layout_of((), kind)
    choosing = _choosing(mask.layout, single, self.layout, layout)

    def run(self: CudaArray, mask: CudaArray, value: Any) -> CudaArray:
        made = empty(layout, self.device)
        choosing(mask, _source(value, kind, made), self, made)  # type: ignore[misc]
        return made

    return choosing and run


masked_fill = Maker(_masked_copy.of, _masked_fill.in_place)


# diagonals -----------------------------------------------------------------------------------------------------------


@array
def diagonal_backward(xp: Any, grad: Any, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Any:
    made = xp.zeros(tuple(input_sizes), grad.dtype)
    if grad.size:
        made.diagonal(offset, dim1, dim2)[...] = grad
    return made
