"""Images read at points between their elements, and the grids of points that affine maps give."""

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

from .._core.dtype import COMPUTE, bool_
from .._dispatch.keys import modes
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.batch import one_by_one
from ._declare.composites import Parts
from ._declare.op import composite, function_of, op
from ._declare.recorded import gradients_by_parts, once, recorded_gradients
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, t, values
from .pool import check_floating

arange, linspace, stack = (function_of(registry.get(name)) for name in ("arange.start_step", "linspace", "stack"))
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)

# points that lie outside ---------------------------------------------------------------------------------------------


def _clipped(point: Any, size: int, rank: int) -> Any:
    """The point, brought to the nearest edge without a gradient; NaN to the first of an image, the last of a volume."""
    inside = (point > 0) & (point < size - 1)
    return point.where(inside, point.detach().nan_to_num(0 if rank == 2 else size, size, -1).clamp(0, size - 1))


def _reflected(point: Any, first: float, span: float, rank: int) -> Any:
    """The point, mirrored at both ends of a span as often as it takes."""
    if span == 0:
        return point * 0
    away = (point - first).abs()
    turns = (away.detach() / span).floor()
    if rank == 2:
        rest, back = away - turns * span, turns % 2 == 0
    else:  # what an integer cannot count is even
        rest, back = away.fmod(span), (turns % 2 == 0) | (turns >= 2**31)
    return rest.where(back, span - rest) + first


def _in_image(point: Any, size: int, padding_mode: int, align_corners: bool, rank: int) -> Any:
    if padding_mode == _REFLECTION:
        first, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        point = _reflected(point, first, span, rank)
    return point if padding_mode == _ZEROS else _clipped(point, size, rank)


# weights of neighbours -----------------------------------------------------------------------------------------------


def _near(x: Any, a: float) -> Any:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: Any, a: float) -> Any:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _neighbours(point: Any, size: int, mode: int, padding_mode: int, align_corners: bool, rank: int) -> list[tuple]:
    """Coordinates along one dimension that a point is made of, with their weights (None for 1)."""
    if mode != _BICUBIC:
        point = _in_image(point, size, padding_mode, align_corners, rank)
    if mode == _NEAREST:
        # The factor is 1, with a gradient of zeros where the points want one.
        wanted = point.requires_grad
        return [(point.detach().round(), point.masked_fill(point.new_ones((), dtype=bool_), 1.0) if wanted else None)]
    before = point.detach().floor()
    behind = point - before
    if mode == _BILINEAR:
        return [(before, 1 - behind), (before + 1, behind)]
    weights = (_far(behind + 1, -0.75), _near(behind, -0.75), _near(1 - behind, -0.75), _far(2 - behind, -0.75))
    return [(_in_image(before + shift, size, padding_mode, align_corners, rank), weight)
            for shift, weight in zip(range(-1, 3), weights, strict=True)]


def _unnormalised(point: Any, size: int, align_corners: bool, rank: int) -> Any:
    """The point counted in elements; the order of the steps is PyTorch's, which half precision shows."""
    if rank == 2:
        return (point + 1) * ((size - 1) / 2) if align_corners else (point + 1) * (size / 2) - 0.5
    return (point + 1) / 2 * (size - 1) if align_corners else ((point + 1) * size - 1) / 2


def _combined(input: Any, points: list, mode: int, padding_mode: int, align_corners: bool) -> Any:
    """The input at points given by dimension: for each corner around a point a row of all channels, weighed."""
    batch, channels, *sizes = input.shape
    rows = input.movedim(1, -1).reshape(-1, channels)
    sides = [_neighbours(point, size, mode, padding_mode, align_corners, len(sizes))
             for point, size in zip(points, sizes, strict=True)]
    first = arange(0, batch, device=input.device).reshape((-1,) + (1,) * len(sizes))
    parts = []
    for corner in itertools.product(*sides):
        inside: Any = None
        place = first
        for (at, _), size in zip(corner, sizes, strict=True):
            within = (at >= 0) & (at <= size - 1)
            inside = within if inside is None else inside & within
            place = place * size + at.where(within, 0.0).long()
        values = rows.index_select(0, place.reshape(-1))
        factors = [weight for _, weight in reversed(corner) if weight is not None]
        weight = functools.reduce(operator.mul, factors[:1] if mode == _BICUBIC else factors, points[0].new_ones(()))
        if len(sizes) == 2:  # a weight of NaN counts, though what it weighs lies outside
            parts.append(values.where(inside.reshape(-1, 1), 0.0) * weight.expand(inside.shape).reshape(-1, 1))
        else:
            parts.append(values * weight.where(inside, 0.0).reshape(-1, 1))
    if mode == _BICUBIC:  # each line of four by itself
        lines = [functools.reduce(operator.add, parts[at : at + 4]) for at in range(0, 16, 4)]
        parts = [line * weight.reshape(-1, 1) for line, (_, weight) in zip(lines, sides[0], strict=True)]
    total = functools.reduce(operator.add, parts)
    return total.reshape(*points[0].shape, channels).movedim(-1, 1).contiguous()


def _sampled(input: Any, grid: Any, mode: int, padding_mode: int, align_corners: bool) -> Any:
    """The input at the grid's points."""
    sizes, shape = input.shape[2:], grid.shape[:-1]
    if not shape.numel() * input.shape[1]:
        # Nothing comes of nothing, but gradients of zeros.
        return input.new_empty(*input.shape[:2], *shape[1:]) + (input.sum() + grid.sum())
    points = [_unnormalised(grid.select(-1, len(sizes) - 1 - d), size, align_corners, len(sizes))
              for d, size in enumerate(sizes)]
    return _combined(input, points, mode, padding_mode, align_corners)


# operators -----------------------------------------------------------------------------------------------------------


def _check(input: Any, grid: Any, rank: int) -> None:
    shapes = f"but got input with sizes {shape_text(input.shape)} and grid with sizes {shape_text(grid.shape)}"
    if input.size(0) != grid.size(0):
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {shapes}")
    if grid.shape[-1] != input.dim() - 2:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but got "
                           f"grid with sizes {shape_text(grid.shape)}")
    for d in range(2, input.dim()):
        if not input.shape[d]:
            raise RuntimeError("grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
                               f"sizes {shape_text(input.shape)} with dimension {d} being empty")
    if not input.dim() == grid.dim() == rank + 2:
        raise RuntimeError(f"grid_sampler(): expected {rank + 2}D input and grid with same number of dimensions, "
                           + shapes)


_ARGUMENTS = "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners"
_PLANE, _VOLUME = (t(1, 2, 4, 5), t(1, 3, 3, 2, low=-1.3, high=1.3)), (t(1, 2, 3, 4, 3), t(1, 2, 2, 2, 3, low=-1.3))
_EXACT = {2: values([[[[-0.75, 0.25], [0.5, 1.25]]]]), 3: values([[[[[-0.75, 0.25, 0.5], [0.0, 1.25, -0.5]]]]])}


def _declare(rank: int, kernel: str) -> Callable:
    name = f"grid_sampler_{rank}d"
    modes_of_rank = (_BILINEAR, _NEAREST, _BICUBIC) if rank == 2 else (_BILINEAR, _NEAREST)
    images = _PLANE if rank == 2 else _VOLUME

    def infer(input, grid, interpolation_mode, padding_mode, align_corners):
        _check(input, grid, rank)
        if rank == 3 and interpolation_mode == _BICUBIC:
            raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
        check_floating(kernel, input.dtype)
        if input.dtype is not grid.dtype:
            raise RuntimeError(f"expected scalar type {input.dtype.scalar_name} but found {grid.dtype.scalar_name}")
        return Spec((*input._array.shape[:2], *grid._array.shape[1:-1]), input.dtype)

    def by_parts(input, grid, *settings):
        infer(input, grid, *settings)
        return _sampled(input, grid, *settings)

    def backward_specs(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
        check_floating(kernel.replace("d_cpu", "d_backward_cpu").replace("r3d", "r_3d"), input.dtype)
        return tuple([Spec(x._array.shape, x.dtype) if wanted else None
                      for x, wanted in zip((input, grid), output_mask, strict=True)])

    def backward_by_parts(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
        given = [x.to(COMPUTE.get(x.dtype, x.dtype)) for x in (input, grid, grad_output)]
        return gradients_by_parts(lambda *given: (_sampled(*given, interpolation_mode, padding_mode, align_corners),),
                                  given[:2], given[2:], output_mask)

    backward = function_of(op(
        f"{name}_backward(Tensor grad_output, {_ARGUMENTS}, bool[2] output_mask) -> (Tensor result, Tensor result1)",
        kernel=Parts(backward_specs), kernels={"cpu": f"grid.{name}_backward"}, public="",
        decomposition=backward_by_parts, batch=one_by_one,
        samples=cases(*[case(t(1, 2, *(2,) * rank, grad=False), t(*images[0].shape, grad=False),
                             t(1, *(2,) * rank, rank, low=-1.3, high=1.3, grad=False), mode, padding, bool(padding),
                             (True, True))
                        for mode in modes_of_rank for padding in range(3)])))

    @once
    def formula(grad, input, grid, interpolation_mode, padding_mode, align_corners, needs):
        settings = interpolation_mode, padding_mode, align_corners
        if modes.grad_enabled:
            return recorded_gradients(lambda *given: (_sampled(*given, *settings),), (input, grid), (grad,), needs)
        return backward(grad, input, grid, *settings, needs)

    return function_of(op(
        f"{name}({_ARGUMENTS}) -> Tensor", public="torch", kernel=Parts(infer), kernels={"cpu": f"grid.{name}"},
        decomposition=by_parts, grad={"input, grid": formula},
        samples=cases(*[case(images[0], _EXACT[rank], 0, padding % 3, padding > 2) for padding in range(4)],
                      *[case(*images, mode, padding, bool(padding)) for mode in modes_of_rank for padding in range(3)],
                      error(RuntimeError, f"grid_sampler(): expected grid to have size {rank} in last dimension",
                            images[0], t(1, *(2,) * rank, rank + 1), 0, 0, False)), out=None,
        autocast=dict(cpu="float32")))


_sampler_2d = _declare(2, "grid_sampler_2d_cpu_kernel_impl")
_sampler_3d = _declare(3, "grid_sampler3d_cpu")


@composite(f"grid_sampler({_ARGUMENTS}) -> Tensor", public="torch",
           samples=cases(case(*_PLANE, 0, 0, False), case(*_VOLUME, 0, 0, False)), out=None,
           autocast=dict(cpu="float32", accelerators="widest"))
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """The input at the grid's points, whose coordinates are -1 at the first edge and 1 at the last."""
    sampler = _sampler_2d if input.dim() == 4 else _sampler_3d
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _coordinates(like: Any, count: int, align_corners: bool) -> Any:
    """The coordinates of `count` elements from -1 to 1, or of the middles of as many equal parts."""
    if count <= 1:
        return like.new_zeros(count)
    made = linspace(-1, 1, count, dtype=like.dtype, device=like.device)
    return made if align_corners else (made * (count - 1) / count).to(like.dtype)


@composite("affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
           node="AffineGridGeneratorBackward0", public="torch",
           samples=cases(case(t(2, 2, 3), (2, 1, 3, 4), False), case(t(2, 2, 3), (2, 1, 3, 4), True),
                         case(t(1, 3, 4), (1, 1, 2, 3, 2), False),
                         error(RuntimeError, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.",
                               t(2, 2, 3), (2, 1, 3), False)), out=None, aten=LEAF)
def affine_grid_generator(theta, size, align_corners):
    """The points that affine maps bring the elements of images of this size to."""
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    batch, sizes = size[0], size[2:]
    axes = [_coordinates(theta, n, align_corners).reshape((-1,) + (1,) * (len(sizes) - 1 - d)).expand(sizes)
            for d, n in enumerate(sizes)]
    base = stack([*reversed(axes), theta.new_ones(sizes)], -1).reshape(1, -1, len(sizes) + 1)
    points = base.expand(batch, -1, -1).bmm(theta.transpose(1, 2))
    return points.reshape(batch, *sizes, len(sizes))
