"""A program in which type checkers find nothing to complain about."""

import math

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F
from mindtorch_v2 import Tensor, nn, optim
from mindtorch_v2.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, 4 * width)
        self.norm = nn.LayerNorm(4 * width)
        self.out = nn.Linear(4 * width, 10)
        self.register_buffer("scale", torch.ones(1))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm(self.hidden(x)), approximate="tanh")
        x = F.dropout(x, self.dropout, self.training)
        return self.out(x) * self.scale


def train(steps: int) -> float:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(8).to(device)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    loss = torch.tensor(math.inf)
    for _ in range(steps):
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device), label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
    with torch.no_grad():
        logits = model(data.tensors[0])
        values, indices = logits.max(dim=1)
        top = torch.topk(logits, 3)
        probabilities: Tensor = torch.softmax(logits, dim=-1)
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    y = x.view(4, 3).view((3, 4)).transpose(0, 1)[1:, None]
    z = (2**x - 1.5 * x / 3 + (x > 2)).sum(dim=(0, 1), keepdim=True).clamp_(min=0).to(torch.float64)
    u, s, vh = torch.linalg.svd(x)
    q = torch.einsum("ij,kj->ik", x, x) @ torch.eye(3)
    w = torch.zeros(2, 3, device="cpu", requires_grad=True) + torch.full((2, 3), 1.0)
    mask = torch.where(x > 1, x, 0.0) * torch.fft.rfft(x).abs().mean() + torch.special.expit(x)
    parts = torch.split(x, [1, 2]), x.chunk(2), torch.stack([x, x], dim=0), torch.cat((x, x))
    out = torch.empty(3, 4)
    torch.add(x, 1, alpha=2, out=out)
    state = model.state_dict()
    layers = nn.ModuleList([nn.MaxPool2d(2, ceil_mode=True), nn.GELU("tanh"), nn.LeakyReLU(0.1, inplace=True)])
    losses = nn.CrossEntropyLoss(torch.ones(3), ignore_index=0), nn.NLLLoss(reduction="sum"), nn.L1Loss()
    print(layers[1:], losses, nn.Sequential(*layers)[:2])
    model.load_state_dict(state)
    count: int = sum(p.numel() for p in model.parameters())
    print(values.shape[0], indices.dtype, top.values, probabilities.size(0), y, z, u, s, vh, q, w, mask, parts, count)
    return loss.item()


if __name__ == "__main__":
    print(train(2))
