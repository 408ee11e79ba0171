"""The benchmark cases: each builds, for a library with PyTorch's interface, the function that is timed."""

from collections.abc import Callable
from typing import Any

Case = Callable[[Any], Callable[[], Any]]
SMALL: dict[str, Case] = {}
LARGE: dict[str, Case] = {}
GROUPS = {"small": SMALL, "large": LARGE}


def case(group: dict[str, Case], name: str) -> Callable[[Case], Case]:
    """A decorator that puts a case into a group."""

    def add(build: Case) -> Case:
        group[name] = build
        return build

    return add


@case(SMALL, "add 2x2")
def add_small(torch: Any) -> Callable[[], Any]:
    a, b = torch.ones(2, 2), torch.ones(2, 2)
    return lambda: a + b


@case(SMALL, "mul 2x2, needs grad")
def mul_with_grad(torch: Any) -> Callable[[], Any]:
    a, b = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    return lambda: a * b


@case(SMALL, "view, transpose, slice")
def views(torch: Any) -> Callable[[], Any]:
    a = torch.arange(24.0)
    return lambda: a.view(4, 6).transpose(0, 1)[1:4]


@case(SMALL, "(g * b).sum().backward()")
def mul_sum_backward(torch: Any) -> Callable[[], Any]:
    g, b = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    return lambda: (g * b).sum().backward()


@case(SMALL, "linear, relu, no_grad 8x16")
def linear_relu(torch: Any) -> Callable[[], Any]:
    layer, x = torch.nn.Linear(16, 16), torch.ones(8, 16)
    relu = torch.nn.functional.relu

    def run() -> Any:
        with torch.no_grad():
            return relu(layer(x))

    return run


@case(SMALL, "MLP training step")
def training_step(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.randn(16, 32), torch.arange(16) % 10

    def run() -> Any:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimiser.step()
        return loss

    return run


@case(LARGE, "add 1M")
def add_large(torch: Any) -> Callable[[], Any]:
    a, b = torch.rand(1000, 1000), torch.rand(1000, 1000)
    return lambda: a + b


@case(LARGE, "exp 1M")
def exp_large(torch: Any) -> Callable[[], Any]:
    a = torch.rand(1000, 1000)
    return lambda: a.exp()


@case(LARGE, "sum 1M")
def sum_large(torch: Any) -> Callable[[], Any]:
    a = torch.rand(1000, 1000)
    return lambda: a.sum()


@case(LARGE, "softmax 1000x1000")
def softmax_large(torch: Any) -> Callable[[], Any]:
    a = torch.rand(1000, 1000)
    return lambda: a.softmax(-1)


@case(LARGE, "layer_norm 1000x1000")
def layer_norm_large(torch: Any) -> Callable[[], Any]:
    a, weight, bias = torch.rand(1000, 1000), torch.rand(1000), torch.rand(1000)
    return lambda: torch.nn.functional.layer_norm(a, (1000,), weight, bias)


@case(LARGE, "matmul 1000x1000")
def matmul_large(torch: Any) -> Callable[[], Any]:
    a, b = torch.rand(1000, 1000), torch.rand(1000, 1000)
    return lambda: a @ b


@case(LARGE, "chain of 9 operators, 1M")
def chain_large(torch: Any) -> Callable[[], Any]:
    a, b = torch.rand(1000, 1000), torch.rand(1000, 1000)
    return lambda: ((a * b + 1).sqrt() - a).abs().tanh().mul(0.5).add(b).neg()
