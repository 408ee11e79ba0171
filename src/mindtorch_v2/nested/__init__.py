"""torch.nested: batches of tensors that differ in size."""

from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ._internal.nested_tensor import NestedTensor, jagged, length_of, strided_of

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A nested tensor with copies of the elements of tensors or lists; it is a leaf."""
    if layout is torch.jagged or isinstance(tensor_list, (list, tuple)):
        parts = [p if isinstance(p, torch.Tensor) else torch.tensor(p, dtype=dtype) for p in tensor_list]
    else:
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    with torch.no_grad():
        made = _nested([p.detach() for p in parts], layout, dtype, device)
    made = made.like([p.detach() for p in made.parts])
    return made.requires_grad_() if requires_grad else made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> NestedTensor:
    """A nested tensor of tensors, with their history; a dense tensor is a batch of equal ones."""
    if isinstance(ts, NestedTensor):
        if (layout or torch.strided) is not ts.layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts if dtype in (None, ts.dtype) else ts.like([p.to(dtype) for p in ts.parts])
    if isinstance(ts, torch.Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if not isinstance(ts, (torch.Tensor, list, tuple)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, (list, tuple)) and not all(isinstance(t, torch.Tensor) for t in ts):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    return _nested(list(ts.unbind(0) if isinstance(ts, torch.Tensor) else ts), layout, dtype, device)


def _nested(parts: Sequence[Any], layout: Any, dtype: Any, device: Any) -> NestedTensor:
    if layout is torch.jagged:
        return _jagged(parts, dtype, device)
    if layout not in (None, torch.strided):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    for number, part in enumerate(parts):
        if part.dim() != parts[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{part.dim()} for Tensor at index {number} and dimension {parts[0].dim()} for Tensor "
                f"at index {number - 1}."
            )
    return strided_of(
        [p.to(dtype=dtype or parts[0].dtype, device=device or p.device, copy=True).contiguous() for p in parts]
    )


def _jagged(parts: Sequence[Any], dtype: Any, device: Any) -> NestedTensor:
    if not len(parts):
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for name, found in (
        ("dtype", {p.dtype for p in parts}),
        ("device", {p.device for p in parts}),
        ("dim", {p.dim() for p in parts}),
    ):
        if len(found) > 1:
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must have the same {name}")
    first = parts[0]
    if not first.dim():
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(first.dim()) if any(p.shape[d] != first.shape[d] for p in parts)] or [0]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that "
            "the jagged layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, "
            "..., D_N), with ragged * dim."
        )
    lengths = torch.tensor([p.shape[ragged[0]] for p in parts])
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(device=first.device)
    values = torch.cat(list(parts), ragged[0]).to(dtype=dtype or first.dtype, device=device or first.device)
    return jagged(values, offsets, None, ragged[0] + 1)


def nested_tensor_from_jagged(
    values: Any,
    offsets: Any = None,
    lengths: Any = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A jagged tensor on given values: a view, whose gradient goes to them."""
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), None
    return jagged(values.view(values.shape), offsets, lengths, jagged_dim or 1, max_seqlen, min_seqlen)


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = torch.strided) -> NestedTensor:
    """A piece of each row of a dense tensor, as a nested tensor; jagged ones are views of it."""
    if not isinstance(start, (int, torch.Tensor)):
        raise RuntimeError("start must be an integer or a tensor")
    if not isinstance(length, (int, torch.Tensor)):
        raise RuntimeError("length must be an integer or a tensor")
    if layout is torch.strided:
        if isinstance(start, torch.Tensor) or isinstance(length, torch.Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(torch.unbind(tensor.narrow(dim, start, length)))
    if layout is not torch.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    rows, width = tensor.shape[:2]
    starts = torch.full((rows,), start) if isinstance(start, int) else start
    lengths = torch.full((rows,), length) if isinstance(length, int) else length
    begin = starts.to(torch.int64) + torch.arange(rows) * width
    offsets = torch.cat([begin, (begin[-1:] + lengths[-1:])])
    length_of(lengths, int(lengths.max()))
    return jagged(tensor.reshape((-1, *tensor.shape[2:])), offsets, lengths)


def masked_select(tensor: Any, mask: Any) -> NestedTensor:
    """The elements of a tensor of two or more dimensions where the mask is True, row by row."""
    if tensor.layout is not torch.strided or mask.layout is not torch.strided:
        raise RuntimeError("torch.nested.masked_select requires a strided tensor and mask")
    mask = mask.expand(tensor.shape) if mask.dim() == tensor.dim() else mask
    lengths = mask.sum(tuple(range(1, mask.dim())))
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return jagged(tensor[mask], offsets)


def to_padded_tensor(input: Any, padding: float, output_size: Sequence[int] | None = None, out: Any = None) -> Any:
    """A dense tensor of all components, the places that one does not have filled."""
    return input.to_padded_tensor(padding, output_size)
