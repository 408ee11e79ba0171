"""Trains a small GPT that is cut over all processes, twice, and writes the losses: whole sequences between layers with
a loss of whole scores, and pieces of sequences with a loss of scores that are cut along the classes."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WIDTH, HEADS, LENGTH, WORDS, STEPS = 32, 4, 16, 64, 20


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x, at):
        x = self.words(x) + self.places(at)
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


def whole_sequences(model, mesh):
    return parallelize_module(model, mesh, {
        "words": RowwiseParallel(input_layouts=Replicate()),
        "blocks.*.attention.[qkv]": ColwiseParallel(), "blocks.*.attention.out": RowwiseParallel(),
        "blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel(),
        "scores": ColwiseParallel(output_layouts=Replicate()),
    })  # fmt: skip


def pieces_of_sequences(model, mesh):
    cut = Shard(1)
    return parallelize_module(model, mesh, {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=cut, use_local_output=False),
        "places": RowwiseParallel(input_layouts=Replicate(), output_layouts=cut, use_local_output=False),
        "blocks.*.norm?": SequenceParallel(), "norm": SequenceParallel(),
        "blocks.*.attention": PrepareModuleInput(input_layouts=(cut,), desired_input_layouts=(Replicate(),)),
        "blocks.*.attention.[qkv]": ColwiseParallel(),
        "blocks.*.attention.out": RowwiseParallel(output_layouts=cut, use_local_output=False),
        "blocks.*.up": ColwiseParallel(input_layouts=cut, use_local_output=False),
        "blocks.*.down": RowwiseParallel(output_layouts=cut, use_local_output=False),
        "scores": ColwiseParallel(input_layouts=cut, use_local_output=False),
    })  # fmt: skip


def train(spread):
    torch.manual_seed(0)
    model = GPT()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if spread is not None:
        model = spread(model, mesh)
    step = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(1)
    words = torch.randint(0, WORDS, (4, LENGTH + 1))
    at = torch.arange(LENGTH).expand(4, LENGTH)
    for _ in range(STEPS):
        scores = model(words[:, :-1], at)
        with loss_parallel():
            loss = F.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
            loss.backward()
        norm = nn.utils.clip_grad_norm_([p for p in model.parameters() if not isinstance(p, DTensor)] or
                                        list(model.parameters()), 1.0) if spread is not whole_sequences else None
        step.step()
        step.zero_grad()
        loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        yield f"{loss.item():.4f}" + ("" if norm is None else f" {norm.item():.3f}")


def main(folder):
    dist.init_process_group("gloo")
    with open(Path(folder) / f"rank {os.environ['RANK']}", "w") as file:
        for spread in (None, whole_sequences, pieces_of_sequences):
            name = "alone" if spread is None else spread.__name__
            for number, line in enumerate(train(spread)):
                print(name, number, line, file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
