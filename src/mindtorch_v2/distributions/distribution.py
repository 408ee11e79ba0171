"""The base of all distributions: shapes, parameters and their validation."""

import warnings
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Size, Tensor

from . import constraints
from .utils import broadcast_all, lazy_property

__all__ = ["Distribution"]


def _undefined(self: Any) -> Any:
    raise NotImplementedError


class Distribution:
    """A distribution over events of shape `event_shape`, one for each element of `batch_shape`.

    A subclass says what its parameters are in `arg_constraints`, stores them broadcast (see `_broadcast`), and defines
    the formulas it has: `mean`, `variance`, `rsample`, `_log_prob`, ... The rest is derived here.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _kept: tuple[str, ...] = ()  # tensors that `expand` leaves as they are

    arg_constraints: Any = property(_undefined)
    support: Any = property(_undefined)
    mean: Any = property(_undefined)
    variance: Any = property(_undefined)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Turns validation on or off for distributions made from now on."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Size = Size(()), event_shape: Size = Size(()),  # noqa: B008 - immutable
                 validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _broadcast(self, validate_args: bool | None = None, **parameters: Any) -> None:
        """Initialises a distribution over numbers by parameters of one batch shape."""
        self.__dict__.update(zip(parameters, values := broadcast_all(*parameters.values())))
        Distribution.__init__(self, values[0].shape, validate_args=validate_args)

    # parameters -----------------------------------------------------------------------------------------------------

    def _validate_parameters(self) -> None:
        try:
            known = self.arg_constraints
        except NotImplementedError:
            known = {}
            warnings.warn(f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                          "initialize the distribution with `validate_args=False` to turn off validation.",
                          stacklevel=3)
        for name, constraint in known.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # computed from another parameter
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                                 f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                                 f"values:\n{value}")

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """The instance to fill in, or a new one; a subclass with its own constructor must make it itself."""
        own, base = type(self).__init__, cls.__init__  # type: ignore[misc]
        if _instance is None and own != base:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                                      "__init__ method must also define a custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to a batch shape."""
        families = (c for c in type(self).__mro__
                    if c.__module__.startswith(__package__) and "arg_constraints" in vars(c))
        if (family := next(families)) is Distribution:
            raise NotImplementedError
        new = self._get_checked_instance(family, _instance)
        if hasattr(new, "__dict__") and not isinstance(new, family):
            raise TypeError("super(type, obj): obj must be an instance or subtype of type")
        batch_shape, own = Size(batch_shape), self._batch_shape
        for name, value in self.__dict__.items():
            if isinstance(value, Distribution) and value._batch_shape == own:
                value = value.expand(batch_shape)
            elif isinstance(value, Tensor) and name not in self._kept and value.shape[: len(own)] == own:
                value = value.expand(batch_shape + value.shape[len(own) :])
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    # shapes ---------------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of samples: sample, batch and event shape together."""
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return Size(sample_shape + self._batch_shape + self._event_shape)

    # values ---------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples that are differentiable with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` samples."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at a value."""
        if self._validate_args and type(self)._log_prob is not Distribution._log_prob:
            self._validate_sample(value)
        return self._log_prob(value)

    def _log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        if self._validate_args and type(self)._cdf is not Distribution._cdf:
            self._validate_sample(value)
        return self._cdf(value)

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which there is this probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Listed values, each with the batch's dimensions."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def entropy(self) -> Tensor:
        """The entropy of each distribution of the batch, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        return torch.exp(self.entropy())

    def _validate_sample(self, value: Tensor) -> None:
        """Raises ValueError unless `value` is a tensor of values of this distribution."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value.shape, self._batch_shape + self._event_shape
        if self._event_shape and shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}.")
        if shape != expected and any(i != 1 and j != 1 and i != j for i, j in zip(shape[::-1], expected[::-1])):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {Size(expected)}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{self.__class__} does not define `support` to enable sample validation. Please initialize "
                          "the distribution with `validate_args=False` to turn off validation.", stacklevel=3)
            return
        if not support.check(value).all():
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within "
                             f"the support ({support!r}) of the distribution {self!r}, but found invalid values:\n"
                             f"{value}")

    def __repr__(self) -> str:
        shown = [(name, self.__dict__[name]) for name in self.arg_constraints if name in self.__dict__]
        parameters = ", ".join(f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown)
        return f"{type(self).__name__}({parameters})"
