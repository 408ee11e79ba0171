"""The functions behind the optimizers, in one place."""

from ._lists import Tensors, as_number
from .adadelta import adadelta
from .adagrad import adagrad
from .adam import adam
from .adamax import adamax
from .adamw import adamw
from .asgd import asgd
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop
from .rprop import rprop
from .sgd import sgd

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
    "sparse_adam",
]  # fmt: skip


def sparse_adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """Makes one step of Adam for the elements that sparse gradients name."""
    lr = as_number(lr)
    for parameter, gradient, mean, square_mean, steps in zip(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True
    ):
        gradient = (-gradient if maximize else gradient).coalesce()
        values = gradient._values()
        if values.numel() == 0:
            continue
        places = tuple(gradient._indices())
        means = mean[places].lerp_(values, 1 - beta1)
        squares = square_mean[places].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        mean[places], square_mean[places] = means, squares
        step_size = lr * (1 - beta2**steps) ** 0.5 / (1 - beta1**steps)
        parameter.index_put_(places, means / squares.sqrt_().add_(eps) * -step_size, accumulate=True)
