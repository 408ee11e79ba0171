"""A tiny denoising diffusion model, a coupling flow and a variational autoencoder, trained and sampled."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Denoiser(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.exp(torch.linspace(0, -math.log(1e3), width // 2)))
        self.inner = nn.Sequential(nn.Linear(2 + width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        angles = t[:, None] * self.frequencies
        return self.out(self.inner(torch.cat([x, angles.sin(), angles.cos()], -1)))


class Coupling(nn.Module):
    def __init__(self, flip: bool) -> None:
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, x):
        a, b = x.flip(-1).chunk(2, -1) if self.flip else x.chunk(2, -1)
        shift, scale = self.net(a).chunk(2, -1)
        return torch.cat([a, b * scale.tanh().exp() + shift], -1), scale.tanh().squeeze(-1)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(2, 4), nn.Sequential(nn.Linear(2, 16), nn.ELU(), nn.Linear(16, 2))

    def forward(self, x):
        mean, log_var = self.encode(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1)
        return F.mse_loss(self.decode(code), x, reduction="none").sum(-1).add(kl).mean()


def moons(n):
    angle = torch.rand(n) * math.pi
    side = torch.randint(0, 2, (n,))
    x = torch.stack([angle.cos() + side, angle.sin() * (1 - 2 * side) + 0.5 * side], -1)
    return x + 0.05 * torch.randn_like(x)


torch.manual_seed(0)
steps = 20
betas = torch.linspace(1e-3, 0.3, steps)
kept = torch.cumprod(1 - betas, 0)
model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
for step in range(30):
    x, t = moons(64), torch.randint(steps, (64,))
    noise = torch.randn_like(x)
    noisy = kept[t].sqrt()[:, None] * x + (1 - kept[t]).sqrt()[:, None] * noise
    loss = F.mse_loss(model(noisy, t.float()), noise)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    average.update_parameters(model)
    if step % 5 == 0:
        print(f"diffusion {step} {loss.item():.5f} {norm.item():.5f} {scheduler.get_last_lr()[0]:.6f}")
with torch.no_grad():
    x = torch.randn(8, 2)
    for i in reversed(range(steps)):
        guess = average(x, torch.full((8,), float(i)))
        x = (x - betas[i] / (1 - kept[i]).sqrt() * guess) / (1 - betas[i]).sqrt()
        if i:
            x += betas[i].sqrt() * torch.randn_like(x)
print("samples", [[f"{v:.4f}" for v in row] for row in x.tolist()])

flow = nn.ModuleList(Coupling(i % 2 == 1) for i in range(4))
base = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
optimizer = torch.optim.RMSprop(flow.parameters(), lr=1e-3, momentum=0.5)
for step in range(12):
    z, volume = moons(64), 0
    for layer in flow:
        z, change = layer(z)
        volume = volume + change
    loss = -(base.log_prob(z) + volume).mean()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    print(f"flow {step} {loss.item():.5f}")

coder = Autoencoder()
optimizer = torch.optim.SGD(coder.parameters(), lr=0.02, momentum=0.9, nesterov=True)
for step in range(8):
    optimizer.zero_grad()
    loss = coder(moons(32))
    loss.backward()
    optimizer.step()
    print(f"vae {step} {loss.item():.5f}")
