"""The benchmark cases: each builds, for a library with PyTorch's interface, the function that is timed."""

from collections.abc import Callable
from typing import Any

Case = Callable[[Any], Callable[[], Any]]
SMALL: dict[str, Case] = {}
LARGE: dict[str, Case] = {}
TRAINING: dict[str, Case] = {}
INFERENCE: dict[str, Case] = {}
GROUPS = {"small": SMALL, "large": LARGE, "training": TRAINING, "inference": INFERENCE}


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


# large operators: name -> how the arguments are made, and the call --------------------------------------------------


def large(name: str, call: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """A case of one operator on uniform random tensors of these shapes; `call(torch, *tensors)`."""

    def build(torch: Any) -> Callable[[], Any]:
        tensors = [torch.rand(shape) for shape in shapes]
        return lambda: call(torch, *tensors)

    LARGE[name] = build


IMAGES = (8, 64, 56, 56)

large("add 1M", lambda torch, a, b: a + b, (1000, 1000), (1000, 1000))
large("exp 1M", lambda torch, a: a.exp(), (1000, 1000))
large("gelu 1M", lambda torch, a: torch.nn.functional.gelu(a), (1000, 1000))
large("sum 1M", lambda torch, a: a.sum(), (1000, 1000))
large("sum over dim 0, 1M", lambda torch, a: a.sum(0), (1000, 1000))
large("softmax 1000x1000", lambda torch, a: a.softmax(-1), (1000, 1000))
large("layer_norm 1000x1000", lambda torch, a, weight, bias: torch.nn.functional.layer_norm(a, (1000,), weight, bias),
      (1000, 1000), (1000,), (1000,))
large("matmul 1000x1000", lambda torch, a, b: a @ b, (1000, 1000), (1000, 1000))
large("matmul 64x(128x64)^T", lambda torch, a, b: a @ b.transpose(1, 2), (64, 128, 64), (64, 128, 64))
large("permute, contiguous 1M", lambda torch, a: a.permute(0, 2, 3, 1).contiguous(), (8, 64, 64, 32))
large("conv 3x3 8x64x56x56", lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1), IMAGES, (64, 64, 3, 3))
large("conv 1x1 8x64x56x56", lambda torch, x, w: torch.nn.functional.conv2d(x, w), IMAGES, (64, 64, 1, 1))
large("conv depthwise 8x64x56x56", lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=64),
      IMAGES, (64, 1, 3, 3))
large("max_pool 3x3 8x64x56x56", lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2, 1), IMAGES)
large("sort 1000x1000", lambda torch, a: a.sort(-1), (1000, 1000))
large("topk 50 of 1000x1000", lambda torch, a: a.topk(50, -1), (1000, 1000))
large("attention 8x8x128x64", lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
      (8, 8, 128, 64), (8, 8, 128, 64), (8, 8, 128, 64))


@case(LARGE, "embedding 8192 of 10000x256")
def embedding(torch: Any) -> Callable[[], Any]:
    rows, weight = torch.randint(0, 10000, (8192,)), torch.rand(10000, 256)
    return lambda: torch.nn.functional.embedding(rows, weight)


@case(LARGE, "LSTM 64x32x256")
def lstm(torch: Any) -> Callable[[], Any]:
    layer, x = torch.nn.LSTM(256, 256), torch.rand(64, 32, 256)

    def run() -> Any:
        with torch.no_grad():
            return layer(x)

    return run


@case(LARGE, "chain of 9 operators, 1M")
def chain_large(torch: Any) -> Callable[[], Any]:
    a, b = torch.rand(1000, 1000), torch.rand(1000, 1000)
    return lambda: ((a * b + 1).sqrt() - a).abs().tanh().mul(0.5).add(b).neg()


# training steps ------------------------------------------------------------------------------------------------------


def training(name: str) -> Callable[[Callable[[Any], tuple[Any, Any, Any]]], Callable]:
    """A decorator for functions that make a model, an input and a target: a step of AdamW on them, and a prediction."""

    def add(build: Callable[[Any], tuple[Any, Any, Any]]) -> Callable:
        def make(torch: Any) -> Callable[[], Any]:
            torch.manual_seed(0)
            model, x, target = build(torch)
            optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

            def step() -> Any:
                optimiser.zero_grad()
                scores = model(x)
                loss = torch.nn.functional.cross_entropy(scores.flatten(0, -2), target.flatten())
                loss.backward()
                optimiser.step()
                return loss

            return step

        def make_prediction(torch: Any) -> Callable[[], Any]:
            torch.manual_seed(0)
            model, x, _ = build(torch)
            model.eval()

            def predict() -> Any:
                with torch.no_grad():
                    return model(x)

            return predict

        TRAINING[name], INFERENCE[name] = make, make_prediction
        return build

    return add


@training("MLP 784-512-512-10, batch 128")
def mlp(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.rand(128, 784), torch.randint(0, 10, (128,))


@training("small ResNet, 16x3x32x32")
def resnet(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn

    def convolution(before: int, after: int, stride: int) -> Any:
        return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after))

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = convolution(before, after, stride), convolution(after, after, 1)
            self.past = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(torch.relu(self.first(x))) + self.past(x))

    model = nn.Sequential(convolution(3, 16, 1), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return model, torch.rand(16, 3, 32, 32), torch.randint(0, 10, (16,))


@training("GPT, 4 layers of 128, 8x64 tokens")
def gpt(torch: Any) -> tuple[Any, Any, Any]:
    nn, width, length = torch.nn, 128, 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            parts = [part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)]
            mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.join(mixed.transpose(1, 2).flatten(2))
            return x + self.mlp(self.norms[1](x))

    model = nn.Sequential(nn.Embedding(1000, width), *(Block() for _ in range(4)), nn.LayerNorm(width),
                          nn.Linear(width, 1000))
    return model, torch.randint(0, 1000, (8, length)), torch.randint(0, 1000, (8, length))


@training("LSTM 128, 32x32 tokens")
def lstm_model(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(500, 128), nn.LSTM(128, 128, batch_first=True)
            self.scores = nn.Linear(128, 500)

        def forward(self, x: Any) -> Any:
            return self.scores(self.lstm(self.embedding(x))[0])

    return Model(), torch.randint(0, 500, (32, 32)), torch.randint(0, 500, (32, 32))
