"""Pipelines on a GPU: programs give what they give call by call, and groups run as one kernel."""

import pytest
from tests.mindtorch_v2 import test_pipeline_fuzz as fuzz

import mindtorch_v2 as torch


@pytest.fixture(autouse=True)
def on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DEVICE", ["cuda"])


def test_random_programs() -> None:
    found = {fuzz.told(seed): wrong for seed in range(60) if (wrong := fuzz.differences(seed))}
    assert not found


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_chain_is_one_kernel(kind: torch.dtype) -> None:
    x, bias = torch.randn(37, 1001, device="cuda").to(kind), torch.randn(1001, device="cuda").to(kind)

    def chain() -> tuple:
        y = torch.tanh(x * 2 + bias)
        z = torch.relu(y - 0.25) * x.t().t()
        return z.t() + 1, z

    eager = chain()
    with torch.pipeline() as pipe:
        made = chain()
    steps = [step for step in pipe.history[-1][1].steps if step.kind != "view"]
    assert [step.kind for step in steps] == ["pointwise"] * 2
    assert steps[0].group.launch
    for one, other in zip(eager, made, strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()


def test_writes_and_backward() -> None:
    def run() -> tuple:
        torch.manual_seed(0)
        x = torch.randn(64, 32, device="cuda", requires_grad=True)
        w = torch.randn(32, 8, device="cuda")
        y = torch.nn.functional.gelu(x @ w)
        y[:, 0].mul_(3)
        (y.sigmoid() * y).sum().backward()
        w.add_(1).mul_(0.5)
        return y.detach(), x.grad, w

    eager = run()
    with torch.pipeline():
        made = run()
    for one, other in zip(eager, made, strict=True):
        torch.testing.assert_close(one, other)


# mode "reduce-overhead": calls that are launched as one CUDA graph ----------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self, kind: torch.dtype = torch.float32, dropped: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        nn = torch.nn
        self.table, self.conv, self.norm = nn.Embedding(8, 16), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.first, self.drop, self.second = nn.Linear(128, 16), nn.Dropout(dropped), nn.Linear(16, 4)
        self.to("cuda", kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2).flatten(1)
        y = self.first(y) + self.table(torch.arange(x.shape[0], device="cuda"))
        return self.second(self.drop(torch.nn.functional.gelu(y)))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list:
    """The launches of graphs."""
    from mindtorch_v2._backends.cuda.captured import Captured

    counted, run = [], Captured.run
    monkeypatch.setattr(Captured, "run", lambda self, inputs: (counted.append(self), run(self, inputs))[1])
    torch._dynamo.reset()
    return counted


def images(count: int, kind: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(4, 3, 8, 8, device="cuda").to(kind) for _ in range(count)]


def same(plain: torch.nn.Module, other: torch.nn.Module, **tolerance: float) -> None:
    for (name, one), two in zip(plain.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, msg=lambda said, name=name: f"{name}: {said}", **tolerance)
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, **tolerance)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_graph_trains_as_eager_does(launches: list, kind: torch.dtype) -> None:
    tolerance = {} if kind == torch.float32 else {"rtol": 0.05, "atol": 0.05}
    plain, other = Net(kind), Net(kind)
    compiled = torch.compile(other, mode="reduce-overhead")
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in (plain, other)]
    for number, x in enumerate(images(12, kind)):
        results = []
        for net, optimizer in zip((plain, compiled), optimizers, strict=True):
            results.append(net(x))
            results[-1].square().mean().backward()
            if number % 3 == 2:  # gradients add up before
                optimizer.step()
                optimizer.zero_grad()
        torch.testing.assert_close(*results, **tolerance)
        same(plain, other, **tolerance)
    assert len(launches) == 16


def test_a_graph_with_autocast_and_channels_last(launches: list) -> None:
    plain, other = Net().to(memory_format=torch.channels_last), Net().to(memory_format=torch.channels_last)
    compiled = torch.compile(other, mode="reduce-overhead")
    for x in images(8):
        for net in (plain, compiled):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = net(x.to(memory_format=torch.channels_last)).float().square().mean()
            loss.backward()
        same(plain, other, rtol=0.05, atol=0.05)
    assert launches


def test_random_numbers_are_those_that_eager_draws() -> None:
    def run(net: object) -> list:
        torch.manual_seed(3)
        return [net(x).detach() for x in images(8)]

    plain, other = Net(dropped=0.5), Net(dropped=0.5)
    compiled = torch.compile(other, mode="reduce-overhead")
    for _ in range(2):
        for one, two in zip(run(plain), run(compiled), strict=True):
            torch.testing.assert_close(one, two)


def test_what_a_backward_pass_needs_stays(launches: list) -> None:
    plain, other = Net(), Net()
    compiled = torch.compile(other, mode="reduce-overhead")
    for x in images(6):
        for net in (plain, compiled):
            net(x).sum().backward()
    before = len(launches)
    for net in (plain, compiled):
        losses = [(net(x) * k).sum() for k, x in enumerate(images(3), 1)]
        for k in (1, 0, 2):
            losses[k].backward()
    same(plain, other)
    assert len(launches) == before + 2


def test_graphs_on_other_streams_and_moved_parameters(launches: list) -> None:
    net = Net().eval()
    compiled = torch.compile(net, mode="reduce-overhead")
    side = torch.cuda.Stream()
    with torch.no_grad():
        for number, x in enumerate(images(14)):
            if number == 8:
                net.first.weight.data = net.first.weight.data * 2
            expected = net(x)
            if number == 6:
                torch.cuda.synchronize()
                with torch.cuda.stream(side):
                    result = compiled(x)
                torch.cuda.synchronize()
            else:
                result = compiled(x)
            torch.testing.assert_close(result, expected)
    assert len({id(graph) for graph in launches}) == 2 and len(launches) >= 7


def test_a_graph_inside_a_capture_of_the_program() -> None:
    net = Net().eval()
    compiled = torch.compile(net, mode="reduce-overhead")
    x = images(1)[0]
    with torch.no_grad():
        for _ in range(6):
            compiled(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compiled(x)
        x.mul_(2)
        graph.replay()
        torch.testing.assert_close(result, net(x))
