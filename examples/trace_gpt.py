"""One training step of a 4-layer GPT as a page to step through: an ordinary PyTorch script, traced.

python -m mindtorch_v2 examples/trace_gpt.py        # writes examples/out/trace.html
"""

from pathlib import Path

import torch
from torch.nn import functional as F

from train_gpt import GPT

OUT = Path(__file__).resolve().parent / "out"


def main() -> None:
    torch.manual_seed(0)
    model = GPT(65, length=64, width=128, layers=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    codes = torch.randint(65, (8, 65))

    def step():
        scores = model(codes[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), codes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    step()  # the first one makes the optimizer's state
    OUT.mkdir(exist_ok=True)
    traced = torch.utils.trace(step, OUT / "trace.html")
    print(f"loss {traced.result:.3f}; {len(traced)} calls in {OUT / 'trace.html'}")


if __name__ == "__main__":
    main()
