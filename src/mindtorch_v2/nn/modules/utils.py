"""Sizes given once for all dimensions, parameters to fill, and prefixes of state dicts."""

from collections.abc import Callable, Iterable
from typing import Any

import mindtorch_v2 as torch

from ..parameter import Parameter

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that makes a tuple of an iterable, or of one value n times."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple, n: int) -> tuple:
    """The elements from last to first, each n times: the padding of a convolution as `pad` takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """The sizes, with the last defaults where they are None."""
    if isinstance(out_size, (int, float)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :], strict=False)]


def add_parameter(module: Any, name: str, shape: Any, wanted: bool, device: Any, dtype: Any) -> None:
    """Registers a parameter of that shape, to be filled yet, or None where it is not wanted."""
    module.register_parameter(name, Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes the prefix from all keys that have it, and from the metadata's, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if not key:
            continue
        # The module that the prefix names has it without the dot; it becomes the root.
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
