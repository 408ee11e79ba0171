"""Train a word-level GPT on the text of the licence: an ordinary PyTorch script.

    python -m mindtorch_v2 examples/train_gpt.py        # here, without PyTorch
    python examples/train_gpt.py                        # the same file under PyTorch: the same losses
    python examples/train_gpt.py --record               # keeps what PyTorch printed, in examples/data
    python -m mindtorch_v2 examples/train_gpt.py --device cuda --text README.md

It saves a checkpoint, loads it again into a fresh model, prints what that writes, and draws the loss curve. Beside its
own losses and text it shows those that PyTorch printed for the same seed, where that was recorded.
"""

import argparse
import importlib.util
import json
import math
import re
import textwrap
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
RECORDING = HERE / "data" / "gpt_by_pytorch.json"


class Words(Dataset):
    """Windows of a text, as numbers of words and signs: each with the window one word further on."""

    def __init__(self, text: str, length: int) -> None:
        words = re.findall(r"\n| ?[\w'-]+| ?[^\w\s]", text)
        self.vocabulary = sorted(set(words))
        number = {word: i for i, word in enumerate(self.vocabulary)}
        self.codes, self.length = torch.tensor([number[word] for word in words]), length

    def __len__(self) -> int:
        return len(self.codes) - self.length - 1

    def __getitem__(self, start: int):
        window = self.codes[start : start + self.length + 1]
        return window[:-1], window[1:]

    def text(self, codes) -> str:
        return "".join(self.vocabulary[code] for code in codes)


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
    """Scores of the next word at every place of a window."""

    def __init__(self, words: int, length: int = 32, width: int = 96, layers: int = 3, heads: int = 4,
                 dropout: float = 0.1) -> None:
        super().__init__()
        self.length = length
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
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


def paragraphs(path: Path) -> str:
    """The text of a file, each paragraph on one line."""
    parts = path.read_text(encoding="utf-8").split("\n\n")
    return "\n".join(" ".join(part.split()) for part in parts if part.strip())


def recorded(text: str, options: argparse.Namespace) -> dict:
    """What PyTorch printed for this seed and this text; nothing where that was not recorded, or this is PyTorch."""
    if "mindtorch" not in torch.__version__ or not RECORDING.exists():
        return {}
    recording = json.loads(RECORDING.read_text(encoding="utf-8"))
    asked = [len(text), options.steps, options.batch, options.seed]
    return recording if recording["of"] == asked else {}


def progress(steps: int):
    """Numbers of steps behind a tqdm bar, or plain where tqdm is not installed."""
    if importlib.util.find_spec("tqdm") is None:
        return range(steps)
    from tqdm import tqdm

    return tqdm(range(steps), unit=" steps", leave=False, disable=None)


def shown(text: str) -> str:
    """A text in lines that fit a terminal, set in by a bar."""
    return "\n".join(textwrap.fill(line, 100, initial_indent="  | ", subsequent_indent="  | ")
                     for line in text.splitlines())


def endless(loader):
    while True:
        yield from loader


def train(model, data, steps: int, batch: int, device: str, theirs: list[float]) -> list[float]:
    """Fits the model in place; the loss of every step comes back. `theirs` are PyTorch's, to be shown beside."""
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
            line = f"step {step:4d}   loss {losses[-1]:.4f}" + (f"   PyTorch's {theirs[step]:.4f}" if theirs else "")
            bar.write(line) if hasattr(bar, "write") else print(line)
    return losses


def save_loss_curve(losses: list[float], words: int, target: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("For a picture of the loss curve: pip install matplotlib")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=1.2)
    axes.set(xlabel="step", ylabel="cross entropy of the next word", title="A small GPT")
    axes.axhline(math.log(words), color="0.7", linewidth=0.8, linestyle="--", label="guessing")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    print(f"Loss curve: {target.relative_to(HERE.parent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or npu")
    parser.add_argument("--text", type=Path, default=HERE.parent / "LICENSE", help="what to learn")
    parser.add_argument("--record", action="store_true", help="keep losses and text, as what PyTorch prints")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    OUT.mkdir(exist_ok=True)

    text = paragraphs(options.text)
    theirs = recorded(text, options)
    data = Words(text, length=32)
    model = GPT(len(data.vocabulary)).to(options.device)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"torch {torch.__version__}; {len(data.codes)} words of text, {len(data.vocabulary)} different; "
        f"{count} parameters"
    )

    started = time.perf_counter()
    losses = train(model, data, options.steps, options.batch, options.device, theirs.get("losses", []))
    print(f"{options.steps} steps in {time.perf_counter() - started:.1f} s; loss {losses[0]:.3f} -> {losses[-1]:.3f}\n")

    checkpoint = OUT / "gpt.pt"
    torch.save({"model": model.state_dict(), "vocabulary": data.vocabulary, "losses": losses}, checkpoint)
    loaded = torch.load(checkpoint, map_location="cpu")
    again = GPT(len(loaded["vocabulary"]))
    again.load_state_dict(loaded["model"])

    start = data.codes[:1].unsqueeze(0)
    torch.manual_seed(options.seed)
    sample = data.text(again.continued(start, 100)[0].tolist())
    print(f"What it writes, from the reloaded checkpoint ({checkpoint.relative_to(HERE.parent)}):\n\n{shown(sample)}\n")
    if theirs:
        same = "the same text" if theirs["sample"] == sample else f"this text:\n\n{shown(theirs['sample'])}\n"
        apart = max(abs(ours - other) for ours, other in zip(losses, theirs["losses"]))
        print(f"PyTorch {theirs['version']}, as recorded with `python examples/train_gpt.py --record`, wrote {same}")
        print(f"The losses of the {len(losses)} steps differ by {apart:.1g} at most.")
    if options.record:
        recording = {"version": torch.__version__, "of": [len(text), options.steps, options.batch, options.seed],
                     "losses": [round(loss, 6) for loss in losses], "sample": sample}
        RECORDING.write_text(json.dumps(recording) + "\n", encoding="utf-8")
    save_loss_curve(losses, len(data.vocabulary), OUT / "gpt_loss.png")


if __name__ == "__main__":
    main()
