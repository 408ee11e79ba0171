"""Views as functionalization has them: applied again or as copies, and what a write to one makes of its base."""

import functools
from collections.abc import Callable
from typing import Any

from .._compat.operator_names import ops, overload_for
from .._core.tensor import Tensor
from .._dispatch.registry import registry

aten = ops.aten
_WITHOUT_COPY = frozenset(("lift_fresh", "lift"))


def is_view(function: Any) -> bool:
    """Whether an operator gives a view of its first argument."""
    if function.namespace != "aten":
        return False
    return function.is_view or getattr(function._operator.declaration, "inverse", None) is not None


@functools.cache
def is_view_in_place(name: str) -> bool:
    """Whether an operator makes its tensor a view of what it was, as `t_` does."""
    return name.endswith("_") and any(getattr(operator.declaration, "inverse", None) is not None
                                      for operator in registry if operator.schema.base_name == name[:-1])


def forward_of(function: Any, reapply: bool) -> Callable:
    """The operator that makes the view, or the copy in its place."""
    name = function._opname
    if reapply or name in _WITHOUT_COPY:
        return function
    return _overload(f"{name}_copy", function)


def _overload(name: str, like: Any) -> Callable:
    qualified = f"aten::{name}"
    if not any(o.name == qualified or o.name.startswith(f"{qualified}.") for o in registry):
        from .functional_wrapper import declare_copy

        declare_copy(like._operator, name)
    return getattr(getattr(aten, name), like._overloadname)


def inverse_of(function: Any, reapply: bool, base: Tensor, mutated: Tensor, args: tuple, kwargs: dict[str, Any],
               nr: int | None) -> Tensor:
    """The base after a write made `mutated` of a view of it."""
    operator = function._operator
    values = operator.schema.bind((base, *args), kwargs)[1:]
    written, inverse = WrittenView(base, mutated, nr, reapply), operator.declaration.inverse
    if not isinstance(inverse, str):
        return inverse(written, *values)
    return (written.scattered if inverse.endswith("_scatter") else written.again)(inverse, *values)


class WrittenView:
    """A view that was written to, and by which operators its base gets to have that; for `inverse` of declarations."""

    def __init__(self, base: Tensor, mutated: Tensor, nr: int | None, reapply: bool) -> None:
        self.base, self.mutated, self.reapply = base, mutated, reapply
        self.nr = nr or 0  # of which result of an operator with several

    def again(self, name: str, *args: Any, of: Tensor | None = None) -> Tensor:
        """Another view of the written part, or a copy in its place."""
        operator, values = registry.get(name), (self.mutated if of is None else of, *args)
        return forward_of(overload_for(operator, values), self.reapply)(*values)

    def scattered(self, name: str, *args: Any) -> Tensor:
        """The base with the written part in its place."""
        lists = [list(value) if isinstance(value, tuple) else value for value in args]
        return getattr(aten, name).default(self.base, self.mutated, *lists)

    def shaped(self, *args: Any, of: Tensor | None = None) -> Tensor:
        """The written part in the shape of the base."""
        return self.again("view", list(self.base.shape), of=of)

    def summed(self, dims: list[int]) -> Tensor:
        """The sum of what lies on one element, in the shape of the base."""
        made = aten.sum.dim_IntList(self.mutated, dims, True) if dims else self.mutated
        if self.mutated.dim() != self.base.dim():
            return self.shaped(of=made)
        return made if self.reapply else aten.clone.default(made)
