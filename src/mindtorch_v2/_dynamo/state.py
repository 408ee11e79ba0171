"""What a thread is doing about compiling."""

import threading
from typing import Any, NamedTuple


class Stance(NamedTuple):
    """What torch.compiler.set_stance said."""

    stance: str = "default"
    skip_guard_eval_unsafe: bool = False
    backend: Any = None


class _State(threading.local):
    pipe: Any = None  # the recording of the compiled function that runs now
    running: bool = False  # a compiled function's Python runs now, not a disabled part of it


state = _State()
DEFAULT_STANCE = Stance()
current_stance: list[Stance] = [DEFAULT_STANCE]
generation = [0]  # counts torch._dynamo.reset()
STANCES = (
    "default",
    "eager_then_compile",
    "aot_eager_then_compile",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
)
