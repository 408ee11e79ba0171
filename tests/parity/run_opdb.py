"""Compares a library with PyTorch over the operator database of torch.testing.

    python tests/parity/run_opdb.py                       # the entries in expected_pass.txt: all must pass
    python tests/parity/run_opdb.py --more-types          # in other dtypes, those in expected_pass_more_types.txt
    python tests/parity/run_opdb.py --all                 # every entry of the database
    python tests/parity/run_opdb.py --ops '^linalg' -v    # some of them, one line each
    python tests/parity/run_opdb.py --module torch --all  # the runner against itself

PyTorch makes the sample inputs from a fixed seed; NumPy carries them, with their strides, into each library; the
operator runs in both; structure, shape, dtype and values of the results are compared, then the gradients of all inputs
for a random cotangent. An entry passes when all its samples pass in each dtype (float32, int64 and bool by default).

Not compared: a sample that PyTorch itself refuses; values of uninitialised results; values of random results, unless
--random-values; strides, unless --strides. Decompositions are compared through the database's own invariant form.
"""

import argparse
import collections
import functools
import json
import os
import random
import re
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from bridge import CARRIERS, Bridge, Unavailable, attempt, dtype_name, find  # noqa: E402
from closeness import another_right_answer, leaves, structure_difference, tolerances, value_difference  # noqa: E402

EXPECTED = Path(__file__).with_name("expected_pass.txt")
EXPECTED_MORE = Path(__file__).with_name("expected_pass_more_types.txt")
FAILURES = ["missing", "forward error", "dtype or shape", "forward value", "backward error", "backward value"]
NAMESPACES = ("torch", "Tensor", "nn.functional", "linalg", "special", "fft", "masked", "signal", "sparse", "private")
DTYPES = ("float32", "int64", "bool")
MORE_DTYPES = "float64,complex64,bfloat16,int32,bool"
OTHER_DTYPES = ("complex64", "float64", "int32", "uint8", "float16", "bfloat16")
UNINITIALISED = re.compile(r"(new_)?empty(_like|_strided|_permuted)?|resize(_as)?_")
INVARIANT = {"svd", "linalg.svd", "svd_lowrank", "pca_lowrank", "linalg.eig", "linalg.eigh"}
SEED = 1234


class Failed(Exception):
    """A sample's result is not PyTorch's."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, " ".join(reason.split())[:300]


class Skipped(Exception):
    """PyTorch itself cannot run the sample."""


class OutOfTime(BaseException):
    """The entry's time is over; no `except Exception` on the way may swallow it."""


@dataclass
class Outcome:
    """What became of one entry."""

    entry: str
    namespace: str
    status: str = "pass"
    reason: str = ""
    samples: int = 0
    gradients: int = 0
    seconds: float = 0.0


@functools.cache
def database() -> dict[str, Any]:
    """PyTorch's operator entries by name and variant."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {entry_name(entry): entry for entry in op_db}


def op_name(entry: Any) -> str:
    return entry.name.removeprefix("torch.")


def entry_name(entry: Any) -> str:
    return f"{op_name(entry)}.{entry.variant_test_name}" if entry.variant_test_name else op_name(entry)


def way_to_call(entry: Any) -> tuple[str, str]:
    """('path' | 'method' | 'code' | 'excluded', the path or the reason): the same for every library."""
    name, op = op_name(entry), entry.op
    kind = type(op).__name__
    if name.startswith("ops.") or kind in ("OpOverload", "OpOverloadPacket"):
        return "excluded", "an ATen overload, without public path"
    if find(torch, name) is op:
        return "path", name
    if kind in ("method_descriptor", "wrapper_descriptor") or getattr(op, "__qualname__", "") == f"Tensor.{name}":
        return "method", op.__name__
    if not isinstance(op, types.FunctionType) or {"ops", "aten"} <= set(op.__code__.co_names):
        return "excluded", f"a {kind} without public path"
    return "code", name


def namespace(entry: Any) -> str:
    """The row of the result table that an entry counts in."""
    name = op_name(entry)
    first = name.split(".")[0]
    if "." in name and first in ("nn", *NAMESPACES):
        return "nn.functional" if first == "nn" else first
    on_tensor = hasattr(torch.Tensor, name) or hasattr(torch.Tensor, name + "_")
    if name.startswith("__") or (on_tensor and not hasattr(torch, name)):
        return "Tensor"
    return "private" if name.startswith("_") or "._" in name else "torch"


def callable_in(bridge: Bridge, entry: Any) -> Any:
    """The entry's operator in one library, or None when the library lacks it."""
    way, path = way_to_call(entry)
    library = bridge.library
    method = getattr(library.Tensor, path, None)
    if way == "method":
        return method
    found = find(library, path)
    if way == "path":
        return found if found is not None else method
    present = found is not None or method is not None or hasattr(library.Tensor, path + "_")
    return bridge.rebind(entry.op) if present else None


def seed(library: Any, number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    library.manual_seed(number)


def described(item: Any) -> str:
    """A sample's value in few words; a star marks a tensor that is not contiguous."""
    if isinstance(item, torch.Tensor):
        plain = item.layout == torch.strided and item.is_contiguous()
        return f"{dtype_name(item.dtype)}{list(item.shape)}" + ("" if plain else "*")
    if isinstance(item, (list, tuple)):
        return "(" + ", ".join(described(part) for part in item[:6]) + (", ..." if len(item) > 6 else "") + ")"
    return repr(item)[:60]


class Runner:
    """Runs entries in PyTorch and in the candidate."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.reference, self.exact = Bridge("torch"), Bridge("torch", double=True)
        self.candidate = Bridge(options.module)

    def run(self, entry: Any) -> Outcome:
        """The worst that happened over dtypes and samples."""
        outcome = Outcome(entry_name(entry), namespace(entry))
        way, path = way_to_call(entry)
        dtypes = self.dtypes(entry)
        if way == "excluded" or not dtypes:
            outcome.status, outcome.reason = (
                "excluded",
                path if way == "excluded" else "none of the dtypes is supported",
            )
            return outcome
        if callable_in(self.candidate, entry) is None:
            outcome.status, outcome.reason = "missing", f"no {path} in {self.options.module}"
            return outcome
        failures: dict[str, str] = {}
        note = ""
        started = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self.options.time_limit)
        try:
            for sample, with_grad in (pair for dtype in dtypes for pair in self.samples(entry, dtype)):
                try:
                    outcome.gradients += Comparison(self, entry, sample, with_grad).run()
                    outcome.samples += 1
                except Skipped as skipped:
                    note = str(skipped)
                except Failed as failed:
                    outcome.samples += 1
                    given = [described(sample.input), *map(described, sample.args)]
                    given += [f"{key}={described(value)}" for key, value in sample.kwargs.items()]
                    failures.setdefault(failed.status, f"{failed.reason}  <{', '.join(given)}>")
        except OutOfTime:
            failures.setdefault("forward error", f"more than {self.options.time_limit:g} s")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if failures:
            outcome.status = min(failures, key=FAILURES.index)
            outcome.reason = failures[outcome.status]
        elif not outcome.samples:
            outcome.status, outcome.reason = "excluded", f"PyTorch runs no sample: {note}"
        outcome.seconds = round(time.monotonic() - started, 2)
        return outcome

    def dtypes(self, entry: Any) -> list[str]:
        """The dtypes to try: those asked for, or the usual ones, or one that the entry supports."""
        names = {dtype_name(dtype) for dtype in entry.supported_dtypes("cpu")}
        supported = {name for name in names if name in CARRIERS or hasattr(np, name)}
        if self.options.dtype:
            return [name for name in self.options.dtype.split(",") if name in supported]
        return [n for n in DTYPES if n in supported] or [n for n in OTHER_DTYPES if n in supported][:1]

    def samples(self, entry: Any, name: str) -> list[tuple[Any, bool]]:
        """Samples spread over those the entry makes, and whether gradients are compared."""
        dtype = getattr(torch, name)
        continuous = dtype.is_floating_point or dtype.is_complex
        with_grad = entry.supports_autograd and continuous and dtype in entry.supported_backward_dtypes("cpu")

        def pool() -> list[Any]:
            seed(torch, SEED)
            return list(entry.sample_inputs("cpu", dtype, requires_grad=with_grad))

        made, error = attempt(pool)
        if error is not None:
            return []
        places = np.linspace(0, len(made) - 1, min(self.options.samples, len(made))).round().astype(int)
        return [(made[place], with_grad) for place in places]


class Comparison:
    """One sample of one entry, in both libraries."""

    def __init__(self, runner: Runner, entry: Any, sample: Any, with_grad: bool) -> None:
        self.entry, self.sample, self.with_grad = entry, sample, with_grad
        self.options = runner.options
        self.reference, self.candidate, self.exact = runner.reference, runner.candidate, runner.exact
        self.table = tolerances(entry)
        self.name = op_name(entry)

    def run(self) -> bool:
        """Whether gradients were compared; raises Failed or Skipped."""
        is_random = self.differs_by_seed()
        expected, error = attempt(lambda: self.forward(self.reference))
        if error is None:
            expected_form, error = attempt(lambda: self.processed(self.reference, expected))
        if error is not None:
            raise Skipped(f"{type(error).__name__}: {error}")
        got = self.guarded("forward error", lambda: self.forward(self.candidate))
        tensor_type, strides = self.candidate.library.Tensor, self.options.strides
        different = self.guarded("dtype or shape", lambda: structure_difference(expected, got, tensor_type, strides))
        if different:
            raise Failed("dtype or shape", different)
        carried = self.guarded("forward error", lambda: self.candidate.back(got))
        if UNINITIALISED.fullmatch(self.name):
            return False
        if self.name in INVARIANT:
            form = self.guarded("forward error", lambda: self.candidate.back(self.processed(self.candidate, got)))
            different = value_difference(expected_form, form, self.table, lambda: attempt(self.exact_form)[0])
        elif not is_random:
            exact = functools.partial(self.forward, self.exact)
            different = value_difference(expected, carried, self.table, lambda: attempt(exact)[0])
        if different and not another_right_answer(self.name, self.sample, expected, carried):
            raise Failed("forward value", different)
        return self.with_grad and not different and self.gradients(expected_form, got, is_random)

    def forward(self, bridge: Bridge, number: int = SEED + 1) -> Any:
        """The operator's result in one library; its leaves are then the bridge's."""
        bridge.forget()
        subject, args, kwargs = bridge.value([self.sample.input, list(self.sample.args), dict(self.sample.kwargs)])
        seed(bridge.library, number)
        return callable_in(bridge, self.entry)(subject, *args, **kwargs)

    def processed(self, bridge: Bridge, result: Any) -> Any:
        """The form of a result that the database says is unique and differentiable."""
        return bridge.rebind(self.sample.output_process_fn_grad)(result)

    def exact_form(self) -> Any:
        return self.processed(self.exact, self.forward(self.exact))

    def guarded(self, status: str, call: Callable[[], Any]) -> Any:
        """The call's result; whatever it raises becomes a failure of that status."""
        result, error = attempt(call)
        if error is not None:
            kind = "" if isinstance(error, Unavailable) else f"{type(error).__name__}: "
            raise Failed(status, f"{kind}{error}") from error
        return result

    def differs_by_seed(self) -> bool:
        """Whether PyTorch's result is random, and another generator may answer otherwise."""
        seed(torch, SEED + 1)
        before = torch.get_rng_state()
        result, error = attempt(lambda: self.forward(self.reference))
        if error is not None or self.options.random_values or torch.equal(before, torch.get_rng_state()):
            return False
        other = self.forward(self.reference, SEED + 2)
        outlines_differ = structure_difference(result, other, torch.Tensor)
        return self.name not in INVARIANT and bool(outlines_differ or value_difference(result, other, self.table))

    def gradients(self, expected_form: Any, got: Any, is_random: bool) -> bool:
        """Whether there were gradients to compare; raises Failed when they differ."""
        outputs = leaves(expected_form)
        tensors = {where: out for where, out in outputs.items() if isinstance(out, torch.Tensor) and out.requires_grad}
        generator = torch.Generator().manual_seed(SEED)
        cotangents = {
            where: torch.randn(
                out.shape, generator=generator, dtype=out.dtype.to_complex() if out.is_complex() else None
            )
            for where, out in tensors.items()
            if out.layout == torch.strided
        }
        if not cotangents or not self.reference.leaves:
            return False

        def backward(bridge: Bridge, form: Any) -> tuple[Any, ...]:
            results = leaves(form)
            weights = {where: bridge.dense(weight.to(tensors[where].dtype)) for where, weight in cotangents.items()}
            products = [results[where] * weight for where, weight in weights.items()]
            loss = sum((product.real if product.is_complex() else product).sum() for product in products)
            if loss.requires_grad:
                loss.backward()
            return tuple(leaf.grad for leaf in bridge.leaves)

        def exact_gradients() -> tuple[Any, ...]:
            return backward(self.exact, self.exact_form())

        def materialised(gradients: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
            """No gradient counts as zeros."""
            pairs = zip(gradients, self.reference.leaves, strict=True)
            filled = (torch.zeros(leaf.shape, dtype=leaf.dtype) if one is None else one for one, leaf in pairs)
            return tuple(one.to_dense() for one in filled)

        expected, error = attempt(lambda: backward(self.reference, expected_form))
        if error is not None:
            return False
        form = self.guarded("backward error", lambda: self.processed(self.candidate, got))
        found = self.guarded("backward error", lambda: self.candidate.back(backward(self.candidate, form)))
        wanted, seen = materialised(expected), materialised(found)
        different = structure_difference(wanted, seen, torch.Tensor)
        if not different and not is_random:
            different = value_difference(wanted, seen, self.table, lambda: attempt(exact_gradients)[0])
        if different:
            unset = (
                f"; no gradient for inputs {[i for i, one in enumerate(found) if one is None]}" if None in found else ""
            )
            raise Failed("backward value", different.replace("result", "gradient", 1) + unset)
        return True


def start_worker() -> None:
    """Makes this process ready to run entries."""

    def out_of_time(*_: Any) -> None:
        raise OutOfTime

    signal.signal(signal.SIGALRM, out_of_time)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


@functools.cache
def runner(**options: Any) -> Runner:
    """This process's runner: both libraries stay imported from entry to entry."""
    return Runner(argparse.Namespace(**options))


def run_in_worker(name: str, options: argparse.Namespace) -> Outcome:
    return runner(**vars(options)).run(database()[name])


def run_entries(names: list[str], options: argparse.Namespace) -> list[Outcome]:
    """Outcomes in the order of the names."""
    started = time.monotonic()
    outcomes: dict[str, Outcome] = {}
    passed = 0
    with ProcessPoolExecutor(options.jobs, get_context("fork"), start_worker) as pool:
        for future in as_completed([pool.submit(run_in_worker, name, options) for name in names]):
            outcome = future.result()
            outcomes[outcome.entry] = outcome
            passed += outcome.status == "pass"
            count = f"[{len(outcomes)}/{len(names)}]"
            if options.verbose:
                print(
                    f"{count} {outcome.status:<15} {outcome.entry}  {outcome.seconds} s  {outcome.reason}", flush=True
                )
            elif len(outcomes) % 100 == 0 or len(outcomes) == len(names):
                print(f"{count} {passed} pass, {time.monotonic() - started:.0f} s", flush=True)
    return [outcomes[name] for name in names]


def show_table(outcomes: list[Outcome]) -> None:
    """Counts of each status by namespace."""
    statuses = ["pass", *FAILURES, "excluded"]
    print(f"\n{'':<14}" + "".join(f"{status:>16}" for status in ["counted", *statuses]))
    for row in (*NAMESPACES, "all"):
        counts = collections.Counter(each.status for each in outcomes if row in (each.namespace, "all"))
        if counts:
            shown = [counts.total() - counts["excluded"], *(counts[status] for status in statuses)]
            print(f"{row:<14}" + "".join(f"{number:>16}" for number in shown))
    samples, gradients = sum(each.samples for each in outcomes), sum(each.gradients for each in outcomes)
    print(f"{samples} samples, {gradients} of them with gradients")


def verdict(outcomes: list[Outcome], expected: set[str], file: Path, update: bool) -> int:
    """The exit status; prints the broken and the newly passing entries, or records them."""
    passing = {each.entry for each in outcomes if each.status == "pass"}
    broken = {each.entry: each for each in outcomes if each.entry in expected and each.status != "pass"}
    gone = expected - set(database())
    for each in broken.values():
        print(f"no longer passes: {each.entry}: {each.status}: {each.reason}")
    if gone:
        print(f"not in the database: {', '.join(sorted(gone))}")
    fresh = len(passing - expected)
    if update:
        kept = sorted((expected | passing) - set(broken) - gone)
        head = "# Entries of PyTorch's operator database that must pass; written by run_opdb.py --update."
        file.write_text("\n".join([head, *kept, ""]))
        print(f"{file.name}: {fresh} added, {len(broken) + len(gone)} removed, {len(kept)} listed")
        return 0
    if fresh:
        print(f"{fresh} entries pass that {file.name} does not list; --update records them")
    return 1 if broken or gone else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="mindtorch_v2", help="the library to compare")
    parser.add_argument("--ops", help="entries (name.variant) that match this regular expression")
    parser.add_argument("--all", action="store_true", help="all entries, not only the expected ones")
    parser.add_argument("--dtype", help="dtypes, separated by commas")
    parser.add_argument("--more-types", action="store_true", help=f"the dtypes {MORE_DTYPES}, with a list of their own")
    parser.add_argument("--samples", type=int, default=12, help="samples for each dtype")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=30, help="seconds for an entry")
    parser.add_argument("--strides", action="store_true", help="compare strides too")
    parser.add_argument("--random-values", action="store_true", help="compare random results too")
    parser.add_argument("--update", action="store_true", help="rewrite the expectation file from this run")
    parser.add_argument("--list", action="store_true", help="name the entries and how they are called, run nothing")
    parser.add_argument("--json", type=Path, help="write all outcomes here")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each entry")
    options = parser.parse_args()
    if options.update and (options.dtype or options.module == "torch"):
        parser.error("--update needs all dtypes and the library itself")
    file = EXPECTED_MORE if options.more_types else EXPECTED
    options.dtype = MORE_DTYPES if options.more_types else options.dtype
    lines = file.read_text().splitlines() if file.exists() else []
    expected = {line for line in lines if line and not line.startswith("#")}
    listed_only = options.ops is None and not options.all
    names = [name for name in database() if (name in expected if listed_only else re.search(options.ops or "", name))]
    if not names:
        parser.error(f"no entries to run: is {file.name} there?" if listed_only else "no entry matches --ops")
    if options.list:
        for name in names:
            print(f"{name:<60} {' '.join(way_to_call(database()[name]))}")
        return 0
    print(f"PyTorch {torch.__version__}: {len(names)} of {len(database())} entries, {options.module}", flush=True)
    outcomes = run_entries(names, options)
    show_table(outcomes)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    return verdict(outcomes, expected, file, options.update)


if __name__ == "__main__":
    sys.exit(main())
