"""Windows of torch.signal.windows: symmetric ones for filters, periodic ones (`sym=False`) for spectra."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from .._core.device import layout as layout_type
from .._core.device import strided
from .._core.dtype import dtype as dtype_type
from .._core.dtype import float32, float64, get_default_dtype
from .._core.tensor import Tensor
from .._dispatch.argument_checks import checked_int
from .._ops._declare.op import public_functions

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]

_torch = public_functions("torch")
_linspace, _ones = _torch["linspace"], _torch["ones"]
Places = Callable[[float, float], Tensor]


def _common(*, sym: bool = True, dtype: dtype_type | None = None, layout: layout_type = strided, device: Any = None,
            requires_grad: bool = False) -> None:
    """Has the arguments that all windows share."""


_COMMON = tuple(inspect.signature(_common).parameters.values())


def _window(shape: Callable) -> Callable[..., Tensor]:
    """The window that `shape(places, steps, ...)` computes.

    `places(start, step)` gives M evenly spaced points. `steps` lie between a point and the next like it: a periodic
    window leaves out the point that the next period begins with.
    """

    @functools.wraps(shape)
    def window(M: int, *, sym: bool = True, dtype: dtype_type | None = None, layout: layout_type = strided,
               device: Any = None, requires_grad: bool = False, **parameters: Any) -> Tensor:
        name, kind = shape.__name__, get_default_dtype() if dtype is None else dtype
        M = checked_int(name, "M", M, 1)
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if kind not in (float32, float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
        options = {"dtype": kind, "layout": layout, "device": device, "requires_grad": requires_grad}

        def places(start: float, step: float) -> Tensor:
            return _linspace(start, start + (M - 1) * step, M, **options)

        made = shape(places, M - 1 if sym and M > 1 else max(M, 1), sym=sym, **parameters)
        return made if M > 1 else _ones((M,), **options)

    return _with_common_arguments(window, list(inspect.signature(shape).parameters.values())[3:])


def _with_common_arguments(window: Callable, own: list[inspect.Parameter]) -> Callable:
    first = inspect.Parameter("M", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=int)
    window.__signature__ = inspect.Signature([first, *own, *_COMMON], return_annotation=Tensor)  # type: ignore[attr-defined]
    return window


@_window
def exponential(places: Places, steps: int, sym: bool, *, center: float | None = None, tau: float = 1.0) -> Tensor:
    """exp(-|n - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = steps / 2 if center is None else center
    return (-places(-middle / tau, 1 / tau).abs()).exp()


@_window
def cosine(places: Places, steps: int, sym: bool) -> Tensor:
    """Half a period of a sine, sampled between its zeros."""
    angle = math.pi / (steps + 1)
    return places(0.5 * angle, angle).sin()


@_window
def gaussian(places: Places, steps: int, sym: bool, *, std: float = 1.0) -> Tensor:
    """exp(-(n / std)^2 / 2), n counted from the middle."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    return (-places(-steps / 2 * step, step).square()).exp()


@_window
def kaiser(places: Places, steps: int, sym: bool, *, beta: float = 12.0) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    at = places(-beta, 2 * beta / steps)
    return (beta * beta - at.square()).clamp(min=0).sqrt().i0() / at.new_tensor(beta).i0()


@_window
def bartlett(places: Places, steps: int, sym: bool) -> Tensor:
    """A triangle from 0 to 1 and back."""
    return 1 - places(-1, 2 / steps).abs()


@_window
def general_cosine(places: Places, steps: int, sym: bool, *, a: Iterable) -> Tensor:
    """Cosines of 0, 1, 2, ... periods, weighted by `a` with alternating signs."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    angles = places(0, 2 * math.pi / steps)
    weights = angles.new_tensor([(-1) ** i * w for i, w in enumerate(a)])
    orders = angles.new_tensor(range(len(weights)))
    return (weights.unsqueeze(-1) * (orders.unsqueeze(-1) * angles).cos()).sum(0)


def general_hamming(M: int, *, alpha: float = 0.54, **options: Any) -> Tensor:
    """A raised cosine: alpha - (1 - alpha) cos."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], **options)


def hamming(M: int, **options: Any) -> Tensor:
    """The general Hamming window of 0.54."""
    return general_hamming(M, **options)


def hann(M: int, **options: Any) -> Tensor:
    """The general Hamming window of 0.5."""
    return general_hamming(M, alpha=0.5, **options)


def blackman(M: int, **options: Any) -> Tensor:
    """Three cosines that let little leak into neighbouring frequencies."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], **options)


def nuttall(M: int, **options: Any) -> Tensor:
    """Four cosines, with side lobes lower still."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], **options)


for _made in (general_hamming, hamming, hann, blackman, nuttall):
    _with_common_arguments(_made, list(inspect.signature(_made).parameters.values())[1:-1])
