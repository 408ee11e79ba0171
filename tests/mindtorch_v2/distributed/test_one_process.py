"""torch.distributed with one process: groups, collectives, modules, the launcher."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2 import nn
from mindtorch_v2.nn.parallel import DistributedDataParallel
from mindtorch_v2.utils.data import DistributedSampler


@pytest.fixture
def world(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture
def launcher(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)


# groups --------------------------------------------------------------------------------------------------------------


def test_without_a_group_everything_asks_for_one():
    assert dist.is_available() and not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.get_backend, dist.barrier,
                 lambda: dist.all_reduce(torch.ones(2)), lambda: DistributedDataParallel(nn.Linear(1, 1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized, please make sure to "
                                             "call init_process_group."):
            call()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()


@pytest.mark.parametrize("how", [
    {"init_method": "tcp://127.0.0.1:29533"}, {"init_method": "file:///tmp/meeting"}, {"store": dist.HashStore()},
    {"init_method": "tcp://127.0.0.1:29533?rank=0&world_size=1", "rank": -1, "world_size": -1},
])
def test_ways_to_a_group(how):
    dist.init_process_group("gloo", **{"rank": 0, "world_size": 1, **how})
    try:
        assert dist.is_initialized()
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        assert dist.get_process_group_ranks(dist.group.WORLD) == [0]
        assert dist.GroupMember.WORLD is dist.group.WORLD
        with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
            dist.init_process_group("gloo", **{"rank": 0, "world_size": 1, **how})
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None


def test_the_launchers_variables_are_enough(launcher):
    dist.init_process_group()
    assert dist.get_backend() == "undefined"
    assert dist.get_rank() == 0
    dist.destroy_process_group()


@pytest.mark.parametrize("arguments, kind, text", [
    ({}, ValueError, "using env:// rendezvous: environment variable RANK expected, but not set"),
    ({"init_method": "tcp://127.0.0.1:1"}, ValueError, "using tcp:// rendezvous: rank parameter missing"),
    ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 1}, ValueError, "port number missing"),
    ({"init_method": "foo://x", "rank": 0, "world_size": 1}, RuntimeError, "No rendezvous handler for foo://"),
    ({"store": dist.HashStore()}, AssertionError, "world_size must be positive if using store"),
    ({"store": dist.HashStore(), "init_method": "env://"}, AssertionError, "Cannot specify both init_method and store"),
    ({"backend": "foo", "store": dist.HashStore(), "rank": 0, "world_size": 1}, AssertionError, "Unknown backend type"),
    ({"backend": "mpi", "store": dist.HashStore(), "rank": 0, "world_size": 1}, RuntimeError, "have MPI built in"),
])
def test_bad_ways_to_a_group(arguments, kind, text, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(kind, match=text):
        dist.init_process_group(**{"backend": "gloo", **arguments})
    assert not dist.is_initialized()


def test_groups_inside_the_group(world):
    made = dist.new_group([0], timeout=timedelta(seconds=5))
    assert isinstance(made, dist.ProcessGroup)
    assert (dist.get_rank(made), dist.get_world_size(made), made.size(), made.rank()) == (0, 1, 1, 0)
    assert (dist.get_group_rank(made, 0), dist.get_global_rank(made, 0)) == (0, 0)
    with pytest.raises(ValueError, match="the new group's world size should be less or equal"):
        dist.new_group([0, 1])
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=made)
    dist.destroy_process_group(made)
    assert dist.is_initialized()
    assert tensor.tolist() == [1.0, 1.0]


# collectives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"])
def test_all_reduce_of_one_changes_nothing(world, op):
    tensor = torch.tensor([1, 2, 3])
    assert dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op)) is None
    assert tensor.tolist() == [1, 2, 3]


def test_all_reduce_refuses_what_pytorchs_refuses(world):
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BAND with non-integral dtype"):
        dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        dist.all_reduce(torch.ones(2, dtype=torch.int64), op=dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="all_reduce does not support RedOpType.MAX on complex tensors"):
        dist.all_reduce(torch.ones(2, dtype=torch.complex64), op=dist.ReduceOp.MAX)
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
        dist.all_reduce([1])


def test_work_can_be_waited_for(world):
    tensor = torch.ones(2)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait() and work.is_completed()
    assert work.get_future().value()[0] is tensor


def test_gathering_and_scattering_copy(world):
    given = torch.arange(3.0, requires_grad=True)
    for collect in (lambda out: dist.all_gather([out], given), lambda out: dist.all_gather_into_tensor(out, given),
                    lambda out: dist.gather(given, [out], dst=0), lambda out: dist.scatter(out, [given], src=0),
                    lambda out: dist.reduce_scatter(out, [given]), lambda out: dist.reduce_scatter_tensor(out, given),
                    lambda out: dist.all_to_all([out], [given]), lambda out: dist.all_to_all_single(out, given)):
        out = torch.zeros(3)
        assert collect(out) is None
        assert out.tolist() == [0.0, 1.0, 2.0]
        assert not out.requires_grad
    dist.broadcast(given, src=0)
    dist.reduce(given, dst=0)
    dist.barrier()
    dist.monitored_barrier()


def test_sizes_types_and_roots_are_checked(world):
    given = torch.arange(3.0)
    with pytest.raises(RuntimeError, match=r"invalid tensor size at index 0 \(expected \(3\), got \(2\)\)"):
        dist.all_gather([torch.zeros(2)], given)
    with pytest.raises(RuntimeError, match=r"invalid output tensor list at index 0 \(expected length 1, got 2\)"):
        dist.all_gather([torch.zeros(3), torch.zeros(3)], given)
    with pytest.raises(ValueError, match="Invalid usage of tensors with different dtypes"):
        dist.all_gather([torch.zeros(3, dtype=torch.int64)], given)
    with pytest.raises(RuntimeError, match="ProcessGroupGloo::broadcast: invalid root rank: 1"):
        dist.broadcast(given, src=1)
    with pytest.raises(ValueError, match="``gather_list`` must be specified on destination rank"):
        dist.gather(given)
    with pytest.raises(ValueError, match="destination rank should not be the same as the rank of the current process"):
        dist.send(given, 0)
    with pytest.raises(RuntimeError, match="rank 0 of 1 cannot exchange messages with rank 1"):
        dist.recv(given, 1)


def test_objects_come_back_as_copies(world):
    original = {"a": [1]}
    gathered, collected, scattered = [None], [None], [None]
    dist.all_gather_object(gathered, original)
    dist.gather_object(original, collected)
    dist.scatter_object_list(scattered, [original])
    shared = [original]
    dist.broadcast_object_list(shared, src=0)
    assert gathered == collected == scattered == [{"a": [1]}]
    assert gathered[0] is not original
    assert shared[0] is original


# modules and samplers ------------------------------------------------------------------------------------------------


def test_a_distributed_module_trains_as_the_module_does(world):
    torch.manual_seed(0)
    plain, inner = nn.Linear(3, 2), nn.Linear(3, 2)
    inner.load_state_dict(plain.state_dict())
    model = DistributedDataParallel(inner)
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert str(model) == ("DistributedDataParallel(\n  (module): Linear(in_features=3, out_features=2, bias=True)\n)")
    x = torch.randn(4, 3)
    with model.no_sync():
        assert not model.require_backward_grad_sync
        model(x).pow(2).sum().backward()
    assert model.require_backward_grad_sync
    plain(x).pow(2).sum().backward()
    assert torch.equal(inner.weight.grad, plain.weight.grad)
    with pytest.raises(RuntimeError, match="is not needed when a module doesn't have any parameter that requires"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids and output_device arguments only work with"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0])


def test_the_sampler_asks_the_group(world):
    sampler = DistributedSampler(range(5), seed=3)
    assert (sampler.rank, sampler.num_replicas) == (0, 1)
    assert list(sampler) == [1, 0, 3, 4, 2]


# stores --------------------------------------------------------------------------------------------------------------


# the launcher --------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP

@record
def main():
    dist.init_process_group(backend="gloo")
    model = DDP(torch.nn.Linear(2, 1))
    model(torch.ones(3, 2)).sum().backward()
    print(dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"], sys.argv[1:], model.module.weight.grad)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("launch", ["torch.distributed.run", "torch.distributed.launch"])
def test_the_launcher_starts_a_script_as_the_only_process(tmp_path, launch):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run([sys.executable, "-m", "mindtorch_v2", "-m", launch, *arguments, str(script), "--epochs",
                               "2"], capture_output=True, text=True, env=environment, timeout=120, check=False)

    done = run("--standalone", "--nproc_per_node=1")
    assert done.stdout == "0 1 0 ['--epochs', '2'] tensor([[3., 3.]])\n", done.stderr


def test_remote_calls_can_be_imported_and_say_that_they_are_not_here():
    from mindtorch_v2.distributed import rpc

    assert not rpc.is_available()
    with pytest.raises(NotImplementedError, match="mindtorch_v2 has no torch.distributed.rpc.init_rpc"):
        rpc.init_rpc("worker", rank=0, world_size=1)
