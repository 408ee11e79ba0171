"""Sample arguments that declarations carry; every generated test is driven by them.

A case describes tensors instead of holding them, so that one case serves every element type, device and layout:
`case(t(2, 3), dim=1)`. Tests materialise it for the type under test, with numbers that depend on nothing but the case.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TensorSample:
    """A tensor to be made: `kind` is float (the type under test), int or bool; `layout` how it lies in memory."""

    shape: tuple[int, ...]
    kind: str = "float"
    low: float = -2.0
    high: float = 2.0
    values: Any = None
    layout: str = "contiguous"  # transposed, expanded or sliced; `shape` is that of the view
    grad: bool = True  # whether gradients are checked with respect to it

    def array(self, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        """The numbers; a floating sample of an integer type under test is rounded."""
        if self.values is not None:
            made = np.array(self.values)
            return made.astype(dtype) if self.kind == "float" else made
        if self.kind == "bool":
            return rng.random(self.shape) < 0.5
        if self.kind == "int":
            return rng.integers(int(self.low), int(self.high), self.shape)
        low, high = self.low, self.high
        if dtype.kind == "b":
            return rng.random(self.shape) < 0.5
        if dtype.kind in "iu":
            return rng.integers(
                max(int(np.ceil(low)), 0) if dtype.kind == "u" else int(np.ceil(low)), max(int(high), 1) + 1, self.shape
            ).astype(dtype)
        made = rng.uniform(low, high, self.shape)
        if dtype.kind == "c":
            made = made + 1j * rng.uniform(low, high, self.shape)
        return made.astype(dtype)


@dataclass(frozen=True)
class Case:
    """One call. `raises` is (exception type, part of its text) for a call that must fail."""

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    raises: tuple[type[BaseException], str] | None = None


def t(*shape: int, **options: Any) -> TensorSample:
    return TensorSample(tuple(shape), **options)


def ints(*shape: int, low: int = 0, high: int = 5, **options: Any) -> TensorSample:
    return TensorSample(tuple(shape), kind="int", low=low, high=high, grad=False, **options)


def bools(*shape: int, **options: Any) -> TensorSample:
    return TensorSample(tuple(shape), kind="bool", grad=False, **options)


def values(data: Any, **options: Any) -> TensorSample:
    """A tensor of given numbers; its kind follows from them."""
    array = np.array(data)
    kind = {"b": "bool", "i": "int"}.get(array.dtype.kind, "float")
    return TensorSample(array.shape, kind=kind, values=data, grad=kind == "float", **options)


def case(*args: Any, **kwargs: Any) -> Case:
    return Case(args, kwargs)


def error(kind: type[BaseException], text: str, *args: Any, **kwargs: Any) -> Case:
    return Case(args, kwargs, (kind, text))


def cases(*made: Case) -> Callable[[], list[Case]]:
    """The `samples` of a declaration out of listed cases."""
    return lambda: list(made)


def _choices(choices: dict[str, tuple]) -> Iterator[dict[str, Any]]:
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def unary(low: float = -2.0, high: float = 2.0, **choices: tuple) -> Callable[[], list[Case]]:
    """One operand in all layouts and ranks; keyword arguments in every combination."""

    def make() -> list[Case]:
        options = {"low": low, "high": high}
        made = [Case((t(2, 3, **options),), kwargs) for kwargs in _choices(choices)]
        made += [Case((tensor,)) for tensor in (
            t(**options), t(0, 3, **options), t(2, 1, 4, **options), t(3, 2, layout="transposed", **options),
            t(2, 3, layout="sliced", **options), t(2, 3, layout="expanded", **options))]
        return made

    return make


def binary(low: float = -2.0, high: float = 2.0, *, other_low: float | None = None, other_high: float | None = None,
           scalar: Any = 1.5, **choices: tuple) -> Callable[[], list[Case]]:
    """Two operands: equal shapes, broadcasts both ways, ranks, layouts, empty, and a number (unless scalar is None)."""

    def make() -> list[Case]:
        a = {"low": low, "high": high}
        b = {"low": low if other_low is None else other_low, "high": high if other_high is None else other_high}
        made = [Case((t(2, 3, **a), t(2, 3, **b)), kwargs) for kwargs in _choices(choices)]
        made += [
            Case(pair)
            for pair in (
                (t(2, 3, **a), t(3, **b)),
                (t(3, **a), t(2, 1, **b)),
                (t(**a), t(2, 3, **b)),
                (t(2, 3, **a), t(**b)),
                (t(**a), t(**b)),
                (t(0, 3, **a), t(3, **b)),
                (t(2, 3, layout="transposed", **a), t(2, 3, layout="sliced", **b)),
                (t(2, 3, layout="expanded", **a), t(2, 3, **b)),
            )
        ]
        made += [Case((t(2, 3, **a), scalar))] if scalar is not None else []
        made.append(Case((t(2, 3, **a), t(2, 4, **b)), {}, (RuntimeError, "must match the size of tensor b")))
        return made

    return make
