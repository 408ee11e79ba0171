"""The level of grad, vjp and jvp, and what all levels do with an operator's results."""

from collections.abc import Sequence
from typing import Any, Self

from .._autograd.function import Function, set_up
from .._core.device import CPU
from .._core.tensor import Tensor, tracked_view
from .._dispatch.callers import call_bound
from .._dispatch.keys import AUTOGRAD_MASK, FUNC_MASK, INFERENCE_MASK, changed_modes, modes
from .._dispatch.levels import Level, LevelArray, is_at, like_result, map_tensors, value_at
from .._dispatch.registry import Operator

_new = object.__new__

NEEDS_SETUP_CONTEXT = ("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), "
                       "it must override the setup_context staticmethod. For more details, please see "
                       "https://pytorch.org/docs/main/notes/extending.func.html")


def wrapped(level: Level, value: Any, batched: bool = False) -> Tensor:
    """A tensor of the level below at this one."""
    made = _new(Tensor)
    made._array, made._keys = LevelArray(level, value, batched), FUNC_MASK
    if value._device is not CPU:
        made._device = value._device
    return made


def flat(values: Sequence[Any]) -> list[Any]:
    """Values, those of lists one by one."""
    return [v for value in values for v in (value if value.__class__ in (tuple, list) else (value,))]


def finished(level: Level, operator: Operator, args: Sequence[Any], result: Any, batched: Any = False) -> Any:
    """A result of the level below as one of this; `batched` holds of all outputs, or says it of each."""
    if any(a.writes for a in operator.schema.arguments):
        for argument, value in zip(operator.schema.arguments, args, strict=True):
            if argument.writes:
                for tensor in value if argument.is_list else (value,):
                    if is_at(level, tensor):
                        tensor._bump_version()
        return None if result is None else args[0]
    known = {id(tensor._array.value): tensor for tensor in flat(args) if is_at(level, tensor)}
    is_view = operator.declaration is not None and operator.declaration.family.is_view and is_at(level, args[0])

    def one(value: Any, own: bool, nr: int | None) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) in known:
            return known[id(value)]
        if is_view:
            made = tracked_view(args[0], LevelArray(level, value, own), 0, operator, tuple(args[1:]), nr)
            made._creation = made._creation or value._creation
            return made
        return wrapped(level, value, own)

    if result.__class__ in (tuple, list) or hasattr(result, "_fields"):
        owns = batched if isinstance(batched, (tuple, list)) else [batched] * len(result)
        return like_result(result, [one(value, owns[nr], nr) for nr, value in enumerate(result)])
    return one(result, batched, None)


# Batch norm does not tell of its writes to running statistics, in PyTorch: those of captured tensors move, too.
_UNTOLD_WRITES = frozenset({"aten::_move_statistics_"})


class GradLevel(Level):
    """Records, or carries tangents, apart from all other levels."""

    def __init__(self) -> None:
        super().__init__()
        self.outer_grad = modes.grad_enabled
        self.outer_inference = modes.inference
        self.outer_exclude = modes.exclude
        self.in_backward = False  # its own backward pass, which is not recorded here but may be below

    def __enter__(self) -> Self:
        if self.outer_exclude & AUTOGRAD_MASK:  # calls go past autograd outside of the transform
            modes.update(exclude=self.outer_exclude & ~AUTOGRAD_MASK)
        if self.outer_inference:  # which holds outside of the transform, and for what it gives, but not for itself
            modes.update(inference=False, include=modes.include & ~INFERENCE_MASK)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if self.outer_exclude & AUTOGRAD_MASK:
            modes.update(exclude=modes.exclude | self.outer_exclude & AUTOGRAD_MASK)
        if self.outer_inference:
            modes.update(inference=True, include=modes.include | INFERENCE_MASK)

    def below_mode(self) -> bool:
        """The grad mode in which calls go on below: no_grad outside or inside the transform switches it off."""
        return self.outer_grad and (self.in_backward or modes.grad_enabled)

    def wrap(self, value: Any) -> Any:
        return wrapped(self, value)

    def run(self, operator: Operator, args: Sequence[Any]) -> Any:
        refuses = operator.name not in _UNTOLD_WRITES
        for argument, value in zip(operator.schema.arguments, args, strict=True):
            if refuses and argument.writes and not argument.is_list and value is not None and not is_at(self, value):
                raise RuntimeError("During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to "
                                   f"call in-place operation ({operator.name}) that would mutate a captured Tensor. "
                                   "This is not supported; please rewrite the function being transformed to explicitly "
                                   "accept the mutated Tensor(s) as inputs.")
        below: dict[str, Any] = {"grad_enabled": self.below_mode()}
        if self.outer_inference:
            below |= {"inference": True, "include": modes.include | INFERENCE_MASK}
        with changed_modes(**below):
            result = call_bound(operator, map_tensors(lambda t: value_at(self, t), args))
        return finished(self, operator, args, result)

    def apply_function(self, function: Any, args: tuple) -> Any:
        if function.setup_context is Function.setup_context:
            raise RuntimeError(NEEDS_SETUP_CONTEXT)
        inner_args = [value_at(self, a) for a in args]
        recording = self.below_mode()

        def forward(ctx: Any) -> Any:
            with changed_modes(grad_enabled=recording):
                inner = function.apply(*inner_args)
            outputs = tuple(
                next((a for a, i in zip(args, inner_args, strict=True) if i is o), None) or wrapped(self, o)
                if isinstance(o, Tensor) else o for o in (inner if isinstance(inner, tuple) else (inner,)))
            output = outputs if isinstance(inner, tuple) else outputs[0]
            set_up(function, ctx, args, output)
            return output

        return function._recorded(tuple(map(self._lifted, args)), forward, function._generated_backward_cls())

    def _lifted(self, value: Any) -> Any:
        return self.wrap(value) if isinstance(value, Tensor) and not is_at(self, value) else value

    def shown(self, array: LevelArray, value: str) -> str:
        return f"GradTrackingTensor(lvl={self.depth if self.alive else -2}, value=\n{value}\n)"
