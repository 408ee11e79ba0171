"""HCCL: what the collectives of a group ask of it, of one that writes its calls down, and between two machines."""

import ctypes
from datetime import timedelta

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2._backends.npu import hccl as library
from mindtorch_v2.distributed._engines import hccl
from mindtorch_v2.multiprocessing import start_processes
from mindtorch_v2.nn.parallel import DistributedDataParallel


@pytest.fixture
def calls(npu, monkeypatch, tmp_path):
    made = []

    def function(name):
        def called(*arguments):
            made.append((name, [getattr(each, "value", each) for each in arguments]))
            if name == "HcclCommInitRootInfo":
                ctypes.cast(arguments[3], ctypes.POINTER(ctypes.c_void_p))[0] = 77
            return 0

        return called

    functions = {name: function(name) for name in library.PROTOTYPES}
    monkeypatch.setattr(hccl, "_loaded", [{**functions, "HcclGetErrorString": lambda code: b"a reason"}])
    dist.init_process_group("hccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield made
    if dist.is_initialized():
        dist.destroy_process_group()


def test_collectives_are_calls_on_device_memory(calls):
    x, out = torch.ones(6, device="npu"), torch.empty(6, device="npu")
    half = torch.ones(2, dtype=torch.bfloat16, device="npu")
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert [name for name, _ in calls] == ["HcclGetRootInfo", "HcclCommInitRootInfo", "HcclAllReduce"]
    stream = torch.npu.current_stream().npu_stream
    assert calls[-1][1] == [x.data_ptr(), x.data_ptr(), 6, 4, library.MAX, 77, stream]
    calls.clear()
    dist.broadcast(half, 0)
    dist.reduce(x, 0)
    dist.all_gather_into_tensor(out, x)
    dist.reduce_scatter_tensor(out, x)
    assert calls == [
        ("HcclBroadcast", [half.data_ptr(), 2, 11, 0, 77, stream]),
        ("HcclReduce", [x.data_ptr(), x.data_ptr(), 6, 4, library.SUM, 0, 77, stream]),
        ("HcclAllGather", [x.data_ptr(), out.data_ptr(), 6, 4, 77, stream]),
        ("HcclReduceScatter", [x.data_ptr(), out.data_ptr(), 6, 4, library.SUM, 77, stream])]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and calls[-1][1][-1] != stream  # on a stream of its own
    dist.all_to_all_single(out, torch.arange(6.0, device="npu"))
    assert out.tolist() == [0, 1, 2, 3, 4, 5]  # what a rank sends itself is copied
    calls.clear()
    dist.destroy_process_group()
    assert calls == [("HcclCommDestroy", [77])]


def test_what_hccl_cannot_do(calls, monkeypatch):
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BOR with HCCL"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32, device="npu"), dist.ReduceOp.BOR)
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(2))
    monkeypatch.setitem(hccl._loaded[0], "HcclBroadcast", lambda *arguments: 5)
    with pytest.raises(dist.DistBackendError, match=r"HcclBroadcast failed with 5 \(a reason\)"):
        dist.broadcast(torch.ones(2, device="npu"), 0)


# two processes, each with a machine of its own ------------------------------------------------------------------------


def _on(rank, *values, dtype=torch.float32):
    """A tensor on the device: the first values for rank 0, the second for rank 1."""
    return torch.tensor(values[rank], dtype=dtype, device="npu")


def _collectives(rank):
    x = _on(rank, [1, 2, 3, 4], [10, 20, 30, 40])
    for op, total in ((dist.ReduceOp.SUM, [11, 22, 33, 44]), (dist.ReduceOp.PRODUCT, [10, 40, 90, 160]),
                      (dist.ReduceOp.MAX, [10, 20, 30, 40]), (dist.ReduceOp.MIN, [1, 2, 3, 4]),
                      (dist.ReduceOp.AVG, [5.5, 11, 16.5, 22]), (dist._make_nccl_premul_sum(2.0), [22, 44, 66, 88])):
        y = x.clone()
        dist.all_reduce(y, op)
        assert y.tolist() == total
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.uint8):
        y = x.to(dtype)
        work = dist.all_reduce(y, async_op=True)
        assert work.wait() and (y + 1).tolist() == [12, 23, 34, 45] and y.dtype is dtype
    y, z = x.clone(), x.int()
    dist.all_reduce_coalesced([y, y2 := x + 1])
    assert y.tolist() == [11, 22, 33, 44] and y2.tolist() == [13, 24, 35, 46]
    y = x.clone()
    dist.reduce(y, 1)
    assert y.tolist() == ([11, 22, 33, 44] if rank else [1, 2, 3, 4])
    dist.broadcast(z, 1)
    assert z.tolist() == [10, 20, 30, 40]
    parts = [torch.empty(4, device="npu") for _ in range(2)]
    dist.all_gather(parts, x)
    assert [part.tolist() for part in parts] == [[1, 2, 3, 4], [10, 20, 30, 40]]
    whole = torch.empty(8, device="npu")
    dist.all_gather_into_tensor(whole, x)
    assert whole.tolist() == [1, 2, 3, 4, 10, 20, 30, 40]
    half = torch.empty(2, device="npu")
    dist.reduce_scatter(half, list(x.split(2)))
    assert half.tolist() == [[11, 22], [33, 44]][rank]
    dist.reduce_scatter_tensor(half, x, dist.ReduceOp.AVG)
    assert half.tolist() == [[5.5, 11], [16.5, 22]][rank]
    dist.gather(x, parts if rank == 0 else None, 0)
    assert rank or [part.tolist() for part in parts] == [[1, 2, 3, 4], [10, 20, 30, 40]]
    dist.scatter(half, [_on(0, [5, 6]), _on(0, [7, 8])] if rank else None, 1)
    assert half.tolist() == [[5, 6], [7, 8]][rank]
    dist.all_to_all(parts := [torch.empty(2, device="npu") for _ in range(2)], list(x.split(2)))
    assert [part.tolist() for part in parts] == [[[1, 2], [10, 20]], [[3, 4], [30, 40]]][rank]
    uneven = torch.empty(4, device="npu")
    sizes = [[1, 3], [3, 1]][rank]  # what each rank sends is what it gets: 1 and 3, 3 and 1
    dist.all_to_all_single(uneven, x, [sizes[0], 4 - sizes[0]], sizes)
    assert uneven.tolist() == [[1, 10, 20, 30], [2, 3, 4, 40]][rank]
    if rank:
        dist.recv(y, 0)
        dist.send(x, 0)
    else:
        dist.send(x, 1)
        dist.recv(y, 1)
    assert y.tolist() == [[10, 20, 30, 40], [1, 2, 3, 4]][rank]
    other = 1 - rank
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, y, other)]):
        work.wait()
    assert y.tolist() == [[10, 20, 30, 40], [1, 2, 3, 4]][rank]
    names = [None, None]
    dist.all_gather_object(names, {"rank": rank})
    assert names == [{"rank": 0}, {"rank": 1}]
    dist.barrier()
    small = dist.new_group([0, 1])
    dist.all_reduce(x, group=small)
    assert x.tolist() == [11, 22, 33, 44] and dist.get_backend() == "hccl"


def _training(rank):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).to("npu")
    alone = torch.nn.Sequential(torch.nn.Linear(3, 2)).to("npu")
    ddp, both = DistributedDataParallel(model), DistributedDataParallel(alone)
    x = torch.arange(24.0).reshape(2, 4, 3).to("npu") / 24
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ddp(x[rank]).square().mean().backward()
        optimizer.step()
    weights = [torch.empty_like(model[0].weight) for _ in range(2)]
    dist.all_gather(weights, model[0].weight.detach())
    assert torch.equal(*weights)
    both(x[rank]).square().mean().backward()
    mean = alone[0].weight.grad.clone()
    alone.zero_grad()
    alone(x.flatten(0, 1)).square().mean().backward()
    torch.testing.assert_close(mean, alone[0].weight.grad)


def _of_two(rank, path, on_chip):
    with on_chip():
        dist.init_process_group("hccl", init_method=f"file://{path}", rank=rank, world_size=2,
                                timeout=timedelta(seconds=90))
        try:
            _collectives(rank)
            _training(rank)
        finally:
            dist.destroy_process_group()


def test_two_processes_exchange_through_hccl(tmp_path, on_chip):
    start_processes(_of_two, (tmp_path / "meeting", on_chip), 2, start_method="fork")
