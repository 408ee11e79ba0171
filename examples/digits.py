"""Train a small network on handwritten digits, then show what it learned.

The data comes with the project (examples/data/digits.npz). Run it with `make demo-digits`.
"""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2 import nn, optim

HERE = Path(__file__).resolve().parent
EPOCHS = 15
BATCH_SIZE = 32
TEST_SIZE = 360
SHADES = " .:-=+*#@"


class PlainBar:
    """A one-line progress bar with the few methods of tqdm's that are used here."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.shown = sys.stderr.isatty()

    def update(self, steps: int = 1) -> None:
        self.done += steps
        if self.shown:
            filled = 40 * self.done // self.total
            bar = "#" * filled + "." * (40 - filled)
            print(f"\r[{bar}] {self.done}/{self.total} steps", end="", file=sys.stderr, flush=True)

    def write(self, text: str) -> None:
        self.clear()
        print(text)

    def clear(self) -> None:
        if self.shown:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        self.clear()


def progress_bar(total: int):
    """A tqdm bar where tqdm is installed, else a plain one; neither draws when the output is not a terminal."""
    if importlib.util.find_spec("tqdm") is None:
        return PlainBar(total)
    from tqdm import tqdm

    return tqdm(total=total, unit=" steps", leave=False, disable=None)


def load_digits():
    """Images scaled to 0..1 as float32 rows of 64, their labels as int64, split at random into train and test."""
    with np.load(HERE / "data" / "digits.npz") as archive:
        images = torch.from_numpy(archive["images"].astype(np.float32) / 16).reshape(-1, 64)
        labels = torch.from_numpy(archive["labels"].astype(np.int64))
    order = torch.randperm(len(images))
    test, train = order[:TEST_SIZE], order[TEST_SIZE:]
    return images[train], labels[train], images[test], labels[test]


def build_model() -> nn.Module:
    """Three linear layers; logits for ten digits come out."""
    return nn.Sequential(
        nn.Linear(64, 128),
        nn.LayerNorm(128),
        nn.GELU(),
        nn.Linear(128, 64),
        nn.LayerNorm(64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def accuracy(model, images, labels) -> float:
    """The share of images whose largest logit is that of the right digit."""
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def train(model, images, labels, test_images, test_labels) -> list[float]:
    """Fit the model in place; the loss of every step comes back."""
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps_per_epoch = -(-len(images) // BATCH_SIZE)
    losses: list[float] = []
    bar = progress_bar(EPOCHS * steps_per_epoch)
    bar.write("epoch   loss     train    test")
    for epoch in range(1, EPOCHS + 1):
        order = torch.randperm(len(images))
        for start in range(0, len(images), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            loss = criterion(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            bar.update()
        mean_loss = sum(losses[-steps_per_epoch:]) / steps_per_epoch
        train_accuracy = accuracy(model, images, labels)
        test_accuracy = accuracy(model, test_images, test_labels)
        bar.write(f"{epoch:5d}   {mean_loss:.4f}  {train_accuracy:7.2%} {test_accuracy:7.2%}")
    bar.close()
    return losses


def show_confusion(predicted, labels) -> None:
    """Print how often each digit was taken for which."""
    counts = np.zeros((10, 10), dtype=int)
    np.add.at(counts, (labels.numpy(), predicted.numpy()), 1)
    print("\nRows: the digit written. Columns: the digit recognised.")
    print("     " + "".join(f"{digit:4d}" for digit in range(10)))
    for digit, row in enumerate(counts):
        print(f"{digit:4d} " + "".join(f"{count:4d}" if count else "   ." for count in row))


def show_digits(images, labels, predicted, chosen: list[int]) -> None:
    """Draw the chosen images side by side as text, each with its label and the prediction."""
    print("\n" + "   ".join(f"{labels[i].item()} read as {predicted[i].item()}".ljust(16) for i in chosen))
    pictures = [(images[i].reshape(8, 8).numpy() * (len(SHADES) - 1)).round().astype(int) for i in chosen]
    for y in range(8):
        print("   ".join("".join(SHADES[level] * 2 for level in picture[y]) for picture in pictures))


def save_loss_curve(losses: list[float]) -> None:
    """Write the loss curve as a picture, or say what is missing for it."""
    if importlib.util.find_spec("matplotlib") is None:
        print("\nFor a picture of the loss curve: pip install matplotlib")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    target = HERE / "out" / "digits_loss.png"
    target.parent.mkdir(exist_ok=True)
    window = 20
    smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.semilogy(losses, color="0.75", linewidth=0.8, label="one minibatch")
    axes.semilogy(np.arange(window - 1, len(losses)), smooth, color="C0", label=f"mean of {window}")
    axes.set(xlabel="step", ylabel="cross entropy", title="Handwritten digits: training loss")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    print(f"\nLoss curve: {target.relative_to(HERE.parent)}")


def main() -> None:
    torch.manual_seed(0)
    images, labels, test_images, test_labels = load_digits()
    model = build_model()
    parameters = sum(value.numel() for value in model.state_dict().values())
    print(f"{len(labels)} digits to learn from, {len(test_labels)} to be tested on, {parameters} parameters\n")

    started = time.perf_counter()
    losses = train(model, images, labels, test_images, test_labels)
    seconds = time.perf_counter() - started

    with torch.no_grad():
        predicted = model(test_images).argmax(dim=1)
    right = (predicted == test_labels).tolist()
    print(f"\nTest accuracy {sum(right) / len(right):.2%} after {len(losses)} steps in {seconds:.1f} s")
    show_confusion(predicted, test_labels)
    show_digits(test_images, test_labels, predicted, [i for i, good in enumerate(right) if good][:4])
    mistakes = [i for i, good in enumerate(right) if not good][:4]
    if mistakes:
        show_digits(test_images, test_labels, predicted, mistakes)
    save_loss_curve(losses)


if __name__ == "__main__":
    main()
