"""Windows for spectral analysis: bartlett_window and the like."""

import math
from collections.abc import Callable
from typing import Any

from .._core.device import strided
from .._core.dtype import FLOAT, float32, get_default_dtype, promote_types
from .._dispatch.registry import registry
from ._declare.aten import Aten, if_given
from ._declare.op import composite, function_of
from ._declare.samples import case, cases, error
from .create import FACTORY

_arange = function_of(registry.get("aten::arange.start_step"))


def _bartlett(places: Any, last: int) -> Any:
    made, half = places * (2 / last), last // 2 + 1
    made[half:] = 2 - made[half:]
    return made


def _blackman(places: Any, last: int) -> Any:
    angle = places * (math.pi / last)
    return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42


def _hann(places: Any, last: int) -> Any:
    return _hamming(places, last, 0.5, 0.5)


def _hamming(places: Any, last: int, alpha: float, beta: float) -> Any:
    return (places * (2 * math.pi / last)).cos() * -beta + alpha


def _kaiser(places: Any, last: int, beta: float) -> Any:
    middle = last / 2
    offset = (places.to(promote_types(places.dtype, float32)) - middle) / middle
    # Half types round the last places to beyond the end, where PyTorch's window goes up again.
    made = ((1 - offset * offset).abs().sqrt() * beta).i0() / offset.new_tensor(beta).i0()
    return made.to(places.dtype)


def _declare_window(name: str, shape: Callable, parameters: str = "", *defaults: float) -> None:
    """`name`_window; `shape(places, last, ...)` is the window at those places, of which `last` mirrors the first."""

    @composite(f"{name}(int window_length, bool periodic=True, {parameters}{FACTORY}) -> Tensor", out=None,
               samples=cases(case(5), case(6), case(5, False), case(4, True, *defaults), case(0), case(1),
                             case(2, False),
                             error(RuntimeError, "requires non-negative window_length, got window_length=-1", -1)),
               aten=Aten(if_given("periodic", "periodic"), leaf=True))
    def window(window_length: int, periodic: bool, *rest: Any) -> Any:
        *numbers, dtype, layout, device, pin_memory, requires_grad = rest
        kind = dtype or get_default_dtype()
        if layout not in (None, strided):
            raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
        if kind.category < FLOAT:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {kind.scalar_name}")
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        made = _arange(window_length, dtype=kind, layout=layout, device=device, pin_memory=pin_memory)
        if window_length > 1:
            made = shape(made, window_length if periodic else window_length - 1, *numbers)
        elif window_length:
            made = made + 1
        return made.requires_grad_() if requires_grad else made


_declare_window("bartlett_window", _bartlett)
_declare_window("blackman_window", _blackman)
_declare_window("hann_window", _hann)
_declare_window("hamming_window", _hamming, "float alpha=0.54, float beta=0.46, ", 0.6, 0.4)
_declare_window("kaiser_window", _kaiser, "float beta=12.0, ", 4.0)
