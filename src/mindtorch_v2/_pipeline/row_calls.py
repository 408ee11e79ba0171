"""Calls that compute whole rows, softmax and norms, as values of elements and of rows: see fuse.py."""

from collections.abc import Callable, Sequence
from typing import Any

from .._dispatch.registry import Operator
from .._kernels.ir import Node, cast, const
from .fuse import Body

_KINDS = ("float32", "float64")


def row_of(operator: Operator, args: Sequence[Any]) -> tuple[int, Callable] | None:
    """The dimensions beside those of a row, and what writes a call down; None for other calls."""
    known = ROWS.get(operator.declaration.in_rows)
    if known is None or args[0]._array.dtype.name not in _KINDS:
        return None
    return known(*args)


def _op(name: str, *args: Node) -> Node:
    return Node(name, args[0].type, args)


def _softmax(self: Any, dim: int, dtype: Any) -> tuple[int, Callable] | None:
    rank = self._array.ndim
    if dtype is not None and dtype.np != self._array.dtype or not rank or dim % rank != rank - 1:
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        top = body.fold(f"{name}_top", operands[0], "top")
        body.hold(f"{name}_exp", _op("exp", _op("sub", body.held(operands[0]), top)))
        total = body.fold(f"{name}_sum", f"{name}_exp", "sum")
        body.hold(name, _op("div", body.held(f"{name}_exp"), total))
        return [name]

    return rank - 1, write


def _log_softmax(self: Any, dim: int, dtype: Any) -> tuple[int, Callable] | None:
    known = _softmax(self, dim, dtype)
    if known is None:
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        top = body.fold(f"{name}_top", operands[0], "top")
        down = body.hold(f"{name}_down", _op("sub", body.held(operands[0]), top))
        body.hold(f"{name}_exp", _op("exp", down))
        total = body.hold(f"{name}_log", _op("log", body.fold(f"{name}_sum", f"{name}_exp", "sum")))
        body.hold(name, _op("sub", down, total))
        return [name]

    return known[0], write


def _layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
                ) -> tuple[int, Callable] | None:  # fmt: skip
    array = input._array
    stay = array.ndim - len(normalized_shape)
    if any(t is not None and t._array.dtype != array.dtype for t in (weight, bias)):
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        others = list(operands[1:])
        mean = body.fold(f"{name}_mean", operands[0], "mean")
        apart = body.hold(f"{name}_apart", _op("sub", body.held(operands[0]), mean))
        body.hold(f"{name}_square", _op("mul", apart, apart))
        spread = body.fold(f"{name}_var", f"{name}_square", "mean")
        root = _op("sqrt", _op("add", spread, const(eps, spread.type)))
        scale = body.hold(f"{name}_scale", _op("div", const(1.0, spread.type), root))
        made = _op("mul", apart, scale)
        if weight is not None:
            made = _op("mul", made, cast(body.held(others.pop(0)), made.type))
        if bias is not None:
            made = _op("add", made, cast(body.held(others.pop(0)), made.type))
        body.hold(name, made)
        return [name, f"{name}_mean", f"{name}_scale"]

    return stay, write


ROWS: dict[str, Callable[..., tuple[int, Callable] | None]] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "layer_norm": _layer_norm,
}  # fmt: skip
