"""Operators that masked tensors answer below autograd: `OPERATORS` by name. What is not here is refused."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ...utils._pytree import tree_map_only
from .. import _ops as masked_functions
from .binary import BINARY_NAMES, INPLACE_BINARY_NAMES, apply_binary
from .core import MaskedTensor, _get_data, _masks_match, _quietly, is_masked_tensor
from .functions import _where
from .reductions import REDUCE_NAMES, reduction
from .unary import INPLACE_UNARY_NAMES, UNARY_NAMES, apply_inplace_unary, apply_unary

PASSTHROUGH_NAMES = """
    select transpose split t slice slice_backward select_backward index expand view _unsafe_view _reshape_alias cat
    unsqueeze unfold unfold_backward im2col col2im stack""".split()


def on_values(function: Callable, *tensors: Any) -> Any:
    """A function of elements, of sparse tensors with the same indices that of their values."""
    first = next(t for t in tensors if torch.is_tensor(t))
    if first.layout is torch.strided:
        return function(*tensors)
    values = function(*(t.values() if torch.is_tensor(t) else t for t in tensors))
    if first.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(first.indices(), values, first.shape, is_coalesced=True)
    return torch.sparse_csr_tensor(first.crow_indices(), first.col_indices(), values, first.shape)


def _both(func: Any, args: tuple, kwargs: dict) -> Any:
    """The operator on the data and on the mask alike: views, and what moves elements."""
    made = func(*tree_map_only(MaskedTensor, lambda t: t._masked_data, args),
                **tree_map_only(MaskedTensor, lambda t: t._masked_data, kwargs))
    masks = _on_masks(func, args, kwargs)
    if isinstance(made, (list, tuple)):
        return type(made)(_quietly(d, m) for d, m in zip(made, masks, strict=True))
    return _quietly(made, masks)


def _on_masks(func: Any, args: tuple, kwargs: dict) -> Any:
    masks, named = (tree_map_only(MaskedTensor, lambda t: t._masked_mask, each) for each in (args, kwargs))
    if func._opname not in ("im2col", "col2im"):
        return func(*masks, **named)
    return func(*tree_map_only(torch.Tensor, lambda m: m.to(torch.float32), masks), **named) != 0


def _on_data(func: Any, args: tuple, kwargs: dict) -> Any:
    """The operator on the data, with the same mask."""
    masked, *rest = args
    return _quietly(func(masked._masked_data, *map(_get_data, rest), **kwargs), masked._masked_mask)


def _copied(func: Any, args: tuple, kwargs: dict) -> Any:
    masked, *rest = args
    made = func(masked._masked_data, *rest, **kwargs)
    options = {name: value for name, value in kwargs.items() if name != "dtype"}
    return _quietly(made, func(masked._masked_mask, *rest, **options))


def _detached(func: Any, args: tuple, kwargs: dict) -> Any:
    (masked,) = args
    return _quietly(masked._masked_data.detach(), masked._masked_mask)


def _softmax(func: Any, args: tuple, kwargs: dict) -> Any:
    masked, dim, half_to_float = args
    data, mask = masked._masked_data, masked._masked_mask
    return _quietly(masked_functions.softmax(data, dim, mask=mask), mask)


def _softmax_backward(func: Any, args: tuple, kwargs: dict) -> Any:
    grad, output, dim, kind = args
    if not (is_masked_tensor(grad) and is_masked_tensor(output)):
        raise ValueError(f"Both grad and output must be MaskedTensors to call {func._opname}")
    if not _masks_match(grad, output):
        raise ValueError("grad and output must have the same mask")
    data = [torch.where(t._masked_mask, t._masked_data, 0) for t in (grad, output)]
    return _quietly(func(*data, dim, kind), grad._masked_mask)


def _copy_(func: Any, args: tuple, kwargs: dict) -> Any:
    target, source = args[:2]
    if not _masks_match(target, source):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    target._masked_data.copy_(_get_data(source))
    return target


def _refused_number(func: Any, args: tuple, kwargs: dict) -> Any:
    (masked,) = args
    if not masked._masked_mask.item():
        raise ValueError(f"__torch_dispatch__, {func}: expected a mask tensor that is True")
    return masked._masked_data.item()


def _reduced(name: str) -> Callable:
    function = reduction(name)
    return lambda func, args, kwargs: function(*args, **kwargs)


OPERATORS: dict[str, Callable] = {
    **dict.fromkeys(UNARY_NAMES, apply_unary), **dict.fromkeys(INPLACE_UNARY_NAMES, apply_inplace_unary),
    **dict.fromkeys([*BINARY_NAMES, *INPLACE_BINARY_NAMES], apply_binary),
    **dict.fromkeys(PASSTHROUGH_NAMES, _both), **{name: _reduced(name) for name in REDUCE_NAMES},
    **dict.fromkeys(("ones_like", "new_empty_strided"), _on_data),
    **dict.fromkeys(("clone", "_to_copy"), _copied), "detach": _detached,
    "_softmax": _softmax, "_softmax_backward_data": _softmax_backward, "copy_": _copy_,
    "_local_scalar_dense": _refused_number, "where": lambda func, args, kwargs: _where(*args),
    "is_same_size": lambda func, args, kwargs: _get_data(args[0]).shape == _get_data(args[1]).shape,
}
