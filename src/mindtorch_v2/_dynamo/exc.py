"""The errors of torch.compile."""

import linecache
import os
import traceback
from types import CodeType
from typing import Any

from . import config

_MORE = (
    "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug "
    'to PyTorch). For even more developer context, set TORCH_LOGS="+dynamo"\n'
)


class TorchDynamoException(RuntimeError):
    pass


class ResetRequired(TorchDynamoException):
    pass


class RecompileError(TorchDynamoException):
    pass


class FailOnRecompileLimitHit(Exception):
    pass


class InternalTorchDynamoError(TorchDynamoException):
    pass


class UserErrorType:
    """What kind of mistake a UserError is about."""

    DYNAMIC_CONTROL_FLOW, ANTI_PATTERN, STANDARD_LIBRARY, CONSTRAINT_VIOLATION, DYNAMIC_DIM, INVALID_INPUT = range(6)


class TorchRuntimeError(TorchDynamoException):
    pass


class ShortenTraceback(TorchDynamoException):
    pass


class InvalidBackend(TorchDynamoException):
    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(ShortenTraceback):
    """A backend raised an error while it compiled a graph."""

    def __init__(self, backend_fn: Any, inner_exception: Exception) -> None:
        self.backend_name = getattr(backend_fn, "__name__", None) or str(backend_fn)
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}" + more()
        )


class Unsupported(TorchDynamoException):
    """Something that cannot be part of a graph, where the whole function was to be one (fullgraph=True)."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)
        self.msg = msg


class UserError(Unsupported):
    def __init__(self, error_type: int, msg: str) -> None:
        super().__init__(msg)
        self.error_type = error_type


def more() -> str:
    """The last lines of an error: how to learn more."""
    return "" if config.verbose or os.environ.get("TORCHDYNAMO_VERBOSE") == "1" else _MORE


def unsupported(
    what: str, explanation: str, hints: list[str], context: str, stack: traceback.StackSummary | None = None
) -> Unsupported:
    """The error that says what ends a graph, why, and what to do about it."""
    lines = [
        what,
        f"  Explanation: {explanation}",
        *(f"  Hint: {hint}" for hint in hints),
        "",
        f"  Developer debug context: {context}",
        "",
    ]
    text = "\n".join(lines)
    if stack:
        text += "\n\nfrom user code:\n " + "".join(traceback.format_list(stack))
    return Unsupported(text.rstrip("\n") + more())


def place(code: CodeType) -> str:
    """Where a function is defined: `file:line`."""
    return f"{code.co_filename}:{code.co_firstlineno}"


def source_line(code: CodeType) -> str:
    """The first line of a function."""
    return linecache.getline(code.co_filename, code.co_firstlineno).strip()
