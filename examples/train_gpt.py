"""Train a character-level GPT on the project's own documentation: an ordinary PyTorch script.

    python -m mindtorch_v2 examples/train_gpt.py        # here, without PyTorch
    python examples/train_gpt.py                        # the same file under PyTorch: the same losses
    python -m mindtorch_v2 examples/train_gpt.py --device cuda

It prints a sample, saves a checkpoint, loads it again into a fresh model, and draws the loss curve.
"""

import argparse
import importlib.util
import math
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"


class Characters(Dataset):
    """Windows of a text, as numbers of characters: each with the window one character further on."""

    def __init__(self, text: str, length: int) -> None:
        self.alphabet = sorted(set(text))
        self.number = {character: i for i, character in enumerate(self.alphabet)}
        self.codes, self.length = torch.tensor([self.number[character] for character in text]), length

    def __len__(self) -> int:
        return len(self.codes) - self.length - 1

    def __getitem__(self, start: int):
        window = self.codes[start : start + self.length + 1]
        return window[:-1], window[1:]

    def text(self, codes) -> str:
        return "".join(self.alphabet[code] for code in codes)


class Block(nn.Module):
    """Causal self-attention, then a two-layer network, each with a residual."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    """Scores of the next character at every place of a window."""

    def __init__(self, characters: int, length: int = 64, width: int = 96, layers: int = 3, heads: int = 4,
                 dropout: float = 0.1) -> None:
        super().__init__()
        self.length = length
        self.tokens, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, codes):
        places = torch.arange(codes.size(1), device=codes.device)
        return self.head(self.norm(self.blocks(self.tokens(codes) + self.places(places))))

    @torch.no_grad()
    def continued(self, codes, count: int, temperature: float = 0.6):
        """The codes with `count` more, drawn one by one."""
        self.eval()
        for _ in range(count):
            scores = self(codes[:, -self.length :])[:, -1] / temperature
            codes = torch.cat([codes, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        return codes


def documentation() -> str:
    """All Markdown files of the project, one after another."""
    root = HERE.parent
    return "\n\n".join(
        path.read_text(encoding="utf-8") for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]
    )


def progress(steps: int):
    """Numbers of steps behind a tqdm bar, or plain where tqdm is not installed."""
    if importlib.util.find_spec("tqdm") is None:
        return range(steps)
    from tqdm import tqdm

    return tqdm(range(steps), unit=" steps", leave=False, disable=None)


def endless(loader):
    while True:
        yield from loader


def train(model, data, steps: int, batch: int, device: str) -> list[float]:
    """Fits the model in place; the loss of every step comes back."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.1)
    batches = endless(DataLoader(data, batch_size=batch, shuffle=True, drop_last=True))
    losses: list[float] = []
    model.train()
    bar = progress(steps)
    for step in bar:
        codes, following = (part.to(device) for part in next(batches))
        loss = F.cross_entropy(model(codes).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == steps - 1:
            line = f"step {step:4d}   loss {losses[-1]:.4f}   rate {schedule.get_last_lr()[0]:.5f}"
            bar.write(line) if hasattr(bar, "write") else print(line)
    return losses


def save_loss_curve(losses: list[float], characters: int, target: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("For a picture of the loss curve: pip install matplotlib")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=1.2)
    axes.set(xlabel="step", ylabel="cross entropy of the next character", title="A character GPT on this documentation")
    axes.axhline(math.log(characters), color="0.7", linewidth=0.8, linestyle="--", label="guessing")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    print(f"Loss curve: {target.relative_to(HERE.parent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or npu")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    OUT.mkdir(exist_ok=True)

    text = documentation()
    data = Characters(text, length=64)
    model = GPT(len(data.alphabet)).to(options.device)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"torch {torch.__version__}; {len(text)} characters of text, {len(data.alphabet)} different; {count} parameters"
    )

    started = time.perf_counter()
    losses = train(model, data, options.steps, options.batch, options.device)
    print(f"{options.steps} steps in {time.perf_counter() - started:.1f} s; loss {losses[0]:.3f} -> {losses[-1]:.3f}\n")

    checkpoint = OUT / "gpt.pt"
    torch.save({"model": model.state_dict(), "alphabet": data.alphabet, "losses": losses}, checkpoint)
    loaded = torch.load(checkpoint, map_location="cpu")
    again = GPT(len(loaded["alphabet"]))
    again.load_state_dict(loaded["model"])

    start = data.codes[:1].unsqueeze(0)
    torch.manual_seed(options.seed)
    sample = data.text(again.continued(start, 300)[0].tolist())
    print(f"A sample, from the reloaded checkpoint ({checkpoint.relative_to(HERE.parent)}):\n\n{sample}\n")
    save_loss_curve(losses, len(data.alphabet), OUT / "gpt_loss.png")


if __name__ == "__main__":
    main()
