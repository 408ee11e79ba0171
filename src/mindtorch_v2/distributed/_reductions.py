"""How values of several processes are joined."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtype import COMPLEX, FLOAT, dtype
from .._core.tensor import Tensor

__all__ = ["ReduceOp", "check_complex", "check_reduction", "combined", "kind_of", "supports_complex"]


class RedOpType(enum.Enum):
    """The kinds of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class ReduceOp:
    """A kind of reduction, with the factor that PREMUL_SUM multiplies by."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __init__(self, op: Any, factor: Any = None) -> None:
        self.op, self.factor = kind_of(op), factor

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReduceOp):
            return self.op is other.op and self.factor is other.factor
        return self.op is other

    def __hash__(self) -> int:
        return hash(self.op)


def premul_sum(factor: Any) -> ReduceOp:
    """The sum of all values times a number or a tensor of one element."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def kind_of(op: Any) -> RedOpType:
    """The kind of a reduction, given as such or as a ReduceOp."""
    kind = op.op if isinstance(op, ReduceOp) else op
    if not isinstance(kind, RedOpType):
        raise TypeError(f"a reduction is a torch.distributed.ReduceOp, not {op!r}")
    return kind


_OF_BITS = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
_JOINED: dict[RedOpType, Callable] = {
    RedOpType.SUM: np.add, RedOpType.AVG: np.add, RedOpType.PREMUL_SUM: np.add, RedOpType.PRODUCT: np.multiply,
    RedOpType.MIN: np.minimum, RedOpType.MAX: np.maximum, RedOpType.BAND: np.bitwise_and,
    RedOpType.BOR: np.bitwise_or, RedOpType.BXOR: np.bitwise_xor,
}  # fmt: skip
# The types that gloo sends.
_TYPES = frozenset("float16 bfloat16 float32 float64 uint8 int8 int32 int64 bool complex64 complex128".split())


def supports_complex(reduceOp: Any) -> bool:
    return kind_of(reduceOp) in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


def check_complex(tensor: Tensor, op: Any, function: str) -> None:
    if tensor.dtype.category == COMPLEX and not supports_complex(op):
        raise ValueError(f"{function} does not support {kind_of(op)} on complex tensors")


def check_type(kind: dtype) -> None:
    if kind.name not in _TYPES:
        raise RuntimeError("Invalid scalar type")


def check_reduction(kind: dtype, op: Any) -> None:
    """Raises for what cannot be joined on the CPU."""
    check_type(kind)
    what = kind_of(op)
    if what in _OF_BITS and kind.category >= FLOAT:
        raise RuntimeError(f"Cannot use ReduceOp.{what.name} with non-integral dtype")
    if what is RedOpType.AVG and kind.category < FLOAT:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {kind.scalar_name}")
    if what is RedOpType.PREMUL_SUM:
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")


def combined(op: Any) -> Callable:
    """The function (a, b, out) that joins the values of two processes."""
    return _JOINED[kind_of(op)]
