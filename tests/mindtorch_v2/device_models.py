"""Small models of the usual kinds with their data, and one loop that trains them: what the tests of devices share.

Weights and data are always made on the CPU and brought to the device, so that two devices begin alike. Sizes and
learning rates are such that a step damps rounding errors rather than multiplying them: the losses of two devices then
stay together, and a wrong gradient still shows within a few steps.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import nn

Tensor = torch.Tensor


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, wider, 3, stride, 1, bias=False), nn.BatchNorm2d(wider),
                                   nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(wider, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider))
        self.around = nn.Sequential(nn.Conv2d(channels, wider, 1, stride, bias=False), nn.BatchNorm2d(wider))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.around(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, width: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Residual(width, width, 1), Residual(width, 2 * width, 2))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)))


class Decoder(nn.Module):
    """One layer of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.attend(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.think(self.between(x))


class GPT(nn.Module):
    """Words to the scores of the words that may follow, with the head tied to the embedding."""

    def __init__(self, words: int = 17, context: int = 8, width: int = 32, heads: int = 2, layers: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList([Decoder(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.2)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Reader(nn.Module):
    """Words through two LSTM layers to a class."""

    def __init__(self, words: int = 17, width: int = 12, classes: int = 5) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(words))[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))


Make = Callable[[], Any]
Optimizer = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A model, inputs and targets to learn by heart, and an optimizer at a rate that suits the model."""

    network: Make
    inputs: Make
    targets: Make
    optimizer: Optimizer
    schedule: Callable[[Any], Any] | None = None
    clip: float | None = None

    def on(self, device: str) -> tuple[Any, Tensor, Tensor]:
        """Model, inputs and targets, made on the CPU from one seed."""
        torch.manual_seed(3)
        network, inputs, targets = self.network(), self.inputs(), self.targets()
        return network.to(device), inputs.to(device), targets.to(device)


def sgd(lr: float, **options: Any) -> Optimizer:
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9, **options)


def adamw(lr: float, **options: Any) -> Optimizer:
    return lambda parameters: torch.optim.AdamW(parameters, lr=lr, **options)


def _words(rows: int, length: int) -> Make:
    return lambda: torch.randint(0, 17, (rows, length))


def _classes(rows: int) -> Make:
    return lambda: torch.arange(rows) % 5


CASES = {
    "mlp, sgd": Case(mlp, lambda: torch.randn(20, 12), _classes(20), sgd(0.05, weight_decay=1e-3)),
    "mlp, adamw": Case(mlp, lambda: torch.randn(20, 12), _classes(20), adamw(3e-3)),
    "resnet, sgd": Case(ResNet, lambda: torch.randn(10, 3, 16, 16), _classes(10), sgd(0.01, nesterov=True)),
    "resnet, adamw": Case(ResNet, lambda: torch.randn(10, 3, 16, 16), _classes(10), adamw(1e-3)),
    "gpt, sgd": Case(GPT, _words(6, 8), _words(6, 8), sgd(0.01), clip=1.0),
    "gpt, adamw": Case(GPT, _words(6, 8), _words(6, 8), adamw(1e-3), clip=1.0,
                       schedule=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=50)),
    "lstm, sgd": Case(Reader, _words(10, 7), _classes(10), sgd(0.1), clip=1.0),
    "lstm, adamw": Case(Reader, _words(10, 7), _classes(10), adamw(1e-2, amsgrad=True)),
}  # fmt: skip
ONE_OF_EACH = ("mlp, adamw", "resnet, sgd", "gpt, adamw", "lstm, adamw")


def loss_of(network: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    scores = network(inputs)
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))


def step_of(network: Any, inputs: Tensor, targets: Tensor, optimizer: Any, clip: float | None = None,
            precision: torch.dtype | None = None) -> Tensor:
    """One step of training; its loss, on the device."""
    optimizer.zero_grad()
    with nullcontext() if precision is None else torch.autocast(inputs.device.type, precision):
        loss = loss_of(network, inputs, targets)
    loss.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    return loss.detach()


def trained(case: Case, device: str, steps: int, **options: Any) -> tuple[list[float], Any]:
    """The losses of all steps, read after the last one, and the model."""
    network, inputs, targets = case.on(device)
    optimizer = case.optimizer(network.parameters())
    schedule = case.schedule and case.schedule(optimizer)
    losses = []
    for _ in range(steps):
        losses.append(step_of(network, inputs, targets, optimizer, case.clip, **options))
        if schedule is not None:
            schedule.step()
    return [loss.item() for loss in losses], network
