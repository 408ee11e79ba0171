"""What training over processes is made of: hooks, norms, optimizers, meshes, gradients through collectives."""

import copy

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
import mindtorch_v2.distributed._functional_collectives as functional
import mindtorch_v2.distributed.nn.functional as recorded
from mindtorch_v2 import nn
from mindtorch_v2.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from mindtorch_v2.distributed.device_mesh import init_device_mesh
from mindtorch_v2.distributed.optim import ZeroRedundancyOptimizer
from mindtorch_v2.nn.parallel import DistributedDataParallel


def _gradients(rank, size, hook):
    """Gradients of ranks' means, and those that one process has."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 4))
    alone, ddp = copy.deepcopy(model), DistributedDataParallel(model)
    ddp.register_comm_hook(None, hook)
    x = torch.randn(size, 5, 12)
    ddp(x[rank]).square().mean().backward()
    alone(x.flatten(0, 1)).square().mean().backward()
    return [p.grad for p in model.parameters()], [p.grad for p in alone.parameters()]


@pytest.mark.parametrize("hook, tolerance", [
    (default_hooks.allreduce_hook, 1e-6), (default_hooks.fp16_compress_hook, 2e-3),
    (default_hooks.bf16_compress_hook, 2e-2),
    (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3)])
def test_hooks_average(together, hook, tolerance):
    def work(rank):
        ours, theirs = _gradients(rank, 2, hook)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)

    together(2, work)


@pytest.mark.parametrize("hook", [powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook])
def test_power_sgd_misses_little_and_makes_up_for_it(together, hook):
    def work(rank):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        torch.manual_seed(1)
        x = torch.randn(2, 5, 12)
        model = nn.Linear(12, 20)
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, hook)
        given, total = None, 0
        for step in range(6):
            ddp.zero_grad()
            ddp(x[rank]).square().mean().backward()
            flat = torch.cat([model.weight.grad.flatten(), model.bias.grad])
            if step < 2:
                given = flat  # exactly the mean
            else:
                total = total + flat
        missed = state.error_dict[0][: flat.numel()] / 2
        dist.all_reduce(missed)
        assert (total / 4 - given).norm() < given.norm()
        torch.testing.assert_close((4 * given - total).norm(), missed.norm(), rtol=1e-3, atol=1e-4)
        ours = [flat]
        gathered = [None, None]
        dist.all_gather_object(gathered, ours)
        assert all(torch.equal(a, b) for a, b in zip(*gathered, strict=True))
        with pytest.raises(ValueError, match="Expect `start_powerSGD_iter` > 1"):
            powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)

    together(2, work)


def test_hooks_by_name(together):
    def work(rank):
        ddp = DistributedDataParallel(nn.Linear(2, 1))
        register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, ddp)
        ddp(torch.ones(1, 2) * (rank + 1)).sum().backward()
        assert ddp.module.weight.grad.tolist() == [[1.5, 1.5]]
        with pytest.raises(RuntimeError, match="can only be called once"):
            register_ddp_comm_hook(DDPCommHookType.ALLREDUCE, ddp)

    together(2, work)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4), (6, 3, 2, 2)])
def test_sync_batch_norm_sees_all_batches(together, shape):
    def work(rank):
        torch.manual_seed(0)
        x = torch.randn(*shape)
        weight = torch.randn(*shape)
        norm = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[len(shape) - 2](3)
        with torch.no_grad():
            norm.weight.uniform_()
            norm.bias.uniform_()
        synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(norm))
        whole, mine = x.clone().requires_grad_(), x[2:].requires_grad_() if rank else x[:2].requires_grad_()
        part = slice(2, None) if rank else slice(0, 2)  # different numbers
        expected = norm(whole)
        (expected * weight).sum().backward()
        got = synced(mine)
        (got * weight[part]).sum().backward()
        torch.testing.assert_close(got, expected[part].detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine.grad, whole.grad[part], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(synced.running_mean, norm.running_mean)
        torch.testing.assert_close(synced.running_var, norm.running_var)
        assert synced.num_batches_tracked.item() == 1
        grads = synced.weight.grad.clone()
        dist.all_reduce(grads)
        torch.testing.assert_close(grads, norm.weight.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(synced.eval()(x), norm.eval()(x))

    together(2, work)


def test_zero_redundancy_steps_as_the_optimizer_does(together):
    def work(rank):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        other = copy.deepcopy(model)
        ours = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)
        theirs = torch.optim.Adam(other.parameters(), lr=0.05)
        x = torch.randn(6, 4)
        for at in range(4):
            for m, optimizer in ((model, ours), (other, theirs)):
                optimizer.zero_grad()
                m(x).square().mean().backward()
                optimizer.step()
            for group in (ours.param_groups[0], theirs.param_groups[0]):
                group["lr"] = 0.05 / (at + 2)
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b)
        held = sum(p in ours.optim.state for p in model.parameters())
        assert 0 < held < 4
        with pytest.raises(RuntimeError, match="Optimizer state has not been consolidated on this rank"):
            ours.state_dict()
        ours.consolidate_state_dict(to=1)
        saved = [ours.state_dict() if rank == 1 else None]
        dist.broadcast_object_list(saved, src=1)
        plain = theirs.state_dict()
        assert sorted(saved[0]["state"]) == sorted(plain["state"])
        for number, state in plain["state"].items():
            torch.testing.assert_close(saved[0]["state"][number]["exp_avg"], state["exp_avg"])
        again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1.0)
        again.load_state_dict(saved[0])
        for optimizer in (again, theirs):
            optimizer.step()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b)

    together(2, work)


def test_gradients_flow_through_collectives(together):
    def work(rank):
        def leaf():
            return torch.tensor([1.0, 2.0], requires_grad=True)

        x = leaf()
        (recorded.all_reduce(x) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [3, 3]
        x = leaf()
        (torch.stack(recorded.all_gather(x)) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [3, 3]
        x = leaf()
        (recorded.broadcast(x, 0) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == ([3, 3] if rank == 0 else [0, 0])
        x = leaf()
        (recorded.reduce(x, 1) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [2, 2]
        x, y = leaf(), leaf()
        (recorded.reduce_scatter(torch.empty(2), [x, y]) * (rank + 1)).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1], [2, 2])
        x, y = leaf(), leaf()
        a, b = recorded.all_to_all([torch.empty(2), torch.empty(2)], [x, y])
        ((a + 2 * b) * (rank + 1)).sum().backward()
        factor = rank + 1  # what I send to r comes back times factor of r and my place
        assert (x.grad.tolist(), y.grad.tolist()) == ([factor] * 2, [2 * factor] * 2)
        x = leaf()
        (recorded.all_to_all_single(torch.empty(2), x) * torch.tensor([1.0, 10.0]) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [10.0**rank, 2 * 10.0**rank]
        x = leaf()
        (torch.stack(recorded.gather(x, 0)) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [1, 1]
        x, y = leaf(), leaf()
        (recorded.scatter([x, y], 0) * (rank + 1)).sum().backward()
        assert x.grad.tolist() == ([1, 1] if rank == 0 else [0, 0])

    together(2, work)


def test_functional_collectives_leave_their_inputs(together):
    def work(rank):
        x = torch.arange(4.0).reshape(2, 2) + rank
        world = dist.group.WORLD
        assert functional.all_reduce(x, "sum", world).tolist() == [[1, 3], [5, 7]]
        assert functional.all_reduce(x, "max", "0").tolist() == [[1, 2], [3, 4]]
        assert x[0, 0].item() == rank
        assert functional.all_gather_tensor(x, 1, world)[0].tolist() == [0, 1, 1, 2]
        assert functional.all_gather_tensor(x, 0, world)[:, 0].tolist() == [0, 2, 1, 3]
        part = functional.reduce_scatter_tensor(x, "sum", 1, world)
        assert part.tolist() == ([[1], [5]] if rank == 0 else [[3], [7]])
        assert functional.all_to_all_single(x, None, None, world)[:, 0].tolist() == [2 * rank, 2 * rank + 1]
        assert functional.permute_tensor(x, [1, 0], world)[0, 0].item() == 1 - rank
        assert functional.broadcast(x, 1, world)[0, 0].item() == 1
        assert functional.wait_tensor(x) is x
        y = torch.ones(2, 2, requires_grad=True)
        (functional.all_gather_tensor_autograd(y, 0, world) * (rank + 1)).sum().backward()
        assert y.grad.tolist() == [[3, 3]] * 2

    together(2, work)


def test_meshes(together):
    def work(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        assert mesh.shape == (2, 2) and mesh.ndim == 2 and mesh.size() == 4 and mesh.size(1) == 2
        assert mesh.get_coordinate() == (rank // 2, rank % 2)
        assert mesh.get_local_rank("shard") == rank % 2
        assert repr(mesh) == "DeviceMesh((replicate=2, shard=2), 'cpu', stride=(2, 1))"
        across, along = mesh.get_group("replicate"), mesh["shard"].get_group()
        assert dist.get_process_group_ranks(across) == [rank % 2, rank % 2 + 2]
        assert dist.get_process_group_ranks(along) == [rank // 2 * 2, rank // 2 * 2 + 1]
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=along)
        assert total.item() == (1 if rank < 2 else 5)
        assert dist.get_process_group_ranks(mesh["replicate", "shard"]._flatten("all").get_group()) == [0, 1, 2, 3]
        with pytest.raises(KeyError, match="Mesh dimension 'other' does not exist"):
            mesh.get_group("other")
        with pytest.raises(RuntimeError, match="Found the DeviceMesh have 2 dimensions"):
            mesh.get_group()
        with pytest.raises(RuntimeError, match="Mesh should not be bigger than default world size 4"):
            init_device_mesh("cpu", (5,))
        ddp = DistributedDataParallel(nn.Linear(1, 1), device_mesh=mesh["replicate"])
        assert ddp.process_group is across

    together(4, work)
