"""Pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from ._settings import settings
from .module import Module

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "AvgPool1d", "AvgPool2d",
           "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
           "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
           "AdaptiveAvgPool3d"]


def _each(value: Any, rank: int) -> tuple:
    """A setting for each dimension."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank


class _Pool(Module):
    """What pooling modules share: the function of their number of dimensions, and their settings in the repr."""

    _pool: Callable
    _shown: tuple[str, ...] = ("kernel_size", "stride", "padding")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class _WindowPool(_Pool):
    """Pooling over windows that lie side by side unless a stride is given."""

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, values["kernel_size"] if name == "stride" and value is None else value)


@settings
class _MaxPoolNd(_WindowPool):
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                          return_indices=self.return_indices)


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window along the last dimension."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window over the last two dimensions."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window over the last three dimensions."""

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    _rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self._rank)
        self.stride = _each(stride if stride is not None else kernel_size, self._rank)
        self.padding = _each(padding, self._rank)

    def forward(self, input: torch.Tensor, indices: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts what MaxPool1d took back to its places, among zeros."""

    _pool, _rank = staticmethod(F.max_unpool1d), 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts what MaxPool2d took back to its places, among zeros."""

    _pool, _rank = staticmethod(F.max_unpool2d), 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts what MaxPool3d took back to its places, among zeros."""

    _pool, _rank = staticmethod(F.max_unpool3d), 3


class _AvgPoolNd(_Pool):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]


class AvgPool1d(_AvgPoolNd):
    """The mean of each window along the last dimension."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, 1)
        self.stride = _each(stride if stride is not None else kernel_size, 1)
        self.padding = _each(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


@settings
class _AvgPoolWithDivisor(_AvgPoolNd, _WindowPool):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, usual in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, usual)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                          self.divisor_override)


class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of each window over the last two dimensions."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of each window over the last three dimensions."""

    _pool = staticmethod(F.avg_pool3d)


class _FractionalMaxPoolNd(_Pool):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _shown = ()
    _rank: int

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                 return_indices: bool = False, _random_samples: torch.Tensor | None = None) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self._rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = _each(output_size, self._rank) if output_size is not None else None
        self.output_ratio = _each(output_ratio, self._rank) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                          _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of each of so many windows at random places over the last two dimensions."""

    _pool, _rank = staticmethod(F.fractional_max_pool2d), 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest element of each of so many windows at random places over the last three dimensions."""

    _pool, _rank = staticmethod(F.fractional_max_pool3d), 3


@settings
class _LPPoolNd(_Pool):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """The p-norm of each window along the last dimension."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window over the last two dimensions."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window over the last three dimensions."""

    _pool = staticmethod(F.lp_pool3d)


@settings
class _AdaptiveMaxPoolNd(_Pool):
    _shown = ("output_size",)
    output_size: Any
    return_indices: bool = False

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each of so many windows along the last dimension."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each of so many windows over the last two dimensions."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each of so many windows over the last three dimensions."""

    _pool = staticmethod(F.adaptive_max_pool3d)


@settings
class _AdaptiveAvgPoolNd(_Pool):
    _shown = ("output_size",)
    output_size: Any

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._pool(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of so many windows along the last dimension."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each of so many windows over the last two dimensions."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each of so many windows over the last three dimensions."""

    _pool = staticmethod(F.adaptive_avg_pool3d)
