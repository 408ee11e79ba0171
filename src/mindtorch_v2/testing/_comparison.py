"""`assert_close`: equality within tolerances, of tensors, numbers, and sequences and mappings of them."""

import cmath
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import mindtorch_v2 as torch

__all__ = ["assert_close", "default_tolerances"]

_TOLERANCES = {  # type -> rtol, atol; other types compare exactly
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
}
# Types so small that they compare bit by bit.
_LOW_PRECISION = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
                  torch.float8_e8m0fnu, torch.float4_e2m1fn_x2}
# Layout -> what its tensors are called, and their parts.
_SPARSE_PARTS = {torch.sparse_coo: ("COO", ("_indices", "_values")),
                 torch.sparse_csr: ("CSR", ("crow_indices", "col_indices", "values")),
                 torch.sparse_csc: ("CSC", ("ccol_indices", "row_indices", "values")),
                 torch.sparse_bsr: ("BSR", ("crow_indices", "col_indices", "values")),
                 torch.sparse_bsc: ("BSC", ("ccol_indices", "row_indices", "values"))}
_NUMBER_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class _Mismatch(Exception):
    """Two values differ: what to say, and where in the containers they are."""

    def __init__(self, text: str, place: tuple = (), kind: type[Exception] = AssertionError) -> None:
        self.text, self.place, self.kind = text, place, kind

    def __str__(self) -> str:
        where = "".join(f"[{item!r}]" for item in self.place)
        return self.text + (f"\n\nThe failure occurred for item {where}" if where else "")


def default_tolerances(*inputs: Any, dtype_precisions: dict | None = None) -> tuple[float, float]:
    """The largest rtol and atol that the types of the inputs ask for."""
    kinds = [value.dtype if isinstance(value, torch.Tensor) else value for value in inputs]
    table = _TOLERANCES if dtype_precisions is None else dtype_precisions
    pairs = [table.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def _allowed(difference: float, place: tuple | None, allowed: float | None, kind: str) -> str:
    where = "" if place is None else f" at index {place}"
    limit = f" (up to {allowed} allowed)" if allowed is not None else ""
    return f"{kind} difference: {difference}{where}{limit}"


def _heading(kind: str, rtol: float, atol: float) -> str:
    return f"{kind} are not {'equal' if rtol == atol == 0 else 'close'}!\n\n"


class _Comparison:
    """One call of assert_close."""

    def __init__(self, rtol: float | None, atol: float | None, equal_nan: bool, checked: dict[str, bool],
                 allow_subclasses: bool) -> None:
        if (rtol is None) != (atol is None):
            raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                             f"{'rtol' if rtol is None else 'atol'}.")
        self.rtol, self.atol, self.equal_nan, self.checked = rtol, atol, equal_nan, checked
        self.allow_subclasses = allow_subclasses

    def _tolerances(self, *kinds: Any) -> tuple[float, float]:
        if self.rtol is None or self.atol is None:
            return default_tolerances(*kinds)
        return self.rtol, self.atol

    def compare(self, actual: Any, expected: Any, place: tuple = ()) -> None:
        """Raises _Mismatch at the first difference."""
        if actual is None or expected is None:
            if actual is not expected:
                raise _Mismatch(f"None mismatch: {actual} is not {expected}", place)
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
            for i, pair in enumerate(zip(actual, expected, strict=True)):
                self.compare(*pair, (*place, i))
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self._compare_mappings(actual, expected, place)
        elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
            if bool(actual) is not bool(expected):
                raise _Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", place)
        elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
            kinds = _NUMBER_TYPES.get(type(actual)), _NUMBER_TYPES.get(type(expected))
            if self.checked["dtype"] and type(actual) is not type(expected):
                raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
            self._compare_numbers(actual, expected, self._tolerances(*kinds), place)
        else:
            self._compare_tensors(actual, expected, place)

    def _compare_mappings(self, actual: Mapping, expected: Mapping, place: tuple) -> None:
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            raise _Mismatch("The keys of the mappings do not match:\n"
                            f"Missing keys in the actual mapping: {sorted(missing)}\n"
                            f"Additional keys in the actual mapping: {sorted(additional)}", place)
        for key in sorted(actual) if all(isinstance(k, str) for k in actual) else actual:
            self.compare(actual[key], expected[key], (*place, key))

    def _compare_numbers(self, actual: Any, expected: Any, tolerances: tuple[float, float], place: tuple) -> None:
        rtol, atol = tolerances
        if self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected) or actual == expected:
            return
        difference = abs(actual - expected)
        if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
            return
        exact = rtol == atol == 0
        relative = float("inf") if expected == 0 else difference / abs(expected)
        raise _Mismatch(_heading("Scalars", rtol, atol) + f"Expected {expected} but got {actual}.\n"
                        + _allowed(difference, None, None if exact else atol, "Absolute") + "\n"
                        + _allowed(relative, None, None if exact else rtol, "Relative"), place)

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value if self.allow_subclasses or type(value) is torch.Tensor else None
        return torch.as_tensor(value) if isinstance(value, (np.ndarray, np.generic)) else None

    def _compare_tensors(self, actual: Any, expected: Any, place: tuple) -> None:
        same_kind = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        first, second = (self._tensor(actual), self._tensor(expected)) if same_kind else (None, None)
        if first is None or second is None:
            raise _Mismatch(f"No comparison pair was able to handle inputs of type {type(actual)} and "
                            f"{type(expected)}.", place, TypeError)
        for name, value, other in self._attributes(first, second):
            if value != other:
                raise _Mismatch(f"The values for attribute '{name}' do not match: {value} != {other}.", place)
        if first.device.type == "meta" or second.device.type == "meta":
            return
        tolerances = self._tolerances(first, second)
        first, second = first.detach(), second.detach()
        if first.layout != second.layout:
            first, second = (t if t.layout is torch.strided else t.to_dense() for t in (first, second))
        if first.device != second.device:
            first, second = first.cpu(), second.cpu()
        if first.dtype != second.dtype:
            kind = torch.promote_types(first.dtype, second.dtype)
            first, second = first.to(kind), second.to(kind)
        if first.layout is not torch.strided:
            self._compare_sparse(first, second, tolerances, place)
        elif first.dtype in _LOW_PRECISION:
            self._compare_bits(first, second, tolerances, place)
        else:
            self._compare_values(first, second, tolerances, place, "Tensor-likes")

    def _compare_sparse(self, first: Any, second: Any, tolerances: tuple[float, float], place: tuple) -> None:
        """Compares tensors of one sparse layout part by part: the indices exactly, the values by the tolerances."""
        name, parts = _SPARSE_PARTS[first.layout]
        if first.layout is torch.sparse_coo and first.sparse_dim() != second.sparse_dim():
            raise _Mismatch("The number of sparse dimensions in sparse COO tensors does not match: "
                            f"{first.sparse_dim()} != {second.sparse_dim()}", place)
        if first._nnz() != second._nnz():
            raise _Mismatch(f"The number of specified values in sparse {name} tensors does not match: {first._nnz()} "
                            f"!= {second._nnz()}", place)
        for part in parts:
            allowed = tolerances if part.endswith("values") else (0.0, 0.0)
            what = f"Sparse {name} {part.removeprefix('_')}"
            self._compare_values(getattr(first, part)(), getattr(second, part)(), allowed, place, what)

    def _compare_bits(self, first: Any, second: Any, tolerances: tuple[float, float], place: tuple) -> None:
        rtol, atol = tolerances
        if rtol or atol:
            raise _Mismatch(f"Rtol={rtol} and atol={atol} are not supported for bitwise comparison of low dimensional "
                            f"floats. Please use rtol=0.0 and atol=0.0.", place)
        wrong = (first.view(torch.uint8) != second.view(torch.uint8)).nonzero()
        if len(wrong):
            count = first.numel()
            raise _Mismatch(f"Tensor-likes are not 'equal'!\n\nMismatched elements: {len(wrong)} / {count} "
                            f"({len(wrong) / count:.1%})\nThe first mismatched element is at index "
                            f"{tuple(wrong[0].tolist())}.", place)

    def _attributes(self, first: Any, second: Any) -> list[tuple]:
        found = [("shape", first.shape, second.shape)]
        if self.checked["layout"]:
            found.append(("layout", first.layout, second.layout))
        if self.checked["device"]:
            found.append(("device", first.device, second.device))
        if self.checked["dtype"]:
            found.append(("dtype", first.dtype, second.dtype))
        if self.checked["stride"] and first.layout is torch.strided is second.layout:
            found.append(("stride()", first.stride(), second.stride()))
        return found

    def _compare_values(self, first: Any, second: Any, tolerances: tuple[float, float], place: tuple,
                        what: str) -> None:
        rtol, atol = tolerances
        matches = torch.isclose(first, second, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if matches.all():
            return
        if not first.dim() and what == "Tensor-likes":
            self._compare_numbers(first.item(), second.item(), tolerances, place)
        if not first.dtype.is_floating_point and not first.dtype.is_complex:
            first, second = first.to(torch.int64), second.to(torch.int64)
        wrong, count = int((~matches).sum()), matches.numel()
        absolute = (first - second).abs().masked_fill(matches, 0)
        relative = (absolute / second.abs()).masked_fill(matches, 0)
        exact = rtol == atol == 0
        lines = [f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})"]
        for kind, difference, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
            at = int(difference.flatten().argmax())
            index = tuple(int(i) for i in np.unravel_index(at, tuple(difference.shape)))
            lines.append(
                "Greatest " + _allowed(difference.flatten()[at].item(), index, None if exact else allowed, kind)
            )
        raise _Mismatch(_heading(what, rtol, atol) + "\n".join(lines), place)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere."""
    checked = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    try:
        _Comparison(rtol, atol, equal_nan, checked, allow_subclasses).compare(actual, expected)
    except _Mismatch as difference:
        text = str(difference)
        if difference.kind is AssertionError and msg is not None:
            text = msg(text) if callable(msg) else msg
        kind = difference.kind
    else:
        return
    raise kind(text)
