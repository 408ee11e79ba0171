"""torch._foreach_* on an NPU: CANN's operators on lists, as many tensors at a launch as they take."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._core.dtype import bfloat16
from ...._core.tensor import Tensor
from ...._dispatch.keys import BACKEND_MASK, NPU_MASK, RECORDING_MASK, REQUIRES_GRAD, modes
from ...._dispatch.registry import Operator
from ...._dispatch.schema import NUMBERS
from ...._ops._declare.rules import check_writable
from ..array import NpuArray, empty
from ..facts import signature
from ..families import wrap_npu
from ..launch import is_offered, run

MOST = 48  # tensors of all lists together
_KINDS = frozenset((np.dtype(np.float32), np.dtype(np.float16), bfloat16.np))
_ONE = ("abs acos asin atan cos cosh erf erfc exp expm1 log log10 log1p log2 neg reciprocal sigmoid sign sin sinh sqrt "
        "tan tanh").split()  # fmt: skip
_TWO = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Maximum", "minimum": "Minimum",
        "clamp_min": "Maximum", "clamp_max": "Minimum", "pow": "Pow"}  # fmt: skip
_SYMBOLS: dict[str, str] = {
    **{name: name.capitalize() for name in _ONE}, "copy": "Copy", "zero": "ZeroInplace", "norm.Scalar": "Norm",
    **{f"{name}.Scalar": f"{symbol}ScalarV2" for name, symbol in _TWO.items()},
    **{f"{name}.List": f"{symbol}List" + "V2" * (name in ("add", "sub")) for name, symbol in _TWO.items()},
    "lerp.Scalar": "LerpScalar", "lerp.List": "LerpList",
    "addcmul.Scalar": "AddcmulScalarV2", "addcdiv.Scalar": "AddcdivScalarV2",
}  # fmt: skip
NORMS = (1, 2)


def _symbol(operator: Operator) -> str | None:
    """CANN's operator for a foreach operator, whether that writes into its first list or not."""
    name, _, overload = operator.name.removeprefix("aten::_foreach_").partition(".")
    found = _SYMBOLS.get(name.rstrip("_") + (f".{overload}" if overload else ""))
    return None if found is None else f"aclnnForeach{found}"


def _is_plain(tensor: Tensor) -> bool:
    keys = tensor._keys & ~(RECORDING_MASK | REQUIRES_GRAD)
    return keys == NPU_MASK == keys & BACKEND_MASK and not (modes.grad_enabled and tensor.requires_grad)


def _takes(symbol: str, lists: Sequence[Sequence[Tensor]]) -> bool:
    """Whether one launch computes what single operators would: plain tensors of one type, packed, shaped alike."""
    first = lists[0][0]
    if not all(_is_plain(t) for tensors in lists for t in tensors):
        return False
    kind, index = first._array.dtype, first._array.device_index
    for row in zip(*lists, strict=True):
        shape = row[0]._array.shape
        for tensor in row:
            array = tensor._array
            if (array.dtype != kind or array.device_index != index or array.shape != shape
                    or not array.size or not array.is_contiguous):  # fmt: skip
                return False
    types = tuple([kind if p.is_tensor_list else None for p in signature(symbol)])
    return kind in _KINDS and is_offered(symbol, index, types)


def together(operator: Operator, *args: Any) -> Any:
    """The results of a call on whole lists, or None for one that is made of single operators."""
    symbol = _symbol(operator)
    if symbol is None:
        return None
    lists = [a for a in args if a.__class__ in (list, tuple)]
    numbers = [a for a in args if a.__class__ in NUMBERS]
    rest = [a for a in args if a.__class__ not in (list, tuple) and a.__class__ not in NUMBERS and a is not None]
    if rest or any(n.__class__ is complex for n in numbers) or not _takes(symbol, lists):
        return None
    if symbol == "aclnnForeachNorm" and numbers[0] not in NORMS:
        return None
    if operator.schema.writes and len({(id(t._array.storage), t._array.offset) for t in lists[0]}) < len(lists[0]):
        return None  # one after the other
    return _launched(operator, symbol, lists, [] if symbol == "aclnnForeachCopy" else [float(n) for n in numbers])


def _launched(operator: Operator, symbol: str, lists: Sequence[Sequence[Tensor]], numbers: Sequence[float]) -> Any:
    inplace = operator.schema.writes
    if inplace:
        for tensor in lists[0]:
            check_writable(tensor)
    inputs = [[t._array for t in tensors] for tensors in lists]
    if symbol == "aclnnForeachCopy":
        inputs, outputs = inputs[1:], inputs[0]
    elif inplace:
        outputs = inputs[0]
    else:
        outputs = [_result(array, symbol) for array in inputs[0]]
    step = MOST // (len(inputs) + (not inplace or symbol == "aclnnForeachCopy"))
    for at in range(0, len(outputs), step):
        parts = [arrays[at : at + step] for arrays in inputs]
        written = () if symbol == "aclnnForeachZeroInplace" else (outputs[at : at + step],)
        run(symbol, (*parts, *numbers, *written), operator.name)
    if not inplace:
        return tuple([wrap_npu(array) for array in outputs])
    for tensor in lists[0]:
        tensor._bump_version()
    return lists[0]


def _result(array: NpuArray, symbol: str) -> NpuArray:
    return empty(() if symbol == "aclnnForeachNorm" else array.shape, array.dtype, array.device_index)
