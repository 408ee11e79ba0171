"""Trains a GPT of four layers in stages, with every schedule: `pipeline.py FOLDER STEPS`; losses go to a file a rank.

With one process there are no stages: the same batches, cut into the same microbatches.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from torch.nn import functional as F

WORDS, WIDTH, LENGTH, BATCH, MICROBATCHES = 29, 16, 8, 8, 4


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, tokens):
        return self.word(tokens) + self.place(torch.arange(tokens.shape[1]))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.heads(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


def parts():
    """The model's parts in order, the same on every process."""
    torch.manual_seed(0)
    layers = [Layer() for _ in range(4)]
    return [Embedding(), *layers, nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False))]


def stages_of(number):
    """The parts in stages: the embedding with the first layers, the head with the last."""
    found = parts()
    each = 4 // number
    made = [found[1 + at * each : 1 + (at + 1) * each] for at in range(number)]
    made[0].insert(0, found[0])
    made[-1].append(found[-1])
    return [nn.Sequential(*modules) for modules in made]


def loss_of(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def batches(steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)
        yield tokens[:, :-1], tokens[:, 1:]


def alone(steps):
    model = nn.Sequential(*parts())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for tokens, target in batches(steps):
        losses = [loss_of(model(t), y) for t, y in zip(tokens.chunk(MICROBATCHES), target.chunk(MICROBATCHES))]
        torch.stack(losses).mean().backward()
        yield sum(loss.item() for loss in losses) / MICROBATCHES
        optimizer.step()
        optimizer.zero_grad()


def in_stages(kind, steps):
    size, rank = dist.get_world_size(), dist.get_rank()
    number = size if kind in (ScheduleGPipe, Schedule1F1B) else 4
    made = stages_of(number)
    mine = [PipelineStage(made[index], index, number, torch.device("cpu")) for index in range(rank, number, size)]
    schedule = kind(mine[0] if number == size and kind in (ScheduleGPipe, Schedule1F1B) else mine, MICROBATCHES,
                    loss_fn=loss_of)
    optimizer = torch.optim.AdamW([p for stage in mine for p in stage.submod.parameters()], lr=0.01)
    for tokens, target in batches(steps):
        losses = []
        schedule.step(*([tokens] if rank == 0 else []), target=target if rank == size - 1 else None, losses=losses)
        if rank == size - 1:
            yield sum(loss.item() for loss in losses) / MICROBATCHES
        optimizer.step()
        optimizer.zero_grad()


def main(folder, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    lines = []
    if dist.get_world_size() == 1:
        lines.append(" ".join(f"{loss:.6f}" for loss in alone(int(steps))))
    else:
        for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS):
            lines.append(" ".join(f"{loss:.6f}" for loss in in_stages(kind, int(steps))))
    with open(f"{folder}/rank {dist.get_rank()}", "w") as file:
        file.write("\n".join(lines))
    dist.destroy_process_group()


main(*sys.argv[1:])
