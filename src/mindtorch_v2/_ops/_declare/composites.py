"""Operators written as others: composites, and decompositions in the place of kernels."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..._autograd.names import chooser
from ..._autograd.node import next_sequence_number, rename
from ..._backends.interface import Backend, named_kernel
from ..._core.geometry import contiguous_strides
from ..._core.tensor import Tensor
from ..._dispatch.callers import call_bound
from ..._dispatch.keys import (
    AUTOGRAD_MASK,
    BACKENDS,
    DESCRIBED,
    FUNC_MASK,
    HOST,
    HOST_MASK,
    PYTHON_MASK,
    VIEW_MASK,
    DispatchKey,
    changed_modes,
    modes,
)
from ..._dispatch.registry import Operator, PerKeys
from ..._dispatch.schema import NUMBERS
from .families import ArrayFamily, Family, Pointwise, Writes, planning_launches, result_of
from .plans import Planned, can_be_planned, composite_plan
from .rules import (
    Spec,
    check_operands,
    check_result_fits,
    check_writable,
    pointwise_strides,
    shares_storage,
    unwatched,
)
from .view_plans import remembering


class Composite(Family):
    """Written as other operators: runs wherever they run, and has their derivative."""

    def __init__(self, function: Callable, *, inplace: bool = False) -> None:
        self.function, self.inplace = function, inplace

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        made: dict[DispatchKey, Any] = dict.fromkeys(BACKENDS, PerKeys(self._remembering_views))
        return made | {HOST: PerKeys(self._planned), DESCRIBED: self.function,
                       DispatchKey.FuncTorch: self.function}

    def _remembering_views(self, operator: Operator, mask: int) -> Callable:
        """The kernel of calls on a device with these keys."""
        device = mask & ~VIEW_MASK
        return self._recorded(operator, mask) if device & device - 1 else remembering(operator, self.function)

    def _planned(self, operator: Operator, mask: int) -> Callable:
        """The kernel of calls on the CPU with these keys: the function, or what looks for plans first."""
        if mask & ~VIEW_MASK != HOST_MASK or not can_be_planned(operator):
            return self._recorded(operator, mask)
        if operator.plans is None:
            make = functools.partial(composite_plan, operator, self.function)
            general = f"    return general({', '.join(operator.schema.names)})\n"
            operator.plans = Planned(operator, make, 8, general, {"general": self.function})
        return operator.plans.kernel_of_parts(mask)

    def _recorded(self, operator: Operator, mask: int) -> Callable:
        """The function; where it is recorded and PyTorch has one node for it, the last of its nodes has that name."""
        declared, function = operator.declaration.node, self.function
        if declared is None or not mask & AUTOGRAD_MASK:
            return function
        name_of = chooser(declared, ", ".join(operator.schema.names))

        def recorded(*args: Any) -> Any:
            name = name_of(*args)
            if name is None:
                return function(*args)
            before = next_sequence_number()
            result = function(*args)
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                rename(tensor, name, before)
            return result

        return recorded

    def inplace_kernels(self, operator: Operator, functional: Operator) -> dict[DispatchKey, Any]:
        function = self.function

        def kernel(target: Any, *args: Any) -> Any:
            # The formulas may save the old value, which the write must not reach.
            recorded = modes.grad_enabled and target.requires_grad or target._keys & FUNC_MASK
            old = target.clone() if recorded else target
            if unwatched(*_tensors((target, *args))):  # plans of the functional form serve
                result = call_bound(functional, (old, *args))
            else:
                result = function(old, *args)
            check_writable(target)
            check_operands(functional, target, (target, *args))
            check_result_fits(target, Spec(result._array.shape, result.dtype))
            return target.copy_(result)

        return dict.fromkeys((*BACKENDS, DispatchKey.FuncTorch), kernel)


def _tensors(values: Sequence[Any]) -> list[Any]:
    """The tensors among arguments, also those in lists."""
    flat = [v for value in values for v in (value if value.__class__ in (tuple, list) else (value,))]
    return [v for v in flat if hasattr(v, "_keys")]


def unrecorded(function: Callable) -> Callable:
    """A kernel written as operators: what it calls is seen neither by autograd nor by `__torch_function__`."""

    @functools.wraps(function)
    def kernel(*args: Any) -> Any:
        with changed_modes(grad_enabled=False, exclude=modes.exclude | PYTHON_MASK):
            return function(*args)

    return kernel


def decomposed(operator: Operator, *, recorded: bool = True) -> Callable:
    """The kernel of a device that has none: the operator's decomposition, its results as the family infers them.

    Elementwise ones get their operands in the type that the family computes in. Where the formulas, too, are the
    decomposition's, its parts are recorded in the operator's place, unless `recorded` is false.
    """
    declaration = operator.declaration
    family, function = declaration.family, declaration.decomposition
    if recorded and declaration.by_parts is not None:
        def in_parts(*args: Any) -> Any:
            return function(*args)

        in_parts.composed = True  # type: ignore[attr-defined]
        return in_parts

    def written(*args: Any) -> Tensor:
        family.check(*args)
        function(*args)
        return args[0]

    def elementwise(*args: Any) -> Tensor:
        spec, kind, at = family.plan(operator, args)
        values, tensors = list(args), [args[i] for i in at if args[i].__class__ not in NUMBERS]
        for i in at:
            if hasattr(values[i], "_array"):
                values[i] = values[i].to(kind)
        made = function(*values)
        made = made if made._array.shape == spec.shape else made.expand(spec.shape)
        return _as_inferred(made, spec._replace(strides=pointwise_strides(spec.shape, tensors)), tensors)

    def others(*args: Any) -> Any:
        specs = family.spec(args[0], args[1:]) if hasattr(family, "spec") else family.infer(*args)
        made = function(*args)
        tensors = [t for a in args for t in (a if a.__class__ in (tuple, list) else (a,)) if hasattr(t, "_array")]
        if specs.__class__ is Spec:
            return _as_inferred(made, specs, tensors)
        return result_of(operator, [_as_inferred(m, s, tensors) for m, s in zip(made, specs, strict=True)])

    kernel = written if isinstance(family, Writes) else elementwise if isinstance(family, Pointwise) else others
    return unrecorded(kernel)


class Parts(ArrayFamily):
    """An operator that has a kernel of its own on the CPU, and is its decomposition where that cannot run."""

    def __init__(self, infer: Callable) -> None:
        super().__init__(infer, infer, widen=False)

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        name = operator.declaration.kernels.get(backend.type)
        if not backend.direct or name is None:
            return decomposed(operator)
        own, parts = named_kernel(backend.type, name), decomposed(operator, recorded=False)
        return planning_launches(operator, backend, self.infer, lambda twins, spec: own.repeated(spec), parts, own)


def _as_inferred(made: Any, spec: Spec | None, arguments: Sequence[Tensor]) -> Any:
    """One result of a decomposition in the type and layout that were inferred, on memory of its own."""
    if spec is None or made is None:
        return None
    made = made.to(spec.dtype)
    made = made if made._array.shape == spec.shape else made.reshape(spec.shape)
    strides = contiguous_strides(spec.shape) if spec.strides is None else spec.strides
    shares = any(made is a or made._base is not None and shares_storage(made, a) for a in arguments)
    if shares or made._array.size and tuple(made.stride()) != strides:
        made = made.new_empty_strided(spec.shape, strides).copy_(made)
    if made._base is None and (made.is_inference() or not made._version):
        return made
    own = made._detached()
    own._counter = None  # a result begins to count
    return own
