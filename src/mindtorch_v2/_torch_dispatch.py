"""`__torch_dispatch__`: operators that a subclass of Tensor, or a mode, answers below autograd.

A class with a `__torch_dispatch__` gives its tensors the PythonDispatch key, and an open mode adds it to every call.
The key's kernel makes of the call what PyTorch's handlers expect: the overload, the types, positional arguments without
trailing defaults, keyword-only ones by name. While a handler runs, keys above PythonDispatch are out of force: autograd
has been there already.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ._autograd.node import VersionCounter
from ._autograd.views import creation_now
from ._compat.operator_names import OpOverload, aten_of, out_overload, overload_for
from ._core.device import as_device
from ._core.tensor import Tensor
from ._core.wrapper_subclass import make_wrapper_subclass
from ._dispatch.callers import by_precedence
from ._dispatch.keys import (
    ALL_KEYS,
    FUNC_MASK,
    MARKED_MASK,
    PROFILER_MASK,
    PYTHON_MASK,
    REQUIRES_GRAD,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
    VMAP_MASK,
    DispatchKey,
    changed_modes,
    modes,
)
from ._dispatch.registry import Operator, PerKeys, registry
from ._dispatch.schema import Schema
from ._ops._declare.out import handle_out

# Out of force in a handler: what is served before PythonDispatch. Those that are no keys in PyTorch stay.
ABOVE = ALL_KEYS & ~((TORCH_DISPATCH_MASK << 1) - 1) & ~(PYTHON_MASK | PROFILER_MASK | VMAP_MASK | MARKED_MASK)


def dispatch_modes() -> list[Any]:
    """This thread's modes, the innermost last."""
    return modes.__dict__.setdefault("dispatch_modes", [])


def owners_among(values: Sequence[Any]) -> list[Any]:
    """The tensors of a call, also in lists, whose class has a `__torch_dispatch__`."""
    flat = (v for value in values for v in (value if value.__class__ in (tuple, list) else (value,)))
    return [v for v in flat if getattr(v, "_keys", 0) & TORCH_DISPATCH_MASK]


def handled(function: OpOverload, owners: Sequence[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, or else the owners of a call, make of it; functionalization comes before them."""
    for is_functional, open_ones, run in FUNCTIONALIZER:
        if open_ones() and modes.include & TORCH_DISPATCH_MASK or any(map(is_functional, owners)):
            return run(function, args, kwargs)
    ordered = by_precedence(owners)
    types = tuple(type(owner) for owner in ordered)
    stack = dispatch_modes() if modes.include & TORCH_DISPATCH_MASK else []
    exclude = modes.exclude | ABOVE
    rules = DISPATCH_RULES.get(function.name(), {}) if DISPATCH_RULES else {}
    if stack:
        mode = stack.pop()
        include = modes.include if stack else modes.include & ~TORCH_DISPATCH_MASK
        rule = rules.get(type(mode)) if rules else None
        try:
            with changed_modes(include=include, exclude=exclude):
                result = (mode.__torch_dispatch__(function, types, args, kwargs) if rule is None else
                          rule(mode, function, types, args, kwargs))
        finally:
            stack.append(mode)
    else:
        mode, result = None, NotImplemented
    if result is NotImplemented:
        with changed_modes(exclude=exclude):
            result = _asked(function, ordered, types, args, kwargs, rules)
    if result is NotImplemented:
        tried = "" if mode is None else f"\n\n  - mode object {mode!r}"
        tried += "".join(f"\n\n  - tensor subclass {t}" for t in types)
        raise TypeError(f"Multiple dispatch failed for 'torch._ops.{function}'; all __torch_dispatch__ handlers "
                        f"returned NotImplemented:{tried}\n\nFor more information, try re-running with "
                        "TORCH_LOGS=not_implemented")
    return result


# Functionalization's, once it is imported: whether a tensor is a wrapper of it, those in force, and what runs a call.
FUNCTIONALIZER: list[tuple[Callable, Callable, Callable]] = []
# What torch.library.register_torch_dispatch was told, by operator and by class of tensors or modes.
DISPATCH_RULES: dict[str, dict[Any, Callable]] = {}


def _asked(function: OpOverload, owners: Sequence[Any], types: tuple, args: tuple, kwargs: dict[str, Any],
           rules: dict[Any, Callable]) -> Any:
    for owner in owners:
        rule = rules.get(type(owner)) if rules else None
        if rule is not None:
            result = rule(type(owner), function, types, args, kwargs)
        else:
            result = owner.__torch_dispatch__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def handler_arguments(schema: Schema, values: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
    """Bound values as handlers get them: without trailing defaults, keyword-only ones by name, lists as lists."""
    lists = [list(v) if v.__class__ is tuple else v for v in values]
    positional = len(schema.positional)
    args = lists[:positional]
    while args and _is_default(values[len(args) - 1], schema.defaults[len(args) - 1]):
        args.pop()
    rest = zip(schema.arguments[positional:], lists[positional:], strict=True)
    return tuple(args), {a.name: value for a, value in rest if not _is_default(value, a.default)}


def _is_default(value: Any, default: Any) -> bool:
    kind = value.__class__
    return value is default or kind is default.__class__ and kind in _COMPARED and value == default


_COMPARED = frozenset((int, float, bool, str, tuple))


class _Options:
    """What PyTorch's factories add to a call of theirs, and what they keep from those who look on."""

    def __init__(self, schema: Schema) -> None:
        self.pinned, self.tracked = schema.index["pin_memory"], schema.index.get("requires_grad")
        takes_tensors = any(argument.type == "Tensor" for argument in schema.arguments)
        self.device = None if takes_tensors else schema.index.get("device")

    def shown(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values with the device named and `pin_memory` decided, without `requires_grad`."""
        given = list(values)
        given[self.pinned] = bool(given[self.pinned])
        if self.device is not None:
            given[self.device] = as_device(given[self.device])
        if self.tracked is not None:
            given[self.tracked] = False
        return given

    def tracks(self, values: Sequence[Any]) -> bool:
        return self.tracked is not None and values[self.tracked]


def is_shown(operator: Operator, recorded: bool) -> bool:
    """Whether a call is seen as this operator, and not as those that it is written as."""
    if not operator.is_composite:
        return True
    returns = operator.schema.returns
    has_no_gradient = bool(returns) and returns[0].type != "Tensor"  # a number, as that of `equal`
    return aten_of(operator).leaf and (has_no_gradient or not recorded)


def shown_as(operator: Operator, values: Sequence[Any]) -> tuple[Operator, Sequence[Any], Callable] | None:
    """The operator that a call is in ATen, its values, and what makes this one's result of its; None if it is this."""
    aten = aten_of(operator)
    if aten.name is None or not aten.when(*values):
        return None
    named = registry.get(aten.name + "_" if operator.schema.writes else aten.name)
    return named, aten.values(*values), aten.result


def _kernel(operator: Operator, mask: int) -> Callable:
    """The kernel of the PythonDispatch key."""
    below: Callable | None = None
    schema = operator.schema
    written = [i for i, a in enumerate(schema.arguments) if a.writes]
    is_detach = operator.name == "aten::detach"
    is_view = operator.declaration is not None and operator.declaration.family.is_view
    options = _Options(schema) if "pin_memory" in schema.index else None

    def run_below(*values: Any) -> Any:
        nonlocal below
        if below is None:
            below = operator.lookup(mask & (TORCH_DISPATCH_MASK - 1))
            below = getattr(below, "without_plans", below)  # which are for arrays, and know nothing of wrappers
        return below(*values)

    if mask & FUNC_MASK or not is_shown(operator, bool(mask & REQUIRES_GRAD)):
        return run_below  # what it is made of comes this way

    def kernel(*values: Any) -> Any:
        owners = owners_among(values)
        if not owners and not (modes.include & TORCH_DISPATCH_MASK and (
                dispatch_modes() or modes.__dict__.get("functionalizing"))):
            return run_below(*values)
        shown = shown_as(operator, values)
        if options is not None:
            result = handled(overload_for(operator, values), owners, *handler_arguments(schema, options.shown(values)))
        elif shown is None:
            result = handled(overload_for(operator, values), owners, *handler_arguments(schema, values))
        else:
            named, given, made = shown
            result = made(handled(overload_for(named, given), owners, *handler_arguments(named.schema, given)))
        _check_result(schema, result)
        if options is not None and options.tracks(values):
            result.requires_grad_()
        for i in written:
            _count_write(values[i])
        if schema.writes:
            return values[0] if schema.returns else None
        if is_view:
            _track_views(operator, values, result)
        elif is_detach and isinstance(result, Tensor) and result is not values[0]:
            result._counter = values[0]._version_counter
        return result

    return kernel


def _check_result(schema: Schema, result: Any) -> None:
    """Raises unless a handler gave what the operator gives; None stands for a tensor that there is not."""
    returns = schema.returns
    if len(returns) != 1 or returns[0].type != "Tensor":
        return
    if returns[0].is_list:
        if result.__class__ not in (list, tuple):
            raise RuntimeError(f"Unable to cast Python instance of type {type(result)} to C++ type '?' (#define "
                               "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)")
    elif result is not None and not isinstance(result, Tensor):
        raise RuntimeError(f"Unable to cast {result} to Tensor")


def _count_write(value: Any) -> None:
    """Counts a write to a tensor that keeps its elements in others, which count their own."""
    for tensor in value if value.__class__ in (tuple, list) else (value,):
        if tensor is not None and tensor._keys & TORCH_DISPATCH_MASK:
            tensor._bump_version()


def _track_views(operator: Operator, values: Sequence[Any], result: Any) -> None:
    """Makes what a handler returned for a view operator views of the tensor they were made of."""
    source = values[0]
    several = result.__class__ in (tuple, list)
    for nr, view in enumerate(result if several else (result,)):
        if not isinstance(view, Tensor) or view is source or view._base is not None or view._edge is not None:
            continue
        if source._counter is None:
            source._counter = VersionCounter()
        view._counter, view._edge_version = source._counter, source._counter.value
        view._base = source if source._base is None else source._base
        view._view_step = (source._view_step, operator, tuple(values[1:]), nr if several else None)
        view._creation = creation_now(source, several)
        if not view._keys & REQUIRES_GRAD:
            view._keys |= VIEW_MASK


def write_out_handled(operator: Operator, values: Sequence[Any], out: Any) -> Any:
    """A call with `out=` as the handlers see it: one overload that writes; NotImplemented if it has none."""
    targets = out if isinstance(out, (tuple, list)) else (out,)
    owners = owners_among((*values, *targets))
    if modes.exclude & TORCH_DISPATCH_MASK or not owners and not modes.include & TORCH_DISPATCH_MASK:
        return NotImplemented
    schema = operator.schema
    args = [v for v, a in zip(values, schema.arguments, strict=True) if not a.keyword_only]
    kwargs = {a.name: v for v, a in zip(values, schema.arguments, strict=True) if a.keyword_only and v is not a.default}
    named = {"out": out} if targets[0] is out else dict(zip((r.name for r in schema.returns), out, strict=True))
    handled(out_overload(operator, values), owners, tuple(args), kwargs | named)
    for target in targets:
        _count_write(target)
    return out


def attach() -> None:
    """Gives all operators a kernel for the PythonDispatch key, and Tensor what makes wrappers."""
    registry.register_for_all(DispatchKey.PythonDispatch, PerKeys(_kernel))
    handle_out.append(write_out_handled)
    Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[assignment, method-assign]
