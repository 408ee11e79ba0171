"""Orders of arguments that PyTorch still takes, with a warning: `torch.add(a, 2, b)` for `a + 2 * b`.

Without one it takes a factor in its place behind a number: `torch.add(a, 1, 2)` for `a + 2 * 1`.
"""

from collections.abc import Sequence
from typing import Any

from .._core.warn import warn_once
from .schema import MISSING, Schema, to_number


def named_by_old_order(schema: Schema, args: Sequence[Any], kwargs: dict[str, Any],
                       is_method: bool) -> dict[str, Any] | None:
    """The call's arguments by name if they stand in an old order, else None."""
    for order in schema.old_orders:
        names = order.split()
        if is_method:  # the tensor stands before the dot
            names = ["self", *(name for name in names if name != "self")]
        if len(args) > len(names) or len(args) + len(kwargs) != len(names):
            continue
        given = dict(zip(names, args)) | kwargs
        if names[-1] == "alpha":
            if len(args) == len(names) and hasattr(given["self"], "_keys") and not hasattr(given["other"], "_keys"):
                return given
            continue
        if set(given) == set(names) and all(_fits(schema, name, value) for name, value in given.items()):
            shown = ", ".join("input" if name == "self" else name for name in names)
            warn_once(f"This overload of {schema.base_name} is deprecated:\n\t{schema.base_name}({shown})\nConsider "
                      f"using one of the following signatures instead:\n\t{schema}")
            return given
    return None


def _fits(schema: Schema, name: str, value: Any) -> bool:
    if schema.arguments[schema.index[name]].is_tensor:
        takes_number = name == "self" and schema.arguments[0].type == "Tensor|Scalar"
        return hasattr(value, "_keys") or takes_number and to_number(value) is not MISSING
    return to_number(value) is not MISSING
