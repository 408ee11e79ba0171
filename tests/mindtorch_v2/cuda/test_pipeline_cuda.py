"""Pipelines on a GPU: programs give what they give call by call, and groups run as one kernel."""

from collections.abc import Callable

import pytest
from tests.mindtorch_v2 import test_compile_training as training
from tests.mindtorch_v2 import test_gather_maps as maps
from tests.mindtorch_v2 import test_pipeline_fuzz as fuzz
from tests.mindtorch_v2 import test_row_groups as rows

import mindtorch_v2 as torch


@pytest.fixture(autouse=True)
def on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DEVICE", ["cuda"])
    monkeypatch.setattr(training, "DEVICE", ["cuda"])


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


@pytest.mark.parametrize("name", rows.PROGRAMS)
@pytest.mark.parametrize("kind", rows.TOLERANCE, ids=str)
@pytest.mark.parametrize("width", [3, 40, 129, 768, 4097])
def test_rows_are_one_kernel(name: str, kind: torch.dtype, width: int) -> None:
    """Norms, softmax and sums over rows with the work before and after them, and several results."""
    given, program = [x.cuda() for x in rows.operands(width, kind)], rows.PROGRAMS[name]
    expected = program(*given)
    with torch.pipeline() as pipe:
        made = program(*given)
    steps = [step for step in pipe.history[-1][1].steps if step.kind != "view"]
    if name != "planes" or width * 3 <= 8192:
        assert [step.kind for step in steps] == ["row"] and steps[0].group.launch
    for one, other in zip(expected, made, strict=True):
        assert one.stride() == other.stride() and one.dtype is other.dtype
        wide = one.double()
        assert float((wide - other.double()).abs().max()) <= rows.TOLERANCE[kind] * float(wide.abs().max())


@pytest.mark.parametrize("count", [1, 131, 3000])
def test_rows_that_begin_anywhere_and_are_many(count: int) -> None:
    whole, y = torch.randn(count * 264 + 1, device="cuda"), torch.randn(count, 264, device="cuda")
    x = whole[1:].view(count, 264)
    expected = rows.residual(x, y, None, None)
    with torch.pipeline() as pipe:
        made = rows.residual(x, y, None, None)
    assert pipe.history[-1][1].steps[0].kind == "row"
    for one, other in zip(expected, made, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_blocks_of_a_transformer(kind: torch.dtype) -> None:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(48), nn.RMSNorm(48)
            self.mix, self.widen, self.narrow = nn.Linear(48, 144), nn.Linear(48, 100), nn.Linear(100, 48)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.mix(self.before(x)).view(*x.shape[:2], 3, 3, 16).permute(2, 0, 3, 1, 4).unbind(0)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + y.transpose(1, 2).reshape(x.shape)
            return x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))

    torch.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(3)]).to("cuda", kind)
    x = torch.randn(2, 19, 48, device="cuda", dtype=kind)

    def run() -> list:
        leaf = x.detach().requires_grad_()
        made = model(leaf)
        return [made.detach(), *torch.autograd.grad(made.float().square().mean(), [leaf, *model.parameters()])]

    expected = run()
    with torch.pipeline() as pipe:
        made = run()
    assert sum(step.kind == "row" for step in pipe.history[-1][1].steps) >= 5
    tolerance = 2e-5 if kind is torch.float32 else 3e-2
    for one, other in zip(expected, made, strict=True):
        assert float((one - other).abs().max()) <= tolerance * float(one.abs().max())
    with torch.no_grad():
        compiled = torch.compile(model, mode="reduce-overhead")
        for _ in range(5):
            result = compiled(x)
    assert float((expected[0] - result).abs().max()) <= tolerance * float(result.abs().max())


@pytest.mark.parametrize("kind", rows.TOLERANCE, ids=str)
@pytest.mark.parametrize("width", [24, 129, 768])
def test_gradients_of_norms_join_the_residual(kind: torch.dtype, width: int) -> None:
    model, x = rows.Layers(width).to("cuda", kind), torch.randn(3, 50, width).to("cuda", kind)
    expected = model.gradients(x)
    with torch.pipeline() as pipe:
        made = model.gradients(x)
    plan = pipe.history[-1][1]
    names = [[plan.entries[at].operator.name for at in step.entries] for step in plan.steps if step.kind == "row"]
    assert sum("backward" in one[0] and one[1] == "aten::add_" for one in names) == 3
    for one, other in zip(expected, made, strict=True):
        assert float((one - other).abs().max()) <= 4 * rows.TOLERANCE[kind] * float(one.abs().max())


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
    def __init__(self, kind: torch.dtype = torch.float32, dropped: float = 0.0, more: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        nn = torch.nn
        self.more = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)) for _ in range(more)))
        self.table, self.conv, self.norm = nn.Embedding(8, 16), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.first, self.drop, self.second = nn.Linear(128, 16), nn.Dropout(dropped), nn.Linear(16, 4)
        self.to("cuda", kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2).flatten(1)
        y = self.first(y) + self.table(torch.arange(x.shape[0], device="cuda"))
        return self.second(self.more(self.drop(torch.nn.functional.gelu(y))))


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
    net = Net(more=3).eval()  # so many steps that a graph of them is quicker
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
    net = Net(more=3).eval()
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


@pytest.mark.parametrize("name", maps.PROGRAMS)
@pytest.mark.parametrize("kind", maps.KINDS, ids=str)
def test_maps_are_part_of_what_reads_them(name: str, kind: torch.dtype) -> None:
    """Padding, rolls, tables and choices by index in the kernels of pointwise and row calls."""
    program, kinds = maps.PROGRAMS[name]
    kinds = ["pointwise"] if name in maps.ONE_ON_A_GPU else kinds
    given = [x.cuda() for x in maps.operands(kind)]
    with torch.device("cuda"):
        expected = program(*given)
        with torch.pipeline() as pipe:
            made = program(*given)
    steps = [step for step in maps.steps_of(pipe) if step.kind != "call"]
    assert [step.kind for step in steps] == kinds and steps[-1].group.launch
    assert made.dtype is expected.dtype and made.stride() == expected.stride()
    tolerance = rows.TOLERANCE[kind] if "row" in kinds or name in ("rope", *maps.ROUNDED) else 0
    torch.testing.assert_close(made, expected, equal_nan=True, rtol=tolerance, atol=tolerance)


def test_random_programs_of_maps() -> None:
    found = {fuzz.told(seed, "maps"): wrong for seed in range(40) if (wrong := fuzz.differences(seed, draws="maps"))}
    assert not found


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_maps_of_whole_numbers_and_truths(kind: torch.dtype) -> None:
    x = (torch.arange(24, device="cuda").reshape(4, 6) % 3).to(kind)

    def program() -> tuple:
        return maps.F.pad(x, (1, 2), value=1) == 1, torch.cat([x, x.roll(1, -1)]) == x[:1]

    expected = program()
    with torch.pipeline() as pipe:
        made = program()
    assert all(step.group.launch for step in maps.steps_of(pipe))
    assert all(torch.equal(one, other) for one, other in zip(expected, made, strict=True))


@pytest.mark.parametrize("mode", training.MODES)
@pytest.mark.parametrize("name", training.OPTIMIZERS)
def test_compiled_steps_of_optimizers(name: str, mode: str) -> None:
    training.follow(lambda: training.Program(training.OPTIMIZERS[name]), mode)


@pytest.mark.parametrize("mode", training.MODES)
@pytest.mark.parametrize("name", training.PROGRAMS)
def test_compiled_training(name: str, mode: str) -> None:
    training.follow(training.PROGRAMS[name][0], mode)


@pytest.mark.parametrize("mode", training.MODES)
@pytest.mark.parametrize(("name", "optimizer"), [
    (name, optimizer) for name in training.CHANGES for optimizer in (training.momentum, training.adamw)
    if optimizer is training.adamw or name not in ("counted anew", "mean")  # of which SGD has none
])  # fmt: skip
def test_changes_between_compiled_steps(name: str, optimizer: Callable, mode: str) -> None:
    change = training.CHANGES[name]
    training.follow(lambda: training.Program(optimizer), mode, {8: change, 11: change})
