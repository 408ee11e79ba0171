"""`torch.compile`: functions and modules whose operators are recorded and run as few kernels (docs/compile.md)."""

from collections.abc import Callable
from typing import Any


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """The compiled form of a function; of a module, an OptimizedModule around it. Usable as a decorator."""
    if model is None:

        def decorated(model: Callable) -> Any:
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(
                model,
                fullgraph=fullgraph,
                dynamic=dynamic,
                backend=backend,
                mode=mode,
                options=options,
                name=name,
                disable=disable,
                recompile_limit=recompile_limit,
                isolate_recompiles=isolate_recompiles,
                shapes_spec=shapes_spec,
            )

        return decorated
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    from ._dynamo.backends.registry import get_default_backend, lookup_backend
    from ._dynamo.eval_frame import Settings, compiled

    backend = get_default_backend() if backend is None else backend
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if backend == "inductor":
        from ._inductor import checked_options, list_mode_options

        asked = (
            {key: value for key, value in options.items() if key not in ("guard_filter_fn", "use_aoti")}
            if options
            else list_mode_options(mode or "default")
        )
        replays = checked_options(asked).get("triton.cudagraphs", False)
        settings = Settings(None, "inductor", bool(fullgraph), replays, recompile_limit, dynamic)
    else:
        found = lookup_backend(backend)
        named = backend if isinstance(backend, str) else getattr(backend, "__name__", str(backend))
        more = {"mode": mode} if mode not in (None, "default") else {"options": options} if options else {}
        settings = Settings(_Given(found, named, more), named, bool(fullgraph), False, recompile_limit, dynamic)
    return model if disable else compiled(model, settings)


def _disable_dynamo(fn: Callable | None = None, recursive: bool = True) -> Any:
    """The function, never compiled: `torch.compiler.disable` under the name that tensor subclasses decorate with."""
    from ._dynamo.decorators import disable

    return disable(fn, recursive)


class _Given:
    """A backend with the mode or options that it was asked for with."""

    def __init__(self, compiler_fn: Callable, name: str, more: dict[str, Any]) -> None:
        self.compiler_fn, self.__name__, self.more = compiler_fn, name, more

    def __call__(self, gm: Any, inputs: list[Any]) -> Callable:
        return self.compiler_fn(gm, inputs, **self.more)
