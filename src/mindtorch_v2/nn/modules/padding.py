"""Padding at the ends of the last dimensions."""

from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from .module import Module

__all__ = ["ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ReflectionPad1d",
           "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
           "CircularPad1d", "CircularPad2d", "CircularPad3d"]


class _Pad(Module):
    """What padding modules share: how much, first at the ends of the last dimension."""

    __constants__ = ["padding"]
    _mode: str
    _rank: int

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self._rank) if isinstance(padding, int) else tuple(padding)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() not in (self._rank + 1, self._rank + 2):
            raise ValueError(f"expected {self._rank + 1}D or {self._rank + 2}D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class _CircularPadNd(_Pad):
    _mode = "circular"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value."""

    _rank = 3


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros."""


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its mirror image."""

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their mirror image."""

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their mirror image."""

    _rank = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with the elements at its ends."""

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with the elements at their ends."""

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with the elements at their ends."""

    _rank = 3


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the elements from its other end."""

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with the elements from their other ends."""

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with the elements from their other ends."""

    _rank = 3
