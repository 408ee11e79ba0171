"""Custom autograd Functions inside vmap: by their own rule, or by one made of their forward and backward."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._autograd.function import Function
from .._core.tensor import Tensor
from .._dispatch.levels import is_at, value_at
from .._ops._declare.batch import Call, Result, Rule
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from .batching import BatchLevel
from .grad_level import NEEDS_SETUP_CONTEXT, wrapped
from .vmap import add_dimension

_SEE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    batch_size: int
    randomness: str


def vmapped_apply(level: BatchLevel, function: Any, args: tuple) -> Any:
    """The outputs of a Function on arguments of which some are at the level."""
    name, has_rule = function.__name__, function.vmap is not Function.vmap
    if function.generate_vmap_rule and has_rule:
        raise RuntimeError(f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overridden "
                           "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap "
                           f"staticmethod to avoid ambiguity. {_SEE}")
    if function.setup_context is Function.setup_context:
        raise RuntimeError(NEEDS_SETUP_CONTEXT)
    batched = tuple(is_at(level, a) and a._array.batched for a in args)
    values = tuple(value_at(level, a) for a in args)
    if not any(batched):
        return function.apply(*values)
    if function.generate_vmap_rule:
        return _generated(level, function, values, batched)
    if not has_rule:
        raise RuntimeError(f"You tried to vmap over {name}, but it does not have vmap support. Please override and "
                           f"implement the vmap staticmethod or set generate_vmap_rule=True. {_SEE}")
    result = function.vmap(VmapInfo(level.size, level.randomness), tuple(0 if b else None for b in batched), *values)
    leaves, dims, spec = _with_dimensions(result)
    return tree_unflatten([add_dimension(level, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)], spec)


def _with_dimensions(result: Any) -> tuple[list[Any], list[Any], Any]:
    """(leaves, the dimension of each, their structure) of what a user's rule returned."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError("Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
                           f"structure compatible with the output. Got a {type(result)} instead")
    output, out_dims = result
    leaves, spec = tree_flatten(output)
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(f"out_dims has structure {tree_flatten(out_dims)[1]} but the output has structure {spec}")
    return leaves, dims, spec


def operator_rule(function: Callable) -> Rule:
    """The batching rule of a custom operator, of what its author registered."""

    def rule(call: Call) -> Result:
        in_dims = tuple(
            tuple(0 if own else None for own in b) if isinstance(b, tuple) else 0 if b else None for b in call.batched)
        result = function(VmapInfo(call.size, call.level.randomness), in_dims, *call.values)
        leaves, dims, spec = _with_dimensions(result)
        moved = [leaf.movedim(dim, 0) if dim else leaf for leaf, dim in zip(leaves, dims, strict=True)]
        owns = [dim is not None for dim in dims]
        return tree_unflatten(moved, spec), owns[0] if spec.is_leaf() else owns

    return rule


def _lifted(level: BatchLevel, values: Sequence[Any], batched: Sequence[bool]) -> tuple:
    return tuple(wrapped(level, v, True) if b else v for v, b in zip(values, batched, strict=True))


def _lowered(level: BatchLevel, values: Sequence[Any]) -> tuple[tuple, tuple[bool, ...]]:
    """(values of the level below, which of them have the level's dimension)."""
    return (tuple(value_at(level, v) for v in values),
            tuple(is_at(level, v) and v._array.batched for v in values))


class _Inner:
    """The context that the user's functions see, at the level; what they save is kept below it."""

    def __init__(self, ctx: Any, level: BatchLevel) -> None:
        self.__dict__["_ctx"], self.__dict__["_level"] = ctx, level

    def save_for_backward(self, *tensors: Any) -> None:
        values, self._ctx.saved_batched = _lowered(self._level, tensors)
        self._ctx.save_for_backward(*values)

    def save_for_forward(self, *tensors: Any) -> None:
        values, self._ctx.saved_batched = _lowered(self._level, tensors)
        self._ctx.save_for_forward(*values)

    @property
    def saved_tensors(self) -> tuple:
        return _lifted(self._level, self._ctx.saved_tensors, self._ctx.saved_batched)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


def _generated(level: BatchLevel, function: Any, values: tuple, batched: tuple[bool, ...]) -> Any:
    """The outputs of a Function whose forward, backward and jvp are the given one's over the samples."""
    size, randomness = level.size, level.randomness
    flags: dict[str, tuple[bool, ...]] = {}

    def over_samples(method: Any, given: Sequence[Any], own: Sequence[bool], ctx: Any = None) -> tuple[Any, tuple]:
        with BatchLevel(size, randomness) as inner:
            lead = () if ctx is None else (_Inner(ctx, inner),)
            result = method(*lead, *_lifted(inner, given, own))
            several = isinstance(result, tuple)
            made, flags_of = _lowered(inner, result if several else (result,))
        return (made if several else made[0]), flags_of

    class Vmapped(Function):
        @staticmethod
        def forward(*inputs: Any) -> Any:
            output, flags["out"] = over_samples(function.forward, inputs, batched)
            return output

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            with BatchLevel(size, randomness) as inner:
                seen = _lifted(inner, outputs, flags["out"])
                function.setup_context(_Inner(ctx, inner), _lifted(inner, inputs, batched),
                                       seen if isinstance(output, tuple) else seen[0])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            method = function.backward if function.backward is not Function.backward else function.vjp
            own = tuple(isinstance(g, Tensor) and b for g, b in zip(grads, flags["out"], strict=True))
            made, own = over_samples(method, grads, own, ctx)
            given = made if isinstance(made, tuple) else (made,)
            return tuple(g.sum(0) if isinstance(g, Tensor) and b and not wanted else
                         g.unsqueeze(0).expand((size, *g.shape)) if isinstance(g, Tensor) and wanted and not b else g
                         for g, b, wanted in zip(given, own, batched, strict=True))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            own = tuple(isinstance(t, Tensor) and b for t, b in zip(tangents, batched, strict=True))
            made, found = over_samples(function.jvp, tangents, own, ctx)
            given = made if isinstance(made, tuple) else (made,)
            fitted = tuple(t.unsqueeze(0).expand((size, *t.shape)) if isinstance(t, Tensor) and b and not f else t
                           for t, b, f in zip(given, flags["out"], found, strict=True))
            return fitted if isinstance(made, tuple) else fitted[0]

    Vmapped.__name__ = f"Vmapped{function.__name__}"
    output = Vmapped.apply(*values)
    several = isinstance(output, tuple)
    made = _lifted(level, output if several else (output,), flags["out"])
    return made if several else made[0]
