"""Autograd of custom operators: formulas of users, and what happens where there is none."""

import warnings
from collections.abc import Callable
from typing import Any

from .._autograd.function import Function
from .._core.tensor import Tensor
from .._dispatch.keys import DispatchKey, modes
from .._dispatch.registry import Around, Operator
from .._dispatch.schema import MISSING, Schema
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten


def supports_tensorlist(cls: Any) -> Any:
    """Lets a Function take and give lists of tensors: their gradients come and go as lists."""
    forward, backward, setup = cls.forward, cls.backward, cls.setup_context
    has_setup = setup is not Function.setup_context

    class Flat(Function):
        """The Function itself, on the leaves of its arguments."""

        @staticmethod
        def forward(ctx: Any, in_spec: Any, kept: list, *leaves: Any) -> Any:
            args = tree_unflatten(list(leaves), in_spec)
            if has_setup:
                result = forward(*args)
                setup(ctx, args, result)
            else:
                result = forward(ctx, *args)
            ctx._several = isinstance(result, tuple)
            flat, ctx._out_spec = tree_flatten(list(result) if ctx._several else result)
            kept.append((ctx._out_spec, ctx._several))
            ctx._in_spec = in_spec
            ctx._wanted = ctx.needs_input_grad[2:]
            ctx.__dict__["needs_input_grad"] = tuple(tree_unflatten(list(ctx._wanted), in_spec))
            return tuple(flat)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            given = tree_unflatten(list(grads), ctx._out_spec)
            made = backward(ctx, *(given if ctx._several else (given,)))
            made = made if isinstance(made, tuple) else (made,)
            wanted = tree_unflatten(list(ctx._wanted), ctx._in_spec)
            if len(made) != len(wanted):
                raise RuntimeError(f"Expected the return from backward to be of the same structure as the inputs. Got: "
                                   f"{len(made)} values, expected {len(wanted)}")
            leaves: list[Any] = [None, None]
            for grad, place in zip(made, wanted, strict=True):
                count = len(tree_flatten(place)[0])
                if isinstance(place, (tuple, list)):
                    if grad is not None and (not isinstance(grad, (tuple, list)) or len(grad) != count):
                        raise RuntimeError("Expected the return from backward to be of the same structure as the "
                                           f"inputs. Got: {grad} (return from backward), expected: {count} gradients")
                    leaves += [None] * count if grad is None else list(grad)
                else:
                    leaves += [grad]
            return tuple(leaves)

    def apply(*args: Any) -> Any:
        leaves, in_spec = tree_flatten(tuple(args))
        kept: list[tuple[Any, bool]] = []
        flat = Flat.apply(in_spec, kept, *leaves)
        spec, several = kept[0]
        made = tree_unflatten(list(flat), spec)
        return tuple(made) if several else made

    def refuse(name: str) -> Callable:
        def direct(*args: Any) -> Any:
            raise NotImplementedError(f"NYI: calling supports_tensorlist autograd.Function.{name} directly. You should "
                                      "instead be calling .apply.")

        return direct

    cls.apply = apply
    cls.forward, cls.backward = staticmethod(refuse("forward")), staticmethod(refuse("backward"))
    return cls


def _has_lists(schema: Schema) -> bool:
    return any(a.is_list and a.type == "Tensor" for a in schema.arguments) or any(
        r.is_list and r.type == "Tensor" for r in schema.returns)


def custom_autograd(backward: Callable, setup: Callable | None) -> Callable:
    """What makes the autograd kernel of an operator with a formula."""

    def make(operator: Operator, below: Callable, mask: int) -> Callable:
        keyword_only = [i for i, a in enumerate(operator.schema.arguments) if a.keyword_only]

        count = len(operator.schema.arguments)
        required = sum(a.default is MISSING for a in operator.schema.positional)

        def run_setup(ctx: Any, inputs: tuple, output: Any) -> None:
            if setup is None:
                return
            if keyword_only:
                given = {operator.schema.names[i]: inputs[i] for i in keyword_only}
                setup(ctx=ctx, inputs=inputs[: keyword_only[0]], keyword_only_inputs=given, output=output)
            else:
                setup(ctx=ctx, inputs=inputs, output=output)

        def run_backward(ctx: Any, *grads: Any) -> Any:
            result = backward(ctx, *grads)
            given = result if isinstance(result, tuple) else (result,)
            if len(given) >= required:  # those of arguments that were left out may be left out, too
                given += (None,) * (count - len(given))
            return given

        members = {"forward": staticmethod(lambda *args: below(*args)), "setup_context": staticmethod(run_setup),
                   "backward": staticmethod(run_backward)}
        made: Any = type(operator.schema.base_name, (Function,), members)
        if _has_lists(operator.schema):
            made = supports_tensorlist(made)

        def kernel(*args: Any) -> Any:
            if modes.grad_enabled and _requires_grad(args):
                return made.apply(*(list(a) if a.__class__ is tuple else a for a in args))
            return below(*args)

        return kernel

    return make


class _Fallback:
    """What backward through an operator without an autograd kernel does: nothing, or "warn"."""

    mode = "warn"


def get_fallback_mode() -> str:
    return _Fallback.mode


def set_fallback_mode(mode: str) -> None:
    if mode not in ("nothing", "warn", "error"):
        raise RuntimeError(f"Unsupported AutogradFallbackMode: {mode}")
    _Fallback.mode = mode


def has_fallback(operator: Operator) -> bool:
    """Whether an operator has no autograd of its own."""
    kernel = operator.kernels.get(DispatchKey.Autograd)
    return isinstance(kernel, Around) and kernel.make is without_autograd


def _requires_grad(values: Any) -> bool:
    """Whether there is a tensor that needs grad among them."""
    if isinstance(values, (tuple, list)):
        return any(map(_requires_grad, values))
    return isinstance(values, Tensor) and values.requires_grad


def without_autograd(operator: Operator, below: Callable, mask: int) -> Callable:
    """Autograd of an operator that has no kernel for it: gradients end here, with a warning."""
    written = [r.alias is not None and "!" in r.alias for r in operator.schema.returns]

    def warn(grad: Any = None) -> None:
        text = (f"{operator.name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to "
                "backprop through it. This may lead to silently incorrect behavior.")
        if _Fallback.mode == "error":
            raise RuntimeError(text)
        warnings.warn(
            f"{text} This behavior is deprecated and will be removed in a future version of PyTorch. If your operator "
            "is differentiable, please ensure you have registered an autograd kernel to the correct Autograd key (e.g. "
            "DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, "
            "or to squash this warning and use the previous behavior, please register "
            "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd.", stacklevel=2)

    class WarnNotImplemented(Function):
        """The origin of results that nothing is known of."""

        @staticmethod
        def forward(ctx: Any, results: list[Tensor], *inputs: Any) -> Any:
            ctx._count = len(inputs)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            warn()
            return (None,) * (ctx._count + 1)

    def kernel(*args: Any) -> Any:
        result = below(*args)  # the kernel may be made of operators, which are recorded
        if _Fallback.mode == "nothing" or not modes.grad_enabled or not _requires_grad(args):
            return result
        values = [result] if len(written) == 1 else list(result or ())
        flat, spec = tree_flatten(values)
        of_written = tree_flatten([tree_map(lambda _, w=w: w, v) for v, w in zip(values, written, strict=True)])[0]
        unrecorded = []
        for nr, (value, is_written) in enumerate(zip(flat, of_written, strict=True)):
            if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
                continue
            if not value.requires_grad:
                unrecorded += [] if is_written else [nr]
                continue
            for each in (value, value._base if is_written else None):
                if each is not None and each.requires_grad:
                    each.register_hook(warn)
        if unrecorded:
            inputs = [leaf for leaf in tree_flatten(args)[0] if isinstance(leaf, Tensor)]
            recorded = WarnNotImplemented.apply([flat[nr] for nr in unrecorded], *inputs)
            for nr, tensor in zip(unrecorded, recorded, strict=True):
                flat[nr] = tensor
        if not unrecorded:
            return result
        made = tree_unflatten(flat, spec)
        return made[0] if len(written) == 1 else result.__class__(made)

    return kernel


def no_formula(operator: Operator, below: Callable, mask: int) -> Callable:
    """Autograd of a custom operator without a formula: forward works, backward says what is missing."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"Trying to backward through {operator.name} but no autograd formula was registered. Please "
                           "use register_autograd to add one.")

    return custom_autograd(backward, None)(operator, below, mask)


def refused_out(operator: Operator, below: Callable, mask: int) -> Callable:
    """Autograd of an operator tagged `out`: what is written by keyword cannot be recorded."""

    def kernel(*args: Any) -> Any:
        if modes.grad_enabled and _requires_grad(args):
            raise RuntimeError(f"{operator.schema.base_name}(): functions with out=... arguments don't support "
                               "automatic differentiation, but one of the arguments requires grad.")
        return below(*args)

    return kernel
