"""Functions of torch.nn.functional: the operator table's, and those whose signature differs from the operator's."""

import functools as _functools
import importlib as _importlib
from collections.abc import Callable as _Callable
from typing import Any as _Any

from ..._ops.declare import public_functions as _public_functions
from ..._tensor import Tensor as _Tensor
from ...overrides import handle_torch_function as _handle_torch_function
from ...overrides import has_torch_function as _has_torch_function

_PARTS = ("activation", "loss")


def _overridable(function: _Callable) -> _Callable:
    """The function behind a check whether an argument's __torch_function__ wants to see the call first."""

    @_functools.wraps(function)
    def call(input: _Any, *args: _Any, **kwargs: _Any) -> _Any:
        if input.__class__ is not _Tensor and _has_torch_function((input, *args)):
            return _handle_torch_function(call, (input, *args), input, *args, **kwargs)
        return function(input, *args, **kwargs)

    return call


_functions = _public_functions("nn.functional")
for _part in _PARTS:
    _module = _importlib.import_module(f"{__name__}.{_part}")
    _functions.update({name: _overridable(getattr(_module, name)) for name in _module.__all__})
globals().update(_functions)
__all__ = list(_functions)
