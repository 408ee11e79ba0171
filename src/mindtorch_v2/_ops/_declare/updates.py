"""Operators that write some elements: the family they share, and the array functions behind them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..._backends.interface import Backend
from ..._core.dtype import REDUCED
from ..._core.elements import at_hand
from ..._core.tensor import Tensor, wrap
from ..._core.warn import warn
from ..._dispatch.callers import compile_function
from ..._dispatch.registry import Operator
from ..._dispatch.schema import Schema
from ..copy import preserved_strides, uninitialised
from .families import Family, meta_of, operand_positions
from .plans import Planned, can_be_planned, tried, twin_of
from .rules import Spec, check_operands, check_writable, is_expanded, overlaps_itself, shape_text

LITTLE = 4096  # up to so many elements, rows are added one by one; above, computing their cells pays


class Updates(Family):
    """A copy of `self` with some elements written; in place, the elements of `self`.

    `check(*arguments)` raises; `write(xp, target, *arguments)` stores into an array. Where operands are broadcast,
    `shape(*arguments)` says what comes out of the functional form, which is row-major unless it `preserves` strides.
    Where PyTorch only warns of writing to expanded tensors, `expanded` is the index expression that does the same.
    `fills` tells of the arguments whether it takes the write for `masked_fill_`, which warns once more.
    With `memory_first`, an expanded tensor is refused before the arguments are looked at.
    """

    inplace = True

    def __init__(self, check: Callable, write: Callable, *, shape: Callable | None = None, preserves: bool = True,
                 expanded: str | None = None, memory_first: bool = False,
                 fills: Callable[..., bool] | None = None) -> None:
        self.check, self.write, self.shape, self.preserves = check, write, shape, preserves
        self.expanded, self.memory_first, self.fills = expanded, memory_first, fills

    def sharing(self, schema: Schema) -> Iterable[tuple[int, bool]]:
        """The places and what is written there lie apart from what is written to; that may be `self`."""
        return [(at, not at) for at in operand_positions(schema)]

    def spec(self, source: Tensor, args: Sequence[Any]) -> Spec:
        self.check(source, *args)
        shape = source._array.shape if self.shape is None else self.shape(source, *args)
        same = self.preserves and shape == source._array.shape
        return Spec(shape, source.dtype, preserved_strides(source, None) if same else None)

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        check, write, keeps_shape, xp = self.check, self._write_on(operator, backend), self.shape is None, backend.xp

        def on_ndarrays(source: Tensor, *args: Any) -> Tensor:
            array = source._array
            if keeps_shape and array.flags.c_contiguous:
                check(source, *args)
                target = array.copy()
            else:
                target = _filled(self.spec(source, args), array)
            write(xp, target, *map(_ndarray_of, args))
            return wrap(target)

        def kernel(source: Tensor, *args: Any) -> Tensor:
            where = source._device
            made = backend.empty(self.spec(source, args), where)
            if made._array.size:
                backend.copy(made, source)
                write(xp, backend.array_of(made), *[_array_of(a, backend, where) for a in args])
            return made

        return self._planned(operator, on_ndarrays, write, xp) if backend.direct else kernel

    def _planned(self, operator: Operator, on_ndarrays: Callable, write: Callable, xp: Any) -> Callable:
        """A kernel that looks for plans: for layouts that were checked before, a copy is made and written to."""
        if not can_be_planned(operator):
            return on_ndarrays
        first, *rest = operator.schema.arguments
        name, names = operator.schema.base_name, ", ".join(operator.schema.names)
        arrays = "".join(f", array_of({a.name})" if a.is_tensor else f", {a.name}" for a in rest)
        copied = f"{first.name}._array.copy() if spec is None else filled(spec, {first.name}._array)"
        repeated = getattr(getattr(write, "own", None), "repeated", None)
        made, called = "", f"write(xp, target{arrays})"
        if repeated is not None:  # what the device has of its own, for one layout
            made, called = "    own = repeated(None)\n", f"own[0](target{arrays}) or otherwise(xp, target{arrays})"
        source = (f"def prepared(spec):\n{made}    def {name}({names}):\n        target = {copied}\n"
                  f"        {called}\n        return wrap(target)\n    return {name}\n")
        prepare = compile_function("prepared", source, {
            "write": write, "xp": xp, "array_of": _ndarray_of, "wrap": wrap, "filled": _filled, "repeated": repeated,
            "otherwise": getattr(write, "otherwise", None), "__opname__": f"{operator.name} prepared"})

        def make(args: tuple) -> Callable:
            twin, *others = twin_of(args)
            spec = tried(self.spec, twin, others)
            return prepare(None if self.shape is None and args[0]._array.flags.c_contiguous else spec)

        operator.plans = Planned(operator, make, 2, f"    return general({names})\n", {"general": on_ndarrays})
        return operator.plans.kernel(forwards=True)

    def _write_on(self, operator: Operator, backend: Backend) -> Callable:
        """The function that stores, behind the device's own where an array function may have one."""
        return backend.array_function(operator, self.write) if backend.direct else self.write

    def described(self, operator: Operator) -> Callable:
        return lambda source, *args: meta_of(self.spec(source, args))

    def inplace_kernel(self, operator: Operator, functional: Operator, backend: Backend) -> Callable:
        write, xp, direct = self._write_on(functional, backend), backend.xp, backend.direct

        def kernel(target: Tensor, *args: Any) -> Tensor:
            check_update(self, operator, target, args)
            if direct:
                write(xp, target._array, *map(_ndarray_of, args))
            elif xp is not None and target._array.size:
                where = target._device
                write(xp, backend.array_of(target), *[_array_of(a, backend, where) for a in args])
            target._bump_version()
            return target

        return kernel


def check_update(family: Updates, operator: Operator, target: Tensor, args: Sequence[Any]) -> None:
    """Raises unless the elements of `target` may be written in place."""
    shape = family.shape
    expanded = 0 in target._array.strides
    if expanded and family.expanded is not None:
        warn_if_expanded(target, operator.schema.base_name, family.expanded)
    if expanded and family.memory_first:
        check_writable(target)
    family.check(target, *args)
    if expanded and family.fills is not None and family.fills(target, *args):
        warn_if_expanded(target, "masked_fill_", "tensor[mask] = scalar")
    if expanded and family.expanded is None:
        check_writable(target)
    if shape is not None and shape(target, *args) != target._array.shape:
        raise RuntimeError(f"output with shape {shape_text(target._array.shape)} doesn't match the broadcast "
                           f"shape {shape_text(shape(target, *args))}")
    check_operands(operator.declaration.inplace_of or operator, target, (target, *args))


def warn_if_expanded(target: Tensor, name: str, expression: str) -> None:
    """Warns if elements of the tensor that `name` writes to share memory."""
    if is_expanded(target._array):
        warn(f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing "
             f"this operation. This also applies to advanced indexing e.g. {expression}")


def _filled(spec: Spec, array: np.ndarray) -> np.ndarray:
    """An array of the spec's geometry with these elements."""
    made = uninitialised(spec)
    made[...] = array
    return made


def _ndarray_of(value: Any) -> Any:
    if value.__class__ in (tuple, list):
        return [_ndarray_of(v) for v in value]
    return getattr(value, "_array", value)


def _array_of(value: Any, backend: Backend, where: Any) -> Any:
    if value.__class__ in (tuple, list):
        return [_array_of(v, backend, where) for v in value]
    return backend.array_of(value, where) if hasattr(value, "_array") else value


def on_flat(target: Any, places: Any, change: Callable[[Any, Any], Any]) -> None:
    """Runs `change` on an array's elements in row-major order and places there.

    It works in the array's memory where that order is its own, and where one element of memory stands for several:
    a copy of these would be written back with values from before.
    """
    if target.flags.c_contiguous:
        change(target.reshape(-1), places)
    elif at_hand(target) and overlaps_itself(target.shape, target.strides):
        steps = [stride // target.itemsize for stride in target.strides]
        length = 1 + sum(step * (n - 1) for step, n in zip(steps, target.shape, strict=True))
        at = np.unravel_index(places % target.size, target.shape)
        change(np.lib.stride_tricks.as_strided(target, (length,), (target.itemsize,)),
               sum(cell * step for cell, step in zip(at, steps, strict=True)))
    else:
        flat = target.reshape(-1)
        change(flat, places)
        target[...] = flat.reshape(target.shape)


def combine_at(xp: Any, name: str, flat: Any, places: Any, source: Any, *, widen: bool = True) -> None:
    """Combines values by a ufunc into places of a flat array, of which some may be named several times.

    Half types are combined in float32 and rounded once, or, as PyTorch does here and there, after each step.
    """
    combine, places, source = getattr(xp, name), places.reshape(-1), xp.asarray(source)
    if source.ndim:
        source = source.reshape(-1)
    if widen and flat.dtype in REDUCED:
        wide = flat.astype(np.float32)
        combine.at(wide, places, source.astype(np.float32))
        flat[...] = wide
    elif flat.dtype.kind == "b":  # a sum is true if a term is, a product if all factors are
        truth = name in ("add", "maximum")
        source = xp.broadcast_to(source if source.dtype.kind == "b" else source != 0, places.shape)
        flat[places[source == truth]] = truth
    else:
        combine.at(flat, places, source if source.dtype is flat.dtype else source.astype(flat.dtype))
