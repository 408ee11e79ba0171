"""DistributedDataParallel: gradients are those of one process over the joint batch; hooks, unused parameters, joins."""

import copy
import json
import time

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.distributed as dist
from mindtorch_v2 import nn
from mindtorch_v2.nn.parallel import DistributedDataParallel


def _model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def _data(size, each=4):
    generator = torch.Generator().manual_seed(5)
    return torch.randn(size, each, 6, generator=generator), torch.randn(size, each, 3, generator=generator)


def _same(ours, theirs):
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.0005},
                                     {"static_graph": True}, {"find_unused_parameters": True}],
                         ids=["plain", "views", "many buckets", "static", "unused"])
@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_those_of_the_joint_batch(together, size, options):
    def work(rank):
        model = _model()
        alone = copy.deepcopy(model)
        if rank:  # the first rank's values are taken
            with torch.no_grad():
                for p in model.parameters():
                    p.zero_()
        ddp = DistributedDataParallel(model, **options)
        x, y = _data(size)
        ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ddp, alone))
        for _ in range(4):
            for optimizer in (ours, theirs):
                optimizer.zero_grad()
            nn.functional.mse_loss(ddp(x[rank]), y[rank]).backward()
            nn.functional.mse_loss(alone(x.flatten(0, 1)), y.flatten(0, 1)).backward()
            _same(model, alone)
            for optimizer in (ours, theirs):
                optimizer.step()
        everyone = [None] * size
        dist.all_gather_object(everyone, [p.grad for p in model.parameters()])
        for other in everyone:  # all ranks have the same bits
            assert all(torch.equal(a, b) for a, b in zip(other, everyone[0], strict=True))

    together(size, work)


def test_buckets_follow_the_order_of_gradients(together):
    def work(rank):
        ddp = DistributedDataParallel(_model(), bucket_cap_mb=0.0005)
        seen = []
        ddp.register_comm_hook(None, lambda state, bucket: (seen.append((bucket.index(), bucket.is_last(), [
            tuple(p.shape) for p in bucket.parameters()])), dist.all_reduce(bucket.buffer().div_(2), async_op=True)
            .get_future())[1])
        for _ in range(2):
            seen.clear()
            ddp(_data(2)[0][rank]).sum().backward()
        assert [index for index, _, _ in seen] == list(range(len(seen))) and len(seen) > 1
        assert [last for _, last, _ in seen] == [False] * (len(seen) - 1) + [True]
        assert seen[0][2][0] in ((3,), (3, 16)) and seen[-1][2][-1] in ((16, 6), (16,))

    together(2, work)


def test_no_sync_adds_up(together):
    def work(rank):
        model = _model()
        alone, ddp = copy.deepcopy(model), DistributedDataParallel(model)
        x, y = _data(2)
        with ddp.no_sync():
            ddp(x[rank]).square().mean().backward()
        local = model[0].weight.grad.clone()
        ddp(y[rank].repeat(1, 2)).square().mean().backward()
        alone(x.flatten(0, 1)).square().mean().backward()
        alone(y.flatten(0, 1).repeat(1, 2)).square().mean().backward()
        _same(model, alone)
        gathered = [torch.empty_like(local) for _ in range(2)]
        dist.all_gather(gathered, local)
        assert not torch.equal(*gathered)

    together(2, work)


def test_hooks_of_parameters_run_before_gradients_are_averaged(together):
    def work(rank):
        ddp = DistributedDataParallel(_model())
        seen = []
        for at, parameter in enumerate(ddp.parameters()):
            parameter.register_post_accumulate_grad_hook(lambda p, at=at: seen.append((at, p.grad.mul_(10).sum())))
        x, _ = _data(2)
        alone = _model()
        alone(x.flatten(0, 1)).mean().backward()
        for _ in range(3):
            ddp.zero_grad()
            ddp(x[rank]).mean().backward()
            for ours, theirs in zip(ddp.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, 10 * theirs.grad)
        assert len(seen) == 18

    together(2, work)


class _Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.never = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, use_a):
        return self.a(x) if use_a else self.b(x)


def test_unused_parameters(together):
    def work(rank):
        ddp = DistributedDataParallel(_Branches(), find_unused_parameters=True)
        x = torch.ones(1, 2)
        for _ in range(2):
            ddp.zero_grad()
            ddp(x, rank == 0).sum().backward()
            assert ddp.module.a.weight.grad.tolist() == [[0.5, 0.5]] * 2  # one rank of two used it
            assert ddp.module.b.weight.grad.tolist() == [[0.5, 0.5]] * 2
            assert ddp.module.never.weight.grad is None
        ddp.zero_grad()
        with ddp.no_sync():
            ddp(x * (rank + 1), True).sum().backward()
        ddp(x, False).sum().backward()  # what was added up of `a` is averaged too
        assert ddp.module.a.weight.grad.tolist() == [[1.5, 1.5]] * 2
        assert ddp.module.b.weight.grad.tolist() == [[1.0, 1.0]] * 2
        ddp(x, False).sum().backward()
        assert ddp.module.a.weight.grad.tolist() == [[1.5, 1.5]] * 2
        plain = DistributedDataParallel(_Branches())
        plain(x, True).sum().backward()
        with pytest.raises(RuntimeError, match="Expected to have finished reduction in the prior iteration.*b.weight"):
            plain(x, True)
        static = DistributedDataParallel(_Branches(), static_graph=True)
        for _ in range(3):
            static.zero_grad()
            static(x * (rank + 1), True).sum().backward()
            assert static.module.a.weight.grad.tolist() == [[1.5, 1.5]] * 2 and static.module.b.weight.grad is None

    together(2, work)


def test_buffers_are_those_of_the_first_rank(together):
    def work(rank):
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        ddp = DistributedDataParallel(model)
        for _ in range(2):
            ddp(torch.randn(4, 2, generator=torch.Generator().manual_seed(rank))).sum().backward()
        with torch.no_grad():
            ddp.eval()(torch.zeros(1, 2))
        means = [torch.empty(2) for _ in range(2)]
        dist.all_gather(means, model[1].running_mean)
        assert torch.equal(*means) and means[0].abs().sum() > 0

    together(2, work)


def test_different_models_are_refused(together):
    def work(rank):
        with pytest.raises(RuntimeError, match="appears not to match sizes of the same param in process"):
            DistributedDataParallel(nn.Linear(2, 2 + rank))
        with pytest.raises(RuntimeError, match="DDP expects same model across all ranks"):
            DistributedDataParallel(nn.Linear(2, 2, bias=bool(rank)))

    together(2, work)


@pytest.mark.parametrize("counts", [(3, 1), (0, 3), (2, 2)])
def test_uneven_inputs(together, counts):
    def work(rank):
        ddp = DistributedDataParallel(_model())
        x = torch.ones(1, 6)
        with ddp.join():
            for at in range(counts[rank]):
                ddp.zero_grad()
                ddp(x * (rank + 1)).sum().backward()
                others = sum(at < count for count in counts)
                biases = ddp.module[4].bias.grad
                assert biases.tolist() == [others / 2] * 3
                with torch.no_grad():
                    for p in ddp.parameters():
                        p.sub_(0.1 * p.grad)
        weights = [torch.empty(3, 16) for _ in range(2)]
        dist.all_gather(weights, ddp.module[4].weight.detach())
        assert torch.equal(*weights)

    together(2, work)


def test_an_early_end_can_be_an_error(together):
    def work(rank):
        ddp = DistributedDataParallel(_model())
        text = "Rank 1 exhausted all inputs" if rank else "Detected at least one rank that exhausted inputs"
        with pytest.raises(RuntimeError, match=text), ddp.join(throw_on_early_termination=True):
            for _ in range(3 - rank):
                ddp(torch.ones(1, 6)).sum().backward()

    together(2, work)


class _Waiting(torch.autograd.Function):
    """Its backward goes on when the first bucket was reduced, by another thread."""

    ddp = None

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        end = time.monotonic() + 80
        while not _Waiting.ddp.reducer.buckets[0].work.is_completed() and time.monotonic() < end:
            time.sleep(0.001)
        return grad.clone()


class _WaitingInTheMiddle(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(_Waiting.apply(self.first(x)))


def test_the_profilers_timeline_shows_a_bucket_reduced_while_backward_runs(together, tmp_path):
    def work(rank):
        _Waiting.ddp = ddp = DistributedDataParallel(_WaitingInTheMiddle(), bucket_cap_mb=1e-4)
        with torch.profiler.profile() as profile:
            ddp(torch.ones(2, 6)).sum().backward()
            dist.barrier()
        profile.export_chrome_trace(str(tmp_path / f"trace {rank}"))

    together(2, work)
    for rank in range(2):
        events = [event for event in json.loads((tmp_path / f"trace {rank}").read_text())["traceEvents"]
                  if event["ph"] == "X"]
        names = [event["name"] for event in events]
        assert {"DistributedDataParallel.forward", "c10d::allreduce_", "c10d::barrier", "gloo:barrier"} <= {*names}
        reduced = min((event for event in events if event["name"] == "gloo:all_reduce"), key=lambda event: event["ts"])
        nodes = [event for event in events if event["name"].endswith("Backward0") or "_Waiting" in event["name"]]
        last = max(nodes, key=lambda event: event["ts"])
        assert names.count("gloo:all_reduce") == names.count("c10d::allreduce_") == 3
        assert reduced["ts"] + reduced["dur"] <= last["ts"] and reduced["tid"] != last["tid"]
        assert reduced["cat"] == "user_annotation"
