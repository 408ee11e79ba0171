"""NCCL with one rank: every collective runs on device memory and gives what one process gives."""

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2 import nn
from mindtorch_v2.nn.parallel import DistributedDataParallel

KINDS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8,
         torch.bool, torch.complex64]


@pytest.fixture
def world(tmp_path):
    if not dist.is_nccl_available():
        pytest.skip("CuPy was built without NCCL")
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_collectives_on_device_memory(world, kind, asynchronous):
    base = torch.tensor([1, 0, 2, 1], device="cuda").to(kind)

    def same(tensor):
        assert tensor.device.type == "cuda" and tensor.dtype is kind
        assert tensor.tolist() == base.tolist()

    def done(work):
        assert (work is None) is not asynchronous
        if work is not None:
            assert work.wait()

    ops = ["SUM", *(["PRODUCT", "MIN", "MAX"] if not kind.is_complex else [])]
    for op in ops:
        x = base.clone()
        done(dist.all_reduce(x, getattr(dist.ReduceOp, op), async_op=asynchronous))
        same(x)
    x = base.clone()
    done(dist.broadcast(x, 0, async_op=asynchronous))
    done(dist.reduce(x, 0, async_op=asynchronous))
    same(x)
    for collect in (lambda out: dist.all_gather([out], base, async_op=asynchronous),
                    lambda out: dist.all_gather_into_tensor(out, base, async_op=asynchronous),
                    lambda out: dist.gather(base, [out], dst=0, async_op=asynchronous),
                    lambda out: dist.scatter(out, [base], src=0, async_op=asynchronous),
                    lambda out: dist.reduce_scatter(out, [base], async_op=asynchronous),
                    lambda out: dist.reduce_scatter_tensor(out, base, async_op=asynchronous),
                    lambda out: dist.all_to_all([out], [base], async_op=asynchronous),
                    lambda out: dist.all_to_all_single(out, base, async_op=asynchronous)):
        out = torch.zeros_like(base)
        done(collect(out))
        same(out)


def test_means_factors_and_refusals(world):
    x = torch.tensor([2.0, 4.0], device="cuda")
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [2, 4]
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BAND with NCCL"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32, device="cuda"), dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="Tensors must be contiguous"):
        dist.all_reduce(torch.ones(2, 3, device="cuda").t())
    dist.barrier()
    both = torch.ones(2)
    dist.all_reduce(both)  # on the CPU, by the other engine
    assert dist.get_backend_config() == "cpu:gloo,cuda:nccl" and both.tolist() == [1, 1]
    everyone = [None]
    dist.all_gather_object(everyone, "word")
    assert everyone == ["word"]


def test_works_wait_on_the_stream(world):
    x = torch.ones(1 << 20, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    assert future.wait()[0] is x
    y = x + 1  # queued after it
    torch.cuda.synchronize()
    assert work.is_completed() and y[-1].item() == 2


def test_training(world):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
    ddp = DistributedDataParallel(inner, device_ids=[0])
    x = torch.randn(5, 4)
    ddp(x).square().mean().backward()
    got = [p.grad.cpu() for p in inner.parameters()]
    inner.zero_grad()
    inner(x.cuda()).square().mean().backward()
    for a, b in zip(got, inner.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad.cpu())
