"""Random indices, read and written with PyTorch and with the library, compared each time.

    python tests/parity/random_indices.py --count 20000 --seed 3

An index is a line of Python: a number, slice, None, Ellipsis, bool, list, range, NumPy array or number, tensor or mask
of any type, or several of them. It is read from, and a value is written to it; results, warnings, errors and what is
left in the tensor must agree. After an error neither warnings nor the tensor are compared: PyTorch may have written
some elements before it.
"""

import argparse
import collections
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

SHAPES = ((2, 3, 4), (3, 4), (4,), (), (0, 3), (2, 1, 3))
KINDS = ("float32", "int64", "bool", "complex64", "uint8", "float16")
PLACE_TYPES = ("int64", "int64", "int32", "int16", "int8", "uint8", "bool", "float32")
VALUES = (
    "7", "2.5", "True", "1j", "np.int64(3)", "np.float32(3)", "torch.tensor(5)", "torch.tensor(5.5)",
    "torch.tensor([5])", "torch.tensor([5.5])", "torch.tensor([[6]])", "torch.tensor([1, 2])",
    "torch.full_like(shown, 2)", "torch.ones(1, *shown.shape, dtype=x.dtype)", "torch.zeros(7)", "[3]", "None",
)  # fmt: skip


class Maker:
    """Draws indices of a shape."""

    def __init__(self, source: random.Random, shape: tuple[int, ...]) -> None:
        self.random, self.shape = source, shape

    def index(self) -> str:
        count = self.random.choice((1, 1, 1, 2, 2, 2, 3, 4))
        parts, dim = [], 0
        for _ in range(count):
            n = self.shape[dim] if dim < len(self.shape) else 2
            text, taken = self.part(n, self.shape[dim : dim + 2])
            parts.append(text)
            dim += taken
        if self.random.random() < 0.1:
            parts.insert(self.random.randrange(len(parts) + 1), "...")
        if len(parts) == 1 and self.random.random() < 0.7:
            return parts[0]
        text = ", ".join(parts)
        return f"[{text}]" if self.random.random() < 0.08 else f"({text},)"

    def part(self, n: int, sizes: tuple[int, ...]) -> tuple[str, int]:
        """One part, and how many dimensions it is about."""
        kind = self.random.choice(("int", "slice", "slice", "none", "bool", "list", "range", "array", "scalar",
                                   "tensor", "tensor", "mask", "mask", "wide mask", "nested", "empty"))  # fmt: skip
        if kind == "none":
            return "None", 0
        if kind == "bool":
            return self.random.choice(("True", "False")), 0
        if kind == "wide mask":
            return f"torch.tensor({self._flags(sizes)}).bool()", max(len(sizes), 1)
        return getattr(self, f"_{kind}")(n), 1

    def _place(self, n: int) -> int:
        if self.random.random() < 0.03 or not n:
            return self.random.choice((-n - 1, n, n + 3))
        return self.random.randrange(-n, n)

    def _places(self, n: int) -> list[int]:
        return [self._place(n) for _ in range(self.random.choice((1, 2, 2, 3)))]

    def _flags(self, sizes: tuple[int, ...]) -> Any:
        if not sizes:
            return self.random.random() < 0.5
        return [self._flags(sizes[1:]) for _ in range(sizes[0])]

    def _int(self, n: int) -> str:
        return str(self._place(n))

    def _slice(self, n: int) -> str:
        start, stop = (self.random.choice((None, None, *range(-n - 1, n + 2))) for _ in range(2))
        step = self.random.choice((None, None, 1, 2, 3, -1, 0)) if self.random.random() < 0.4 else None
        return f"slice({start}, {stop}, {step})"

    def _list(self, n: int) -> str:
        flags = self.random.random() < 0.3
        return repr(self._flags((n,)) if flags else self._places(n))

    def _range(self, n: int) -> str:
        return f"range({self.random.randrange(max(n, 1) + 1)})"

    def _array(self, n: int) -> str:
        kind = self.random.choice(PLACE_TYPES)
        places = self._flags((n,)) if kind in ("bool", "uint8") else self._places(n)
        return f"np.array({places}, dtype=np.{kind}{'_' if kind == 'bool' else ''})"

    def _scalar(self, n: int) -> str:
        kind = self.random.choice((
            "np.int64({})", "np.int32({})", "np.array({})", "np.bool_({} > 0)", "np.float32({})", "torch.tensor({})",
            "torch.tensor({}, dtype=torch.int32)", "torch.tensor({} > 0)", "torch.tensor({}.0)"))  # fmt: skip
        return kind.format(self._place(n))

    def _tensor(self, n: int) -> str:
        kind = self.random.choice(PLACE_TYPES)
        places = [abs(p) for p in self._places(n)] if kind == "uint8" else self._places(n)
        return f"torch.tensor({places}, dtype=torch.{kind})"

    def _mask(self, n: int) -> str:
        wrong = n + 1 if self.random.random() < 0.05 else n
        kind = "uint8" if self.random.random() < 0.2 else "bool"
        return f"torch.tensor({self._flags((wrong,))}, dtype=torch.{kind})"

    def _nested(self, n: int) -> str:
        return repr([self._places(n)[:1] * 2, self._places(n)[:1] * 2])

    def _empty(self, n: int) -> str:
        return self.random.choice(("[]", "torch.tensor([], dtype=torch.int64)", "np.array([], dtype=np.int64)"))


def line(source: random.Random) -> tuple[str, str, str]:
    """(the tensor, the index, the value)."""
    shape = source.choice(SHAPES)
    size = int(np.prod(shape))
    layout = source.choice(("", ".mT.contiguous().mT")) if len(shape) > 1 else ""
    tensor = f"(torch.arange({size}) % 5).reshape({shape}).to(torch.{source.choice(KINDS)}){layout}"
    return tensor, Maker(source, shape).index(), source.choice(VALUES)


class Case:
    """A line, run in one library."""

    def __init__(self, torch: Any, text: tuple[str, str, str]) -> None:
        self.scope = {"torch": torch, "np": np}
        self.tensor, self.index, self.value = text
        self.torch = torch

    def _run(self, statement: str) -> tuple:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(statement, self.scope)
                outcome: tuple = ("done",)
            except Exception as error:  # noqa: BLE001 - whatever it raises is compared
                outcome = (type(error).__name__, str(error).split("\n")[0].replace("mindtorch_v2", "torch")[:70])
        return outcome if outcome[0] != "done" else (*outcome, [str(w.message)[:50] for w in caught])

    def _seen(self, name: str) -> tuple:
        tensor = self.scope[name]
        return str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), tensor.tolist(), tensor._version

    def results(self) -> Iterator[tuple[str, tuple]]:
        self._run(f"x = {self.tensor}")
        self.scope["shown"] = self.scope["x"]
        read = self._run(f"shown = x[{self.index}]")
        yield f"x[{self.index}]", (read, self._seen("shown") if read[0] == "done" else ())
        written = self._run(f"x[{self.index}] = {self.value}")
        yield f"x[{self.index}] = {self.value}", (written, self._seen("x") if written[0] == "done" else ())


def differences(text: tuple[str, str, str], torch: Any, ours: Any) -> Iterator[str]:
    """What is not the same; each with the lines that show it."""
    for (statement, expected), (_, got) in zip(Case(torch, text).results(), Case(ours, text).results(), strict=True):
        if repr(expected) != repr(got):
            yield f"x = {text[0]}\n{statement}\n    PyTorch {expected!r:.300}\n    here    {got!r:.300}"


def run(count: int, seed: int, torch: Any, ours: Any) -> tuple[list[str], collections.Counter]:
    """The differences of so many lines, and how their reads ended."""
    source, found, outcomes = random.Random(seed), [], collections.Counter[str]()
    lines: Any = range(count)
    if sys.stderr.isatty():
        from tqdm import tqdm

        lines = tqdm(lines)
    for _ in lines:
        text = line(source)
        outcomes[next(Case(torch, text).results())[1][0][0]] += 1
        found += differences(text, torch, ours)
    return found, outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import torch

    import mindtorch_v2

    found, outcomes = run(options.count, options.seed, torch, mindtorch_v2)
    for text in found:
        print(text)
    print(f"{options.count} indices (seed {options.seed}; read: {dict(outcomes)}): {len(found)} differences")
    sys.exit(bool(found))
