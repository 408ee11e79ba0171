"""Functions of two masked tensors with the same mask, or of one and a tensor or number."""

from typing import Any

import mindtorch_v2 as torch

from .core import _get_data, _masks_match, _quietly, is_masked_tensor

BINARY_NAMES = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide floor_divide
    fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater
    greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal""".split()
_NOT_IN_PLACE = frozenset(("logaddexp", "logaddexp2", "equal", "fmin", "minimum", "maximum", "fmax"))
INPLACE_BINARY_NAMES = [f"{name}_" for name in BINARY_NAMES if name not in _NOT_IN_PLACE]

NATIVE_BINARY_FNS = [getattr(torch.ops.aten, name) for name in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS = [getattr(torch.ops.aten, name) for name in INPLACE_BINARY_NAMES]


def apply_binary(func: Any, args: tuple, kwargs: dict) -> Any:
    """The function of the elements, with the mask of either operand; into the first one, if it is an in-place one."""
    from .operators import on_values

    if kwargs:
        raise ValueError("len(kwargs) must equal 0")
    for number in args[2:]:
        if torch.is_tensor(number):
            raise TypeError("MaskedTensor binary ops do not support Tensor arguments aside from the lhs and rhs")
    one, other = args[:2]
    if not _masks_match(one, other):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    mask = (one if is_masked_tensor(one) else other).get_mask()
    data = [_get_data(one), _get_data(other)]
    layouts = {x.layout for x in data if torch.is_tensor(x)}
    if len(layouts) > 1:
        raise TypeError(f"Inputs should match sparsity/density. Got {data[0].layout} and {data[1].layout}.")
    in_place = func._operator.schema.writes
    if layouts == {torch.strided}:
        made = func(*data, *args[2:])
    else:
        made = on_values(lambda *values: func(*values, *args[2:]), *data)
    return one if in_place else _quietly(made, mask)
