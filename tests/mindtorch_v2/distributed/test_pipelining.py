"""torch.distributed.pipelining: microbatches through stages give what the whole model gives."""

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2 import nn
from mindtorch_v2.distributed import pipelining
from mindtorch_v2.distributed.device_mesh import init_device_mesh
from mindtorch_v2.distributed.fsdp import fully_shard
from mindtorch_v2.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from mindtorch_v2.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    merge_chunks,
    split_args_kwargs_into_chunks,
    sum_reducer,
)
from mindtorch_v2.distributed.pipelining.schedules import _ScheduleForwardOnly, get_schedule_class
from mindtorch_v2.distributed.pipelining.stage import PipeliningMetadataError
from mindtorch_v2.distributed.tensor import DTensor
from mindtorch_v2.nn import functional as F


class Block(nn.Module):
    """Takes and gives two tensors, of which one has no gradient; a scale may be given by name."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, places, scale=None):
        x = x + torch.tanh(self.linear(x)) * (1 if scale is None else scale) + places.unsqueeze(1) * 0.1
        return x, places + 1


def _blocks(number):
    torch.manual_seed(0)
    return [Block() for _ in range(number)]


class Chain(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, places, **kwargs):
        for block in self.blocks:
            x, places = block(x, places, **kwargs)
        return x, places


def _loss(output, target):
    return F.mse_loss(output[0], target)


def _batch(seed, length=8):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(length, 6, generator=generator), torch.arange(length),
            torch.randn(length, 6, generator=generator))


def _whole(blocks, x, places, target, microbatches, **kwargs):
    """(losses of microbatches, gradients of their mean, outputs) of the model on one process."""
    model = Chain(blocks)
    outputs = [model(a, b, **kwargs) for a, b in zip(x.tensor_split(microbatches), places.tensor_split(microbatches),
                                                    strict=True)]
    losses = [_loss(output, y) for output, y in zip(outputs, target.tensor_split(microbatches), strict=True)]
    (torch.stack(losses).sum() / microbatches).backward()
    grads = [[parameter.grad.clone() for parameter in block.parameters()] for block in blocks]
    return [loss.item() for loss in losses], grads, torch.cat([output[0] for output in outputs]).detach()


def _stages(rank, size, number, group=None):
    """This process's stages, each of 4 // number blocks."""
    blocks, each = _blocks(4), 4 // number
    made = [Chain(blocks[at * each : (at + 1) * each]) for at in range(number)]
    return [PipelineStage(made[at], at, number, "cpu", group=group) for at in range(rank, number, size)]


def _check(stages, expected, scale=1.0):
    per_stage = 4 // stages[0].num_stages
    for stage in stages:
        for at, block in enumerate(stage.submod.blocks):
            for parameter, grad in zip(block.parameters(), expected[stage.stage_index * per_stage + at], strict=True):
                torch.testing.assert_close(parameter.grad, grad * scale, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [2, 4])
def test_stages_give_what_the_model_gives(together, size):
    def ranks(rank):
        x, places, target = _batch(1)
        first, last = rank == 0, rank == size - 1
        for kind, number, microbatches in ((ScheduleGPipe, size, 4), (Schedule1F1B, size, 8),
                                           (ScheduleInterleaved1F1B, 4, 8), (ScheduleLoopedBFS, 4, 4)):
            losses, grads, outputs = _whole(_blocks(4), x, places, target, microbatches)
            stages = _stages(rank, size, number)
            schedule = kind(stages[0] if kind in (ScheduleGPipe, Schedule1F1B) else stages, microbatches, loss_fn=_loss)
            found = ["of an older step"]
            for _ in range(2):  # the second with known shapes
                for stage in stages:
                    stage.submod.zero_grad()
                made = schedule.step(*((x, places) if first else ()), target=target if last else None, losses=found)
                _check(stages, grads)
            if last:
                torch.testing.assert_close(made[0], outputs)
                assert made[1].tolist() == (torch.arange(8) + 4).tolist()
                assert [loss.item() for loss in found] == pytest.approx(losses, rel=1e-4)
            else:
                assert made is None
                assert found == ["of an older step"]

    together(size, ranks)


def test_what_a_step_takes_and_gives(together):
    def ranks(rank):
        x, places, target = _batch(2)
        first, last = rank == 0, rank == 1
        data = (x, places) if first else ()
        # evaluation before and after training, without a graph
        stages = _stages(rank, 2, 2)
        schedule = Schedule1F1B(stages[0], 4, loss_fn=_loss)
        _, grads, outputs = _whole(_blocks(4), x, places, target, 4)
        for _ in range(2):
            losses = []
            made = schedule.eval(*data, target=target if last else None, losses=losses)
            if last:
                torch.testing.assert_close(made[0], outputs)
                assert not made[0].requires_grad
                assert len(losses) == 4
            stages[0].submod.zero_grad()
            assert schedule.step(*data, target=target if last else None, return_outputs=False) is None
            _check(stages, grads)
        with torch.no_grad(), pytest.raises(RuntimeError, match=r"step\(\) requires gradients to be enabled"):
            schedule.step(*data)
        # named arguments go to each stage from its own process; gradients as sums
        scale = torch.linspace(1, 2, 8).unsqueeze(1)
        model = Chain(_blocks(4))
        pieces = (tensor.tensor_split(4) for tensor in (x, places, scale, target))
        sum(_loss(model(a, b, scale=s), y) for a, b, s, y in zip(*pieces, strict=True)).backward()
        stages = _stages(rank, 2, 2)
        summed = ScheduleGPipe(stages[0], 4, loss_fn=_loss, scale_grads=False)
        summed.step(*data, target=target if last else None, scale=scale)
        _check(stages, [[p.grad for p in block.parameters()] for block in model.blocks])
        # forward only, microbatches along another dimension
        halves = [nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)]
        for half in halves:
            nn.init.eye_(half.weight)
        stage = PipelineStage(halves[rank], rank, 2, "cpu")
        only = _ScheduleForwardOnly(stage, 2, args_chunk_spec=(TensorChunkSpec(1),),
                                    output_merge_spec=TensorChunkSpec(1))
        rows = torch.arange(12.0).reshape(1, 4, 3)
        made = only.step(*((rows,) if first else ()))
        assert (made is None) is first
        assert first or torch.equal(made, rows)
        # activations of another size than before are refused where they are made
        if first:
            with pytest.raises(PipeliningMetadataError, match="Stage 0 forward outputs: expected"):
                only.step(torch.zeros(1, 2, 3))

    together(2, ranks)


def test_stages_of_replicas(together):
    """Two pipelines of two stages, whose stages are replicas of each other, or in pieces."""

    def ranks(rank):
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "stage"))
        group, place = grid.get_group("stage"), grid.get_local_rank("stage")
        batches = [_batch(3), _batch(4)]
        both = [_whole(_blocks(4), *batch, 4)[1] for batch in batches]
        mean = [[(a + b) / 2 for a, b in zip(*pair, strict=True)] for pair in zip(*both, strict=True)]
        x, places, target = batches[grid.get_local_rank("replica")]
        blocks = _blocks(4)
        module = Chain(blocks[2 * place : 2 * place + 2])
        replica = nn.parallel.DistributedDataParallel(module, process_group=grid.get_group("replica"))
        stage = PipelineStage(replica, place, 2, "cpu", group=group)
        schedule = Schedule1F1B(stage, 4, loss_fn=_loss)
        cut = fully_shard(Chain(_blocks(4)[2 * place : 2 * place + 2]), mesh=grid["replica"])
        of_pieces = Schedule1F1B(PipelineStage(cut, place, 2, "cpu", group=group), 4, loss_fn=_loss)
        for running, blocks in ((schedule, module.blocks), (schedule, module.blocks), (of_pieces, cut.blocks)):
            blocks.zero_grad()
            running.step(*((x, places) if place == 0 else ()), target=target if place == 1 else None)
            for at, block in enumerate(blocks):
                for parameter, grad in zip(block.parameters(), mean[2 * place + at], strict=True):
                    found = parameter.grad.full_tensor() if isinstance(parameter, DTensor) else parameter.grad
                    torch.testing.assert_close(found, grad, rtol=1e-4, atol=1e-6)

    together(4, ranks)


def test_microbatches():
    x, y = torch.arange(10).reshape(5, 2), torch.arange(5)
    args, kwargs = split_args_kwargs_into_chunks((x, 3), {"y": y, "flag": True}, 2)
    assert [(a.shape[0], n) for a, n in args] == [(3, 3), (2, 3)]
    assert [(k["y"].tolist(), k["flag"]) for k in kwargs] == [([0, 1, 2], True), ([3, 4], True)]
    args, _ = split_args_kwargs_into_chunks((x,), None, 2, TensorChunkSpec.from_tuple((1,)))
    assert [a[0].shape for a in args] == [(5, 1), (5, 1)]
    args, kwargs = split_args_kwargs_into_chunks((x,), {"short": torch.ones(3)}, 4)
    assert len(args) == len(kwargs) == 3
    assert torch.equal(merge_chunks([{"a": x[:2]}, {"a": x[2:]}], None)["a"], x)
    merged = merge_chunks([(x[:, :1], torch.tensor(1.0), 7), (x[:, 1:], torch.tensor(2.0), 7)],
                          (TensorChunkSpec(1), sum_reducer, None))
    assert torch.equal(merged[0], x)
    assert merged[1].item() == 3
    assert merged[2] == 7
    with pytest.raises(ValueError, match="did not match chunk spec"):
        merge_chunks([(x, y)], (TensorChunkSpec(0),))
    assert str(TensorChunkSpec(1)) == "TensorChunkSpec(1)"


def test_what_is_refused(alone):
    with pytest.raises(ValueError, match="Stage index 1 is out of range of 1"):
        PipelineStage(nn.Linear(2, 2), 1, 1, "cpu")
    stage = PipelineStage(nn.Linear(2, 2), 0, 1, "cpu")
    with pytest.raises(ValueError, match=r"Number of microbatches \(0\) must be greater"):
        Schedule1F1B(stage, 0)
    schedule = ScheduleGPipe(stage, 2, loss_fn=F.mse_loss)
    with pytest.raises(ValueError, match="Expecting 2 arg_mbs but got 1"):
        schedule.step(torch.ones(1, 2), target=torch.ones(1, 2))
    with pytest.raises(TypeError, match="losses must be a list"):
        schedule.step(torch.ones(2, 2), target=torch.ones(2, 2), losses=())
    with pytest.raises(RuntimeError, match="Forward-only schedule does not support loss"):
        _ScheduleForwardOnly(stage, 1, loss_fn=F.mse_loss).step(torch.ones(2, 2))
    assert get_schedule_class("interleaved1f1b") is ScheduleInterleaved1F1B
    with pytest.raises(ValueError, match="Unknown schedule name 'best'. The valid options are"):
        get_schedule_class("best")
    with pytest.raises(NotImplementedError, match="Cut the model by hand"):
        pipelining.pipeline(nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises(NotImplementedError, match="Use ScheduleInterleaved1F1B"):
        pipelining.ScheduleZBVZeroBubble([stage], 2)
    assert dist.get_world_size() == 1
