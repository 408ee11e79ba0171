"""Times the library on a GPU beside PyTorch, turns about in one process, and prints the table of docs/benchmarks.md.

Usage: python bench/gpu.py [--only REGEX] [--rounds 15] [--write FILE]
"""

import argparse
import importlib
import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_models import gpt, gpt2_bfloat16_step, gpt_training, resnet50_step, tiny_gpt_step, twelve_layers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
MILLIONS_64 = 1 << 26
FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError, MemoryError)
# name, the ratio to PyTorch that it must not exceed, calls in a timed loop, and what makes the call for a module
CASES: list[tuple[str, float, int, Callable]] = []


def case(name: str, limit: float, loops: int = 1) -> Callable[[Callable], Callable]:
    """Adds a case; the function gets the module and gives the call to time."""

    def add(make: Callable) -> Callable:
        CASES.append((name, limit, loops, make))
        return make

    return add


def pair(torch: Any, *shape: int, **options: Any) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(*shape, device="cuda", **options) for _ in range(2)]


@case("a + b, 64 x 64", 1.0, 2000)
def add(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    return lambda: a + b


@case("(a * b).sum().backward(), 64 x 64", 0.8, 300)
def mul_sum_backward(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    a.requires_grad_()

    def call() -> None:
        a.grad = None
        (a * b).sum().backward()

    return call


@case("a.add_(b), 64 x 64", 1.0, 2000)
def add_in_place(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    return lambda: a.add_(b)


@case("a.sum(), 64 x 64", 1.0, 1000)
def small_sum(torch: Any) -> Callable:
    a, _ = pair(torch, 64, 64)
    return lambda: a.sum()


@case("a @ b, 64 x 64", 1.05, 1000)
def small_product(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    return lambda: a @ b


@case("linear, 64 x 64", 1.05, 1000)
def small_linear(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    return lambda: torch.nn.functional.linear(a, b, a[0])


@case("layer_norm, 64 x 64", 1.2, 1000)
def small_norm(torch: Any) -> Callable:
    a, b = pair(torch, 64, 64)
    weight = b[0].clone()
    return lambda: torch.nn.functional.layer_norm(a, (64,), weight, weight)


@case("softmax, 64 x 64", 1.2, 1000)
def small_softmax(torch: Any) -> Callable:
    a, _ = pair(torch, 64, 64)
    return lambda: a.softmax(-1)


@case("torch.empty(64, 64)", 1.5, 1000)
def small_empty(torch: Any) -> Callable:
    return lambda: torch.empty(64, 64, device="cuda")


@case("a.view(-1)", 3.0, 1000)
def small_view(torch: Any) -> Callable:
    a, _ = pair(torch, 64, 64)
    return lambda: a.view(-1)


def large(name: str, compute: Callable, limit: float = 1.2) -> None:
    """A case on 64 M floats, as 65,536 rows of 1,024."""

    @case(f"{name}, 64 M floats", limit, 5)
    def make(torch: Any) -> Callable:
        torch.manual_seed(0)
        x = torch.randn(65536, 1024, device="cuda")
        return lambda: compute(torch, x)


large("sum", lambda torch, x: x.sum())
large("sum(0)", lambda torch, x: x.sum(0))
large("sum(1)", lambda torch, x: x.sum(1))
large("amax(1)", lambda torch, x: x.amax(1))
large("softmax", lambda torch, x: x.softmax(-1))
large("log_softmax", lambda torch, x: x.log_softmax(-1))
large("layer_norm", lambda torch, x: torch.nn.functional.layer_norm(x, (1024,)))
large("gelu", lambda torch, x: torch.nn.functional.gelu(x))
large("a + row", lambda torch, x: x + x[0])
large("copy", lambda torch, x: x.clone())
large("transposed copy", lambda torch, x: x.t().contiguous())
large("to bfloat16", lambda torch, x: x.to(torch.bfloat16))


@case("layer_norm forward and backward, 64 M floats", 1.2, 5)
def norm_backward(torch: Any) -> Callable:
    x = torch.randn(65536, 1024, device="cuda", requires_grad=True)
    weight, bias = (torch.ones(1024, device="cuda", requires_grad=True) for _ in range(2))
    grad = torch.ones(65536, 1024, device="cuda")
    return lambda: torch.nn.functional.layer_norm(x, (1024,), weight, bias).backward(grad)


@case("chain of 9 operations, 64 M floats, one declaration", 0.3, 5)
def chain(torch: Any) -> Callable:
    x = torch.randn(MILLIONS_64, device="cuda")
    if torch.__name__ == "torch":
        return lambda: ((x * 2 + 1).sigmoid() * x - 0.5).tanh().abs().sqrt() * 3 + x
    from mindtorch_v2._dispatch.callers import call_bound
    from mindtorch_v2._ops._declare.families import pointwise
    from mindtorch_v2._ops._declare.op import op

    def compute(xp: Any, x: Any) -> Any:
        return xp.sqrt(xp.absolute(xp.tanh((1 / (1 + xp.exp(-(x * 2 + 1)))) * x - 0.5))) * 3 + x

    operator = op("bench_chain(Tensor self) -> Tensor", kernel=pointwise(compute), public="")
    return lambda: call_bound(operator, (x,))


for _kind in ("float32", "float64", "float16", "bfloat16", "complex64"):
    for _size in (512, 8192):

        @case(f"matmul {_size}, {_kind}", 1.05, 200 if _size == 512 else 2)
        def product(torch: Any, kind: str = _kind, size: int = _size) -> Callable:
            size = size // 2 if kind in ("float64", "complex64") and size > 512 else size
            a, b = pair(torch, size, size, dtype=getattr(torch, kind))
            return lambda: a @ b


@case("optimizer step (AdamW), 148 parameters of 768 x 768", 1.2, 3)
def adamw(torch: Any) -> Callable:
    parameters = [torch.nn.Parameter(torch.randn(768, 768, device="cuda")) for _ in range(148)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    return torch.optim.AdamW(parameters, lr=1e-3).step


@case("tiny GPT step (4 layers of 128, 8 x 64 tokens)", 1.2, 5)
def tiny_gpt(torch: Any) -> Callable:
    return tiny_gpt_step(torch)


@case("tiny GPT step captured as a graph, beside PyTorch without", 0.3, 20)
def tiny_gpt_graph(torch: Any) -> Callable:
    if torch.__name__ == "torch":
        return tiny_gpt_step(torch)
    step = tiny_gpt_step(torch, capturable=True)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return lambda: (graph.replay(), step)[0]  # the step keeps what the graph works on


@case("GPT-2 small step, 8 x 1,024 tokens, float32", 1.3)
def gpt2(torch: Any) -> Callable:
    return gpt_training(torch, gpt(torch, 12, 768, 12, 50257, 1024), 8, 1024, 50257)


@case("GPT-2 small step, 8 x 1,024 tokens, bfloat16 autocast", 1.3)
def gpt2_half(torch: Any) -> Callable:
    return gpt_training(torch, gpt(torch, 12, 768, 12, 50257, 1024), 8, 1024, 50257, kind="bfloat16")


case("GPT-2 small step, 8 x 1,024 tokens, bfloat16 parameters", 1.0)(gpt2_bfloat16_step)
case("ResNet-50 step, 64 images, bfloat16 autocast, channels last", 1.0)(resnet50_step)
case("forward pass of 12 layers, 128 tokens, bfloat16", 1.0, 10)(twelve_layers)


for _name, _channels, _size, _kernel, _step in (("3 x 3, 64 channels, 56 x 56", 64, 56, 3, 1),
                                                ("1 x 1, 256 channels, 56 x 56", 256, 56, 1, 1),
                                                ("3 x 3, 512 channels, 7 x 7", 512, 7, 3, 1)):

    @case(f"convolution forward and backward, 64 images, {_name}", 1.5, 2)
    def convolution(torch: Any, channels: int = _channels, size: int = _size, kernel: int = _kernel) -> Callable:
        torch.manual_seed(0)
        layer = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2, bias=False).to("cuda")
        x = torch.randn(64, channels, size, size, device="cuda", requires_grad=True)
        grad = torch.ones(64, channels, size, size, device="cuda")
        return lambda: layer(x).backward(grad)


def timed(torch: Any, call: Callable, loops: int) -> float:
    """Microseconds a call, from a loop that ends by waiting for the device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(loops):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / loops * 1e6


def measured(modules: tuple[Any, ...], make: Callable, loops: int, rounds: int) -> list[float]:
    """The median of each module's times, taken turns about: the host's speed changes from second to second."""
    calls = [make(module) for module in modules]
    for call in calls:
        for _ in range(3):
            call()
    times: list[list[float]] = [[] for _ in modules]
    for _ in range(rounds):
        for module, call, own in zip(modules, calls, times, strict=True):
            own.append(timed(module, call, loops))
    return [statistics.median(own) for own in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=".")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", help="a file for the table, in Markdown")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case is begun later than this")
    options = parser.parse_args()
    ours, theirs = importlib.import_module("mindtorch_v2"), importlib.import_module("torch")
    theirs.backends.cudnn.allow_tf32 = ours.backends.cudnn.allow_tf32 = False
    lines = ["| case | mindtorch_v2, us | PyTorch, us | ratio | at most |", "| --- | ---: | ---: | ---: | ---: |"]
    print("\n".join(lines), flush=True)
    begun = time.perf_counter()
    for name, limit, loops, make in CASES:
        if not re.search(options.only, name) or time.perf_counter() - begun > options.seconds:
            continue
        try:
            shown = measured((ours, theirs), make, loops, options.rounds)
        except FAILURES:  # one case must not keep the others from being measured
            said = traceback.format_exc().strip().splitlines()
            print(f"{name}: {said[-1][:300]} {said[-3].strip()[:120]}", flush=True)
            shown = [float("nan")] * 2
        for module in (ours, theirs):
            module.cuda.empty_cache()
        ratio = shown[0] / shown[1]
        mark = "" if ratio <= limit else " (!)"
        lines.append(f"| {name} | {shown[0]:,.1f} | {shown[1]:,.1f} | {ratio:.2f}{mark} | {limit} |")
        print(lines[-1], flush=True)
        if options.write:
            Path(options.write).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
