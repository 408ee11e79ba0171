"""Resampling images to another size: nearest, linear, cubic, and filters that average what they shrink.

All are separable: one map of few taps for each dimension, and its transpose backward.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.dtype import COMPUTE, FLOAT, OF_ARRAY, REDUCED, dtype, float64, int32, uint8
from .._dispatch.callers import compile_function
from ._declare.batch import planewise
from ._declare.families import computes
from ._declare.op import function_of, op
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, t
from .copy import suggested_strides
from .interpolation import Taps, mapped, mapped_by_parts
from .pool import Sizes, in_strides, refuse_type

# which elements, with which weights ----------------------------------------------------------------------------------


def _scale(n: int, count: int, aligned: bool, given: float | None, kind: type) -> Any:
    """How many elements one step of the results is."""
    if aligned:
        return kind(n - 1) / kind(count - 1) if count > 1 else kind(0)
    return kind(1.0 / given) if given is not None and given > 0 else kind(n) / kind(count)


def _nearest(n: int, count: int, offset: float, given: float | None) -> np.ndarray:
    point = (np.arange(count, dtype=np.float32) + np.float32(offset)) * _scale(n, count, False, given, np.float32)
    return np.minimum(np.floor(point), n - 1).astype(np.int64)


def _centres(n: int, count: int, aligned: bool, given: float | None, kind: type) -> tuple[np.ndarray, np.ndarray]:
    """The element before each result's point, and how far behind it the point lies."""
    scale = _scale(n, count, aligned, given, kind)
    number: np.ndarray = np.arange(count).astype(kind)
    point = number * scale if aligned else scale * (number + kind(0.5)) - kind(0.5)
    before = np.minimum(np.floor(point), n - 1).astype(np.int64)
    return before, np.clip(point - before.astype(kind), 0, 1)


def _linear(n: int, count: int, aligned: bool, given: float | None, kind: type) -> Taps:
    before, behind = _centres(n, count, aligned, given, kind)
    behind[before < 0] = 0
    before = np.maximum(before, 0)
    after = np.minimum(before + 1, n - 1)
    if n == count:  # where PyTorch takes an element twice, not its neighbour
        before = after = np.arange(n)
        behind = np.zeros(n, kind)
    return Taps(np.stack([before, after]), np.stack([1 - behind, behind]), n)


def _cubic(n: int, count: int, aligned: bool, given: float | None, kind: type) -> Taps:
    before, behind = _centres(n, count, aligned, given, kind)
    places = np.clip(before + np.arange(-1, 3)[:, None], 0, n - 1)
    weights = _convolution(behind - np.arange(-1, 3, dtype=kind)[:, None], kind(-0.75))
    return Taps(places, weights.astype(kind), n)


def _convolution(x: np.ndarray, a: Any) -> np.ndarray:
    """Keys' cubic convolution."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


# mode -> how many elements it spans, and the weight of an element at a distance
_FILTERS: dict[str, tuple[int, Callable]] = {
    "linear": (2, lambda x: np.maximum(1 - np.abs(x), 0)),
    "cubic": (4, lambda x: _convolution(x, -0.5)),
    "lanczos": (6, _lanczos),
}


def _filtered(mode: str, n: int, count: int, aligned: bool, given: float | None, kind: type) -> Taps:
    """The taps of a filter that is widened by as much as the image shrinks, with weights that sum to 1."""
    span, weigh = _FILTERS[mode]
    scale = _scale(n, count, aligned, given, kind)
    wide = max(scale, kind(1))
    support = kind(span * 0.5) * wide
    centre = (scale * (np.arange(count) + kind(0.5))).astype(kind)
    first = np.maximum(np.trunc(centre - support + kind(0.5)).astype(np.int64), 0)
    end = np.minimum(np.trunc(centre + support + kind(0.5)).astype(np.int64), n)
    places = first + np.arange(max(1, min((end - first).max(), math.ceil(support) * 2 + 1)))[:, None]
    weights = weigh((places - centre + kind(0.5)) / wide).astype(kind)
    weights[places >= end] = 0
    total = weights.sum(0)
    places[places >= end] = -1
    return Taps(places, weights / np.where(total == 0, 1, total), n)


@functools.lru_cache(512)
def _taps(mode: str, n: int, count: int, aligned: bool, given: float | None, kind: type, backward: bool) -> Taps:
    """The map along one dimension; `kind` is the type in which weights are computed, np.uint8 for bytes."""
    if backward:
        return _taps(mode, n, count, aligned, given, kind, False).transposed()
    if mode.startswith("nearest"):
        if mode == "nearest in planes" and count in (n, 2 * n):  # there PyTorch does not look at the given scale
            given = None
        return Taps(_nearest(n, count, 0.5 if mode == "nearest exact" else 0, given)[None], None, n)
    mode, _, antialias = mode.partition(" ")
    if n == count and (antialias or kind is np.uint8):
        return Taps(np.arange(n)[None], None, n)
    kind = np.float64 if kind is np.uint8 else kind
    if antialias:
        return _filtered(mode, n, count, aligned, given, kind)
    return (_linear if mode == "linear" else _cubic)(n, count, aligned, given, kind)


def _rounded(taps: Taps, kind: np.dtype) -> Taps:
    """The taps with weights of half precision; of two the first is what the second leaves."""
    assert taps.weights is not None
    weights = taps.weights.astype(kind)
    if len(weights) == 2:
        weights[0] = 1 - weights[1]
    return taps._replace(weights=weights.astype(np.float32))


# bytes ---------------------------------------------------------------------------------------------------------------


def _byte_taps(taps: Taps) -> tuple[Taps, int]:
    """The taps with weights rounded to 16 bits as PyTorch does for bytes, and how many of them are a fraction."""
    assert taps.weights is not None
    exact = taps.weights.copy()
    for at in range(1, len(exact)):  # the weights of an element that stands for those beyond the edge are one
        same = taps.places[at] == taps.places[at - 1]
        exact[at] += exact[at - 1] * same
        exact[at - 1] *= ~same
    largest, bits = exact.max(), 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    weights = np.trunc(exact * (1 << bits) + np.copysign(0.5, exact)).astype(np.int32)
    return taps._replace(weights=weights), bits


def _mapped_bytes(xp: Any, array: Any, taps: Taps, dim: int) -> Any:
    """Bytes mapped along one dimension."""
    taps, bits = _byte_taps(taps)
    total = mapped(xp, array.astype(xp.int32), taps, dim)
    return xp.clip((total + (1 << (bits - 1))) >> bits, 0, 255).astype(xp.uint8)


def _mapped_bytes_by_parts(x: Any, taps: Taps, dim: int) -> Any:
    taps, bits = _byte_taps(taps)
    total = mapped_by_parts(x.to(int32), taps, dim)
    return ((total + (1 << (bits - 1))) >> bits).clamp(0, 255).to(uint8)


# operators -----------------------------------------------------------------------------------------------------------

_SIDES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _checked_shape(shape: Sizes, output_size: Sizes, rank: int) -> Sizes:
    """The resampled shape."""
    for name, given, wanted in (("output_size", output_size, rank), ("input_size", shape, rank + 2)):
        if len(given) != wanted:
            raise RuntimeError(f"It is expected {name} equals to {wanted}, but got size {len(given)}")
    if min(*shape[2:], *output_size) <= 0:
        before, after = (", ".join(f"{side}: {n}" for side, n in zip(_SIDES[rank], sizes, strict=True))
                         for sizes in (shape[2:], output_size))
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({before}) "
                           f"{'and ' if rank == 1 else ''}output ({after})")
    return (*shape[:2], *output_size)


def _maps(mode: str, sizes: Sequence[tuple[int, int]], aligned: bool, scales: Sequence[float | None], kind: dtype,
          backward: bool) -> Iterator[tuple[int, Taps, bool]]:
    """Dimensions, their maps, and whether those are of whole numbers, as for bytes.

    `sizes` are elements and results of the forward map by dimension, `kind` is the type that is resampled.
    """
    weights = np.uint8 if kind is uint8 else np.float64 if kind is float64 else np.float32
    # PyTorch has weights in half precision, but not in bilinear planes.
    rounded = kind.np in REDUCED and not backward and (mode == "cubic" or mode == "linear" and len(sizes) != 2)
    for d, ((n, count), scale) in reversed(list(enumerate(zip(sizes, scales, strict=True), 2))):
        taps = _taps(mode, n, count, aligned, scale, weights, backward)
        yield d, _rounded(taps, kind.np) if rounded else taps, kind is uint8 and taps.weights is not None


def _resampled(xp: Any, array: Any, maps: Iterator, spec: Spec) -> Any:
    for d, taps, whole in maps:
        array = _mapped_bytes(xp, array, taps, d) if whole else mapped(xp, array, taps, d)
    return in_strides(array, spec)


def _resampled_by_parts(x: Any, maps: Iterator) -> Any:
    wide = x.to(COMPUTE.get(x.dtype, x.dtype))
    for d, taps, whole in maps:
        wide = (_mapped_bytes_by_parts if whole else mapped_by_parts)(wide, taps, d)
    return wide.to(x.dtype)


def _nearest_at(place: Any, chosen: np.ndarray, n: int) -> Any:
    """The element that is nearest to a place, where images are made so many times as large or as small."""
    count = len(chosen)
    times = max(count // n, n // count)
    if np.array_equal(chosen, np.arange(count) // times):
        return place // times if times > 1 else place
    if np.array_equal(chosen, np.arange(count) * times):
        return place * times
    raise NotImplementedError("steps of several lengths")


def _centre_at(g: Any, self: Any, place: Any, n: int, count: int, aligned: bool, given: float | None,
               inside: bool) -> tuple[Any, Any]:  # fmt: skip
    """What `_centres` has for all places, for one; points before the first element are on it where `inside` says so."""
    scale, number = float(_scale(n, count, aligned, given, self.kind.type)), place.cast(self.kind)
    point = number * scale if aligned else (number + 0.5) * scale - 0.5
    point = g.most(point, 0.0) if inside else point
    before = g.least(g.floor(point).cast(place.np), n - 1)
    return before, g.least(point - before.cast(self.kind), 1.0)


def _linear_at(g: Any, self: Any, place: Any, n: int, count: int, aligned: bool, given: float | None) -> list:
    """The elements on both sides of a place's point and their weights, as `_linear` has them for all places."""
    if n == count:
        return [(place, 1.0), (place, 0.0)]
    before, behind = _centre_at(g, self, place, n, count, aligned, given, True)
    return [(before, 1.0 - behind), (g.least(before + 1, n - 1), behind)]


def _cubic_at(g: Any, self: Any, place: Any, n: int, count: int, aligned: bool, given: float | None) -> list:
    """The same of `_cubic`."""
    before, behind = _centre_at(g, self, place, n, count, aligned, given, False)
    near, far = (lambda x: (1.25 * x - 2.25) * x * x + 1.0), (lambda x: ((x - 5.0) * x + 8.0) * x * -0.75 + 3.0)
    weights = [far(behind + 1.0), near(behind), near(1.0 - behind), far(2.0 - behind)]
    places = [g.least(g.most(before + k, 0), n - 1) for k in range(-1, 3)]
    return list(zip(places, weights, strict=True))


def _weighed_at(g: Any, self: Any, taps: list[list], places: tuple = ()) -> Any:
    """The sum of the elements at some places along each dimension, the last of which is summed first."""
    if not taps:
        return self[places]
    total = None
    for place, weight in taps[0]:
        part = _weighed_at(g, self, taps[1:], (*places, place))
        part = part if weight is None else part * weight
        total = part if total is None else total + part
    return total


def _declare(name: str, rank: int, mode: str, kernel: str, forward_row: str | None, backward_row: str | None) -> None:
    """The operator, its backward, and the derivatives of both, which are each other."""
    aligns = not mode.startswith("nearest")
    types = [f"int[{rank}] output_size", *(["bool align_corners"] if aligns else []),
             *(f"float? {scale}=None" for scale in _SCALES[rank])]
    rest = ", ".join(part.split()[1].split("=")[0] for part in types[1:])
    bytes_too = mode.startswith("nearest") or rank == 2

    def check_type(kernel, kind, bytes_too):
        if not (kind.category == FLOAT or bytes_too and kind is uint8) or "antialias" in mode and kind.np in REDUCED:
            refuse_type(kernel, kind)

    def infer(self, output_size, *_):
        shape, kind = self._array.shape, self.dtype
        made = _checked_shape(shape, output_size, rank)
        if 0 in shape[1:]:
            raise RuntimeError(f"Non-empty {rank + 2}D data tensor expected but got a tensor with sizes "
                               f"{shape_text(shape)}")
        check_type(kernel, kind, bytes_too)
        return Spec(made, kind, suggested_strides(self, made))

    def maps(shape, output_size, rest, kind, backward):
        aligned, scales = (bool(rest[0]), rest[1:]) if aligns else (False, rest)
        return _maps(mode, list(zip(shape[2:], output_size, strict=True)), aligned, scales, kind, backward)

    def array(xp, self, output_size, *rest, spec):
        return _resampled(xp, self, maps(self.shape, output_size, rest, spec.dtype, False), spec)

    def by_parts(self, output_size, *rest):
        return _resampled_by_parts(self, maps(self.shape, output_size, rest, self.dtype, False))

    def weighed(g, self, output_size, *rest):
        if self.dtype.kind in "biu" or self.dtype in REDUCED and (mode == "cubic" or rank != 2):
            raise NotImplementedError("weights of bytes, and those that are rounded")
        sizes = zip(g.at[2:], self.shape[2:], output_size, rest[1:], strict=True)
        found = _linear_at if mode == "linear" else _cubic_at
        taps = [found(g, self, place, n, count, bool(rest[0]), scale) for place, n, count, scale in sizes]
        return _weighed_at(g, self, [[(place, None)] for place in g.at[:2]] + taps)

    def nearest(g, self, output_size, *rest):
        places = list(g.at)
        for d, taps, _ in maps(self.shape, output_size, rest, OF_ARRAY[self.dtype], False):
            places[d] = _nearest_at(places[d], taps.places[0], self.shape[d])
        return self[tuple(places)]

    def backward_infer(grad_output, output_size, input_size, *_):
        expected, given = _checked_shape(input_size, output_size, rank), grad_output._array.shape
        wrong = next((d for d, n in enumerate(expected) if len(given) != rank + 2 or given[d] != n), None)
        if rank == 1 and wrong is not None:
            raise RuntimeError(f"Expected a tensor of dimension 3 and tensor.size[{wrong}] == {expected[wrong]} but "
                               f"got: dimension {len(given)} and tensor.size[{wrong}] = {given[wrong]}")
        if len(given) != rank + 2:
            raise RuntimeError(f"Expected grad_output to be a tensor of dimension {rank + 2} but got: dimension "
                               f"{len(given)}")
        if wrong is not None:
            raise RuntimeError(f"Expected grad_output to have the same shape as output; output.size({wrong}) = "
                               f"{expected[wrong]} but got grad_output.size({wrong}) = {given[wrong]}")
        backward_kernel = f"{name[1:]}_backward_cpu" if "antialias" in mode else f"{name}_backward"
        check_type(backward_kernel, grad_output.dtype, False)
        plain = mode.startswith(("cubic", "lanczos")) or rank == 3 and not aligns
        strides = None if plain else suggested_strides(grad_output, input_size)
        return Spec(input_size, grad_output.dtype, strides)

    def backward_array(xp, grad_output, output_size, input_size, *rest, spec):
        return _resampled(xp, grad_output, maps(input_size, output_size, rest, spec.dtype, True), spec)

    def backward_by_parts(grad_output, output_size, input_size, *rest):
        return _resampled_by_parts(grad_output, maps(input_size, output_size, rest, grad_output.dtype, True))

    def formula(parameters: str, call: str) -> Callable:
        scope = {"functions": functions, "__opname__": f"{name} derivative"}
        return compile_function("formula", f"def formula({parameters}):\n    return {call}\n", scope)

    functions: dict[str, Callable] = {}
    align = (False,) if aligns else ()
    planes = mode == "nearest in planes"
    small, large = (1, 2, *(3, 4, 5)[:rank]), (1, 2, *(5, 3, 8)[:rank])
    functions["backward"] = function_of(op(
        f"{name}_backward(Tensor grad_output, {types[0]}, int[{rank + 2}] input_size, {', '.join(types[1:])})"
        " -> Tensor",
        kernel=computes(backward_infer, backward_array), public="", npu=backward_row, decomposition=backward_by_parts,
        grad=dict(grad_output=formula(f"grad, output_size, {rest}",
                                      f"functions['forward'](grad, output_size, {rest})")),
        samples=cases(case(t(*large), large[2:], small, *align)), batch=planewise(None)))
    functions["forward"] = function_of(op(
        f"{name}(Tensor self, {', '.join(types)}) -> Tensor",
        kernel=computes(infer, array), public="_nn", npu=forward_row, decomposition=by_parts,
        kernels={"npu": "layers.nearest"} if forward_row and not aligns else None,
        gathers=weighed if mode in ("linear", "cubic") else None if aligns else nearest,
        grad=dict(self=formula(f"grad, self_shape, output_size, {rest}",
                               f"functions['backward'](grad, output_size, self_shape, {rest})")),
        samples=cases(case(t(*small), large[2:], *align), case(t(*large), small[2:], *align),
                      *([case(t(*small), large[2:], True)] if aligns else []),
                      case(t(*small), tuple([2 * n for n in small[2:]]), *align, *(2.0 if planes else 2.1,) * rank),
                      error(RuntimeError, f"It is expected output_size equals to {rank}, but got size {rank + 1}",
                            t(*small), (2,) * (rank + 1), *align)), batch=planewise(None),
        autocast=None if mode.startswith("lanczos") else dict(accelerators="float32")))


for _rank in (1, 2, 3):
    _kernel = "upsample_nearest2d_channels_last" if _rank == 2 else "compute_indices_weights_nearest"
    _shown = ", ".join(f"{scale}|0.0" for scale in _SCALES[_rank])
    _rows = None if _rank == 3 else (
        f"aclnnUpsampleNearest{_rank}d(self, output_size, out)",
        f"aclnnUpsampleNearest{_rank}dBackward(grad_output, output_size, input_size, {_shown}, out)")
    _declare(f"upsample_nearest{_rank}d", _rank, "nearest in planes" if _rank == 2 else "nearest", _kernel,
             *(_rows or (None, None)))
    _declare(f"_upsample_nearest_exact{_rank}d", _rank, "nearest exact", _kernel, None, None)
_declare("upsample_linear1d", 1, "linear", "compute_indices_weights_linear",
         "aclnnUpsampleLinear1d(self, output_size, align_corners, scales|0.0, out)", None)
_declare("upsample_trilinear3d", 3, "linear", "compute_indices_weights_linear",
         "aclnnUpsampleTrilinear3d(self, output_size, align_corners, scales_d|0.0, scales_h|0.0, scales_w|0.0, out)",
         None)
for _name, _mode, _kernel in (("bilinear", "linear", "upsample_bilinear2d_channels_last"),
                              ("bicubic", "cubic", "compute_indices_weights_cubic")):
    _symbol, _shown = f"aclnnUpsample{_name.title()}2d", "align_corners, scales_h|0.0, scales_w|0.0, out)"
    _declare(f"upsample_{_name}2d", 2, _mode, _kernel, f"{_symbol}(self, output_size, {_shown}",
             f"{_symbol}Backward(grad_output, output_size, input_size, {_shown}")
for _name, _mode in (("bilinear", "linear"), ("bicubic", "cubic"), ("lanczos", "lanczos")):
    _declare(f"_upsample_{_name}2d_aa", 2, f"{_mode} antialias", "compute_index_ranges_weights", None, None)
