"""The family of views: operators that show the memory of their first argument in another geometry."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..._autograd.node import VersionCounter
from ..._autograd.views import MULTI_OUTPUT, WAKING, creation_now, wake
from ..._backends.interface import host
from ..._core.elements import is_host_array
from ..._core.geometry import contiguous_strides
from ..._core.planning import Unplannable, plans
from ..._core.tensor import Tensor, tracked_view
from ..._dispatch.callers import call_bound, compile_function
from ..._dispatch.keys import BACKENDS, HOST, HOST_MASK, VIEW_MASK, DispatchKey, modes, unusual
from ..._dispatch.registry import Lazy, Operator
from ..._dispatch.schema import Argument
from .families import Family
from .plans import Planned, Twin, can_be_planned, checked_call, key_part, tried, twin_of
from .quick import planned_view_source, view_plan_source, view_source

_MOST = 64  # views of one call whose geometries are remembered
_ndarray = np.ndarray
_new = object.__new__


class View(Family):
    """Another geometry on the same memory: `geometry(*arguments)` gives shape, strides and offset.

    It is called as `infer` is. Strides and offset are in bytes, the offset counted from where `self` begins. A fourth
    value is another element type. With `several`, it gives a list of them.
    `array(ndarray, *arguments)`, or an expression of the array `a` and the arguments, is the same by NumPy's own view
    functions, for operators that leave the offset: a shortcut, since a view should cost no more than its call. It may
    give None. Meta and CPU agree on every sample. `by_place` says that `geometry` looks where in its storage a tensor
    begins, and how long that is. A family that `moves_on` is mostly called with other arguments each time, as a loop
    over indices does, so that nothing is remembered of them.
    """

    is_view = True
    moves_on = False

    def __init__(self, geometry: Callable, array: "Callable | str | None" = None, *, several: bool = False,
                 names: dict[str, Any] | None = None, by_place: bool = False) -> None:
        self.geometry, self.array, self.several, self.names = geometry, array, several, names or {}
        self.by_place = by_place

    def array_call(self, operator: Operator, args: Sequence[Any], made: Any) -> tuple[Callable, Sequence[int]] | None:
        given = args[0]._array
        try:
            self._geometry_of_layout(args)
        except Unplannable:
            return None
        if given.strides != contiguous_strides(given.shape, given.itemsize):  # NumPy sees a buffer in no other order
            if not callable(self.array):
                return None
            return checked_call(self.array, range(len(args)), args, made)
        views = [(t._array.shape, t._array.dtype, t._offset - args[0]._offset, t._array.strides)
                 for t in ((made,) if isinstance(made, Tensor) else made)]
        if isinstance(made, Tensor):
            shape, kind, offset, strides = views[0]
            return (lambda array: _ndarray(shape, kind, array, offset, strides)), (0,)
        return (lambda array: [_ndarray(shape, kind, array, at, strides) for shape, kind, at, strides in views]), (0,)

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        geometry = self.geometry
        known: dict[tuple, Any] = {}  # how views lie, on devices whose arrays have a `layout`: one object a kind
        plans.append(known)

        def one(source: Tensor, *args: Any) -> Tensor:
            keys = source._keys
            if keys & VIEW_MASK and source._base._keys & WAKING and wake(source):  # type: ignore[union-attr]
                return call_bound(operator, (source, *args))
            storage = source._storage
            if storage is None:  # first, since it gives an empty array PyTorch's strides
                storage = source._shared_storage()
            try:
                layout, offset = known[source._array.layout, source._offset, keys, args]
            except (AttributeError, KeyError, TypeError):
                return found_out(source, storage, args, (geometry(source, *args),))[0]
            return tracked_view(source, storage.laid_out(layout, offset), offset, operator, args)

        def many(source: Tensor, *args: Any) -> Any:
            keys = source._keys
            if keys & VIEW_MASK and source._base._keys & WAKING and wake(source):  # type: ignore[union-attr]
                return call_bound(operator, (source, *args))
            storage = source._shared_storage()
            try:
                places = known[source._array.layout, source._offset, keys, args]
            except (AttributeError, KeyError, TypeError):
                return found_out(source, storage, args, geometry(source, *args))
            return tuple([tracked_view(source, storage.laid_out(layout, offset), offset, operator, args, nr)
                          for nr, (layout, offset) in enumerate(places)])

        def found_out(source: Tensor, storage: Any, args: tuple, geometries: Iterable[Any]) -> tuple[Tensor, ...]:
            array, views, places = source._array, [], []
            remembers = hasattr(array, "layout") and not any(a.__class__ is list or hasattr(a, "_array") for a in args)
            for nr, (shape, strides, offset, *kind) in enumerate(geometries):
                offset += source._offset
                shown = storage.array(shape, kind[0] if kind else array.dtype, offset, strides)
                views.append(tracked_view(source, shown, offset, operator, args, nr if self.several else None))
                if remembers:
                    places.append((storage.laid_out_like(shown), offset))
            if remembers:
                if len(known) >= 4096:
                    known.clear()
                known[array.layout, source._offset, source._keys, args] = places if self.several else places[0]
            return tuple(views)

        kernel = many if self.several else one
        operator.fallthrough.add(DispatchKey.ADInplaceOrView)  # these look for themselves whether a view woke up
        return dict.fromkeys(BACKENDS, kernel) | {HOST: Lazy(lambda: self._on_cpu(operator, kernel))}

    def _geometry_of_layout(self, twins: Sequence[Any]) -> Any:
        """What `geometry` gives for twins; Unplannable if that depends on where in its storage a tensor begins."""
        made = tried(self.geometry, *twins)
        elsewhere = twins[0]
        begin, elsewhere._offset = elsewhere._offset, elsewhere._offset + 3 * elsewhere._array.itemsize
        try:
            if tried(self.geometry, *twins) != made:
                raise Unplannable
        finally:
            elsewhere._offset = begin
        return made

    def _on_cpu(self, operator: Operator, general: Callable) -> Callable:
        """The kernel that makes views by NumPy, or of geometries that it remembers."""
        name, arguments = operator.schema.base_name, operator.schema.arguments
        known: dict[tuple, Any] = {}
        plans.append(known)

        def remember(key: tuple | None, source: Tensor, *args: Any) -> Any:
            made = general(source, *args)
            if key is not None and key not in known and is_host_array(source._array):
                if len(known) >= 256:
                    known.clear()
                known[key] = found_out(source, args)
            return made

        def found_out(source: Tensor, args: tuple) -> tuple | None:
            array = source._array
            try:
                made = self._known_geometries(twin_of((source, *args)), source)
            except Unplannable:
                return None
            # Then it is a buffer for NumPy; a geometry by place may reach beyond it.
            own = array.flags.c_contiguous and array.dtype.isbuiltin == 1 and not self.by_place
            if self.several:
                return own, array.dtype, made
            return own, made[0][3] if len(made[0]) > 3 else array.dtype, made[0][:3]

        scope = {
            "array_view": self.array, "operator": operator, "find": known.get, "remember": remember,
            "modes": modes, "unusual": unusual, "new": _new, "Tensor": Tensor, "ndarray": _ndarray,
            "VersionCounter": VersionCounter, "creation_now": creation_now, "MULTI_OUTPUT": MULTI_OUTPUT,
            "__opname__": f"{operator.name} cpu", **self.names,
        }  # fmt: skip
        key = ", ".join(map(key_part, arguments))
        if self.by_place:
            key += f", {arguments[0].name}._offset, {arguments[0].name}._shared_storage().nbytes()"
        kernel = compile_function(name, planned_view_source(name, arguments, key, several=self.several), dict(scope))
        expression = self._expression(arguments)
        if expression is not None:
            kernel = compile_function(name, view_source(name, arguments, expression), {**scope, "general": kernel})
        if self.moves_on or host().views is None or not can_be_planned(operator):
            return kernel
        names = ", ".join(operator.schema.names)
        make = self._maker(operator, {**scope, "general": kernel, "__opname__": f"{operator.name} plan"})
        operator.plans = Planned(operator, make, 2, f"    return general({names})\n", {"general": kernel})
        return operator.plans.kernel(forwards=True)

    def _known_geometries(self, twins: Sequence[Any], source: Any) -> Sequence[Any]:
        """The geometries of all views; Unplannable if not all that they follow from is known, or there are no elements.

        `source` is the first argument, or its twin.
        """
        if self.by_place and source.__class__ is Twin:
            raise Unplannable
        made = self.geometry(source, *twins[1:]) if self.by_place else self._geometry_of_layout(twins)
        each = made if self.several else [made]
        if not each or len(each) > _MOST or any(0 in shape for shape, *_ in each):
            raise Unplannable
        return each

    def kernel_for(self, operator: Operator, twins: tuple) -> Callable:
        kernel = operator.lookup(HOST_MASK)
        return kernel if operator.plans is None else operator.plans.make(twins)

    def _maker(self, operator: Operator, scope: dict[str, Any]) -> Callable[[tuple], Callable]:
        """What makes plans: functions that have compiled code show the array in a geometry that they know."""
        views, name, arguments = host().views, operator.schema.base_name, operator.schema.arguments

        @functools.cache
        def prepare() -> Callable:
            source = view_plan_source(name, arguments, several=self.several, by_place=self.by_place)
            made = compile_function("prepare", source, {**scope, "show": lambda geometry, array: None})
            views.functions.when_loaded(lambda: made.__globals__.update(show=views.functions.show))
            return made

        def make(args: tuple) -> Callable:
            source, *given = args
            try:
                made = self._known_geometries(twin_of(args), source)
            except Unplannable:
                return scope["general"]
            steps = [(None, operator, tuple(given), nr if self.several else None) for nr in range(len(made))]
            shown = []
            for (shape, strides, offset, *kind), step in zip(made, steps, strict=True):
                other = kind[0] if kind and kind[0] != source._array.dtype else None
                shown.append((views.packed(shape, strides, offset, other), offset, step))
            if self.several:
                return prepare()(tuple(given), shown)
            place = (source._offset, source._shared_storage().nbytes()) if self.by_place else ()
            return prepare()(tuple(given), *shown[0], *place)

        return make

    def _expression(self, arguments: Sequence[Argument]) -> str | None:
        """The expression of NumPy's view and its offset."""
        if self.array is None:
            return None
        called = f"array_view(a{''.join(f', {a.name}' for a in arguments[1:])})"
        return f"{self.array if isinstance(self.array, str) else called}, 0"


def view(geometry: Callable, array: "Callable | str | None" = None, **names: Any) -> View:
    """The family; `names` are what an expression for the array names beside it and the arguments."""
    return View(geometry, array, names=names)


def views(geometry: Callable) -> View:
    return View(geometry, several=True)
