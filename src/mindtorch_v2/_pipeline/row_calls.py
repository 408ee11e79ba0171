"""Calls that compute whole rows, softmax and norms, as values of elements and of rows: see fuse.py."""

from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import REDUCED
from .._dispatch.registry import Operator
from .._kernels import ir
from .._kernels.ir import Node, cast, const
from .fuse import HALVES, Body
from .trace import Layout

_KINDS = ("float32", "float64")
_KINDS_OF = {"cuda": (*_KINDS, "float16", "bfloat16")}  # of devices that compute other types, too

# Operators whose first result is one of rows, and the position of the argument that says which results are wanted.
SPLIT = {"layer_norm_backward": 7, "rms_norm_backward": 5}
_SPLITTING = ("cuda",)  # where kernels do not compute the other results along with the first

Row = tuple[int, Callable[[Body, str, Sequence[str]], list[str]]]  # the dimensions beside those of a row, and a writer


def row_of(operator: Operator, args: Sequence[Any], results: Sequence[Layout | None]) -> Row | None:
    """The dimensions beside those of a row, and what writes a call down; None for other calls."""
    name = operator.declaration.in_rows
    known = ROWS.get(name)
    if known is None or args[0]._array.dtype.name not in kinds_of(args[0]):
        return None
    if name in SPLIT:
        if args[0]._device.type not in _SPLITTING or results[0] is None:
            return None
        results = results[:1]
    found = known(*args)
    kinds = [ir.type_of(layout.dtype) for layout in results if layout is not None]
    if found is None or not set(kinds).intersection(HALVES):
        return found
    stay, write = found
    return stay, lambda body, name, operands: [
        body.rounded(f"{name}_in{k}", made, kind)
        for k, (made, kind) in enumerate(zip(write(body, name, operands), kinds, strict=True))
    ]


def kinds_of(tensor: Any) -> tuple[str, ...]:
    """The types of which rows are computed where a tensor is."""
    return _KINDS_OF.get(tensor._device.type, _KINDS)


def _op(name: str, *args: Node) -> Node:
    return Node(name, args[0].type, args)


def _fits(tensor: Any, array: Any) -> bool:
    """Whether a parameter is of an array's type, or of float32 beside halves, which are computed in it."""
    kind = array.dtype if tensor is None else tensor._array.dtype
    return kind == array.dtype or array.dtype in REDUCED and kind.name == "float32"


def _softmax(self: Any, dim: int, dtype: Any) -> Row | None:
    array = self._array
    if dtype is not None and dtype.np != array.dtype and (array.dtype not in REDUCED or dtype.np.name != "float32"):
        return None
    if not array.ndim or dim % array.ndim != array.ndim - 1:
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        top = body.fold(f"{name}_top", operands[0], "top")
        body.hold(f"{name}_exp", _op("exp", _op("sub", body.held(operands[0]), top)))
        total = body.fold(f"{name}_sum", f"{name}_exp", "sum")
        body.hold(name, _op("div", body.held(f"{name}_exp"), total))
        return [name]

    return array.ndim - 1, write


def _log_softmax(self: Any, dim: int, dtype: Any) -> Row | None:
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


def _normalised(body: Body, name: str, apart: Node, parameters: Sequence[str], weighed: bool, eps: float) -> None:
    """Adds what is apart from the middle of its row, in units of how far that is, times a weight, plus a bias."""
    body.hold(f"{name}_square", _op("mul", apart, apart))
    spread = body.fold(f"{name}_var", f"{name}_square", "mean")
    root = _op("sqrt", _op("add", spread, const(eps, spread.type)))
    made = _op("mul", apart, body.hold(f"{name}_scale", _op("div", const(1.0, spread.type), root)))
    given = [cast(body.held(each), made.type) for each in parameters]
    if weighed:
        made = _op("mul", made, given.pop(0))
    body.hold(name, _op("add", made, *given) if given else made)


def _layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Row | None:
    array = input._array
    if not _fits(weight, array) or not _fits(bias, array):
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        mean = body.fold(f"{name}_mean", operands[0], "mean")
        apart = body.hold(f"{name}_apart", _op("sub", body.held(operands[0]), mean))
        _normalised(body, name, apart, operands[1:], weight is not None, eps)
        return [name, f"{name}_mean", f"{name}_scale"]

    return array.ndim - len(normalized_shape), write


def _rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None) -> Row | None:
    array = input._array
    if eps is None or weight is not None and weight._array.dtype != array.dtype:
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        _normalised(body, name, body.held(operands[0]), operands[1:], weight is not None, eps)
        return [name, f"{name}_scale"]

    return array.ndim - len(normalized_shape), write


def _norm_backward(grad_out: Any, input: Any, normalized_shape: Sequence[int], mean: Any, rstd: Any,
                   weight: Any) -> Row | None:  # fmt: skip
    """The gradient of a norm's input."""
    array = input._array
    if grad_out._array.dtype != array.dtype or not all(_fits(each, array) for each in (mean, rstd, weight)):
        return None

    def write(body: Body, name: str, operands: Sequence[str]) -> list[str]:
        grad, x, *rest = [body.held(each) for each in operands]
        if mean is not None:
            x = _op("sub", x, cast(rest.pop(0), x.type))
        scale = cast(rest.pop(0), x.type)
        unit = body.hold(f"{name}_unit", _op("mul", x, scale))
        given = body.hold(f"{name}_given", _op("mul", grad, cast(rest[0], x.type)) if weight is not None else grad)
        body.hold(f"{name}_product", _op("mul", given, unit))
        made = _op("sub", given, _op("mul", unit, body.fold(f"{name}_along", f"{name}_product", "mean")))
        if mean is not None:
            made = _op("sub", made, body.fold(f"{name}_all", f"{name}_given", "mean"))
        body.hold(name, _op("mul", made, scale))
        return [name]

    return array.ndim - len(normalized_shape), write


def _layer_norm_backward(grad_out: Any, input: Any, normalized_shape: Sequence[int], mean: Any, rstd: Any, weight: Any,
                         *rest: Any) -> Row | None:  # fmt: skip
    return _norm_backward(grad_out, input, normalized_shape, mean, rstd, weight)


def _rms_norm_backward(grad_out: Any, input: Any, normalized_shape: Sequence[int], rstd: Any, weight: Any,
                       *rest: Any) -> Row | None:  # fmt: skip
    return _norm_backward(grad_out, input, normalized_shape, None, rstd, weight)


ROWS: dict[str, Callable[..., Row | None]] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "layer_norm_backward": _layer_norm_backward, "rms_norm_backward": _rms_norm_backward,
}  # fmt: skip
