"""Views as functionalization has them: applied again or as copies, and what a write to one makes of its base."""

from collections.abc import Callable
from typing import Any

from .._compat.operator_names import ops
from .._core.tensor import Tensor
from .._dispatch.registry import registry

aten = ops.aten
# Views that are not declared as such, and those whose results are not always views.
_MORE = frozenset(("detach", "as_strided", "lift_fresh", "lift"))
_WITHOUT_COPY = frozenset(("lift_fresh", "lift"))


def is_view(function: Any) -> bool:
    """Whether an operator gives a view of its first argument."""
    if function.namespace != "aten":
        return False
    declared = function._operator.declaration
    return function._opname in _MORE or declared is not None and declared.family.is_view or function.is_view


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
    schema = function._operator.schema
    values = dict(zip(schema.names[1:], schema.bind((base, *args), kwargs)[1:], strict=True))
    return _INVERSES[function._opname](_Inverse(function, reapply, base, mutated, nr), **values)


class _Inverse:
    """One view to be undone."""

    def __init__(self, function: Any, reapply: bool, base: Tensor, mutated: Tensor, nr: int | None) -> None:
        self.function, self.reapply, self.base, self.mutated, self.nr = function, reapply, base, mutated, nr

    def again(self, name: str, overload: str, *args: Any, of: Tensor | None = None) -> Tensor:
        """Another view of the written part, or a copy in its place."""
        view = getattr(getattr(aten, name), overload)
        return forward_of(view, self.reapply)(self.mutated if of is None else of, *args)

    def viewed(self, **values: Any) -> Tensor:
        return self.again("view", "default", list(self.base.shape))

    def transposed(self, dim0: int, dim1: int) -> Tensor:
        return self.again("transpose", "int", dim0, dim1)

    def permuted(self, dims: tuple[int, ...]) -> Tensor:
        places = [d % len(dims) for d in dims]
        return self.again("permute", "default", [places.index(i) for i in range(len(places))])

    def summed(self, size: tuple[int, ...], **values: Any) -> Tensor:
        """An expansion undone: PyTorch sums what lies on one element."""
        leading = self.mutated.dim() - self.base.dim()
        shape = list(self.base.shape)
        dims = [*range(leading), *(leading + i for i, n in enumerate(shape)
                                   if n == 1 and self.mutated.shape[leading + i] != 1)]
        made = aten.sum.dim_IntList(self.mutated, dims, True) if dims else self.mutated
        if leading:
            return self.again("view", "default", shape, of=made)
        return made if self.reapply else aten.clone.default(made)

    def unsqueezed(self, dim: Any = None) -> Tensor:
        count = self.base.dim()
        chosen = range(count) if dim is None else sorted(d % count for d in ((dim,) if isinstance(dim, int) else dim))
        made = self.mutated
        for d in chosen if count else ():
            if self.base.shape[d] == 1:
                made = self.again("unsqueeze", "default", d, of=made)
        return made

    def squeezed(self, dim: int) -> Tensor:
        return self.again("squeeze", "dim", dim)

    def selected(self, dim: int, index: int) -> Tensor:
        return aten.select_scatter.default(self.base, self.mutated, dim, index)

    def sliced(self, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
        return aten.slice_scatter.default(self.base, self.mutated, dim, start, end, step)

    def split(self, split_size: int, dim: int) -> Tensor:
        length, at = self.base.shape[dim], self.nr or 0
        return self.sliced(dim, at * split_size, min(at * split_size + split_size, length), 1)

    def split_by_sizes(self, split_sizes: tuple[int, ...], dim: int) -> Tensor:
        start = sum(split_sizes[: self.nr or 0])
        return self.sliced(dim, start, start + split_sizes[self.nr or 0], 1)

    def unbound(self, dim: int) -> Tensor:
        return self.selected(dim, self.nr or 0)

    def diagonal(self, offset: int, dim1: int, dim2: int) -> Tensor:
        return aten.diagonal_scatter.default(self.base, self.mutated, offset, dim1, dim2)

    def strided(self, size: Any, stride: Any, storage_offset: Any = None, **values: Any) -> Tensor:
        return aten.as_strided_scatter.default(self.base, self.mutated, list(size), list(stride), storage_offset)

    def unfolded(self, dimension: int, size: int, step: int) -> Tensor:
        if step < size and self.mutated.shape[dimension] > 1:
            raise RuntimeError(
                "While executing unfold, functionalization encountered a tensor being mutated that has internal "
                "overlap. When using torch.compile (or running functionalization directly), this is banned as the "
                "behavior is not well defined. Consider cloning the tensor before mutating it, or removing the "
                "mutation from your model.")
        return aten.unfold_backward.default(self.mutated, list(self.base.shape), dimension, size, step)

    def cast(self, dtype: Any) -> Tensor:
        return self.again("view", "dtype", self.base.dtype)


_INVERSES: dict[str, Callable[..., Tensor]] = {
    "_reshape_alias": _Inverse.viewed,
    "transpose": _Inverse.transposed,
    "t": lambda one: one.again("t", "default"),
    "permute": _Inverse.permuted,
    "expand": _Inverse.summed,
    "squeeze": _Inverse.unsqueezed,
    "unsqueeze": _Inverse.squeezed,
    "select": _Inverse.selected,
    "slice": _Inverse.sliced,
    "split": _Inverse.split,
    "split_with_sizes": _Inverse.split_by_sizes,
    "unbind": _Inverse.unbound,
    "diagonal": _Inverse.diagonal,
    "as_strided": _Inverse.strided,
    "_as_strided": _Inverse.strided,
    "unfold": _Inverse.unfolded,
    "view": lambda one, **values: one.cast(None) if one.function._overloadname == "dtype" else one.viewed(),
    "view_as_real": lambda one: one.again("view_as_complex", "default"),
    "view_as_complex": lambda one: one.again("view_as_real", "default"),
    "_conj": lambda one: one.again("_conj", "default"),
    "_neg_view": lambda one: one.again("_neg_view", "default"),
    "alias": lambda one: one.again("alias", "default"),
    "detach": lambda one: one.mutated,
    "lift_fresh": lambda one: one.mutated,
    "lift": lambda one: one.mutated,
}
