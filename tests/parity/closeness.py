"""Says how a library's result differs from PyTorch's: structure, shape, dtype, strides, then values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from bridge import dtype_name

Tolerances = dict[str, tuple[float, float]]
# (rtol, atol): rounding in another order is no defect. An operator's own override may widen it.
TOLERANCES: Tolerances = {
    "float16": (5e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
    "float32": (1e-4, 2e-5),
    "float64": (1e-6, 1e-7),
    "complex32": (5e-3, 1e-3),
    "complex64": (1e-4, 2e-5),
    "complex128": (1e-6, 1e-7),
}
# Indices may point at another of several equal values.
TIED_INDICES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}


class Container(NamedTuple):
    """Stands for a list, tuple or dict among the leaves of a result."""

    kind: str
    size: int
    names: tuple


def leaves(item: Any, where: str = "result") -> dict[str, Any]:
    """The members of nested containers by their place, in order; each container precedes its members."""
    if isinstance(item, dict):
        kind, names, parts = "dict", tuple(item), list(item.items())
    elif isinstance(item, (list, tuple)):
        kind = "list" if isinstance(item, list) else "tuple"
        names, parts = getattr(type(item), "__match_args__", ()), list(enumerate(item))
    else:
        return {where: item}
    found: dict[str, Any] = {where: Container(kind, len(item), names)}
    for key, part in parts:
        found |= leaves(part, f"{where}[{key!r}]")
    return found


def tolerances(entry: Any) -> Tolerances:
    """(rtol, atol) for each dtype, widened by the entry's own overrides."""
    table = dict(TOLERANCES)
    for decorator in entry.decorators or ():
        for inner in getattr(decorator, "decorators", None) or [decorator]:
            for dtype, wide in getattr(inner, "d", {}).items() if "Override" in type(inner).__name__ else ():
                rtol, atol = table.get(dtype_name(dtype), (0.0, 0.0))
                wide_rtol, wide_atol = getattr(wide, "rtol", 0.0), getattr(wide, "atol", wide)
                table[dtype_name(dtype)] = (max(rtol, wide_rtol), max(atol, wide_atol))
    return table


def outline(leaf: Any, tensor_type: type, strides: bool) -> Any:
    """What must be equal apart from values."""
    if isinstance(leaf, (torch.Tensor, tensor_type)):
        steps = ""
        if strides and "strided" in str(leaf.layout) and leaf.numel() > 0:
            pairs = zip(leaf.shape, leaf.stride(), strict=True)
            steps = f" with strides {[stride for size, stride in pairs if size > 1]}"
        layout = "" if "strided" in str(leaf.layout) else f" {dtype_name(leaf.layout)}"
        return f"a {dtype_name(leaf.dtype)} tensor of shape {tuple(leaf.shape)}{layout}{steps}"
    if isinstance(leaf, Container):
        return f"a {leaf.kind} of {leaf.size}" + (f" named {', '.join(map(str, leaf.names))}" if leaf.names else "")
    if isinstance(leaf, torch.dtype) or type(leaf).__name__ == "dtype":
        return dtype_name(leaf)
    return f"a {type(leaf).__name__}"


def structure_difference(expected: Any, got: Any, tensor_type: type, strides: bool = False) -> str | None:
    """Where containers, types, shapes or dtypes differ; None when they agree."""
    found = leaves(got)
    for where, leaf in leaves(expected).items():
        wanted, seen = outline(leaf, tensor_type, strides), outline(found.get(where), tensor_type, strides)
        if wanted != seen:
            return f"{where}: {wanted} expected, got {seen}"
    return None


def as_wide(tensor: torch.Tensor) -> torch.Tensor:
    """The strided tensor in double precision."""
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def beyond_noise(expected: torch.Tensor, got: torch.Tensor, exact: torch.Tensor, slack: torch.Tensor) -> torch.Tensor:
    """Where `got` is further from the exact result than PyTorch's own rounding error excuses."""
    finite = torch.isfinite(exact) & torch.isfinite(expected)
    if not finite.any():
        return torch.ones_like(finite)
    noise = torch.where(finite, (expected - exact).abs(), 0.0)
    largest = exact[finite].abs().max()
    excused = torch.maximum(4 * noise, 16 * noise[finite].median()).clamp(max=0.01 * largest.item())
    return ~(finite & torch.isfinite(got) & ((got - exact).abs() <= excused + slack))


def tensor_difference(expected: torch.Tensor, got: torch.Tensor, table: Tolerances, exact: Any = None) -> str | None:
    """A description of the elements that differ; `exact` is the result computed in double precision, if known."""
    plain = expected.detach() if expected.layout == torch.strided else expected.detach().to_dense()
    if plain.dtype.is_floating_point or plain.dtype.is_complex:
        wide, found = as_wide(plain), as_wide(got)
        rtol, atol = table.get(dtype_name(plain.dtype), (0.0, 0.0))
        bad = ~torch.isclose(found, wide, rtol=rtol, atol=atol, equal_nan=True)
        if bad.any() and isinstance(exact, torch.Tensor) and exact.shape == plain.shape:
            fine = as_wide(exact.detach().to_dense())
            bad &= beyond_noise(wide, found, fine, atol + rtol * fine.abs())
        distance = (found - wide).abs()
        finite = distance[torch.isfinite(distance)]
        deviation = f", off by at most {finite.max().item():.3g}" if finite.numel() else ""
    else:
        bad, deviation = plain != got, ""
    if not bad.any():
        return None
    first = bad.flatten().nonzero()[0].item()
    one, other = plain.flatten()[first].item(), got.flatten()[first].item()
    return f"{int(bad.sum())} of {bad.numel()} elements differ{deviation}, e.g. {one} expected, got {other}"


def value_difference(expected: Any, got: Any, table: Tolerances, exact: Callable[[], Any] = tuple) -> str | None:
    """Where values of equal structure differ; `got` has been carried back to PyTorch, `exact` is called if needed."""
    found = leaves(got)
    for where, wanted in leaves(expected).items():
        seen = found[where]
        if isinstance(wanted, torch.Tensor):
            different = tensor_difference(wanted, seen, table)
            if different:
                different = tensor_difference(wanted, seen, table, leaves(exact()).get(where))
            if different:
                return f"{where}: {different}"
        elif isinstance(wanted, (float, complex)):
            if not torch.isclose(torch.tensor(seen), torch.tensor(wanted), rtol=1e-4, atol=2e-5, equal_nan=True):
                return f"{where}: {wanted} expected, got {seen}"
        elif isinstance(wanted, (bool, int, str)) and wanted != seen:
            return f"{where}: {wanted} expected, got {seen}"
    return None


def equal_with_nan(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def other_choice_among_ties(name: str, sample: Any, expected: Any, got: Any) -> bool:
    """Whether the indices of a sorting result point at equal values, and its values are those."""
    source = sample.input.detach()
    position = 1 if name in ("topk", "kthvalue") else 0
    given = sample.args[position] if len(sample.args) > position else -1
    dim = sample.kwargs.get("dim", -1 if isinstance(given, bool) else given)
    wanted, indices = (expected, got) if name == "argsort" else (expected[1], got[1])
    if source.dim() == 0:
        return bool((indices == 0).all())
    if indices.dim() < source.dim():
        wanted, indices = wanted.unsqueeze(dim), indices.unsqueeze(dim)
    if indices.numel() and not 0 <= indices.min() <= indices.max() < source.shape[dim]:
        return False
    if name in ("sort", "argsort", "topk") and (indices.sort(dim).values.diff(dim=dim) == 0).any():
        return False
    one, other = source.gather(dim, wanted), source.gather(dim, indices)
    if name != "argsort" and not equal_with_nan(other.reshape(got[0].shape), got[0]):
        return False
    if sample.kwargs.get("sorted") is False:
        one, other = one.sort(dim).values, other.sort(dim).values
    return equal_with_nan(one, other)


def another_right_answer(name: str, sample: Any, expected: Any, got: Any) -> bool:
    """Whether a result that differs is as good: another choice among ties, another sign in QR."""
    if name in TIED_INDICES and (name == "argsort" or isinstance(expected, tuple)):
        return not sample.kwargs.get("stable") and other_choice_among_ties(name, sample, expected, got)
    if name in ("qr", "linalg.qr") and got[0].numel():
        q, r = got
        unit = torch.eye(q.shape[-1], dtype=q.dtype).expand_as(q.mH @ q)
        pairs = [(r, r.triu()), (q @ r, sample.input.detach()), (q.mH @ q, unit)]
        return all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in pairs)
    return False
