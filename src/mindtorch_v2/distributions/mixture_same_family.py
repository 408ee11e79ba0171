from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Size, Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dimension of one, with a Categorical's weights."""

    arg_constraints: dict[str, Any] = {}

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        mixed, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        for size1, size2 in zip(reversed(mixed), reversed(components[:-1])):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                                 f"`component_distribution.batch_shape`({components[:-1]})")
        count = mixture_distribution.logits.shape[-1]
        if count != components[-1]:
            raise ValueError(f"`mixture_distribution component` ({count}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({components[-1]})")
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(components[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self._component_distribution.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    support = constraints.dependent_property(
        lambda self: constraints.MixtureSameFamilyConstraint(self._component_distribution.support))
    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _averaged(self, values: Tensor) -> Tensor:
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(weights * values, dim=-1 - self._event_ndims)

    mean = property(lambda self: self._averaged(self.component_distribution.mean))

    @property
    def variance(self) -> Tensor:
        """The mean of the components' variances plus the variance of their means."""
        spread = (self.component_distribution.mean - self._pad(self.mean)).pow(2.0)
        return self._averaged(self.component_distribution.variance) + self._averaged(spread)

    def cdf(self, x: Tensor) -> Tensor:
        return torch.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def _log_prob(self, x: Tensor) -> Tensor:
        log_weights = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(self.component_distribution.log_prob(self._pad(x)) + log_weights, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            along = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand(samples.shape[:along] + (1,) + samples.shape[along + 1 :])
            return samples.gather(along, chosen).squeeze(along)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """Weights with the dimensions of a batch and of events added as ones."""
        ones = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        return x.reshape(x.shape[:-1] + (1,) * ones + x.shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
