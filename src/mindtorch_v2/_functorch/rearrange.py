"""torch.func.rearrange: permuting, splitting and joining dimensions by a pattern, as einops does."""

import functools
import keyword
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .._core.tensor import Tensor
from .._ops._declare.op import DECLARATIONS, function_of

__all__ = ["DimensionBindError", "rearrange"]

_ELLIPSIS = "…"  # one character instead of three
_stack = function_of(DECLARATIONS["aten::stack"].operator)


class DimensionBindError(Exception):
    """The sizes of a tensor do not fit those that a pattern says."""

    __module__ = "functorch.dim"


class _Side(NamedTuple):
    """One side of a pattern: the names that each dimension is made of. A dimension of none has one element."""

    dimensions: list[list[str]]
    joined_ellipsis: bool  # whether the ellipsis stands in parentheses

    @property
    def names(self) -> list[str]:
        return [name for dimension in self.dimensions for name in dimension]


def _check_name(name: str) -> None:
    """Raises unless a name may stand in a pattern."""
    if name == _ELLIPSIS:
        return
    if name.isdecimal():
        if not int(name):
            raise ValueError("Anonymous axis should have positive length, not 0")
        return
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name[0] == "_" or name[-1] == "_":
        raise ValueError(f"Invalid axis identifier: {name}\naxis name should should not start or end with underscore")
    if keyword.iskeyword(name):
        warnings.warn(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning, stacklevel=2)
    if name == "axis":
        warnings.warn("It is discouraged to use 'axis' as an axis name and will raise an error in future",
                      FutureWarning, stacklevel=2)


def _side(text: str) -> _Side:
    if "." in text:
        if "..." not in text:
            raise ValueError("Expression may contain dots only inside ellipsis (...)")
        if text.count("...") != 1 or text.count(".") != 3:
            raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor ")
        text = text.replace("...", _ELLIPSIS)
    dimensions: list[list[str]] = []
    group: list[str] | None = None
    seen, joined = set(), False
    for token in re.findall(rf"[\w{_ELLIPSIS}]+|.", text, re.DOTALL):
        if token == "(":
            if group is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            group = []
        elif token == ")":
            if group is None:
                raise ValueError("Brackets are not balanced")
            dimensions.append(group)
            group = None
        elif token == "1":
            dimensions += [[]] if group is None else []
        elif token != " ":
            if not re.match(rf"[\w{_ELLIPSIS}]", token):
                raise ValueError(f"Unknown character '{token}'")
            if token in seen:
                raise ValueError(f"Indexing expression contains duplicate dimension '{token}'")
            _check_name(token)
            seen.add(token)
            joined |= token == _ELLIPSIS and group is not None
            if group is None:
                dimensions.append([token])
            else:
                group.append(token)
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return _Side(dimensions, joined)


def _parsed(pattern: str, lengths: dict[str, int]) -> tuple[_Side, _Side]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = map(_side, sides)
    if _ELLIPSIS in right.names and _ELLIPSIS not in left.names:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if left.joined_ellipsis:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    for length in lengths.values():
        if type(length) is not int:
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if any(name.isdecimal() for name in left.names + right.names):
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if lone := set(left.names) ^ set(right.names):
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {lone}")
    if unknown := lengths.keys() - set(left.names):
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    return left, right


def _sizes(whole: int, names: Sequence[str], numbers: Sequence[int], lengths: dict[str, int]) -> list[int]:
    """The sizes of the dimensions that one of `whole` elements is split into; at most one is not told."""
    told = [lengths.get(name) for name in names]
    open_ones = [f"d{number}" for number, size in zip(numbers, told, strict=True) if size is None]
    if len(open_ones) > 1:
        raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {open_ones[0]} and {open_ones[1]}")
    known = math.prod(size for size in told if size is not None)
    if open_ones:
        if whole % known:
            shown = tuple("?" if size is None else size for size in told)
            raise DimensionBindError("inferred dimension does not evenly fit into larger dimension: "
                                     f"{whole} vs {shown}")
        return [whole // known if size is None else size for size in told]
    if known != whole:
        pack = ", ".join(f"d{number}" for number in numbers) + ("," if len(numbers) == 1 else "")
        raise DimensionBindError(
            f"Dimension sizes to do not match ({whole} != {known}) when matching dimension pack ({pack})")
    return [size for size in told if size is not None]


@functools.lru_cache(256)
def _rearrangement(rank: int, pattern: str, told: tuple[tuple[str, int], ...]) -> Callable[[Tensor], Tensor]:
    """What a pattern does with tensors of this many dimensions."""
    lengths = dict(told)
    left, right = _parsed(pattern, lengths)
    dimensions = left.dimensions
    if [_ELLIPSIS] in dimensions:
        unnamed = sum(not dimension for dimension in dimensions)
        if (least := unnamed + len(left.names) - 1) > rank:
            raise ValueError(f"Number of dimensions in pattern ({least}) must be less than or equal to the number of "
                             f"dimensions in the tensor ({rank})")
        at = dimensions.index([_ELLIPSIS])
        inner = [f"{_ELLIPSIS}{i}" for i in range(rank - len(dimensions) + 1)]
        dimensions = dimensions[:at] + [[name] for name in inner] + dimensions[at + 1:]
    elif len(dimensions) != rank:
        raise ValueError(f"Number of dimensions in pattern ({len(dimensions)}) must be equal to the number of "
                         f"dimensions in the tensor ({rank})")
    else:
        inner = []
    # A dimension without a name is summed at the end, whatever its size.
    dimensions = [dimension or [f"{i}"] for i, dimension in enumerate(dimensions)]
    names = [name for dimension in dimensions for name in dimension]
    summed = [name for name in names if name.isdecimal()]
    wanted: list[list[str]] = []
    for dimension in right.dimensions:
        if dimension == [_ELLIPSIS] and not right.joined_ellipsis:
            wanted += [[name] for name in inner]
        else:
            wanted.append([each for name in dimension for each in (inner if name == _ELLIPSIS else (name,))])
    number = {name: i for i, name in enumerate(names)}
    order = [number[name] for name in summed] + [number[name] for dimension in wanted for name in dimension]

    def rearranged(tensor: Tensor) -> Tensor:
        sizes: dict[str, int] = {}
        for whole, dimension in zip(tensor.shape, dimensions, strict=True):
            parts = _sizes(whole, dimension, [number[name] for name in dimension], lengths)
            sizes.update(zip(dimension, parts, strict=True))
        if not names:
            return tensor
        joined = [math.prod(sizes[name] for name in dimension) for dimension in wanted]
        made = tensor.reshape(list(sizes.values())).permute(order)
        made = made.reshape([sizes[name] for name in summed] + joined)
        return made.sum(list(range(len(summed)))) if summed else made

    return rearranged


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """A tensor, or several stacked, as a pattern says: `rearrange(x, "b c (h i) -> b (c i) h", i=2)`."""
    one: Tensor = tensor if isinstance(tensor, Tensor) else _stack(tensor)
    return _rearrangement(one.dim(), pattern, tuple(axes_lengths.items()))(one)
