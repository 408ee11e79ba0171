"""Times a library against PyTorch, case by case and turns about.

    python bench/run.py                        # all groups
    python bench/run.py --group small --check  # exit status 1 when a gate is missed

Each library has a process of its own that stays; a case runs in one, then in the other, for several rounds, so that
both see the same state of the machine. Before each turn the machine rests, since threads that wait for work by
spinning (OpenMP's for some milliseconds, OpenBLAS's for a hundred) would take a core from the other library. The table
shows lower quartiles over the rounds (other programs only ever add time) and their ratio (below 1: faster than
PyTorch). Each group has gates, for the geometric mean of its ratios and for the largest; an import takes at most 0.3 s
or 0.15 of PyTorch's.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

from cases import GROUPS

# geometric mean, largest ratio
GATES = {"small": (1.0, 1.3), "large": (3.0, 8.0), "training": (3.0, 3.0), "inference": (3.0, 3.0)}
IMPORT_SECONDS, IMPORT_RATIO = 0.3, 0.15
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MEASURED_SECONDS = 0.02  # of one measurement; the number of calls in it follows from the first ones
REST_SECONDS = 0.15  # before it
WARM_CALLS = 40  # before the first one: machine code takes over after so many


def serve(module: str, threads: int) -> None:
    """Answers requests [group, case] with the seconds of one call, until the input ends."""
    import importlib

    library = importlib.import_module(module)
    if hasattr(library, "set_num_threads"):
        library.set_num_threads(threads)
    ready: dict[tuple[str, str], tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        group, name = json.loads(line)
        if (group, name) not in ready:
            run = GROUPS[group][name](library)
            timed(run, WARM_CALLS)
            ready[group, name] = run, max(1, round(MEASURED_SECONDS / timed(run, 3)))
        run, calls = ready[group, name]
        time.sleep(REST_SECONDS)
        run()  # wakes the library's own threads
        print(json.dumps(timed(run, calls)), flush=True)


def timed(run: Callable[[], Any], calls: int) -> float:
    """Seconds of one call, of that many."""
    started = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - started) / calls


class Worker:
    """A process that times cases in one library."""

    def __init__(self, module: str, threads: int) -> None:
        command = [sys.executable, str(Path(__file__)), "--serve", "--module", module, "--threads", str(threads)]
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
        self.module = module
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def time(self, group: str, name: str) -> float:
        """Seconds of one call of a case."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([group, name]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.module} failed in the case '{name}'")
        return json.loads(answer)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def import_seconds(module: str) -> float:
    """Seconds that the import takes in a fresh process."""
    source = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout)


def turns(measure: Callable[[Any], float], ours: Any, theirs: Any, rounds: int) -> tuple[float, float]:
    """The lower quartiles of both, measured alternately; a first round warms up."""
    pairs = [(measure(ours), measure(theirs)) for _ in range(rounds + 1)][1:]
    ours, theirs = zip(*pairs)
    return quantiles(ours)[0], quantiles(theirs)[0]


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def shown(seconds: float) -> str:
    """Seconds in a unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size / 10:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def show_group(group: str, times: dict[str, tuple[float, float]], module: str) -> float:
    """Prints a group's table; returns the geometric mean of its ratios."""
    print(f"\n{group:<34}{module:>14}{'PyTorch':>12}{'ratio':>8}")
    for name, (ours, theirs) in times.items():
        print(f"{name:<34}{shown(ours):>14}{shown(theirs):>12}{ours / theirs:>8.2f}")
    mean = geometric_mean([ours / theirs for ours, theirs in times.values()])
    if len(times) > 1:
        print(f"{'geometric mean':<60}{mean:>8.2f}", flush=True)
    return mean


def missed_gates(results: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    """Which gates the measurements miss, in words."""
    missed = []
    for group, (mean_gate, case_gate) in GATES.items():
        ratios = {name: ours / theirs for name, (ours, theirs) in results.get(group, {}).items()}
        if ratios and (mean := geometric_mean(list(ratios.values()))) > mean_gate:
            missed.append(f"{group}: geometric mean {mean:.2f}, above {mean_gate}")
        missed += [f"{name}: ratio {ratio:.2f}, above {case_gate}" for name, ratio in ratios.items()
                   if ratio > case_gate]
    for ours, theirs in results.get("import", {}).values():
        if ours > IMPORT_SECONDS and ours > IMPORT_RATIO * theirs:
            missed.append(f"import: {ours:.2f} s, above {IMPORT_SECONDS} s and {IMPORT_RATIO} of PyTorch's")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="mindtorch_v2", help="the library to time")
    parser.add_argument("--group", choices=[*GROUPS, "import"], action="append", help="may be given several times")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the quartiles here, in seconds")
    parser.add_argument("--check", action="store_true", help="fail when a gate is missed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.module, options.threads)
        return 0
    wanted = options.group or [*GROUPS, "import"]
    results: dict[str, dict[str, tuple[float, float]]] = {}
    groups = [group for group in wanted if group != "import"]
    if groups:
        ours, theirs = Worker(options.module, options.threads), Worker("torch", options.threads)
        for group in groups:
            results[group] = {
                name: turns(lambda worker: worker.time(group, name), ours, theirs, options.rounds)  # noqa: B023
                for name in GROUPS[group]
            }
            show_group(group, results[group], options.module)
        ours.stop()
        theirs.stop()
    if "import" in wanted:
        name = "import in a fresh process"
        results["import"] = {name: turns(import_seconds, options.module, "torch", min(options.rounds, 3))}
        show_group("import", results["import"], options.module)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    missed = missed_gates(results)
    for gate in missed:
        print(f"gate missed: {gate}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
