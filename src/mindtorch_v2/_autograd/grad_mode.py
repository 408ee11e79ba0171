"""Thread-local switches of recording; each is a context manager and a decorator."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._dispatch.argument_checks import expected
from .._dispatch.keys import INFERENCE_MASK, modes


class _ModeContext:
    """Context manager and decorator; decorating a generator switches the mode on each resumption."""

    def __call__(self, function: Callable) -> Callable:
        if inspect.isclass(function):
            setattr(function, "__init__", self(function.__init__))  # noqa: B010 - assigning to a method
            return function
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return decorated

    def _generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, generator)
            while True:
                try:
                    with self.clone():
                        item = resume()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield item
                    resume = functools.partial(generator.send, sent)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:  # handed into the generator, which may answer it
                    resume = functools.partial(generator.throw, error)

        return decorated

    def clone(self) -> Any:
        return self.__class__()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError


class set_grad_enabled(_ModeContext):
    """Switches recording at once, and back at the end of a `with` block."""

    def __init__(self, mode: bool) -> None:
        if mode.__class__ is not bool:
            raise TypeError(expected("set_grad_enabled", "enabled", "bool", mode, 1))
        self.previous = modes.grad_enabled
        self.mode = mode
        modes.switch_grad(mode)

    def __call__(self, function: Callable) -> Callable:
        modes.switch_grad(self.previous)
        return super().__call__(function)

    def clone(self) -> "set_grad_enabled":
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        modes.switch_grad(self.mode)

    def __exit__(self, *exc: object) -> None:
        modes.switch_grad(self.previous)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.{type(self).__name__}(mode={self.mode})"


class _FixedGradMode(_ModeContext):
    enabled = False

    def __new__(cls, function: Callable | None = None) -> Any:
        made = object.__new__(cls)
        return made if function is None else made(function)

    def __enter__(self) -> None:
        self.previous = modes.switch_grad(self.enabled)

    def __exit__(self, *exc: object) -> None:
        modes.switch_grad(self.previous)


class no_grad(_FixedGradMode):
    """Inside, nothing is recorded."""


class enable_grad(_FixedGradMode):
    """Inside, operations are recorded, also within `no_grad`."""

    enabled = True


class inference_mode(_ModeContext):
    """Inside, nothing is recorded, and results can never take part in recording."""

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if callable(mode):
            made.mode = True
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> "inference_mode":
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.previous = (modes.grad_enabled, modes.inference, modes.include)
        include = modes.include | INFERENCE_MASK if self.mode else modes.include & ~INFERENCE_MASK
        modes.update(grad_enabled=not self.mode, inference=self.mode, include=include)

    def __exit__(self, *exc: object) -> None:
        grad_enabled, inference, include = self.previous
        modes.update(grad_enabled=grad_enabled, inference=inference, include=include)


def is_grad_enabled() -> bool:
    """Whether operations are recorded now."""
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return modes.inference
