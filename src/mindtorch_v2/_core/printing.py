"""The text of a tensor, as PyTorch prints it."""

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._dispatch.keys import COO_MASK, FUNC_MASK, SPARSE_MASK, TORCH_DISPATCH_MASK

SCI_RATIO = 1000.0  # a larger span between the largest and the smallest magnitude takes exponents
SCI_LARGEST = 1.0e8
SCI_SMALLEST = 1.0e-4


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = PrintOptions()
PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors print; `sci_mode` goes back to automatic whenever it is not given."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen = PROFILES.get(profile or "", {}) | {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The current options by name."""
    return dict(vars(PRINT_OPTS))


class Formatter(Protocol):
    """Text for single elements, and the room one takes in a line."""

    width: int

    def text(self, value: Any) -> str: ...


class PlainFormatter:
    """Integers and booleans: aligned to the longest."""

    def __init__(self, values: np.ndarray) -> None:
        self.width = max((len(str(value)) for value in values.ravel().tolist()), default=0)

    def text(self, value: Any) -> str:
        return str(value).rjust(self.width)


class FloatFormatter:
    """Floating point numbers: whole ones with a dot, others with decimals, far apart ones with exponents."""

    def __init__(self, values: np.ndarray) -> None:
        numbers = values.astype(np.float64).ravel()
        # Zeros and non-finite numbers have no say in the format, not even in the width.
        telling = numbers[np.isfinite(numbers) & (numbers != 0)]
        self.whole = bool((telling == np.ceil(telling)).all())
        self.scientific = bool(telling.size) and self._wants_exponents(np.abs(telling))
        self.width = 1
        self.width = max((len(self.text(value)) for value in telling.tolist()), default=1)

    def _wants_exponents(self, magnitudes: np.ndarray) -> bool:
        if PRINT_OPTS.sci_mode is not None:
            return PRINT_OPTS.sci_mode
        largest, smallest = float(magnitudes.max()), float(magnitudes.min())
        too_small = smallest < SCI_SMALLEST and not self.whole
        return largest / smallest > SCI_RATIO or largest > SCI_LARGEST or too_small

    def text(self, value: float) -> str:
        if self.scientific:
            digits = f"{value:.{PRINT_OPTS.precision}e}"
        elif self.whole:
            digits = f"{value:.0f}" + ("." if math.isfinite(value) else "")
        else:
            digits = f"{value:.{PRINT_OPTS.precision}f}"
        return digits.rjust(self.width)


class ComplexFormatter:
    """Real and imaginary parts, each in its own format."""

    def __init__(self, values: np.ndarray) -> None:
        self.real, self.imaginary = FloatFormatter(values.real), FloatFormatter(values.imag)
        self.width = self.real.width + self.imaginary.width + 1

    def text(self, value: complex) -> str:
        imaginary = self.imaginary.text(value.imag).lstrip()
        sign = "" if imaginary.startswith("-") else "+"
        return f"{self.real.text(value.real)}{sign}{imaginary}j"


def _formatter_for(values: np.ndarray, dtype: Any) -> Formatter:
    if dtype.is_complex:
        return ComplexFormatter(values)
    return FloatFormatter(values) if dtype.is_floating_point else PlainFormatter(values)


def _is_cut(length: int) -> bool:
    return length > 2 * PRINT_OPTS.edgeitems


def _edges(values: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    for axis, length in enumerate(values.shape):
        if _is_cut(length):
            shown = [*range(PRINT_OPTS.edgeitems), *range(length - PRINT_OPTS.edgeitems, length)]
            values = values.take(shown, axis)
    return values


def _items(length: int, summarize: bool) -> Iterator[int | None]:
    """The indices along one dimension; None stands for those left out."""
    if summarize and _is_cut(length):
        yield from range(PRINT_OPTS.edgeitems)
        yield None
        yield from range(length - PRINT_OPTS.edgeitems, length)
    else:
        yield from range(length)


def _row_text(values: np.ndarray, indent: int, summarize: bool, formatter: Formatter) -> str:
    """One dimension, broken into lines that fit."""
    numbers = values.tolist()
    texts = [" ..." if index is None else formatter.text(numbers[index]) for index in _items(len(values), summarize)]
    per_line = max(1, (PRINT_OPTS.linewidth - indent) // (formatter.width + 2))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested_text(values: np.ndarray, indent: int, summarize: bool, formatter: Formatter) -> str:
    if values.ndim == 0:
        return formatter.text(values.item())
    if values.ndim == 1:
        return _row_text(values, indent, summarize, formatter)
    slices = [
        "..." if index is None else _nested_text(values[index], indent + 1, summarize, formatter)
        for index in _items(len(values), summarize)
    ]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(slices) + "]"


def _contents(values: np.ndarray, dtype: Any, indent: int) -> str:
    """The numbers between the brackets, brackets included."""
    summarize = values.size > PRINT_OPTS.threshold
    if summarize and values.ndim and PRINT_OPTS.edgeitems == 0:
        return "[...]"
    formatter = _formatter_for(_edges(values) if summarize else values, dtype)
    return _nested_text(values, indent, summarize, formatter)


def _joined(text: str, suffixes: list[str], indent: int) -> str:
    """`text` with its suffixes, each on a new line where the last one is full."""
    last_line = len(text.rpartition("\n")[2]) + 2
    for suffix in suffixes:
        if last_line + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + suffix
            last_line = indent + len(suffix)
        else:
            text += ", " + suffix
            last_line += len(suffix) + 2
    return text + ")"


def _omits_dtype(dtype: Any, default: Any) -> bool:
    """Whether a tensor with elements shows its dtype by the look of them."""
    default_complex = "torch.complex128" if str(default) == "torch.float64" else "torch.complex64"
    return str(dtype) in {str(default), default_complex, "torch.int64", "torch.bool"}


def _grad_suffix(tensor: Any) -> list[str]:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was written in another mode than it was made in
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name().rsplit('::', 1)[-1]}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _tangent_suffix(tensor: Any) -> list[str]:
    held = getattr(tensor, "_tangent", None)
    return [f"tangent={held[1]!r}"] if held is not None and held[0].alive else []


def _sparse_text(tensor: Any, prefix: str, dtype: list[str], array_of: Callable[[Any], np.ndarray]) -> str:
    """The text of a sparse tensor: its parts, of which empty ones show their size and nothing else."""
    lines = []
    for name, part in tensor._array.shown():
        begin = f"{name}=tensor("
        contents = (_contents(array_of(part), part.dtype, len(prefix + begin)) if part.numel()
                    else f"[], size={tuple(part.shape)}")
        lines.append(f"{begin}{contents})")
    suffixes = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}", *dtype, f"layout={tensor.layout}"]
    suffixes += _grad_suffix(tensor)
    if tensor._keys & COO_MASK:  # the sizes begin a line
        lines.append(suffixes.pop(0))
    return _joined(prefix + (",\n" + " " * len(prefix)).join(lines), suffixes, len(prefix))


def tensor_repr(tensor: Any, *, array_of: Callable[[Any], np.ndarray], get_default_dtype: Callable[[], Any],
                given_contents: str | None = None) -> str:
    """What `repr(tensor)` prints; `array_of` gives a tensor's elements, for which other text may be given."""
    kind = type(tensor).__name__
    keys = getattr(tensor, "_keys", 0)
    if keys & FUNC_MASK:
        array = tensor._array
        return array.level.shown(array, textwrap.indent(repr(array.value), "    "))
    prefix = "tensor(" if kind in ("Tensor", "Parameter") else f"{kind}("
    dtype, default, shape = tensor.dtype, get_default_dtype(), tuple(tensor.shape)
    device = str(tensor.device)
    suffixes = [] if device == "cpu" else [f"device='{device}'"]
    if keys & SPARSE_MASK:
        return _sparse_text(tensor, prefix, [] if _omits_dtype(dtype, default) else [f"dtype={dtype}"], array_of)
    without_memory = given_contents is None and keys & TORCH_DISPATCH_MASK and hasattr(tensor._array, "to_host")
    empty, meta = 0 in shape, device == "meta" or without_memory
    if meta or (empty and len(shape) != 1) or (not empty and PRINT_OPTS.edgeitems == 0):
        suffixes.append(f"size={shape}")
    if meta or empty:
        contents, omits_dtype = "..." if meta else "[]", dtype == default
    else:
        contents = _contents(array_of(tensor), dtype, len(prefix)) if given_contents is None else given_contents
        omits_dtype = _omits_dtype(dtype, default)
    contents = contents if given_contents is None else given_contents
    if not omits_dtype:
        suffixes.append(f"dtype={dtype}")
    text = _joined(prefix + contents, suffixes + _grad_suffix(tensor) + _tangent_suffix(tensor), len(prefix))
    if not any(base.__name__ == "Parameter" for base in type(tensor).__mro__):
        return f"Parameter({text})" if getattr(tensor, "_is_param", False) else text
    return "Parameter containing:\n" + (text if kind == "Parameter" else f"Parameter({text})")
