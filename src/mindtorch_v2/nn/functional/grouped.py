"""Products of matrices in groups, as layers of experts use them."""

import mindtorch_v2 as torch

__all__ = ["grouped_mm"]

_TAKEN = (torch.float32, torch.bfloat16, torch.float16)


def _check(mat_a: torch.Tensor, mat_b: torch.Tensor, offs: torch.Tensor | None, bias: torch.Tensor | None) -> None:
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
        if matrix.dtype not in _TAKEN:
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
                               f"{matrix.dtype.scalar_name}")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is not None) != (mat_a.dim() == 2 or mat_b.dim() == 2):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dtype is not torch.int32:
        raise RuntimeError("Offsets have to be int32")
    groups = [len(matrix) for matrix in (mat_a, mat_b) if matrix.dim() == 3] + ([] if offs is None else [len(offs)])
    if len(set(groups)) > 1:
        raise RuntimeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")


def grouped_mm(mat_a: torch.Tensor, mat_b: torch.Tensor, *, offs: torch.Tensor | None = None,
               bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The product of each group: `offs` says where the groups of a 2d matrix end; a 3d one has them as its rows.

    Strides need not be multiples of 16 bytes, as PyTorch asks.
    """
    _check(mat_a, mat_b, offs, bias)
    if offs is None:
        result = torch.bmm(mat_a, mat_b)
    else:
        ends = offs.tolist()
        spans = list(zip([0, *ends], ends))
        if mat_a.dim() == 3:
            result = torch.cat([a @ mat_b[:, start:end] for a, (start, end) in zip(mat_a, spans)], 1)
        elif mat_b.dim() == 3:
            rows = [mat_a[start:end] @ b for b, (start, end) in zip(mat_b, spans)]
            rest = mat_a.shape[0] - ends[-1]  # belongs to no group
            result = torch.cat([*rows, mat_a.new_zeros(rest, mat_b.shape[-1])] if rest else rows)
        else:
            result = torch.stack([mat_a[:, start:end] @ mat_b[start:end] for start, end in spans])
    return result if out_dtype is None else result.to(out_dtype)
