"""Train a small convolutional network on handwritten digits: an ordinary PyTorch script.

    python -m mindtorch_v2 examples/classify_images.py      # here, without PyTorch
    python examples/classify_images.py                      # the same file under PyTorch: the same losses

The data comes with the project (examples/data/digits.npz): 1,797 images of 8 x 8 cells.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

DATA = Path(__file__).resolve().parent / "data" / "digits.npz"


def digits() -> TensorDataset:
    """Images as float32 of one channel, scaled to -1..1, and their labels."""
    with np.load(DATA) as archive:
        images = torch.from_numpy(archive["images"]).float().unsqueeze(1) / 8 - 1
        return TensorDataset(images, torch.from_numpy(archive["labels"]).long())


class Stage(nn.Sequential):
    """Two convolutions with batch norm, then half the resolution."""

    def __init__(self, channels: int, wider: int) -> None:
        super().__init__(
            nn.Conv2d(channels, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU(),
            nn.Conv2d(wider, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU(),
            nn.MaxPool2d(2),
        )  # fmt: skip


def network() -> nn.Module:
    """Scores of the ten digits for images of 1 x 8 x 8."""
    return nn.Sequential(Stage(1, 16), Stage(16, 32), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 2 * 2, 10))


def train(model: nn.Module, data, epochs: int) -> None:
    """Fits the model in place; a line for each epoch is printed."""
    loader = DataLoader(data, batch_size=64, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(1, epochs + 1):
        model.train()
        started, total, right = time.perf_counter(), 0.0, 0
        for images, labels in loader:
            scores = model(images)
            loss = loss_of(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(labels)
            right += (scores.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}   loss {total / len(data):.4f}   accuracy {right / len(data):.2%}   "
              f"{time.perf_counter() - started:.1f} s", flush=True)  # fmt: skip


@torch.inference_mode()
def confusion(model: nn.Module, data) -> torch.Tensor:
    """How many images of each digit (rows) were taken for each digit (columns)."""
    model.eval()
    counts = torch.zeros(10, 10, dtype=torch.int64)
    for images, labels in DataLoader(data, batch_size=256):
        taken_for = model(images).argmax(1)
        counts += torch.bincount(labels * 10 + taken_for, minlength=100).view(10, 10)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    training, held_out = random_split(digits(), [0.8, 0.2])
    model = network()
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"torch {torch.__version__}; {len(training)} images, {len(held_out)} held out; {count} parameters")
    train(model, training, options.epochs)

    counts = confusion(model, held_out)
    right, total = counts.diag().sum().item(), counts.sum().item()
    print(f"\nHeld-out images: {right} of {total} right, {right / total:.1%}.")
    print("Rows: the digit; columns: what it was taken for.")
    print("    " + "".join(f"{digit:4d}" for digit in range(10)))
    for digit, row in enumerate(counts.tolist()):
        print(f"{digit:4d}" + "".join(f"{number:4d}" if number else "   ." for number in row))


if __name__ == "__main__":
    main()
