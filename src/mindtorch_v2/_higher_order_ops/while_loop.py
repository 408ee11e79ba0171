"""torch.while_loop."""

from collections.abc import Callable, Sequence
from typing import Any


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """The values after the body was applied for as long as the condition holds of them."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        made = body_fn(*carried)
        carried = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    return carried
