"""A transformer from scratch: mixture of experts, low-rank adapters, accumulation, resuming, a cache for sampling."""

import io

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 8
LETTERS = sorted(set(TEXT))
CODES = torch.tensor([LETTERS.index(c) for c in TEXT])


class Experts(nn.Module):
    def __init__(self, dim, count=4, chosen=2):
        super().__init__()
        self.gate, self.chosen = nn.Linear(dim, count, bias=False), chosen
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
                                     for _ in range(count))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, index = self.gate(flat).softmax(-1).topk(self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(index == i)
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slot, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.RMSNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out, self.mlp = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), Experts(dim)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache.update(k=k, v=v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, dim=32, layers=2, heads=4, length=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(LETTERS), dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, len(LETTERS), bias=False)
        self.head.weight = self.tokens.weight
        self.apply(lambda m: nn.init.normal_(m.weight, std=0.05) if isinstance(m, (nn.Linear, nn.Embedding)) else None)

    def forward(self, ids, caches=None, start=0):
        x = self.tokens(ids) + self.places(torch.arange(start, start + ids.shape[1]))
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if caches is None else block(x, caches[i])
        return self.head(x)


class Adapter(nn.Module):
    def __init__(self, linear, rank=2):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(rank, linear.in_features) * 0.1), nn.Parameter(
            torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + x @ self.a.T @ self.b.T


def train(model, optimizer, scheduler, steps, name):
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(2):
            starts = torch.randint(len(CODES) - 25, (4,))
            window = CODES[starts[:, None] + torch.arange(25)]
            logits = model(window[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(logits, window[:, 1:].flatten(), label_smoothing=0.05) / 2
            loss.backward()
            total += loss.item()
        optimizer.step()
        scheduler.step()
        print(f"{name} {step} {total:.5f}")


def made(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)


torch.manual_seed(1)
model = Model()
print(sum(p.numel() for p in model.parameters()))
optimizer, scheduler = made(model)
train(model, optimizer, scheduler, 6, "before")
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state()}, file)
train(model, optimizer, scheduler, 4, "after")
file.seek(0)
state = torch.load(file)
model = Model()
optimizer, scheduler = made(model)
for part, key in ((model, "model"), (optimizer, "optimizer"), (scheduler, "scheduler")):
    print(key, part.load_state_dict(state[key]))
torch.set_rng_state(state["rng"])
train(model, optimizer, scheduler, 4, "resumed")

with torch.inference_mode():
    caches, ids = [{} for _ in model.blocks], CODES[None, :5]
    logits = model(ids, caches)
    for place in range(5, 20):
        chosen = torch.multinomial((logits[:, -1] / 0.8).softmax(-1), 1)
        ids = torch.cat([ids, chosen], 1)
        logits = model(chosen, caches, place)
    print(repr("".join(LETTERS[i] for i in ids[0].tolist())))
    print(f"cache off by less than 1e-4: {(model(ids, [{} for _ in model.blocks])[:, -1] - logits).abs().max() < 1e-4}")

model.requires_grad_(False)
for block in model.blocks:
    block.qkv = Adapter(block.qkv)
tuned = [name for name, p in model.named_parameters() if p.requires_grad]
print(tuned)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
train(model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.9**s), 4, "adapters")
