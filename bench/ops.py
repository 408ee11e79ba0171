"""Times every entry of PyTorch's operator database, in a library and in PyTorch, turns about in one process.

    python bench/ops.py                          # small: the database's own samples, what a call costs
    python bench/ops.py --size large             # unary, binary and reducing entries on 1000 x 1000
    python bench/ops.py --grad                   # forward and backward
    python bench/ops.py --device cuda            # on a GPU: large is 4096 x 4096
    python bench/ops.py --only '^linalg' --worst 100 --json ratios.json

A row is one entry's call; its ratio is the library's time by PyTorch's, each the best of several rounds. With
`--threads 1` times are the processor's, so that other programs count for little. Before they are taken the library is
called until its kernels are compiled (`--warm` 0 leaves that out).
"""

import argparse
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "parity"))

import torch  # noqa: E402
from bridge import Bridge, attempt  # noqa: E402

_ENVIRONMENT = dict(os.environ)
from run_opdb import callable_in, database, way_to_call  # noqa: E402

os.environ.update(_ENVIRONMENT)  # comparing numbers, it runs on one thread
for _name in os.environ.keys() - _ENVIRONMENT.keys():
    del os.environ[_name]
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo  # noqa: E402

ROUNDS, MOST_CALLS, SAMPLES = 4, 2000, 7
WARM_CALLS = 200  # more than any kernel waits for before it takes over


def tensors(value: Any, library: Any) -> Iterator[Any]:
    """The tensors among arguments or results, within lists and tuples."""
    if isinstance(value, library.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item, library)


def placed(value: Any, library: Any, device: str) -> Any:
    """Arguments with their tensors, and the devices that they name, on a device."""
    if isinstance(value, library.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(placed(item, library, device) for item in value)
    if isinstance(value, dict):
        return {key: placed(item, library, device) for key, item in value.items()}
    return library.device(device) if isinstance(value, library.device) else value


def small_sample(entry: Any, dtype: torch.dtype, grad: bool) -> Iterator[tuple[str, tuple, dict]]:
    """One of the database's samples that has elements."""
    chosen = None
    for number, sample in enumerate(entry.sample_inputs("cpu", dtype, requires_grad=grad)):
        if any(t.numel() for t in tensors((sample.input, *sample.args), torch)):
            chosen = (sample.input, *sample.args), sample.kwargs
        if number == SAMPLES - 1:
            break
    if chosen is not None:
        yield "", *chosen


def large_samples(entry: Any, dtype: torch.dtype, grad: bool, side: int) -> Iterator[tuple[str, tuple, dict]]:
    def made() -> torch.Tensor:
        return torch.rand(side, side).mul_(0.8).add_(0.1).to(dtype).requires_grad_(grad)

    if isinstance(entry, UnaryUfuncInfo):
        yield "", (made(),), {}
    elif isinstance(entry, BinaryUfuncInfo):
        yield "", (made(), made()), {}
    elif isinstance(entry, ReductionOpInfo):
        for suffix, options in ((" all", {}), (" dim1", {"dim": 1}), (" dim0", {"dim": 0})):
            yield suffix, (made(),), options


def call_of(operator: Callable, library: Any, args: tuple, kwargs: dict, grad: bool) -> Callable[[], Any]:
    """What is timed: the call, or it and its backward pass."""
    if not grad:
        return lambda: operator(*args, **kwargs)
    leaves = [t for t in tensors(args, library) if t.requires_grad]

    def both() -> None:
        for leaf in leaves:
            leaf.grad = None
        made = [t for t in tensors(operator(*args, **kwargs), library)
                if t.requires_grad and (t.is_floating_point() or t.is_complex())]
        library.autograd.backward(made, [library.ones_like(t) for t in made])

    return both


def timed(run: Callable[[], Any], calls: int, finish: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Seconds of one call, of that many."""
    finish()
    started = clock()
    for _ in range(calls):
        run()
    finish()
    return (clock() - started) / calls


def warm_up(run: Callable[[], Any], seconds: float) -> None:
    """Calls until kernels that are compiled in the background have taken over, or the time is up."""
    end = time.perf_counter() + seconds
    for _ in range(WARM_CALLS):
        run()
        if time.perf_counter() > end:
            break


def best_times(runs: list[Callable[[], Any]], finishes: list[Callable[[], Any]], seconds: float,
               clock: Callable[[], float]) -> list[float]:
    calls = []
    for run, finish in zip(runs, finishes, strict=True):
        timed(run, 2, finish, clock)
        calls.append(max(1, min(MOST_CALLS, int(seconds / max(timed(run, 2, finish, clock), 1e-7)))))
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for i in range(2):
            best[i] = min(best[i], timed(runs[i], calls[i], finishes[i], clock))
    return best


class Bench:
    """Times entries; `rows` are (ratio, name, seconds here, seconds in PyTorch), `failed` what only runs there."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.bridges = [Bridge(options.module), Bridge("torch")]
        self.dtype = getattr(torch, options.dtype)
        self.rows: list[tuple[float, str, float, float]] = []
        self.failed: list[tuple[str, str]] = []
        on_gpu = options.device == "cuda"
        self.clock = time.thread_time if options.threads == 1 and not on_gpu else time.perf_counter
        self.finishes = [b.library.cuda.synchronize if on_gpu else (lambda: None) for b in self.bridges]
        if options.threads:
            for bridge in self.bridges:
                bridge.library.set_num_threads(options.threads)

    def applies(self, entry: Any) -> bool:
        """Whether the entry can be called, in the type and with a gradient if one is wanted."""
        options = self.options
        dtypes = entry.dtypes if options.device == "cpu" else entry.dtypesIfCUDA or entry.dtypes
        if way_to_call(entry)[0] == "excluded" or self.dtype not in dtypes:
            return False
        return not options.grad or entry.supports_autograd and self.dtype in entry.supported_backward_dtypes(
            options.device)

    def run(self, name: str, entry: Any) -> None:
        options = self.options
        operators = [callable_in(bridge, entry) for bridge in self.bridges]
        if operators[0] is None:
            self.failed.append((name, "is missing"))
            return
        torch.manual_seed(0)
        if options.size == "small":
            samples, _ = attempt(lambda: list(small_sample(entry, self.dtype, options.grad)))
        else:
            side = 1000 if options.device == "cpu" else 4096
            samples = list(large_samples(entry, self.dtype, options.grad, side))
        for suffix, args, kwargs in samples or ():
            calls = []
            for bridge, operator in zip(self.bridges, operators, strict=True):
                bridge.forget()
                given, error = attempt(lambda: placed(bridge.value([list(args), dict(kwargs)]),  # noqa: B023
                                                      bridge.library, options.device))  # noqa: B023
                if error is None:
                    calls.append(call_of(operator, bridge.library, tuple(given[0]), given[1], options.grad))
            if len(calls) < 2 or attempt(calls[1])[1] is not None:
                continue
            attempt(lambda: warm_up(calls[0], options.warm))  # noqa: B023
            times, error = attempt(lambda: best_times(calls, self.finishes, options.ms / 1000, self.clock))  # noqa: B023
            if error is not None:
                self.failed.append((name + suffix, f"{type(error).__name__}: {error}"[:100]))
            else:
                self.rows.append((times[0] / times[1], name + suffix, *times))


def summary(rows: list[tuple[float, str, float, float]]) -> str:
    ratios = sorted(row[0] for row in rows)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    middle, high = ratios[len(ratios) // 2], ratios[int(len(ratios) * 0.9)]
    above = ", ".join(f"{sum(r > limit for r in ratios)} above {limit}" for limit in (2, 3, 8))
    return (f"{len(ratios)} rows: geometric mean {mean:.2f}, median {middle:.2f}, 90th percentile {high:.2f}, largest "
            f"{ratios[-1]:.1f}; {above}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="mindtorch_v2", help="the library to time")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--grad", action="store_true", help="forward and backward")
    parser.add_argument("--threads", type=int, default=0, help="of both libraries; left out, what each takes")
    parser.add_argument("--ms", type=float, default=20, help="milliseconds of one measurement")
    parser.add_argument("--warm", type=float, default=0.3, help="seconds at most that an entry is called before")
    parser.add_argument("--only", default="", help="entries whose name matches")
    parser.add_argument("--worst", type=int, default=30, help="rows to show")
    parser.add_argument("--json", type=Path, help="write all rows here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(options)
    entries = {name: entry for name, entry in database().items() if re.search(options.only, name)}
    progress: Any = entries
    if sys.stderr.isatty():
        from tqdm import tqdm

        progress = tqdm(entries, leave=False)
    for name in progress:
        if bench.applies(entries[name]):
            bench.run(name, entries[name])
    for ratio, name, ours, theirs in sorted(bench.rows, reverse=True)[: options.worst]:
        print(f"{ratio:8.2f}  {ours * 1e6:10.1f} us  PyTorch {theirs * 1e6:10.1f} us  {name}")
    for name, reason in bench.failed:
        print(f"runs in PyTorch only: {name}: {reason}")
    kind = f"{options.device}, {options.size}, {options.dtype}{', forward and backward' if options.grad else ''}"
    print(f"{kind}: {summary(bench.rows)}" if bench.rows else f"{kind}: nothing to time")
    if options.json:
        options.json.write_text(json.dumps({"rows": bench.rows, "failed": bench.failed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
