"""The CPU: tensors hold ndarrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import compiled
from ..._core.computed import computed_once
from ..._core.dtype import WIDER, assign, cast, copiers
from ..._core.storage import UntypedStorage
from ..._core.tensor import Tensor
from ..._dispatch.registry import Operator
from ..interface import Backend, named_kernel, parameters_of
from . import blas_team, onednn_kernels, shared_xp, xp
from .jit import lookups, machine, views

_new = object.__new__


class CpuBackend(Backend):
    """Host memory, and NumPy."""

    type, xp, direct = "cpu", xp, True
    storage_class = UntypedStorage

    @property
    def lookups(self) -> Any:  # type: ignore[override]
        return lookups if machine.available() else None

    @property
    def views(self) -> Any:  # type: ignore[override]
        return views if machine.available() else None

    @computed_once
    def array_xp(self) -> Any:  # type: ignore[override]
        return shared_xp()

    @computed_once
    def shared(self) -> Any:  # type: ignore[override]
        if not blas_team.is_available():
            return None
        from .shared import shared

        return shared

    def together(self, lists: Sequence[Sequence[Any]]) -> Any:
        if self.shared is None:
            return None
        from .together import together

        return together(lists)

    def place(self, named: Any, args: Any) -> Any:
        return Tensor._device

    def array_of(self, tensor: Any, where: Any = None) -> Any:
        array = tensor._array
        return array if array.__class__ is np.ndarray else array.to_host()

    def cast(self, array: Any, kind: Any) -> Any:
        return cast(array, kind)

    def finished(self, array: Any, spec: Any, where: Any = None) -> Tensor:
        if array.__class__ is not np.ndarray:
            if array is None:  # NumPy would make a NaN of it
                raise AssertionError(f"a kernel gave no array of {spec}")
            array = np.asarray(array)
        kind = spec.dtype.np
        if array.dtype is not kind and array.dtype != kind:
            array = cast(array, kind)
        made = _new(Tensor)
        made._array = array
        return made

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> None:
        assign(target._array, self.array_of(source))

    def array_function(self, operator: Operator, generic: Callable) -> Callable:
        """The generic function behind the one that the declaration names; that gives None for what it does not take."""
        name = operator.declaration.kernels.get("cpu")
        return generic if name is None else _attempted(named_kernel("cpu", name), generic)

    def rearranging(self, function: Callable, given: Sequence[Any]) -> Any:
        if not machine.available():
            return None
        from .rearranging import rearranging

        return rearranging(function, given)

    def compiled_pointwise(self, operator: Operator, family: Any, form: Any = "new") -> Any:
        if not machine.available():
            return None
        from .pointwise import Compiled

        return Compiled(operator, family, form)

    def fused_product(self, product: Any, parts: Sequence[Any]) -> Callable | None:
        kernels = onednn_kernels()
        return None if kernels is None else kernels.fused_product(product, parts)


def _widened(value: Any) -> Any:
    if value.__class__ is list:
        return [_widened(v) for v in value]
    wide = WIDER.get(value.dtype) if isinstance(value, np.ndarray) else None  # one that is shared, too
    return value if wide is None else cast(value, wide)


def _attempted(own: Callable, generic: Callable) -> Callable:
    """A kernel before the generic function. One that says `takes_halves` gets half precision as it is."""
    halves, wants_spec = getattr(own, "takes_halves", False), "spec" in parameters_of(own)
    takes_spec = "spec" in parameters_of(generic)

    def otherwise(xp: Any, *args: Any, spec: Any = None) -> Any:
        if halves:
            args = tuple([_widened(a) for a in args])
        return generic(xp, *args, spec=spec) if takes_spec else generic(xp, *args)

    def attempted(xp: Any, *args: Any, spec: Any = None) -> Any:
        made = own(*args, spec=spec) if wants_spec else own(*args)
        return otherwise(xp, *args, spec=spec) if made is None else made

    attempted.own, attempted.otherwise, attempted.takes_halves = own, otherwise, halves  # type: ignore[attr-defined]
    return attempted


def _copied(target: Any, source: Any) -> bool:
    from .copies import copied

    copiers[copiers.index(_copied)] = copied
    return copied(target, source)


def _prepare(name: str, hurried: bool, **constants: Any) -> Callable[..., bool]:
    """See _core/compiled.py."""
    from .jit.calls import prepared_by_name

    return prepared_by_name(name, hurried, **constants)


if machine.available():
    copiers.append(_copied)
    compiled.machine.prepare = staticmethod(_prepare)
elif blas_team.is_available():
    from .shared import copied

    copiers.append(copied)
BACKEND = CpuBackend()
