"""The base classes of learning rate schedules."""

import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any

import mindtorch_v2 as torch

from .optimizer import Optimizer, _to_scalar

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_SEE_ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """An entry of each parameter group; tensors as copies, since schedules change them in place."""
    values = (group[key] for group in optimizer.param_groups)
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(group.get(key), torch.Tensor):
        group[key].fill_(_to_scalar(value))
    else:
        group[key] = value


def format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value for each parameter group; tensors are copied, since groups are written to."""
    groups = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        param = [param] * groups
    if len(param) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(param)} values, "
            f"param_groups has {groups}."
        )
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in param]


def _mark_steps(optimizer: Optimizer) -> None:
    """Makes the optimizer note that it made a step."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # The function, not the method: a method would keep the optimizer alive through its own attribute.
    step, owner = optimizer.step.__func__, weakref.ref(optimizer)  # type: ignore[attr-defined]

    @wraps(step)
    def noted_step(*args: Any, **kwargs: Any) -> Any:
        owner()._opt_called = True  # type: ignore[union-attr]
        return step.__get__(owner(), type(owner()))(*args, **kwargs)

    noted_step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted_step  # type: ignore[method-assign]


@contextmanager
def flag(owner: Any, name: str) -> Iterator[None]:
    setattr(owner, name, True)
    try:
        yield
    finally:
        setattr(owner, name, False)


def plain_state(function: Any) -> Any:
    """What a checkpoint keeps of a user's function: an object's attributes, nothing of a function."""
    return None if isinstance(function, FunctionType) else function.__dict__.copy()


class LRScheduler:
    """The base of schedules: `get_lr` gives the groups' rates for `last_epoch`, from their present ones."""

    _is_initial = False
    _get_lr_called_within_step = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for position, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, torch.Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{position}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer "
                    "state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _mark_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with flag(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule holds, without the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The groups' rates for `last_epoch`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch and sets its rates."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                    f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_SEE_ORDER}",
                    UserWarning, stacklevel=2,
                )  # fmt: skip
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                    "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure "
                    "to do this will result in PyTorch skipping the first value of the learning rate schedule. "
                    + _SEE_ORDER,
                    UserWarning, stacklevel=2,
                )  # fmt: skip
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with flag(self, "_get_lr_called_within_step"):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        self._set_rates(rates)

    def _set_rates(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", rate)
        self._last_lr: list[Any] = group_values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=3
            )


class _LRScheduler(LRScheduler):
    """The name that LRScheduler had."""


class EachGroup(LRScheduler):
    """A schedule that gives each group's rate by `_rate(present rate, base rate)`."""

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        pairs = zip(self.optimizer.param_groups, self.base_lrs, strict=True)
        return [self._rate(group["lr"], base) for group, base in pairs]

    def _rate(self, lr: Any, base: Any) -> Any:
        raise NotImplementedError


class WithClosedForm(EachGroup):
    """One that also gives the rate of any epoch by `_closed(base rate)`."""

    def _get_closed_form_lr(self) -> list[Any]:
        return [self._closed(base) for base in self.base_lrs]

    def _closed(self, base: Any) -> Any:
        raise NotImplementedError
