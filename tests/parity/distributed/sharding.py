"""Trains a small GPT in pieces (FSDP2) in many ways and writes down the losses; the same program for both libraries.

RANK=0 WORLD_SIZE=2 python sharding.py FOLDER [WAYS]: once for each rank; they meet in the folder and write there.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS, WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 20, 61, 24, 3, 4, 12, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.attend(self.norm(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.second_norm(x))))


class GPT(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batches():
    draw = torch.Generator().manual_seed(5)
    return [torch.randint(WORDS, (BATCH, LENGTH + 1), generator=draw) for _ in range(STEPS)]


def shard(model, **how):
    for block in model.blocks:
        fully_shard(block, **how)
    return fully_shard(model, **how)


def loss_of(model, rows):
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def trained(model, make_optimizer, *, steps=3, pieces=1, clip=None, data=None):
    """The losses of the whole batch over some steps; with `pieces`, gradients are added up over parts of a batch."""
    rank, size = (dist.get_rank(), dist.get_world_size()) if data is None else (data.get_local_rank(), data.size())
    rank, size = (rank, size) if hasattr(model, "unshard") else (0, 1)
    optimizer, losses = make_optimizer(model.parameters()), []
    for rows in batches()[:steps]:
        mine, total = rows[rank::size], torch.zeros(())
        for at in range(pieces):
            if pieces > 1 and size > 1:
                model.set_requires_gradient_sync(at == pieces - 1)
            loss = loss_of(model, mine[at::pieces]) / pieces
            loss.backward()
            total += loss.detach()
        if clip is not None:
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
            losses.append(norm.item())
        optimizer.step()
        optimizer.zero_grad()
        if size > 1:
            dist.all_reduce(total, group=None if data is None else data.get_group())
        losses.append(total.item() / size)
    return losses


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def ways():
    """(name, the model, how it is sharded, how it is trained)"""
    size = dist.get_world_size()
    yield "layers", GPT, shard, {"steps": STEPS}
    yield "kept after forward", GPT, lambda m: shard(m, reshard_after_forward=False), {"clip": 0.5}
    yield "accumulated", GPT, shard, {"pieces": 2}
    yield "fused", GPT, shard, {"make_optimizer": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True)}
    yield "one by one", GPT, shard, {"make_optimizer": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False)}

    def checkpointed(model):
        apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
        return shard(model)

    yield "checkpointed", GPT, checkpointed, {}

    def tied(model):
        for block in model.blocks:
            fully_shard(block)
        fully_shard([model.words, model.norm, model.head])
        return fully_shard(model)

    yield "tied", lambda: GPT(tied=True), tied, {}

    def columns(param):
        return Shard(1) if param.ndim == 2 and param.shape[1] % size == 0 else None

    yield "columns", GPT, lambda m: shard(m, shard_placement_fn=columns), {"clip": 1.0}
    if size == 4:
        yield "pairs after forward", GPT, lambda m: shard(m, reshard_after_forward=2), {}
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "piece"))
        yield "replicas", GPT, lambda m: shard(m, mesh=mesh), {"clip": 0.5}

        def tensor_parallel(model):
            for block in model.blocks:
                parallelize_module(block, mesh["piece"], {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
            return shard(model, mesh=mesh["replica"])

        yield "tensor parallel", GPT, tensor_parallel, {"data": mesh["replica"], "steps": STEPS}
    else:
        yield "offloaded", GPT, lambda m: shard(m, offload_policy=CPUOffloadPolicy(pin_memory=False)), {}

        def prefetching(model):
            shard(model)
            for block, after in zip(model.blocks, model.blocks[1:], strict=False):
                block.set_modules_to_forward_prefetch([after])
                after.set_modules_to_backward_prefetch([block])
            return model

        yield "prefetching", GPT, prefetching, {}


def main():
    folder, chosen = Path(sys.argv[1]), sys.argv[2:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    lines = (folder / f"rank {rank}").open("w", buffering=1)
    whole = {}  # the losses of one process, for each way to train
    for name, make, cut, how in ways():
        if chosen and name not in chosen:
            continue
        how = {"make_optimizer": adamw, **how}
        key = make, how["make_optimizer"], how.get("clip")
        if len(whole.get(key, ())) < len(batches()[: how.get("steps", 3)]):
            torch.manual_seed(1)
            whole[key] = trained(make(), **how)
        torch.manual_seed(1)
        model = cut(make())
        losses = trained(model, **how)
        apart = max(abs(a - b) for a, b in zip(whole[key], losses, strict=False))
        print(f"{name}: {apart < 1e-4 or apart} {' '.join(f'{loss:.5f}' for loss in losses)}", file=lines)
        shapes = [(n, tuple(p.to_local().shape)) for n, p in model.named_parameters()]
        print(f"{name} holds: {sum(p.to_local().numel() for p in model.parameters())} {shapes[:6]}", file=lines)
    for name, policy in (("bfloat16", MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
                         ("reduced so too", MixedPrecisionPolicy(torch.bfloat16))):
        if not chosen or name in chosen:  # there is no whole run to compare with
            torch.manual_seed(1)
            losses = trained(shard(GPT(), mp_policy=policy), adamw)
            print(f"{name}: half {' '.join(f'{loss:.5f}' for loss in losses)}", file=lines)
    lines.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
