"""Functions of torch whose arguments no operator's schema can describe, as in torch.functional."""

from collections.abc import Sequence
from typing import Any

from ._ops.declare import DECLARATIONS, function_of
from ._tensor import Tensor

_einsum = function_of(DECLARATIONS["aten::einsum"].operator)
_tensordot = function_of(DECLARATIONS["aten::tensordot"].operator)

__all__ = ["einsum", "tensordot"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum(*args: Any) -> Tensor:
    """The sum of products of an equation and its operands, or of operands each followed by a list of its subscripts."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its "
                         "subscripts list")  # fmt: skip
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    else:
        operands = args[0 : len(args) // 2 * 2 : 2]
        equation = ",".join(map(_subscripts, args[1::2]))
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _einsum(equation, tuple(operands))


def _subscripts(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else _letter(label) for label in labels)


def _letter(label: int) -> str:
    if 0 <= label < len(_LETTERS):
        return _LETTERS[label]
    raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists of dimensions."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else dims.item()
    if isinstance(dims, (list, tuple)):
        left, right = dims
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = range(-dims, 0), range(dims)
    if out is None:
        return _tensordot(a, b, tuple(left), tuple(right))
    return _tensordot(a, b, tuple(left), tuple(right), out=out)
