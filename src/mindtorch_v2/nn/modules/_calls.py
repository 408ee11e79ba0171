"""Calling a Module: forward, with the hooks around it."""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from . import module as home  # of the global hooks
from ._hooks import (
    BackwardHook,
    ErrorAsWarning,
    RemovableHandle,
    WrappedHook,
    first_tensor,
    global_backward_hooks,
    registered,
    warn_about_partial_hook,
)


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """What the module computes; for subclasses to define, with the parameters that they want."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class ModuleCalls:
    """The part of Module that runs forward and the hooks around it."""

    _compiled_call_impl: Callable | None = None

    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    forward: Callable[..., Any] = _forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or home._global_forward_hooks
            or home._global_forward_pre_hooks
            or home._global_backward_hooks
            or home._global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """A call of the module that was not compiled."""
        return self._call_with_hooks(args, kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles calls of this module, in place; the arguments are torch.compile's."""
        from ..._compile import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def _call_with_hooks(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()  # the ids of always_call hooks that already ran
        result = None
        completed = False
        try:
            full_hooks, partial_hooks = self._get_backward_hooks()
            pre_hooks = self._get_backward_pre_hooks()
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            backward_hook = BackwardHook(self, full_hooks, pre_hooks) if full_hooks or pre_hooks else None
            if backward_hook is not None:
                args = backward_hook.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for hook_id, hook, with_kwargs, always_call, _ in self._all_forward_hooks():
                if always_call:
                    called.add(hook_id)
                answer = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if answer is not None:
                    result = answer
            if backward_hook is not None:
                if not isinstance(result, (torch.Tensor, tuple)):
                    warnings.warn(
                        "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                        f"but received {type(result)}",
                        stacklevel=3,
                    )
                result = backward_hook.setup_output_hook(result)
            if partial_hooks:
                self._register_partial_hooks(partial_hooks, args, result)
            completed = True
            return result
        finally:
            if not completed:
                self._run_always_called_hooks(called, args, kwargs, result)

    def _run_forward_pre_hooks(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        for hook_id, hook in (*home._global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if hook_id in self._forward_pre_hooks_with_kwargs:
                answer = hook(self, args, kwargs)
                if answer is None:
                    continue
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple "
                        f"of (new_args, new_kwargs), but got {answer}."
                    )
                args, kwargs = answer
            else:
                answer = hook(self, args)
                if answer is not None:
                    args = answer if isinstance(answer, tuple) else (answer,)
        return args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Callable, bool, bool, str]]:
        """Each forward hook with its id, whether it takes kwargs, is always called, and what it is called in texts."""
        global_hooks = [
            (
                hook_id,
                hook,
                hook_id in home._global_forward_hooks_with_kwargs,
                hook_id in home._global_forward_hooks_always_called,
                "global module forward hook",
            )
            for hook_id, hook in home._global_forward_hooks.items()
        ]
        own_hooks = [
            (
                hook_id,
                hook,
                hook_id in self._forward_hooks_with_kwargs,
                hook_id in self._forward_hooks_always_called,
                "module forward hook",
            )
            for hook_id, hook in self._forward_hooks.items()
        ]
        return global_hooks + own_hooks

    def _run_always_called_hooks(self, called: set[int], args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Runs, after an error, the always_call hooks that did not run yet."""
        for hook_id, hook, with_kwargs, always_call, what in self._all_forward_hooks():
            if always_call and hook_id not in called:
                with ErrorAsWarning(what):
                    answer = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                    if answer is not None:
                        result = answer

    def _register_partial_hooks(self, hooks: list[Callable], args: tuple, result: Any) -> None:
        grad_fn = first_tensor(result).grad_fn
        if grad_fn is not None:
            for hook in hooks:
                grad_fn.register_hook(WrappedHook(hook, self))
            warn_about_partial_hook(args, result, grad_fn)

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """The full and the non-full backward hooks, global ones first."""
        own = list(self._backward_hooks.values())
        full = global_backward_hooks(full=True) + (own if self._is_full_backward_hook is True else [])
        partial = global_backward_hooks(full=False) + (own if self._is_full_backward_hook is False else [])
        return full, partial

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [*home._global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    # ---- registering hooks ----

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args[, kwargs])` before forward; it may return new arguments."""
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return registered(self._forward_pre_hooks, hook, *flags, prepend=prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args[, kwargs], output)` after forward; it may return a new output."""
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return registered(self._forward_hooks, hook, *flags, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before the module's backward; it may return a new grad_output."""
        return registered(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` after the module's backward; it may return a new grad_input."""
        self._settle_kind_of_backward_hooks(full=True)
        return registered(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` of the output's last autograd node only."""
        self._settle_kind_of_backward_hooks(full=False)
        return registered(self._backward_hooks, hook)

    def _settle_kind_of_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

