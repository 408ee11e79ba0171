"""Exponential families: entropy and divergence from the derivative of the log normalizer."""

from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from .distribution import Distribution, _undefined

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), natural parameters> - log normalizer + carrier measure of x)."""

    _natural_params: Any = property(_undefined)
    _mean_carrier_measure: Any = property(_undefined)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    def _expected_statistics(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """Natural parameters, their log normalizer, and its derivatives: the expected sufficient statistics."""
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        return parameters, normalizer, torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)

    def entropy(self) -> Tensor:
        parameters, normalizer, statistics = self._expected_statistics()
        result = normalizer - self._mean_carrier_measure
        for parameter, statistic in zip(parameters, statistics):
            result = result - (parameter * statistic).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
