"""The Autocast key's kernel, which casts the arguments of operators as their declarations say.

An operator that says nothing passes; what one that does is made of is out of autocast's reach.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._autograd import enable_grad
from .._core.dtype import OF_ARRAY, bfloat16, dtype, float32, float64
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.keys import AUTOCAST_MASK, BACKENDS, REQUIRES_GRAD, DispatchKey, modes
from .._dispatch.registry import Around, Operator, registry
from .._ops.copy import converted
from ._state import state

_BANNED = """torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""


def _policy(operator: Operator, device: str) -> str | None:
    """What the operator's declaration says of a device; None for most."""
    declared = getattr(operator.declaration, "autocast", None)
    if declared is None or device not in _DEVICES:
        return None
    return declared if isinstance(declared, str) else declared.get(_DEVICES[device])


# In a declaration, accelerators are spoken of together.
_DEVICES = {"cpu": "cpu", "cuda": "accelerators", "npu": "accelerators"}


def _eligible(value: Any, device: str) -> bool:
    return (isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype is not float64
            and value.device.type == device)


def cast(value: Any, target: dtype, device: str) -> Any:
    """A tensor, or what is in lists and dicts, in another type if it is one that autocast touches."""
    if isinstance(value, Tensor):
        return _cast_tensor(value, target, device)
    if isinstance(value, (tuple, list)):
        return type(value)(cast(v, target, device) for v in value)
    if isinstance(value, Mapping):
        return {cast(k, target, device): cast(v, target, device) for k, v in value.items()}
    return value


def _cast_tensor(value: Tensor, target: dtype, device: str) -> Tensor:
    kind = OF_ARRAY[value._array.dtype]
    if kind is target or not kind.is_floating_point or kind is float64 or value._device.type != device:
        return value
    # A parameter is cast one time for all its uses. Recorded even under no_grad: a later use may need it.
    is_leaf = value._base is None and (
        value._edge is None and value._keys & REQUIRES_GRAD or value.requires_grad and value.is_leaf)
    if not (kind is float32 and is_leaf and state.caching and target is state.dtypes[device] and not modes.inference):
        return converted(value, target)
    kept = state.casts.get((id(value), target))
    if kept is None:
        if modes.grad_enabled:
            made = converted(value, target)
        else:
            with enable_grad():
                made = converted(value, target)
        kept = state.casts[(id(value), target)] = value, made
    return kept[1]


def _widest(args: tuple, device: str) -> dtype:
    widest = lower = state.dtypes[device]
    for value in (v for a in args for v in (a if a.__class__ in (tuple, list) else (a,)) if _eligible(v, device)):
        if value.dtype is not float32 and value.dtype is not lower and widest is not float32:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        widest = float32 if value.dtype is float32 else widest
    return widest


def _refuse(args: tuple, device: str) -> tuple:
    raise RuntimeError(_BANNED)


def _casting(operator: Operator, target_of: Callable[[tuple, str], dtype]) -> Callable[[tuple, str], Sequence[Any]]:
    """The rule that casts all tensors among the arguments to one type, which they and the device decide."""
    places = [i for i, argument in enumerate(operator.schema.arguments) if argument.is_tensor]

    def arguments(args: tuple, device: str) -> Sequence[Any]:
        target, given = target_of(args, device), None
        for i in places:
            value = args[i]
            if value is not None and (made := cast(value, target, device)) is not value:
                given = given or list(args)
                given[i] = made
        return given or args

    return arguments


def _rule(operator: Operator, policy: str) -> Callable[[tuple, str], Sequence[Any] | None]:
    """(arguments, device) -> what the operator gets, run outside of autocast; None leaves a call as it is."""
    if policy == "lower":
        return _casting(operator, lambda args, device: state.dtypes[device])
    if policy == "widest":
        return _casting(operator, _widest)
    if policy == "banned":
        return _refuse
    if policy == "untouched":  # made of no listed operator in PyTorch
        return lambda args, device: args
    if policy == "padding":  # constant and circular padding, and reflection in three dimensions, are in no list
        return lambda args, device: (cast(args, float32, device) if (args[2], len(args[1])) in _WIDE_PADDINGS else None)
    if policy == "recurrent":  # oneDNN's layer, where PyTorch has it; otherwise what the steps are made of is cast
        return lambda args, device: (
            cast(args, bfloat16, device) if state.dtypes[device] is bfloat16 and isinstance(args[1], (tuple, list))
            and len(args[1]) == 2 and args[1][0].shape[2] == args[1][1].shape[2] else None)
    names = [a.name for a in operator.schema.arguments]
    if policy == "result" and "dtype" in names:
        place = names.index("dtype")
        return lambda args, device: ((*args[:place], float32, *args[place + 1 :])
                                     if args[place] is None and _eligible(args[0], device) else None)
    return _casting(operator, lambda args, device: float32)


_WIDE_PADDINGS = {("reflect", 2), ("reflect", 4), ("replicate", 2), ("replicate", 4), ("replicate", 6)}


def _autocast_kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    device = next((key.name.lower() for key in reversed(BACKENDS) if mask >> key & 1), "cpu")
    policy = _policy(operator, device)
    if policy is None:
        return below
    arguments = _rule(operator, policy)

    def kernel(*args: Any) -> Any:
        given = arguments(args, device) if device in state.enabled else None
        if given is None:
            return below(*args)
        left = modes.leave(AUTOCAST_MASK)
        try:
            return call_bound(operator, given)
        finally:
            modes.come_back(left)

    return kernel


def _cast_before_recording(operator: Operator, args: tuple, device: str) -> Sequence[Any] | None:
    """What a pipeline records in the place of a call's arguments; None if autocast leaves them."""
    policy = _policy(operator, device)
    return _rule(operator, policy)(args, device) if policy is not None and device in state.enabled else None


registry.autocast = _cast_before_recording
registry.register_for_all(DispatchKey.Autocast, Around(_autocast_kernel))
