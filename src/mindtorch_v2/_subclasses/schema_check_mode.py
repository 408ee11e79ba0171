"""A mode that looks whether operators write and alias what their schemas say, and nothing else."""

from collections.abc import Iterable, Iterator
from typing import Any

from .._core.tensor import Tensor
from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_leaves


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _shown(name: str) -> str:
    return "input" if name == "self" else name


def _geometry(tensor: Tensor) -> tuple:
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), tensor.dtype


def _differs(tensor: Tensor, geometry: tuple, values: Tensor | None) -> bool:
    if _geometry(tensor) != geometry:
        return True
    if values is None or not tensor.numel():
        return False
    return not bool(((tensor == values) | ((tensor != tensor) & (values != values))).all())


def _overlap(mine: Iterable[Tensor], theirs: Iterable[Tensor]) -> bool:
    """Whether two of the tensors lie on one storage, and have elements there."""
    storages = {id(t.untyped_storage()) for t in mine if t.numel()}
    return any(id(t.untyped_storage()) in storages for t in theirs if t.numel())


def _may_alias(one: Any, other: Any) -> bool:
    """Whether the schema lets two of its arguments or results share memory."""
    if one.alias_info is None or other.alias_info is None:
        return False
    first, second = one.alias_info, other.alias_info
    return "*" in (*first.after, *second.after) or bool(
        {*first.before, *first.after} & {*second.before, *second.after})


class SchemaCheckMode(TorchDispatchMode):
    """Inside, an operator that breaks its schema raises; `ops`, `mutated` and `aliasing` say what ran."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []
        self.mutated: list[tuple[str, str]] = []
        self.aliasing: list[tuple[str, str, str]] = []

    def reset_cache(self) -> None:
        self.ops.clear()
        self.mutated.clear()
        self.aliasing.clear()

    def display_ops(self) -> None:
        print(*self.ops, sep=",")

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        given = [(a, _tensors(value)) for a, value in _bound(schema, args, kwargs)]
        before = [[(_geometry(t), None if t.is_meta else t.detach().clone()) for t in tensors] for _, tensors in given]
        self.ops.append(schema.name)
        result = func(*args, **kwargs)
        results = result if isinstance(result, tuple) and len(schema.returns) != 1 else (result,)
        self._check_writes(schema, given, before)
        self._check_aliases(schema, given, results)
        return result

    def _check_writes(self, schema: Any, given: list, before: list) -> None:
        written = [t for argument, tensors in given if argument.is_write for t in tensors]
        for (argument, tensors), states in zip(given, before, strict=True):
            if not any(_differs(t, *state) for t, state in zip(tensors, states, strict=True)):
                continue
            if not argument.is_write and not _overlap(tensors, written):
                raise RuntimeError(f"Argument {_shown(argument.name)} is not defined as mutable but was mutated")
            self.mutated.append((schema.name, _shown(argument.name)))

    def _check_aliases(self, schema: Any, given: list, results: tuple) -> None:
        for nr, (returned, value) in enumerate(zip(schema.returns, results, strict=True)):
            made = _tensors(value)
            for argument, tensors in given:
                if not _overlap(tensors, made):
                    continue
                others = [t for other, these in given if _may_alias(other, returned) for t in these]
                if not _may_alias(argument, returned) and not _overlap(tensors, others):
                    raise RuntimeError(f"Argument {_shown(argument.name)} is not defined to alias output but was "
                                       "aliasing")
                self.aliasing.append((schema.name, _shown(argument.name), f"output_{nr}"))
        for i, first in enumerate(results):
            for j, second in enumerate(results[:i]):
                if _overlap(_tensors(first), _tensors(second)) and not _may_alias(schema.returns[i],
                                                                                  schema.returns[j]):
                    raise RuntimeError(f"Outputs {j} and {i} alias unexpectedly")


def _bound(schema: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """(argument of the schema, value) of a call."""
    for nr, argument in enumerate(schema.arguments):
        if nr < len(args):
            yield argument, args[nr]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]
