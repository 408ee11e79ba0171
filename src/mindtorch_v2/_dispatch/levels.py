"""Levels: what a transform of torch.func (grad, jvp, vmap) runs its function at.

A tensor at a level has a `LevelArray` in place of memory: it wraps a tensor of the level below, and FuncTorch is its
backend key. So views, in-place rules, recording and tangents work at a level as they do on memory. A call belongs
to the highest level among its tensors; that level's `run` takes the wrapping off, does its part, and calls the
operator again one level down.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

from .callers import call_bound
from .keys import AUTOGRAD_MASK, DUAL_MASK, FUNC_MASK, VIEW_MASK, DispatchKey, modes
from .registry import Operator, PerOperator, registry

_MADE_BY_OTHERS = FUNC_MASK | AUTOGRAD_MASK | DUAL_MASK | VIEW_MASK


class Level:
    """One transform in progress. Later ones are higher."""

    _serials = itertools.count()

    def __init__(self) -> None:
        self.serial = next(Level._serials)
        self.alive = True
        self.depth = 0  # among the open levels; what users see as the level's number

    def __enter__(self) -> Self:
        stack = open_levels()
        stack.append(self)
        self.depth = len(stack)
        return self

    def __exit__(self, *exc: object) -> None:
        self.alive = False
        open_levels().remove(self)

    def wrap(self, value: Any) -> Any:
        """A tensor of a lower level as a constant of this one."""
        raise NotImplementedError

    def run(self, operator: Operator, args: Sequence[Any]) -> Any:
        """The operator's result on arguments of which none is at a higher level."""
        raise NotImplementedError

    def left(self, tensor: Any) -> Any:
        """What a tensor is once its level is closed."""
        return tensor._array.value

    def apply_function(self, function: type, args: tuple) -> Any:
        """The outputs of a custom autograd Function."""
        raise NotImplementedError

    def shown(self, tensor: Any, value: str) -> str:
        raise NotImplementedError

    def refuse(self, action: str) -> NoReturn:
        raise RuntimeError(f"{action} is not possible on a tensor inside a transform of torch.func")


def open_levels() -> list[Level]:
    """This thread's levels, the innermost last."""
    return modes.__dict__.setdefault("levels", [])


class LevelArray:
    """What a tensor at a level has for an array; `batched` if the first dimension of `value` is the level's own."""

    __slots__ = ("batched", "level", "value")

    def __init__(self, level: Level, value: Any, batched: bool = False) -> None:
        self.level, self.value, self.batched = level, value, batched

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value._array.shape[1:] if self.batched else self.value._array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value._array.strides[1:] if self.batched else self.value._array.strides

    @property
    def size(self) -> int:
        array = self.value._array
        if not self.batched:
            return array.size
        n = 1
        for length in array.shape[1:]:
            n *= length
        return n

    ndim = property(lambda self: self.value._array.ndim - self.batched)
    dtype = property(lambda self: self.value._array.dtype)
    itemsize = property(lambda self: self.value._array.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    storage = property(lambda self: self.value._shared_storage())

    def read(self, action: str) -> Any:
        """The elements as an ndarray."""
        if self.batched:
            self.level.refuse(action)
        return self.value._host_array(action)


def innermost(value: Any) -> Any:
    """The tensor inside all levels, with all their dimensions."""
    while getattr(value, "_keys", 0) & FUNC_MASK:
        value = value._array.value
    return value


def map_tensors(change: Callable[[Any], Any], args: Sequence[Any]) -> list[Any]:
    """Arguments with each tensor changed, also those in lists."""
    return [
        change(a) if hasattr(a, "_keys") else
        tuple([change(t) if hasattr(t, "_keys") else t for t in a]) if a.__class__ in (tuple, list) else a
        for a in args
    ]


def is_at(level: Level, value: Any) -> bool:
    return bool(getattr(value, "_keys", 0) & FUNC_MASK) and value._array.level is level


def value_at(level: Level, value: Any) -> Any:
    """The tensor below one of this level; anything else as it is."""
    return value._array.value if is_at(level, value) else value


def like_result(result: Any, values: Sequence[Any]) -> Any:
    """Values in the kind of container that an operator returned."""
    return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)


def level_of(args: Sequence[Any]) -> Level | None:
    """The highest level among the tensors of a call."""
    top: Level | None = None
    for arg in args:
        for value in arg if arg.__class__ in (tuple, list) else (arg,):
            if getattr(value, "_keys", 0) & FUNC_MASK:
                level = value._array.level
                if top is None or level.serial > top.serial:
                    top = level
    return top


def without_closed(args: Sequence[Any]) -> list[Any]:
    """Arguments in which no tensor is at a level that is closed."""

    def opened(tensor: Any) -> Any:
        while tensor._keys & FUNC_MASK and not tensor._array.level.alive:
            tensor = tensor._array.level.left(tensor)
        return tensor

    return map_tensors(opened, args)


def _on_open_level(operator: Operator, run: Callable[[Level, tuple], Any]) -> Callable:
    """A kernel for calls at a level that is open; it is other operators where the formulas need that."""
    if operator.declaration is not None and operator.declaration.by_parts is not None:
        return operator.declaration.by_parts

    def kernel(*args: Any) -> Any:
        level = level_of(args)
        if level is None or not level.alive:
            return call_bound(operator, without_closed(args))
        return run(level, args)

    return kernel


def _at_one_level(operator: Operator, kernel: Callable) -> Callable:
    """A kernel that derives, for tensors of one level: others that could be derived, too, are its constants."""

    def run(level: Level, args: tuple) -> Any:
        changed = False

        def lifted(tensor: Any) -> Any:
            nonlocal changed
            keys = tensor._keys
            if not keys & _MADE_BY_OTHERS or keys & FUNC_MASK and tensor._array.level is level:
                return tensor
            changed = True
            return level.wrap(tensor)

        lifted_args = map_tensors(lifted, args)
        return call_bound(operator, lifted_args) if changed else kernel(*args)

    return _on_open_level(operator, run)


def _level_kernel(operator: Operator) -> Callable:
    return _on_open_level(operator, lambda level, args: level.run(operator, args))


registry.at_one_level = _at_one_level
registry.register_for_all(DispatchKey.FuncTorch, PerOperator(_level_kernel))
