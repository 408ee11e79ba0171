"""Reshaping as a module."""

from typing import Any

import mindtorch_v2 as torch

from ._settings import ShownSettings, settings

__all__ = ["Flatten", "Unflatten"]


@settings
class Flatten(ShownSettings):
    """Joins the dimensions from start_dim to end_dim into one."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.flatten(self.start_dim, self.end_dim)


@settings
class Unflatten(ShownSettings):
    """Splits a dimension into several."""

    dim: int
    unflattened_size: Any

    def _keep(self, dim: int, unflattened_size: Any) -> None:
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError("unflattened_size must be a tuple of ints, but found type "
                            f"{type(unflattened_size).__name__}")
        for at, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(f"unflattened_size must be tuple of ints, but found element of type "
                                f"{type(size).__name__} at pos {at}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
