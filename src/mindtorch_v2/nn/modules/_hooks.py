"""Hooks of modules: the global ones, and those that run in the backward pass."""

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import mindtorch_v2 as torch

from ..._autograd.function import Function
from ..._autograd.node import RemovableHandle
from ..._core.warn import warn
from . import module as home  # of the global hooks, where programs look for them and replace them

Gradients = tuple[Any, ...]


def registered(hooks: OrderedDict, hook: Callable, *flags: OrderedDict, prepend: bool = False) -> RemovableHandle:
    """The handle of `hook`, added to `hooks` (in front if `prepend`) and marked in each of `flags`."""
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` whenever a buffer is registered; it may return a replacement."""
    return registered(home._global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Calls `hook(module, name, submodule)` whenever a submodule is registered; it may return a replacement."""
    return registered(home._global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` whenever a parameter is registered; it may return a replacement."""
    return registered(home._global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Calls `hook(module, args)` before every module's forward; it may return new arguments."""
    return registered(home._global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., None], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls `hook(module, args, output)` after every module's forward; it may return a new output."""
    flags = []
    if with_kwargs:
        flags.append(home._global_forward_hooks_with_kwargs)
    if always_call:
        flags.append(home._global_forward_hooks_always_called)
    return registered(home._global_forward_hooks, hook, *flags)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` of the last autograd node of every module's output."""
    _settle_kind_of_global_backward_hooks(full=False)
    return registered(home._global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_output)` before every module's backward; it may return a new grad_output."""
    return registered(home._global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` after every module's backward; it may return a new grad_input."""
    _settle_kind_of_global_backward_hooks(full=True)
    return registered(home._global_backward_hooks, hook)


def _settle_kind_of_global_backward_hooks(full: bool) -> None:
    if home._global_is_full_backward_hook not in (None, full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook."
            " Please use only one of them."
        )
    home._global_is_full_backward_hook = full


def global_backward_hooks(full: bool) -> list[Callable]:
    """The global backward hooks, when they are of that kind."""
    return list(home._global_backward_hooks.values()) if home._global_is_full_backward_hook is full else []


class ErrorAsWarning:
    """A context that turns an error of a hook into a warning, for when an earlier error is already on its way."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        warnings.warn(
            f"{self.what} with ``always_call=True`` raised an exception that was silenced as another error "
            f"was raised in forward: {error}",
            stacklevel=2,
        )
        return True


class BackwardHookFunction(Function):
    """The identity; its backward shows the gradients to `before` as they came and to `after` with zeros for None."""

    @staticmethod
    def forward(ctx: Any, before: Callable | None, after: Callable | None, *tensors: torch.Tensor) -> Gradients:
        ctx.before, ctx.after = before, after
        ctx.zeros_like = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Gradients:
        if ctx.before is not None:
            gradients = ctx.before(gradients)
        gradients = tuple(
            torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
            for gradient, (shape, dtype, device) in zip(gradients, ctx.zeros_like, strict=True)
        )
        if ctx.after is not None:
            gradients = ctx.after(gradients)
        return None, None, *gradients


class BackwardHook:
    """Runs a module's full backward hooks: an identity around its inputs and one around its outputs call them."""

    def __init__(self, module: Any, user_hooks: list[Callable], user_pre_hooks: list[Callable]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Gradients | None = None
        self.n_inputs = -1
        self.n_outputs = -1
        self.input_positions: list[int] | None = None
        self.output_positions: list[int] | None = None

    def setup_input_hook(self, args: tuple) -> tuple:
        """The arguments, their tensors passed through an identity that will see their gradients."""
        self.n_inputs = len(args)
        wrapped, self.input_positions = _through_identity(args, None, self._after_module_backward)
        return wrapped

    def setup_output_hook(self, result: Any) -> Any:
        """The result, its tensors passed through an identity that will see their gradients."""
        outputs = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(outputs)
        wrapped, self.output_positions = _through_identity(outputs, self._before_module_backward, None)
        return wrapped if isinstance(result, tuple) else wrapped[0]

    def _before_module_backward(self, gradients: Gradients) -> Gradients:
        positions = self.output_positions
        assert positions is not None
        grad_outputs = _spread(positions, gradients, self.n_outputs)
        for hook in self.user_pre_hooks:
            grad_outputs = _replaced(
                grad_outputs, hook(self.module, grad_outputs), "Backward pre hook", "grad_output"
            )
        if self.input_positions is None:
            self._call_hooks_without_grad_inputs(grad_outputs)
        else:
            self.grad_outputs = grad_outputs
        return tuple(grad_outputs[position] for position in positions)

    def _call_hooks_without_grad_inputs(self, grad_outputs: Gradients) -> None:
        warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
            "register_full_backward_hook for more details."
        )
        nothing = (None,) * self.n_inputs
        for hook in self.user_hooks:
            answer = hook(self.module, nothing, grad_outputs)
            if answer is not None and not (isinstance(answer, tuple) and all(item is None for item in answer)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients."
                )

    def _after_module_backward(self, gradients: Gradients) -> Gradients:
        if self.grad_outputs is None:  # the gradient reached the inputs by a way around the outputs (double backward)
            return gradients
        positions = self.input_positions
        assert positions is not None
        grad_inputs = _spread(positions, gradients, self.n_inputs)
        for hook in self.user_hooks:
            answer = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = _replaced(grad_inputs, answer, "Backward hook", "grad_input")
        self.grad_outputs = None
        return tuple(grad_inputs[position] for position in positions)


def _through_identity(
    values: tuple, before: Callable | None, after: Callable | None
) -> tuple[tuple, list[int] | None]:
    """The values with their tensors passed through the identity, and the tensors' places (None: no grad needed)."""
    positions = [position for position, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if not (torch.is_grad_enabled() and any(values[position].requires_grad for position in positions)):
        return values, None
    passed = BackwardHookFunction.apply(before, after, *(values[position] for position in positions))
    renewed = list(values)
    for position, tensor in zip(positions, passed, strict=True):
        renewed[position] = tensor
    return (tuple(renewed) if type(values) is tuple else type(values)(*renewed)), positions


def _spread(positions: list[int], gradients: Gradients, size: int) -> Gradients:
    """The gradients at their places in a tuple of `size`, None elsewhere."""
    spread: list[Any] = [None] * size
    for position, gradient in zip(positions, gradients, strict=True):
        spread[position] = gradient
    return tuple(spread)


def _replaced(gradients: Gradients, answer: Any, who: str, what: str) -> Gradients:
    """A hook's answer as the new gradients, or the old ones when it answered None."""
    if answer is None:
        return gradients
    if not isinstance(answer, tuple):
        answer = (answer,)
    if len(answer) != len(gradients):
        raise RuntimeError(
            f"{who} returned an invalid number of {what}, got {len(answer)}, but expected {len(gradients)}"
        )
    return answer


def first_tensor(result: Any) -> torch.Tensor:
    """The tensor found by following the first entry of nested dicts and sequences."""
    while not isinstance(result, torch.Tensor):
        if isinstance(result, Mapping):
            result = next(value for value in result.values() if isinstance(value, torch.Tensor))
        else:
            result = result[0]
    return result


def warn_about_partial_hook(args: tuple, result: Any, grad_fn: Any) -> None:
    """Warns where a non-full backward hook will not see all gradients of the module."""
    advice = "Please use register_full_backward_hook to get the documented behavior."
    future = "is deprecated and will be removed in future versions."

    def tell(situation: str, missing: str) -> None:
        warn(f"{situation} {future} {missing} {advice}", FutureWarning)

    outputs = result if isinstance(result, tuple) else (result,)
    inputs = args if isinstance(args, tuple) else (args,)
    if not all(isinstance(output, torch.Tensor) for output in outputs):
        tell(
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors",
            "This hook will be missing some of the grad_output.",
        )
    elif not all(isinstance(value, torch.Tensor) for value in inputs):
        tell(
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            "Tensors",
            "This hook will be missing some of the grad_input.",
        )
    elif len({output.grad_fn for output in outputs if output.grad_fn is not None}) > 1:
        tell(
            "Using a non-full backward hook when outputs are generated by different autograd Nodes",
            "This hook will be missing some grad_output.",
        )
    else:
        reached = {node for node, _ in grad_fn.next_functions}
        if {value.grad_fn for value in inputs if value.grad_fn is not None} != reached:
            tell(
                "Using a non-full backward hook when the forward contains multiple autograd Nodes",
                "This hook will be missing some grad_input.",
            )


class WrappedHook:
    """A hook that may take its module first; it holds the module weakly, so that no reference cycle arises."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if module is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.module is not None:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module and state["module"] is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.module = weakref.ref(state["module"]) if self.with_module else None
