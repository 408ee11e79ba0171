"""Times programs as they are, in `torch.pipeline()`, compiled, and in PyTorch, turns about in one process.

    python bench/compile.py                    # needs PyTorch beside this library
    python bench/compile.py --only chain --rounds 9
    python bench/compile.py --device cuda

On a GPU the programs are those of gpu_models.py: eager, in both modes of `torch.compile`, and the same in PyTorch; its
compiled forms are timed for programs whose name matches --theirs, since compiling takes long.

On the CPU "replayed" is mode "reduce-overhead". With --compiled and a C++ compiler, `torch.compile` of PyTorch is timed
too (its first calls take minutes). Times are the least of the rounds: of the processor with one thread, else of the
clock. "first" is the first call in a pipeline, in processor time of all threads; "peak" the memory that NumPy's arrays
take at most in a call, eager and in a pipeline, in MB.
"""

import argparse
import importlib
import math
import re
import shutil
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from cases import GROUPS

NAMES = {
    "large": ["chain of 9 operators, 1M"],
    "training": ["MLP", "GPT", "LSTM"],
    "inference": ["MLP", "GPT", "LSTM"],
}


def small_operations(torch: Any, count: int = 1000, derived: bool = False, backward: bool = False) -> Callable[[], Any]:
    """Operations on 4 elements."""
    x, y = torch.ones(4, requires_grad=derived), torch.ones(4)

    def run() -> Any:
        made = x
        for _ in range(count // 2):
            made = (made + y) * 0.5
        return made

    def run_and_derive() -> None:  # what sets attributes is not replayed
        run().sum().backward()
        x.grad = None

    return run_and_derive if backward else run


def small_views(torch: Any) -> Callable[[], Any]:
    """1,000 views of 4 elements, and of views."""
    x = torch.ones(2, 2)

    def run() -> Any:
        made = x + 1
        for _ in range(250):
            made.view(4).view(2, 2).unsqueeze(0).squeeze(0)
        return made

    return run


def small_parts(torch: Any) -> Callable[[], Any]:
    """999 indices."""
    x = torch.ones(2, 2)

    def run() -> Any:
        made = x + 1
        for _ in range(333):
            _ = made[0], made[:, 1], made[1:]
        return made

    return run


def small_lists(torch: Any) -> Callable[[], Any]:
    """500 calls that take or give several tensors."""
    x = torch.ones(2, 2)

    def run() -> Any:
        made = x + 1
        for _ in range(125):
            _ = torch.cat([made, made]), torch.stack([made, made]), made.chunk(2), made.split(1)
        return made

    return run


def small_gathers(torch: Any) -> Callable[[], Any]:
    """500 indices that are tensors, and writes to parts."""
    x, rows, places = torch.ones(2, 2), torch.tensor([1, 0]), torch.tensor([[0, 1], [1, 0]])

    def run() -> Any:
        made = x + 1
        for _ in range(125):
            _ = made[rows], made.gather(0, places), made.index_select(0, rows)
            made[0] = 1.5
        return made

    return run


def chain_of_nine(torch: Any, size: int) -> Callable[[], Any]:
    """Nine pointwise operations on one array."""
    x = torch.linspace(-2, 2, size)

    def run() -> Any:
        y = x * 2 + 1
        y = torch.tanh(y) * x
        y = torch.sigmoid(y) - 0.5
        return torch.relu(y * y).exp()

    return run


def maps(torch: Any) -> dict[str, Callable[[], Any]]:
    """Pooling, padding, resampling and unfolding with what stands before and after them, without gradients."""
    F = torch.nn.functional
    image, small, wave = torch.randn(8, 64, 56, 56), torch.randn(8, 256, 14, 14), torch.randn(16, 16000)
    last = image.to(memory_format=torch.channels_last)
    weight, bias, mean, var = torch.randn(64), torch.randn(64), torch.randn(64), torch.rand(64) + 0.5
    low, high, window = torch.randn(4, 64, 32, 32), torch.randn(4, 64, 64, 64), torch.hann_window(400)
    few = torch.randn(8, 3, 56, 56), torch.randn(16, 3, 3, 3)

    def normalised(x: Any) -> Any:
        return F.batch_norm(x, mean, var, weight, bias).relu()

    def frames() -> Any:
        return (F.pad(wave, (200, 200), mode="reflect").unfold(-1, 400, 160) * window).square().sum(-1)

    def joined() -> Any:
        return torch.cat([F.interpolate(low, scale_factor=2, mode="bilinear"), high], 1).relu()

    programs = {
        "relu, max_pool 2": lambda: F.max_pool2d(image.relu(), 2),
        "norm, relu, max_pool 3 by 2": lambda: F.max_pool2d(normalised(image), 3, 2, 1),
        "the same, channels last": lambda: F.max_pool2d(normalised(last), 3, 2, 1),
        "norm, relu, avg_pool 2": lambda: F.avg_pool2d(normalised(image), 2),
        "relu, max_pool 2, pad": lambda: F.pad(F.max_pool2d(image.relu(), 2), (1, 1, 1, 1)),
        "pooling less the image": lambda: F.avg_pool2d(small, 3, 1, 1, count_include_pad=False) - small,
        "relu, reflecting pad, conv": lambda: F.conv2d(F.pad(few[0].relu(), (1, 1, 1, 1), mode="reflect"), few[1]),
        "bilinear, cat, relu": joined,
        "frames of sound": frames,
    }  # fmt: skip

    def free(run: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            with torch.no_grad():
                return run()

        return call

    return {f"maps: {name}": free(run) for name, run in programs.items()}


def chosen(torch: Any) -> dict[str, Callable[[], Any]]:
    """The programs by name."""
    made: dict[str, Callable[[], Any]] = maps(torch)
    made["1,000 small operations"] = small_operations(torch)
    made["40 small operations"] = small_operations(torch, 40)
    made["1,000 operations with gradients, small"] = small_operations(torch, derived=True)
    made["400 with gradients and backward, small"] = small_operations(torch, 400, derived=True, backward=True)
    made["1,000 views, small"] = small_views(torch)
    made["999 indices, small"] = small_parts(torch)
    made["500 calls of several tensors, small"] = small_lists(torch)
    made["500 gathers and writes, small"] = small_gathers(torch)
    made["chain of nine, 1 M"] = chain_of_nine(torch, 1 << 20)
    made["chain of nine, 64 K"] = chain_of_nine(torch, 1 << 16)
    for group, names in NAMES.items():
        for name, make in GROUPS.get(group, {}).items():
            if any(name.lower().startswith(wanted.lower()) for wanted in names):
                made[f"{group}: {name}"] = make(torch)
    return made


def piped(torch: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    """A program inside a pipeline."""

    def call() -> Any:
        with torch.pipeline():
            return run()

    return call


def timed(run: Callable[[], Any], calls: int, finish: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Milliseconds of one call."""
    bytearray(1 << 16)  # glibc joins the small blocks that the turn before has freed when a large one is asked for
    started = clock()
    for _ in range(calls):
        run()
    finish()
    return (clock() - started) / calls * 1e3


def nothing() -> None:
    """What there is to wait for on a CPU."""


def peak(run: Callable[[], Any]) -> float:
    """Megabytes that a call takes at most, beyond what was held before."""
    tracemalloc.start()
    run()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / 1e6


def on_gpu(ours: Any, theirs: Any, given: argparse.Namespace) -> None:
    """Prints the table of a GPU: the least milliseconds of a call, and the first calls of ours in seconds."""
    from gpu_models import PROGRAMS

    theirs.backends.cudnn.allow_tf32 = ours.backends.cudnn.allow_tf32 = False
    modes = {"eager": None, "compiled": "default", "reduce-overhead": "reduce-overhead"}
    columns = [(library, mode) for library in (ours, theirs) for mode in modes]
    print("| ms | eager | compiled | reduce-overhead | PyTorch | compiled | reduce-overhead | first compiled, s |")
    print("| --- |" + " ---: |" * 7)
    for name, make in PROGRAMS.items():
        if given.only not in name:
            continue
        best, first = [math.nan] * len(columns), math.nan
        for at, (library, mode) in enumerate(columns):
            if library is theirs and modes[mode] and not re.search(given.theirs, name):
                continue
            options = {} if modes[mode] is None else {"compiled": lambda f: library.compile(f, mode=modes[mode])}  # noqa: B023
            run, finish = make(library, **options), library.cuda.synchronize
            started = timed(run, 3, finish, time.perf_counter) * 3e-3
            if (library, mode) == (ours, "compiled"):
                first = started
            timed(run, 5, finish, time.perf_counter)
            calls = max(3, int(60 / timed(run, 3, finish, time.perf_counter)))
            best[at] = min(timed(run, calls, finish, time.perf_counter) for _ in range(given.rounds))
            del run
            ours._dynamo.reset()
            for module in (ours, theirs):
                module.cuda.empty_cache()
        shown = ["" if math.isnan(number) else f"{number:.3f}" for number in (*best, first)]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm", type=int, default=40, help="calls before")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--theirs", default="chain|12 layers|tiny", help="a GPU's programs that PyTorch compiles")
    parser.add_argument("--compiled", action="store_true")
    given = parser.parse_args()
    libraries = {name: importlib.import_module(module) for name, module in
                 (("ours", "mindtorch_v2"), ("PyTorch", "torch"))}  # fmt: skip
    ours, theirs = libraries["ours"], libraries["PyTorch"]
    for library in libraries.values():
        library.set_num_threads(given.threads)
        library.manual_seed(0)
    if given.device != "cpu":
        on_gpu(ours, theirs, given)
        return
    compiles = given.compiled and (shutil.which("g++") or shutil.which("clang++")) is not None
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    names = ["eager", "pipeline", "compiled", "replayed", "PyTorch", *["compiled"] * compiles, "first", "peak", "piped"]
    print(f"{'ms':46}" + "".join(f"{name:>10}" for name in names))
    own, other = chosen(ours), chosen(theirs)
    for name, run in own.items():
        if given.only not in name:
            continue
        again = chosen(ours)[name]  # which another form has not seen
        runs = [run, piped(ours, run), ours.compile(run), ours.compile(again, mode="reduce-overhead"), other[name]]
        if compiles:
            runs.append(theirs.compile(other[name]))
        best = [float("inf")] * len(runs)
        first = timed(runs[1], 1, nothing, time.process_time)
        for one in runs:
            timed(one, given.warm, nothing, clock)
        calls = max(1, int(20 / timed(runs[0], 3, nothing, clock)))
        for _ in range(given.rounds):
            for at, one in enumerate(runs):
                best[at] = min(best[at], timed(one, calls, nothing, clock))
        told = [*best, first, peak(runs[0]), peak(runs[1])]
        print(f"{name:46}" + "".join(f"{number:10.3f}" for number in told), flush=True)


if __name__ == "__main__":
    main()
