"""Compiled functions: what is around a function or module that `torch.compile` was given."""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .._backends.cpu.factors import now
from .._dispatch.keys import modes
from ..nn import Module
from . import config
from .backends.debugging import ExplainOutput
from .backends.registry import lookup_backend
from .decorators import checked_stance, innermost_fn
from .state import DEFAULT_STANCE, current_stance, generation, state

if TYPE_CHECKING:
    from .recording import Recording

_LOOKED_AT = 3  # calls after which a function that gains nothing is no longer recorded
_LOOKED_AGAIN = 64  # calls after which it is looked at again, twice as many each time: what it does may change


class Settings(NamedTuple):
    """What one call of torch.compile asked for."""

    backend: Callable | None = None  # None: what is recorded is planned into kernels
    name: str = "inductor"
    fullgraph: bool = False
    replays: bool = False  # without Python, gradients too, as graphs of the device: mode "reduce-overhead"
    recompile_limit: int | None = None
    dynamic: bool | None = None


@contextmanager
def outside(what: str, explanation: str, hints: list[str], context: str) -> Iterator[None]:
    """A block in which nothing is recorded: the graph so far is run first. Refused where the function is to be one."""
    pipe: Recording | None = state.pipe
    if pipe is None:
        state.running = False
        try:
            yield
        finally:
            state.running = True
        return
    pipe.ends_graph(what, explanation, hints, context, what)
    with pipe.paused():
        state.running, state.pipe = False, None
        try:
            yield
        finally:
            state.running, state.pipe = True, pipe


def call_compiled(region: "Region", fn: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Calls a compiled function; the frames inside this one are the program's."""
    if state.running or config._config["disable"]:
        return fn(*args, **kwargs)  # part of the function that is being recorded
    stance = "default"
    if current_stance[0] is not DEFAULT_STANCE:
        stance, _, backend = checked_stance()
        if stance == "force_eager":
            return fn(*args, **kwargs)
        if backend is not None:
            region = region.with_backend(backend)
    if region.generation != generation[0]:
        region.forget()
    if region.replays is not None and stance == "default" and modes.__dict__.get("pipeline") is None:
        return region.replays(fn, args, kwargs)
    return region.record(fn, args, kwargs, stance, region.worth)


@functools.cache
def _recording() -> type["Recording"]:
    from .recording import Recording

    return Recording


class Worth:
    """Whether recording calls is worth it, as far as those that were recorded tell."""

    def __init__(self) -> None:
        self.calls = 0  # that were recorded
        self.eager_calls, self.pause = 0, _LOOKED_AGAIN  # calls to come that are not recorded; how many the next time

    def learn(self, saved: float) -> None:
        """Takes a recorded call into account, and the seconds that it saved."""
        self.calls += 1
        if self.calls >= _LOOKED_AT and saved <= 0:
            self.eager_calls = self.pause
            self.pause *= 2

    def call(self, fn: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One of the calls that are not recorded."""
        self.eager_calls -= 1
        if state.running:
            return fn(*args, **kwargs)
        state.running = now.by_calls = True
        try:
            return fn(*args, **kwargs)
        finally:
            state.running = now.by_calls = False


class Region:
    """What is known of a compiled function."""

    def __init__(self, fn: Callable, settings: Settings) -> None:
        self.fn, self.settings = fn, settings
        self.others: dict[Any, Region] = {}
        self.keeps = False  # every plan of a call, with source lines, for explaining
        # whether to find out why elements are looked at
        self.watches = settings.fullgraph or settings.backend is not None
        self.forget()

    def forget(self) -> None:
        """Begins anew, as after torch._dynamo.reset()."""
        self.generation = generation[0]
        self.plans: dict[int, tuple[Any, int, int]] = {}  # plan, calls in it, kernels they became; by the plan's id
        self.graphs: dict[
            int, dict[Any, Callable]
        ] = {}  # what a backend made: by the graph's place in a call, and its key
        # By the graph's place: recordings that graphs were made of, and graphs for several sizes with what they are of.
        self.sketches: dict[int, list[Any]] = {}
        self.sized: dict[int, list[tuple[Any, Callable]]] = {}
        self.kinds: dict[int, dict[Any, Any]] = {}  # likewise: the arguments that something was compiled for
        self.seen: set[Any] = set()
        self.limit_hit = False
        self.worth = Worth()
        self.last: Recording | None = None
        self.replays: Any = None
        if self.settings.backend is None:
            from .._pipeline.replay import Replays

            whole = self.settings.replays
            self.replays = Replays(self, Worth if whole else lambda: self.worth, whole)

    def with_backend(self, backend: Any) -> "Region":
        """The same function for another backend."""
        found = None if backend == "inductor" else lookup_backend(backend)
        if found not in self.others:
            self.others[found] = Region(self.fn, self.settings._replace(backend=found, replays=False))
        return self.others[found]

    def record(self, fn: Callable, args: tuple, kwargs: dict[str, Any], stance: str, worth: Worth | None = None,
               kept: bool = False) -> Any:  # fmt: skip
        """Calls the function, and runs what it does as few kernels; notes whether that was worth it.

        What was recorded is the region's `last` then, with its arrays where it is `kept` for a replay.
        """
        state.running = True
        try:
            if self.limit_hit and not self.keeps and self.settings.backend is None:
                return fn(*args, **kwargs)
            if modes.__dict__.get("pipeline") is not None:
                return fn(*args, **kwargs)  # an outer pipeline records it
            pipe = state.pipe = _recording()(self, args, kwargs, stance)
            pipe.keeps = pipe.lines = pipe.timed = self.keeps
            pipe.kept = kept
            with pipe:
                result = fn(*args, **kwargs)
            self._learn(pipe, worth)
            return result
        finally:
            state.running, state.pipe = False, None

    def explain(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls the function twice, the second time with a clock: its plans, kernels, times and memory."""
        from .._pipeline.explain import Explanation, amount
        from .._pipeline.factors import kept_bytes

        owner = getattr(self.fn, "__self__", None)
        name = type(owner).__name__ if isinstance(owner, Module) else getattr(self.fn, "__qualname__", str(self.fn))
        self.keeps = True
        try:
            self.record(self.fn, args, kwargs, "default")
            self.record(self.fn, args, kwargs, "default")
        finally:
            self.keeps = False
        assert self.last is not None
        history, notes = self.last.history, [f"A graph ends: {r.reason}." for r in self.last.reasons]
        notes += [f"Not replayed: {why}." for why in (self.replays.reasons() if self.replays is not None else ())]
        self.last = None
        kept = sum(kept_bytes(list(trace.inputs.values())) for trace, _ in history)
        if kept:
            notes.append(f"{amount(kept)} more hold factors of products, packed.")
        return Explanation(history, f"torch.compile({name})", notes)

    def _learn(self, pipe: "Recording", worth: Worth | None) -> None:
        """Keeps what a call was, and whether recording such calls is worth it."""
        self.last = pipe
        pipe.args, pipe.kwargs = (), {}
        if not self.keeps and not pipe.kept:
            pipe.history, pipe.made = [], ()  # arrays, which nobody is to hold longer than eager would
        if worth is not None and not self.keeps and self.settings.backend is None and not self.settings.fullgraph:
            worth.learn(pipe.saved)


def compiled(model: Any, settings: Settings) -> Any:
    """The compiled form of a function or module."""
    if isinstance(model, Module):
        return OptimizedModule(model, settings)
    if isinstance(model, type):
        model.__call__ = compiled(model.__call__, settings)  # type: ignore[method-assign]
        return model
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    fn = innermost_fn(model)
    region = Region(fn, settings)

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        worth = region.worth
        if (worth.eager_calls > 0 and region.replays is None and current_stance[0] is DEFAULT_STANCE
                and region.generation == generation[0]):  # fmt: skip
            return worth.call(fn, args, kwargs)
        return call_compiled(region, fn, args, kwargs)

    if hasattr(fn, "__name__"):
        functools.update_wrapper(compile_wrapper, fn)
    compile_wrapper._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    compile_wrapper._torchdynamo_inline = fn  # type: ignore[attr-defined]
    compile_wrapper._is_torch_compile = True  # type: ignore[attr-defined]
    compile_wrapper._region = region  # type: ignore[attr-defined]
    compile_wrapper.explain = lambda *args, **kwargs: region.explain(args, kwargs)  # type: ignore[attr-defined]
    compile_wrapper.get_compiler_config = lambda: None  # type: ignore[attr-defined]
    return compile_wrapper


class OptimizedModule(Module):
    """Runs the module it holds, compiled; everything else of that module is reached through it."""

    _opt_mod_attributes = frozenset({"_orig_mod", "dynamo_ctx", "forward", "training", "__dict__"})

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self._initialize()

    def _initialize(self) -> None:
        mod, ctx = self._orig_mod, self.dynamo_ctx
        object.__setattr__(
            self, "forward", ctx(mod.__call__) if callable(ctx) else compiled(mod.__call__, ctx or Settings())
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module that it holds is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What a call with these arguments becomes: plans, kernels, times and memory."""
        return self.forward.explain(*args, **kwargs)  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple:
        return type(self), (self._orig_mod, self.dynamo_ctx)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "forward"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._initialize()

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "dynamo_ctx") or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._opt_mod_attributes:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __contains__(self, item: Any) -> bool:
        return item in self._orig_mod  # type: ignore[operator, attr-defined]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
    recompile_limit: int | None = None,
    **options: Any,
) -> Callable:
    """What compiles functions for a backend."""
    found = None if backend == "inductor" else lookup_backend(backend)
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", str(backend))
    if disable:
        return lambda fn: fn
    settings = Settings(found, name, nopython, False, recompile_limit, dynamic)
    return lambda fn: compiled(fn, settings)


optimize_assert = functools.partial(optimize, nopython=True)


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function of `f`'s arguments that calls it and tells its graphs, and what ended each."""

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[Any] = []

        def keeps(gm: Any, inputs: list[Any]) -> Callable:
            graphs.append(gm)
            return gm.forward

        region = Region(innermost_fn(f), Settings(keeps, "explain"))
        call_compiled(region, region.fn, args, kwargs)
        assert region.last is not None
        ops = [[node.target for node in gm.graph.nodes if "call" in node.op] for gm in graphs]
        reasons = region.last.reasons
        return ExplainOutput(graphs, len(graphs), len(graphs) - 1, reasons, sum(map(len, ops)), ops, [])

    if not extra_args and not extra_kwargs:
        return inner
    warnings.warn("explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead.  If you don't "
                  "migrate, we may break your explain call in the future if your user defined kwargs conflict with "
                  "future kwargs added to explain(f).", FutureWarning, stacklevel=2)  # fmt: skip
    return inner(*extra_args, **extra_kwargs)
