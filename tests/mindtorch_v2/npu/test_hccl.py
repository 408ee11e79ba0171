"""HCCL: what the collectives of a group ask of it. The library is replaced by one that writes its calls down."""

import ctypes

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2._backends.npu import hccl as library
from mindtorch_v2.distributed._engines import hccl


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
