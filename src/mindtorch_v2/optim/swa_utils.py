"""Averages of models over the course of training, as in torch.optim.swa_utils."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

import mindtorch_v2 as torch

from ._schedule import EachGroup, format_param
from .optimizer import Optimizer

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Tensors = tuple[torch.Tensor, ...] | list[torch.Tensor]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _interpolates(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function that moves lists of averages towards lists of values, keeping `decay` of them."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, _: Any) -> None:
        if _interpolates(ema_param_list[0]):
            torch._foreach_lerp_(ema_param_list, current_param_list, 1 - decay)
        else:
            for average, value in zip(ema_param_list, current_param_list, strict=True):
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function that takes lists of values into the equal averages of those before."""

    @torch.no_grad()
    def swa_update(averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: torch.Tensor | int) -> None:
        if _interpolates(averaged_param_list[0]):
            torch._foreach_lerp_(averaged_param_list, current_param_list, 1 / (float(num_averaged) + 1))
        else:
            for average, value in zip(averaged_param_list, current_param_list, strict=True):
                average.copy_(average + (value - average) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., torch.Tensor]:
    """A function that gives the exponential moving average after another value."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param: torch.Tensor, current_param: torch.Tensor, num_averaged: Any) -> torch.Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., torch.Tensor]:
    """A function that gives the equal average after another value."""

    @torch.no_grad()
    def swa_update(averaged_param: torch.Tensor, current_param: torch.Tensor, num_averaged: Any) -> torch.Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(torch.nn.Module):
    """A copy of a model whose parameters are averages of the model's at each `update_parameters`."""

    n_averaged: torch.Tensor

    def __init__(
        self,
        model: torch.nn.Module,
        device: int | torch.device | None = None,
        avg_fn: Callable[[torch.Tensor, torch.Tensor, torch.Tensor | int], torch.Tensor] | None = None,
        multi_avg_fn: Callable[[Tensors, Tensors, torch.Tensor | int], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: torch.nn.Module) -> None:
        """Takes the model's parameters into the averages; the first time they are the averages."""
        pairs = [
            (own.detach(), value.detach().to(own.device))
            for own, value in zip(self._averaged(self.module), self._averaged(model), strict=True)
        ]
        if self.n_averaged == 0:
            for own, value in pairs:
                own.copy_(value)
        elif self.avg_fn is not None:
            for own, value in pairs:
                own.copy_(self.avg_fn(own, value, self.n_averaged.to(own.device)))
        else:
            average = self.multi_avg_fn or get_swa_multi_avg_fn()
            alike = defaultdict(list)
            for own, value in pairs:
                alike[own.device, own.dtype].append((own, value))
            for (device, _), members in alike.items():
                owns, values = map(list, zip(*members, strict=True))
                average(owns, values, self.n_averaged.to(device))
        if not self.use_buffers:
            for own, value in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(value.detach().to(own.device))
        self.n_averaged += 1

    def _averaged(self, model: torch.nn.Module) -> Iterable[torch.Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: torch.nn.Module, device: int | torch.device | None = None) -> None:
    """Makes the running statistics of batch normalisation anew, from one pass over the data."""
    momenta = {}
    for module in model.modules():
        if any(base.__name__ == "_BatchNorm" for base in type(module).__mro__):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # equal weights for all batches
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(EachGroup):
    """From the present rates to `swa_lr` in `anneal_epochs`, and there it stays."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far the way to `swa_lr` is gone."""
        gone = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return gone if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * gone)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            end, lr = group["swa_lr"], group["lr"]
            start = end if before == 1 else (lr - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
