"""Trains a model with DistributedDataParallel; rank 0 writes the loss of each step and the time of one.

    python training.py MODEL STEPS FILE [TYPE RATE], in every process, with a launcher's variables
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A block of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.attention(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, words: int = 65, width: int = 64, layers: int = 4, length: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.norm2(self.two(F.relu(self.norm1(self.one(x))))))


def made(name: str):
    """(model, a function that gives a batch of a rank and step, the loss)."""
    def generator(rank: int, step: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * step + rank)

    if name == "mlp":
        model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
        return model, lambda rank, step: (torch.randn(64, 32, generator=generator(rank, step)),
                                          torch.randint(10, (64,), generator=generator(rank, step))), F.cross_entropy
    if name == "resnet":
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Residual(16), nn.MaxPool2d(2), Residual(16),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        return model, lambda rank, step: (torch.randn(16, 3, 16, 16, generator=generator(rank, step)),
                                          torch.randint(10, (16,), generator=generator(rank, step))), F.cross_entropy

    def tokens(rank: int, step: int):
        row = torch.randint(65, (8, 33), generator=generator(rank, step))
        return row[:, :-1], row[:, 1:]

    return GPT(), tokens, lambda out, target: F.cross_entropy(out.flatten(0, 1), target.flatten())


def main() -> None:
    name, steps, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    kind, rate = sys.argv[4:] or ("float32", "0.05")
    model, batch, criterion = made(name)
    ddp = nn.parallel.DistributedDataParallel(model.to(getattr(torch, kind)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=float(rate), momentum=0.9)
    losses, times = [], []
    for step in range(steps):
        x, y = batch(rank, step)
        x = x.to(getattr(torch, kind)) if x.is_floating_point() else x
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = criterion(ddp(x), y)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    if rank == 0:
        best = sorted(times)[len(times) // 4] * 1000
        path.write_text("\n".join(f"{loss:.6f}" for loss in losses) + f"\n{best:.3f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
