"""Sizes as symbols. All sizes here are plain numbers, so that every question about one has its answer at once."""

from contextlib import nullcontext
from enum import Enum
from typing import Any


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision that would need elements; none is made here."""


class ConstraintViolationError(RuntimeError):
    """A size that is not what it was said to be."""


class DimDynamic(Enum):
    """How a size is to be treated while tracing."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    UNBACKED = 5
    OBLIVIOUS_SIZE = 6


class StatelessSymbolicContext:
    """What a tracer was told of the sizes of a tensor."""

    def __init__(self, dynamic_sizes: Any, dynamic_strides: Any = None, constraint_sizes: Any = None,
                 constraint_strides: Any = None, **more: Any) -> None:
        self.dynamic_sizes, self.dynamic_strides = dynamic_sizes, dynamic_strides
        self.constraint_sizes, self.constraint_strides = constraint_sizes, constraint_strides


class ShapeEnv:
    """The symbols of a trace; sizes stay numbers."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.guards: list[Any] = []
        self.var_to_val: dict[Any, int] = {}

    def suppress_guards(self) -> Any:
        return nullcontext()

    ignore_fresh_unbacked_symbols = suppress_guards

    def freeze(self) -> None:
        """Nothing changes after this, nor before it."""


def guard_bool(a: Any) -> bool:
    return bool(a)


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true = guard_bool


def guard_int(a: Any) -> int:
    return int(a)


guard_scalar = size_hint = guard_int


def is_symbolic(val: Any) -> bool:
    return False


def is_concrete_int(a: Any) -> bool:
    return True


def has_free_symbols(val: Any) -> bool:
    return False


has_free_unbacked_symbols = has_free_symbols


def free_symbols(val: Any) -> set[Any]:
    return set()


free_unbacked_symbols = free_symbols


def constrain_range(a: Any, *, min: int | None, max: int | None = None) -> None:  # noqa: A002 - PyTorch's names
    """Raises if a number is not within bounds."""
    if min is not None and a < min or max is not None and a > max:
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def is_nested_int(s: Any) -> bool:
    """Whether a size is the length of a ragged dimension."""
    return hasattr(s, "number") and isinstance(s, int)
