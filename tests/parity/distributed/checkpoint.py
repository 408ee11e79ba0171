"""Saves or loads a distributed checkpoint of a model in pieces and its optimizer: `checkpoint.py save A load B`.

The numbers are made of counts, so that whoever loads knows what was saved, on however many processes.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard


def counted(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape).to(dtype)


def build(mesh, placements, scale):
    """A model and an optimizer after a step; with a scale of 0 another one."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3, bias=False))
    for layer, name, placement in placements:
        value = counted(*getattr(model[layer], name).shape) * scale
        setattr(model[layer], name, nn.Parameter(distribute_tensor(value, mesh, [placement])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125, weight_decay=0.0)
    for parameter in model.parameters():
        parameter.grad = distribute_tensor(counted(*parameter.shape) * scale, mesh, parameter.placements)
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def whole(state):
    """A nested state with whole tensors, as lists."""
    if isinstance(state, DTensor):
        return [round(x, 5) for x in state.full_tensor().flatten().tolist()]
    if isinstance(state, torch.Tensor):
        return [round(x, 5) for x in state.float().flatten().tolist()]
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    return [whole(value) for value in state] if isinstance(state, (list, tuple)) else state


def main(what, folder):
    size, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (size,))
    model, optimizer = build(mesh, [(0, "weight", Shard(0)), (0, "bias", Shard(0)), (2, "weight", Shard(1))], 1.0)
    if what == "save":
        model_state, optimizer_state = get_state_dict(model, optimizer)
        grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replica", "part"))
        strided = counted(8, 2)[(rank % (size // 2)) * (8 // (size // 2)) + (rank // (size // 2)) * (4 // (size // 2)):]
        strided = strided[: 4 // (size // 2)].clone()
        dcp.save({
            "model": model_state, "optimizer": optimizer_state, "step": 7,
            "notes": {"names": ["a", "b"], "numbers": [1, torch.tensor([2, 3])]},
            "half": distribute_tensor(counted(5, dtype=torch.bfloat16), mesh, [Shard(0)]),
            "everywhere": distribute_tensor(counted(3), mesh, [Replicate()]),
            "strided": DTensor.from_local(strided, grid, [_StridedShard(0, split_factor=size // 2), Shard(0)],
                                          shape=torch.Size((8, 2)), stride=(2, 1), run_check=False),
        }, checkpoint_id=folder)
    else:
        expected = whole(get_state_dict(model, optimizer))
        other = build(mesh, [(0, "weight", Shard(1)), (0, "bias", Replicate()), (2, "weight", Shard(0))], 0.0)
        model_state, optimizer_state = get_state_dict(*other)
        state = {"model": model_state, "optimizer": optimizer_state, "step": 0,
                 "notes": {"names": None, "numbers": [0, torch.tensor([0, 0])]},
                 "half": torch.zeros(5, dtype=torch.bfloat16),
                 "everywhere": distribute_tensor(torch.zeros(3), mesh, [Shard(0)]),
                 "strided": distribute_tensor(torch.zeros(8, 2), mesh, [Shard(0)])}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(*other, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        assert whole(get_state_dict(*other)) == expected, (whole(get_state_dict(*other)), expected)
        assert whole([state["strided"], state["half"], state["everywhere"]]) == whole(
            [counted(8, 2), counted(5), counted(3)]), state
        assert state["step"] == 7 and whole(state["notes"]) == {"names": ["a", "b"], "numbers": [1, [2, 3]]}, state


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for action in zip(sys.argv[1::2], sys.argv[2::2]):
        main(*action)
    dist.destroy_process_group()
