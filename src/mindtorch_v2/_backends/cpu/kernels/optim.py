"""Steps of optimizers: what is prepared for a group of parameters makes one pass over all of them."""

from collections.abc import Callable

from ...._kernels.library import optimizer as written
from ..jit.calls import prepared_over_lists

Launch = Callable[..., bool]  # of lists: parameters, their gradients and states; whether it made the step


def sgd(step_number: None, weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
        maximize: bool, is_first_step: bool) -> Launch:
    options, lr = {"decays": weight_decay != 0, "maximize": maximize}, float(lr)
    if not momentum:
        return prepared_over_lists(written.sgd, lr, weight_decay, **options)
    return prepared_over_lists(written.sgd_with_momentum, lr, weight_decay, momentum, 1 - dampening, **options,
                               first=is_first_step, damped=dampening != 0, nesterov=nesterov)


def adam(step_number: float, lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool,
         maximize: bool) -> Launch:
    return _adam(step_number, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, "within")


def adamw(step_number: float, lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool,
          maximize: bool) -> Launch:
    return _adam(step_number, lr, beta1, beta2, 1 - lr * weight_decay if weight_decay else 0.0, eps, amsgrad, maximize,
                 "apart")


def _adam(step_number: float, lr: float, beta1: float, beta2: float, decay: float, eps: float, amsgrad: bool,
          maximize: bool, decays: str) -> Launch:
    if amsgrad:  # the largest of the squares' means are one more state
        return lambda *lists: False
    lr = float(lr)
    numbers = (-lr / (1 - beta1**step_number), (1 - beta2**step_number) ** 0.5, 1 - beta1, beta2, 1 - beta2, eps, decay)
    return prepared_over_lists(written.adam, *numbers, decays=decays if decay else "not", maximize=maximize)


def adagrad(step_number: float, lr: float, lr_decay: float, weight_decay: float, eps: float, maximize: bool) -> Launch:
    rate = float(lr) / (1 + (step_number - 1) * lr_decay)
    return prepared_over_lists(written.adagrad, rate, eps, weight_decay, decays=weight_decay != 0, maximize=maximize)
