"""Products of matrices in groups, as layers of experts use them, and of matrices of small floats with scales."""

import enum
from typing import Any

import mindtorch_v2 as torch

__all__ = ["grouped_mm", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """What one scale of a matrix is for."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.IntEnum):
    """In which order scales lie in memory."""

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


for _kind in (ScalingType, SwizzleType):
    _kind.__name__ = _kind.__qualname__ = f"_{_kind.__name__}"  # as PyTorch's are shown
    _kind.__module__ = "torch.nn.functional"


def grouped_mm(mat_a: torch.Tensor, mat_b: torch.Tensor, *, offs: torch.Tensor | None = None,
               bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The product of each group: `offs` says where the groups of a 2d matrix end; a 3d one has them as its rows.

    Strides need not be multiples of 16 bytes, as PyTorch asks.
    """
    return torch._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def _listed(value: Any) -> list:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _numbers(kinds: Any) -> list[int]:
    return [kind.value for kind in _listed(kinds)]


def scaled_mm(mat_a: torch.Tensor, mat_b: torch.Tensor, scale_a: torch.Tensor | list[torch.Tensor],
              scale_recipe_a: ScalingType | list[ScalingType], scale_b: torch.Tensor | list[torch.Tensor],
              scale_recipe_b: ScalingType | list[ScalingType],
              swizzle_a: SwizzleType | list[SwizzleType] | None = None,
              swizzle_b: SwizzleType | list[SwizzleType] | None = None, bias: torch.Tensor | None = None,
              output_dtype: torch.dtype | None = torch.bfloat16, contraction_dim: list[int] | tuple[int, ...] = (),
              use_fast_accum: bool = False) -> torch.Tensor:
    """The product of two matrices of small floats, each times its scale, or times a scale for each row and column."""
    return torch._scaled_mm_v2(mat_a, mat_b, _listed(scale_a), _numbers(scale_recipe_a), _numbers(swizzle_a),
                               _listed(scale_b), _numbers(scale_recipe_b), _numbers(swizzle_b), bias, output_dtype,
                               contraction_dim, use_fast_accum)


def scaled_grouped_mm(mat_a: torch.Tensor, mat_b: torch.Tensor, scale_a: torch.Tensor | list[torch.Tensor],
                      scale_recipe_a: ScalingType | list[ScalingType], scale_b: torch.Tensor | list[torch.Tensor],
                      scale_recipe_b: ScalingType | list[ScalingType],
                      swizzle_a: SwizzleType | list[SwizzleType] | None = None,
                      swizzle_b: SwizzleType | list[SwizzleType] | None = None, bias: torch.Tensor | None = None,
                      offs: torch.Tensor | None = None, output_dtype: torch.dtype | None = torch.bfloat16,
                      contraction_dim: list[int] | tuple[int, ...] = (), use_fast_accum: bool = False) -> torch.Tensor:
    """NotImplementedError, as PyTorch's on the CPU: only some devices of NVIDIA and AMD have it."""
    raise NotImplementedError("Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the "
                              f"'{mat_a.device.type.upper()}' backend. Use scaled_mm for each group, or grouped_mm.")
