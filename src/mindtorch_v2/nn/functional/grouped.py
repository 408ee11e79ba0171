"""Products of matrices in groups, as layers of experts use them."""

import mindtorch_v2 as torch

__all__ = ["grouped_mm"]


def grouped_mm(mat_a: torch.Tensor, mat_b: torch.Tensor, *, offs: torch.Tensor | None = None,
               bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The product of each group: `offs` says where the groups of a 2d matrix end; a 3d one has them as its rows.

    Strides need not be multiples of 16 bytes, as PyTorch asks.
    """
    return torch._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
