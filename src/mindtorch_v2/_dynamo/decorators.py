"""Marks on functions and tensors that `torch.compile` looks at."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .state import DEFAULT_STANCE, STANCES, Stance, current_stance, state


def is_compiling() -> bool:
    """Whether the calling code runs as part of a compiled function."""
    return state.running


def run(fn: Callable | None = None) -> Any:
    """The function, which compiles nothing new."""
    return run if fn is None else fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """The function as one that is never part of a compiled one; with recursive=False only its own frame is not."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    from ..nn import Module

    if isinstance(fn, type):
        if "__call__" in vars(fn):
            fn.__call__ = disable(fn.__call__, recursive, reason=reason)  # type: ignore[method-assign]
        return fn
    fn = innermost_fn(fn)
    if not recursive:
        fn._torchdynamo_disable = True
        return fn
    if isinstance(fn, Module):
        from .eval_frame import OptimizedModule

        return OptimizedModule(fn, disable_call(reason))
    if not callable(fn):
        raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
    return disable_call(reason)(fn)


def disable_call(reason: str | None) -> Callable[[Callable], Callable]:
    """What makes functions leave the compiled one that calls them."""

    def decorated(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            if not state.running:
                return fn(*args, **kwargs)
            from .eval_frame import outside

            with outside(
                "Skip calling `torch.compiler.disable()`d function",
                f"Skip calling function `{fn}` since it was wrapped with `torch.compiler.disable` (reason: {reason})",
                ["Remove the `torch.compiler.disable` call"],
                str(fn),
            ):
                return fn(*args, **kwargs)

        disabled._torchdynamo_disable = True  # type: ignore[attr-defined]
        disabled._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
        disabled._torchdynamo_disable_recursive = True  # type: ignore[attr-defined]
        disabled._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
        return disabled

    return decorated


def innermost_fn(fn: Any) -> Any:
    """The function that the user wrote, under what compiling put around it."""
    while hasattr(fn, "_torchdynamo_orig_callable"):
        fn = fn._torchdynamo_orig_callable
    return fn


def is_dynamo_disable_recursive(method: Callable) -> bool | None:
    """Whether a function was disabled with all it calls; None if it was not disabled."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


def graph_break(msg: str = "") -> None:
    """Ends the graph that is being recorded, and begins another."""
    if state.running:
        from .eval_frame import outside

        with outside(
            "Call to `torch._dynamo.graph_break()`",
            "User-inserted graph break. Message: None",
            ["Remove the `torch._dynamo.graph_break()` call."],
            "Called `torch._dynamo.graph_break()` with args "
            f"`{[f'ConstantVariable(str: {msg!r})'] if msg else []}`, kwargs `{{}}`".replace('"', ""),
        ):
            pass


def skip_frame(msg: str = "") -> None:
    """Runs the calling function as it is; recording needs no frame to be skipped."""


def allow_in_graph(fn: Any) -> Any:
    """The function: what it calls is recorded, as what all functions call."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def nonstrict_trace(traceable_fn: Callable) -> Callable:
    return traceable_fn


def disallow_in_graph(fn: Any) -> Any:
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """The function, which raises an error when a compiled one calls it."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("forbid_in_graph applies only to callables")
    fn._dynamo_forbidden = True
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function; a replay without Python takes what it gave for good."""
    fn._dynamo_marked_constant = True
    return fn


def substitute_in_graph(
    original_fn: Callable,
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable:
    """A decorator for what a compiler could look into in the place of `original_fn`; that one itself runs here."""
    if not inspect.isfunction(original_fn) and not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorated(traceable_fn: Callable) -> Callable:
        if not skip_signature_check:
            try:
                original, given = inspect.signature(original_fn), inspect.signature(traceable_fn)
            except ValueError:  # a builtin function without a signature
                return traceable_fn
            names = [[(p.name, p.kind) for p in s.parameters.values()] for s in (original, given)]
            if names[0] != names[1]:
                raise TypeError(f"Signature mismatch between {original_fn} and {traceable_fn}: {original} != {given}")
        return traceable_fn

    return decorated


def _marked(t: Any, name: str, index: int | Sequence[int]) -> None:
    setattr(t, name, {*getattr(t, name, ()), *([index] if isinstance(index, int) else index)})


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Any = None,
) -> None:
    """Says that a dimension's size will vary; every shape has a plan of its own here."""
    _marked(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    _marked(t, "_dynamo_weak_dynamic_indices", index)


def mark_unbacked(t: Any, index: Any, **options: Any) -> None:
    _marked(t, "_dynamo_unbacked_indices", index)


def mark_static(t: Any, index: Any = None) -> None:
    """Says that a dimension's size, or all of them, will not vary."""
    if isinstance(t, type):
        t._dynamo_marked_static = True  # type: ignore[attr-defined]
        return
    _marked(t, "_dynamo_static_indices", range(t.dim()) if index is None else index)


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Says that a tensor's memory stays where it is."""
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"


class set_stance:
    """What compiled functions do at a call: from now on, for a block, or in a decorated function."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if state.running:
            raise AssertionError(f"Attempt to trace forbidden callable {set_stance}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.before = current_stance[0]
        made = Stance(stance, skip_guard_eval_unsafe, force_backend)
        self.stance = current_stance[0] = DEFAULT_STANCE if made == DEFAULT_STANCE else made

    def __enter__(self) -> "set_stance":
        current_stance[0] = self.stance
        return self

    def __exit__(self, *exception: object) -> None:
        current_stance[0] = self.before

    def __call__(self, fn: Callable) -> Callable:
        current_stance[0] = self.before

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            before = current_stance[0]
            current_stance[0] = self.stance
            try:
                return fn(*args, **kwargs)
            finally:
                current_stance[0] = before

        return with_stance


def checked_stance() -> Stance:
    """The stance there is."""
    if current_stance[0].stance not in STANCES:
        raise RuntimeError(f"invalid torch.compile stance '{current_stance[0]}'".replace("Stance(", "DynamoStance("))
    return current_stance[0]
