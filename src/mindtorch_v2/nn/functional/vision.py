"""Images in another size or read at other points."""

import math
import warnings
from typing import Any

import numpy as np

from ..._core.tensor import Tensor
from ..._ops._declare.op import public_functions
from . import pooling

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_nn, _torch = public_functions("_nn"), public_functions("torch")
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_RANK_OF_MODE = {"linear": 1, "bilinear": 2, "trilinear": 3}
_AREA = {1: _torch["adaptive_avg_pool1d"], **{n: getattr(pooling, f"adaptive_avg_pool{n}d") for n in (2, 3)}}
_ALIGN_CHANGED = ("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
                  "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
                  "details.")


# resampling ----------------------------------------------------------------------------------------------------------


def _for_each(value: Any, input: Any, name: str, letter: str) -> list:
    """A size or factor for each dimension of the image."""
    sizes = list(input.shape[2:])
    if not isinstance(value, (list, tuple)):
        return [value] * len(sizes)
    if len(value) != len(sizes):
        given = {"size": "output size of", "scale_factor": "scale_factor of shape"}[name]
        what = {"size": "output", "scale_factor": "scale_factor"}[name]
        wanted = {"size": "output size", "scale_factor": "scale_factor"}[name]
        raise ValueError(f"Input and {what} must have the same number of spatial dimensions, but got input with "
                         f"spatial dimensions of {sizes} and {given} {value}. Please provide input tensor in (N, C, "
                         f"d1, d2, ...,dK) format and {wanted} in ({letter}1, {letter}2, ...,{letter}K) format.")
    return list(value)


def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """The images resampled to a size, or by a factor."""
    rank, aligns = input.dim() - 2, mode not in ("nearest", "area", "nearest-exact")
    if not aligns and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                         "bicubic | trilinear")
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales: list = [None] * rank
    if size is not None:
        sizes = _for_each(size, input, "size", "o")
        if isinstance(size, (list, tuple)) and not all(_is_whole(n) for n in size):
            raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                            f"but got size with types {[type(n) for n in size]}")
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    else:
        factors = _for_each(scale_factor, input, "scale_factor", "s")
        sizes = [_resized(n, factor) for n, factor in zip(input.shape[2:], factors, strict=True)]
        scales = scales if recompute_scale_factor else [float(factor) for factor in factors]
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and rank == 2):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
                         "tensor as input")
    if mode == "lanczos" and rank == 2 and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "area" and rank in _AREA:
        return _AREA[rank](input, sizes)
    corners = [False if align_corners is None else align_corners] if aligns else []
    return _nn[_operator(mode, rank, antialias)](input, sizes, *corners, *scales)


def _is_whole(n: Any) -> bool:
    return isinstance(n, (int, np.integer)) or isinstance(n, Tensor) and not n.is_floating_point()


def _resized(size: int, factor: Any) -> int:
    """A size times a factor, rounded down."""
    if not isinstance(factor, (int, float)):
        raise TypeError(f"argument 'scale_factors' must be tuple of floats, but found element of type "
                        f"{type(factor).__name__} at pos 0")
    scaled = size * float(factor)
    if not abs(scaled) < 2**63:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return math.floor(scaled)


def _operator(mode: str, rank: int, antialias: bool) -> str:
    """The operator that resamples images of this rank."""
    if rank in (1, 2, 3) and isinstance(mode, str):
        if mode in ("nearest", "nearest-exact"):
            return f"upsample_nearest{rank}d" if mode == "nearest" else f"_upsample_nearest_exact{rank}d"
        if _RANK_OF_MODE.get(mode, rank) != rank:
            raise NotImplementedError(f"Got {rank + 2}D input, but {mode} mode needs {_RANK_OF_MODE[mode] + 2}D input")
        if mode in _RANK_OF_MODE or (mode in ("bicubic", "lanczos") and rank == 2):
            return f"_upsample_{mode}2d_aa" if antialias else f"upsample_{mode}{rank}d"
    raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the "
                              f"modes: {_MODES} (got {mode})")


def _deprecated(name: str) -> None:
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=4)


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:
    """`interpolate`, by its old name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode="nearest"."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode="bilinear" and aligned corners."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# grids ---------------------------------------------------------------------------------------------------------------


def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """The input at the grid's points."""
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
                         f"got: '{mode}'")
    if padding_mode not in paddings:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
                         f"but got: '{padding_mode}'")
    if align_corners is None:
        warnings.warn(_ALIGN_CHANGED, stacklevel=3)
    return _torch["grid_sampler"](input, grid, modes.index(mode), paddings.index(padding_mode),
                                  False if align_corners is None else align_corners)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Tensor:
    """The points that affine maps bring the elements of images of this size to."""
    if align_corners is None:
        warnings.warn(_ALIGN_CHANGED, stacklevel=3)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
                                  f"respectively. Got size {size}.")
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (rank, rank + 1):
        raise ValueError(f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. "
                         f"Got {theta.shape}.")
    if align_corners and min(size[2:]) == 1:
        warnings.warn("Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
                      "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
                      "affine_grid for details.", stacklevel=3)
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _torch["affine_grid_generator"](theta, size, False if align_corners is None else align_corners)
