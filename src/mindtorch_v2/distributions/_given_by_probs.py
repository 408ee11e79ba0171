"""Distributions whose parameter is given as probabilities or as logits."""

from typing import Any

from mindtorch_v2 import Tensor

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    """The name and value of the one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


class GivenByProbs(Distribution):
    """Keeps one of `probs` and `logits` and computes the other when first asked for it."""

    _binary = True
    logits = lazy_property(lambda self: probs_to_logits(self.probs, is_binary=self._binary))
    probs = lazy_property(lambda self: logits_to_probs(self.logits, is_binary=self._binary))
    param_shape = property(lambda self: self._param.size())

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    def _set_binary(self, probs: Any, logits: Any, validate_args: bool | None, **others: Any) -> None:
        """Initialises a batch of distributions with one probability each."""
        name, given = one_of(probs, logits)
        *broadcast, given = broadcast_all(*others.values(), given)
        self.__dict__.update((key, value.type_as(given)) for key, value in zip(others, broadcast))
        self.__dict__[name] = given
        Distribution.__init__(self, given.shape, validate_args=validate_args)


class OverCategories(Distribution):
    """A distribution over vectors that stands on a Categorical, `_categorical`."""

    _categorical: Any
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    _param = property(lambda self: self._categorical._param)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    def _set_categories(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        from .categorical import Categorical

        self._categorical = Categorical(probs, logits)
        shape = self._categorical.batch_shape
        Distribution.__init__(self, shape, self._categorical.param_shape[-1:], validate_args=validate_args)
