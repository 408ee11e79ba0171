"""torch._decomp: what operators are written as, for tracers that take them apart.

The table is made from the declarations at first use: an overload's reference in torch._refs, or else the operator's
`decomposition`. Composite operators are in no table: what sees operators sees their parts.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _refs
from .._compat.operator_names import OpOverload, OpOverloadPacket, packet_named
from .._dispatch.registry import registry

__all__ = ["core_aten_decompositions", "decomposition_table", "get_decompositions", "meta_table",
           "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions"]

meta_table: dict[Any, Callable] = {}
pre_autograd_decomposition_table: dict[Any, Callable] = {}


@functools.cache
def _table() -> dict[Any, Callable]:
    named = {_refs.operator_of(place, name): (place, name)
             for place in _refs.PLACES for name in _refs.module_of(place).__all__}
    table: dict[Any, Callable] = {}
    for operator in registry:
        base = operator.name.partition(".")[0]
        if operator.is_composite or not base.startswith("aten::"):
            continue
        function = None
        if base in named:
            place, name = named[base]
            function = getattr(_refs.module_of(place), name)
        elif operator.declaration is not None and operator.declaration.decomposition is not None:
            function = operator.declaration.decomposition
        if function is not None:
            for overload in packet_named(base).op_overloads():
                table.setdefault(overload, function)
    return table


def register_decomposition(aten_op: Any, registry: dict | None = None, *, type: str = "post_autograd",
                           unsafe: bool = False) -> Callable:
    """Makes a function what an overload, a packet's overloads, or several of them are written as."""
    tables = {"post_autograd": _table() if registry is None else registry,
              "pre_autograd": pre_autograd_decomposition_table, "meta": meta_table}
    if type not in tables:
        raise AssertionError(f"type must be one of {set(tables)}, got {type!r}")

    def register(function: Callable) -> Callable:
        for overload in _overloads(aten_op):
            tables[type][overload] = function
        return function

    return register


def _overloads(aten_op: Any) -> Iterable[OpOverload]:
    if isinstance(aten_op, OpOverloadPacket):
        return aten_op.op_overloads()
    return [aten_op] if isinstance(aten_op, OpOverload) else [o for one in aten_op for o in _overloads(one)]


def get_decompositions(aten_ops: Sequence[Any], type: str = "post_autograd") -> dict[Any, Callable]:
    """The part of the table that these operators have."""
    table = {"post_autograd": _table(), "pre_autograd": pre_autograd_decomposition_table, "meta": meta_table}[type]
    return {overload: table[overload] for overload in _overloads(aten_ops) if overload in table}


def remove_decompositions(decompositions: dict[Any, Callable], aten_ops: Sequence[Any]) -> None:
    for overload in _overloads(aten_ops):
        decompositions.pop(overload, None)


def core_aten_decompositions() -> dict[Any, Callable]:
    """A copy of the table."""
    return dict(_table())


def __getattr__(name: str) -> Any:
    if name == "decomposition_table":
        return _table()
    if name == "global_decomposition_table":
        return {"post_autograd": _table(), "pre_autograd": pre_autograd_decomposition_table, "meta": meta_table}
    raise AttributeError(f"module 'torch._decomp' has no attribute '{name}'")
