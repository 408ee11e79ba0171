"""Modes in which torch's functions are their references."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import mindtorch_v2 as torch

from .. import _refs
from ..overrides import TorchFunctionMode


def torch_to_refs_map() -> dict[Any, Callable]:
    """The reference of each function and method that has one."""
    found: dict[Any, Callable] = {}
    for place in _refs.PLACES:
        module, owner = _refs.module_of(place), torch
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part)
        for name in module.__all__:
            for where in (owner, torch.Tensor) if not place else (owner,):
                function = getattr(where, name, None)
                if callable(function) and not isinstance(function, torch.dtype):
                    found[function] = getattr(module, name)
    return found


class TorchRefsMode(TorchFunctionMode):
    """Inside, functions that have a reference run as it. With `strict`, others are refused."""

    def __init__(self, strict: bool = False, should_fallback_fn: Callable = lambda *_: False,
                 prims_mode_cls: Any = nullcontext) -> None:
        super().__init__()
        self.strict, self.should_fallback_fn, self.prims_mode_cls = strict, should_fallback_fn, prims_mode_cls
        self._map = torch_to_refs_map()

    def __torch_function__(self, orig_func: Callable, types: Sequence, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        reference = self._map.get(orig_func)
        if reference is None or self.should_fallback_fn(self, orig_func, reference, args, kwargs or {}):
            return orig_func(*args, **(kwargs or {}))
        return reference(*args, **(kwargs or {}))
