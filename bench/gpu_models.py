"""The programs that bench/gpu.py and bench/compile.py time on a GPU."""

from collections.abc import Callable
from typing import Any


def gpt(torch: Any, layers: int, width: int, heads: int, vocabulary: int, context: int) -> Any:
    """A decoder in the manner of GPT-2, with the output tied to nothing."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.attend(self.before(x)).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.join(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.ModuleList([Block() for _ in range(layers)]), nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return Model().to("cuda")


def resnet50(torch: Any) -> Any:
    """ResNet-50, as it is commonly built."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, before: int, inner: int, stride: int) -> None:
            super().__init__()
            after = 4 * inner
            self.conv1, self.bn1 = nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner)
            self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
            self.conv3, self.bn3 = nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after)
            self.relu = nn.ReLU(inplace=True)
            self.past = None
            if stride != 1 or before != after:
                self.past = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.past is None else self.past(x)))

    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    before = 64
    torch.manual_seed(0)
    for inner, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            layers.append(Bottleneck(before, inner, stride if number == 0 else 1))
            before = 4 * inner
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    return nn.Sequential(*layers).to("cuda")


def training(torch: Any, model: Any, inputs: Any, target: Any, kind: str | None = None, capturable: bool = False,
             compiled: Callable[[Any], Any] = lambda model: model) -> Callable[[], None]:  # fmt: skip
    """One step of AdamW; `compiled` makes what is called of the model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)
    called = compiled(model)

    def step() -> None:
        with torch.autocast("cuda", dtype=getattr(torch, kind or "bfloat16"), enabled=kind is not None):
            scores = called(inputs)
            loss = torch.nn.functional.cross_entropy(scores.view(target.shape[0], -1), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def gpt_training(
    torch: Any, model: Any, batch: int, length: int, vocabulary: int, **options: Any
) -> Callable[[], None]:
    """One step on made-up tokens."""
    tokens = torch.randint(0, vocabulary, (batch, length), device="cuda")
    target = torch.randint(0, vocabulary, (batch * length,), device="cuda")
    return training(torch, model, tokens, target, **options)


def tiny_gpt_step(torch: Any, **options: Any) -> Callable[[], None]:
    return gpt_training(torch, gpt(torch, 4, 128, 4, 512, 64), 8, 64, 512, **options)


def gpt2_bfloat16_step(torch: Any, **options: Any) -> Callable[[], None]:
    """GPT-2 small whose parameters are bfloat16."""
    return gpt_training(torch, gpt(torch, 12, 768, 12, 50257, 1024).bfloat16(), 8, 1024, 50257, **options)


def resnet50_step(torch: Any, **options: Any) -> Callable[[], None]:
    """ResNet-50 on 64 images, bfloat16 autocast, channels last."""
    model = resnet50(torch).to(memory_format=torch.channels_last)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return training(torch, model, images, torch.randint(0, 1000, (64,), device="cuda"), "bfloat16", **options)


def twelve_layers(torch: Any, compiled: Callable[[Any], Any] = lambda model: model) -> Callable[[], Any]:
    """The forward pass of GPT-2 small's layers on one text of 128 tokens, bfloat16."""
    model = gpt(torch, 12, 768, 12, 50257, 1024).bfloat16().eval()
    tokens = torch.randint(0, 50257, (1, 128), device="cuda")
    called = compiled(model)

    def forward() -> Any:
        with torch.no_grad():
            return called(tokens)

    return forward


def chain_of_nine(torch: Any, size: int, compiled: Callable[[Any], Any] = lambda call: call) -> Callable[[], Any]:
    """Nine pointwise operations on one array."""
    x = torch.linspace(-2, 2, size, device="cuda")

    def chain(x: Any) -> Any:
        y = x * 2 + 1
        y = torch.tanh(y) * x
        y = torch.sigmoid(y) - 0.5
        return torch.relu(y * y).exp()

    called = compiled(chain)
    return lambda: called(x)


PROGRAMS: dict[str, Callable[..., Callable[[], Any]]] = {
    "chain of nine, 64 M floats": lambda torch, **options: chain_of_nine(torch, 1 << 26, **options),
    "chain of nine, 64 K floats": lambda torch, **options: chain_of_nine(torch, 1 << 16, **options),
    "forward pass of 12 layers, 128 tokens, bfloat16": twelve_layers,
    "tiny GPT step (4 layers of 128, 8 x 64 tokens)": tiny_gpt_step,
    "GPT-2 small step, 8 x 1,024 tokens, bfloat16 parameters": gpt2_bfloat16_step,
    "ResNet-50 step, 64 images, bfloat16 autocast, channels last": resnet50_step,
}  # fmt: skip
