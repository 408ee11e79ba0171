"""Writes into memory that several elements, or several arguments, share: refused as PyTorch refuses them.

    python tests/parity/overlapping_memory.py
    python tests/parity/overlapping_memory.py --ops '^index' --samples 4 --dtypes float32,int64

Every entry of PyTorch's operator database that has an in-place form or takes `out=` writes, in both libraries, into a
target that is expanded, or that lies over one of the operands, in several ways. Both must take the call or refuse it
with the same error, and a refused call may change nothing. What comes out of a call that both take is not compared:
it depends on the order of the loops.
"""

import argparse
import collections
import functools
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from bridge import Bridge, Unavailable, attempt, dtype_name
from random_programs import normalised
from run_opdb import callable_in, database, entry_name, op_name, seed

SHIFT = 16  # bytes from a target to the operand that lies over it; a multiple of every element's size
SKIPPED = re.compile(r"resize|set_$|^empty|^new_empty")  # which take any memory, and leave it as it is
# PyTorch's operators that do not look at memory, or not at all of it: refused here (docs/differences.md).
REFUSED_ONLY_HERE = frozenset("""
    addmv mv addbmm baddbmm cummax cummin kthvalue sort ldexp lu_unpack matmul native_batch_norm
    _native_batch_norm_legit nn.functional.avg_pool3d nn.functional.threshold narrow_copy _chunk_cat histc tril triu
    norm fft.ifft fft.ihfft fft.ihfftn linalg.vecdot linalg.lu linalg.matrix_rank linalg.matrix_rank.hermitian
    special.ndtr split_with_sizes_copy unbind_copy
""".split())
# How else a call may end here than there.
OTHERWISE = {
    ("lu_unpack", "pivots passed to lu_unpack must be between 1"): "PyTorch writes over the pivots, then reads them",
    ("addr", "2D tensor expected, got 3D tensor for input"): "said in other words",
    ("nn.functional.gelu", "could not construct a memory descriptor"): "said by a library below PyTorch",
}
SHARED_MEMORY = "refers? to a single memory location"
GEOMETRIES = ("expanded", "rows", "windows", "oversized")
OVERLAPS = ("same", "shifted", "permuted", "itself")


class Call(NamedTuple):
    """A write: `form` is "in-place", "flag" (inplace=True) or "out=", `target` the number of the result written to."""

    form: str
    arrangement: str
    target: int = 0
    operand: int = -1

    def __str__(self) -> str:
        over = f" over operand {self.operand}" if self.operand >= 0 else ""
        return f"{self.form} {self.arrangement}{over}" + (f" (result {self.target})" if self.target else "")


class Outcome(NamedTuple):
    """What a call raised, if anything, and whether memory changed."""

    error: str | None
    changed: bool


def flat_tensors(values: Any, kind: type) -> list[Any]:
    """The tensors of a sample in order, with those in lists."""
    if isinstance(values, kind):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in flat_tensors(value, kind)]
    if isinstance(values, dict):
        return [tensor for value in values.values() for tensor in flat_tensors(value, kind)]
    return []


def replaced(values: Any, old: Any, new: Any) -> Any:
    """The same values with `new` in the place of the tensor `old`."""
    if values is old:
        return new
    if type(values) in (list, tuple):
        return type(values)(replaced(value, old, new) for value in values)
    if isinstance(values, dict):
        return {key: replaced(value, old, new) for key, value in values.items()}
    return values


def with_shared_elements(tensor: Any, arrangement: str) -> Any:
    """A tensor of the same size and type in which several elements are one."""
    if arrangement == "expanded":
        return tensor.reshape(-1)[:1].expand(tensor.shape)
    if arrangement == "rows":
        return tensor[:1].expand(tensor.shape)
    if arrangement == "oversized":
        return tensor.reshape(-1)[:1].expand((2, *tensor.shape))
    return tensor.as_strided(tensor.shape, (1,) * tensor.dim())


def over_another(library: Any, target: Any, operand: Any, arrangement: str) -> tuple[Any, Any]:
    """Copies of a target and an operand that lie in one storage; the operand's values are right, not the target's."""
    if arrangement == "itself":
        return operand, operand
    start = SHIFT if arrangement == "shifted" else 0
    sizes = [tensor.numel() * tensor.element_size() for tensor in (target, operand)]
    storage = library.zeros(max(sizes[0], start + sizes[1]), dtype=library.uint8).untyped_storage()

    def placed(tensor: Any, begin: int, strides: tuple[int, ...]) -> Any:
        made = library.empty(0, dtype=tensor.dtype)
        made.set_(storage, begin // tensor.element_size(), tensor.shape, strides)
        return made

    def strides(tensor: Any, *, permuted: bool) -> tuple[int, ...]:
        order = range(tensor.dim()) if permuted else reversed(range(tensor.dim()))
        found, step = [0] * tensor.dim(), 1
        for dim in order:
            found[dim], step = step, step * max(tensor.shape[dim], 1)
        return tuple(found)

    written = placed(target, 0, strides(target, permuted=False)).copy_(target)
    read = placed(operand, start, strides(operand, permuted=arrangement == "permuted")).copy_(operand)
    return written, read


class Side:
    """One library, and how it runs a sample's call."""

    def __init__(self, module: str) -> None:
        self.bridge = Bridge(module)
        self.library = self.bridge.library

    def arguments(self, sample: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        self.bridge.forget()
        subject, args, kwargs = self.bridge.value([sample.input, list(sample.args), dict(sample.kwargs)])
        return subject, args, kwargs

    def results(self, entry: Any, sample: Any) -> tuple[Any, ...]:
        """What the functional form returns."""
        subject, args, kwargs = self.arguments(sample)
        seed(self.library, 0)
        made = callable_in(self.bridge, entry)(subject, *args, **kwargs)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    def run(self, entry: Any, sample: Any, call: Call, shapes: list[tuple]) -> Outcome:
        """What becomes of a call; `shapes` are size and type of its results."""
        library = self.library
        values: Any = list(self.arguments(sample))
        operands = flat_tensors(values, library.Tensor)
        with library.no_grad():
            if call.form == "out=":
                targets = [library.zeros(shape, dtype=self.bridge.value(kind)) for shape, kind in shapes]
                target = targets[call.target]
            else:
                target = operands[0]
            if call.operand >= 0:
                operand = operands[call.operand]
                new, over = over_another(library, target.detach(), operand.detach(), call.arrangement)
                values = replaced(values, operand, over)
            else:
                new = with_shared_elements(target.detach(), call.arrangement)
            if call.form == "out=":
                targets[call.target] = new
            else:
                values = replaced(values, target, new)
            subject, args, kwargs = values
            before, version = new.untyped_storage().tolist(), new._version
            if call.form == "in-place":
                subject = None
                function = functools.partial(getattr(library.Tensor, f"{op_name(entry)}_"), new)
            elif call.form == "flag":
                function = functools.partial(callable_in(self.bridge, entry), subject, inplace=True)
                kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
            else:
                function = functools.partial(callable_in(self.bridge, entry), subject,
                                             out=targets[0] if len(targets) == 1 else tuple(targets))
            seed(library, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, error = attempt(lambda: function(*args, **kwargs))
            changed = new._version != version or new.untyped_storage().tolist() != before
        return Outcome(error and f"{type(error).__name__}: {normalised(str(error))}", changed)


def has_flag(function: Any) -> bool:
    parameters, _ = attempt(lambda: inspect.signature(function).parameters)
    return parameters is not None and "inplace" in parameters


def calls_of(entry: Any, sample: Any, shapes: list[tuple]) -> Iterator[Call]:
    """The writes to try with one sample."""
    values = [sample.input, list(sample.args), dict(sample.kwargs)]
    operands = flat_tensors(values, torch.Tensor)
    name = op_name(entry)
    forms = []
    if isinstance(sample.input, torch.Tensor) and hasattr(torch.Tensor, f"{name}_"):
        forms.append(("in-place", 0, sample.input))
    if isinstance(sample.input, torch.Tensor) and has_flag(entry.op):
        forms.append(("flag", 0, sample.input))
    if entry.supports_out:
        forms += [("out=", at, torch.empty(shape, dtype=kind)) for at, (shape, kind) in enumerate(shapes)]
    for form, at, target in forms:
        if target.numel() > 1:
            yield from (Call(form, arrangement, at) for arrangement in GEOMETRIES
                        if arrangement != "rows" or target.dim() > 1 and target.shape[0] > 1)
        for place, operand in enumerate(operands):
            if operand is target or operand.layout is not torch.strided or not operand.numel() or not target.numel():
                continue
            alike = operand.shape == target.shape and operand.dtype == target.dtype
            for arrangement in OVERLAPS:
                if arrangement in ("permuted", "itself") and not alike:
                    continue
                if arrangement == "permuted" and operand.dim() < 2:
                    continue
                if arrangement == "shifted" and target.numel() * target.element_size() <= SHIFT:
                    continue
                yield Call(form, arrangement, at, place)


def entries_of(pattern: str = "") -> list[Any]:
    """The entries of the database whose names match."""
    return [entry for name, entry in database().items() if re.search(pattern, name) and not SKIPPED.search(name)]


def samples_of(entry: Any, dtype: torch.dtype, count: int) -> list[Any]:
    """The first samples with elements, of at most 200 of them."""
    seed(torch, 0)
    made, error = attempt(lambda: list(entry.sample_inputs("cpu", dtype, requires_grad=False)))
    found: list[Any] = []
    for sample in made if error is None else ():
        tensors = flat_tensors([sample.input, list(sample.args), dict(sample.kwargs)], torch.Tensor)
        if tensors and all(0 < t.numel() <= 200 and t.layout is torch.strided for t in tensors):
            found.append(sample)
    return sorted(found, key=lambda sample: -sum(t.numel() for t in flat_tensors(sample.input, torch.Tensor)))[:count]


def differences(entry: Any, reference: Side, candidate: Side, dtypes: list[str],
                count: int) -> Iterator[tuple[str, str]]:
    """Each call that ends otherwise than in PyTorch: what was called, and how the two ended; "" if they agree."""
    supported = entry.supported_dtypes("cpu")
    for kind in (getattr(torch, name) for name in dtypes):
        if kind not in supported:
            continue
        for number, sample in enumerate(samples_of(entry, kind, count)):
            results, error = attempt(lambda: reference.results(entry, sample))  # noqa: B023
            if error is not None or not all(isinstance(r, torch.Tensor) for r in results):
                continue
            shapes = [(tuple(result.shape), result.dtype) for result in results]
            for call in calls_of(entry, sample, shapes):
                where = f"{entry_name(entry)}, {dtype_name(kind)}, sample {number}, {call}"
                expected, error = attempt(lambda: reference.run(entry, sample, call, shapes))  # noqa: B023
                if error is not None:
                    continue  # an arrangement that cannot be made
                got, error = attempt(lambda: candidate.run(entry, sample, call, shapes))  # noqa: B023
                if error is not None:
                    if not isinstance(error, Unavailable):
                        yield where, f"cannot be arranged: {type(error).__name__}: {error}"
                elif not ends_alike(entry_name(entry), expected.error, got.error):
                    yield where, f"{expected.error or 'taken'}  |  {got.error or 'taken'}"
                elif got.error and got.changed:
                    yield where, f"refused, and yet changed: {got.error}"
                else:
                    yield where, ""


def ends_alike(name: str, expected: str | None, got: str | None) -> bool:
    """Whether a call ends here as in PyTorch, or in a way that is known."""
    if expected is None:
        return got is None or name in REFUSED_ONLY_HERE and re.search(SHARED_MEMORY, got) is not None
    if got is not None and expected.startswith("TypeError"):
        return got.startswith(expected)  # the schema follows
    return expected == got or any(name == entry and text in expected for entry, text in OTHERWISE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="", help="a regular expression of entries")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--dtypes", default="float32,int64")
    options = parser.parse_args()
    entries = entries_of(options.ops)
    if sys.stderr.isatty():
        from tqdm import tqdm

        entries = tqdm(entries)
    reference, candidate = Side("torch"), Side("mindtorch_v2")
    counts: collections.Counter[bool] = collections.Counter()
    for entry in entries:
        for where, text in differences(entry, reference, candidate, options.dtypes.split(","), options.samples):
            counts[bool(text)] += 1
            if text:
                print(f"{where}: {text}", flush=True)
    print(f"{counts[True]} of {counts.total()} writes end differently")
    return 1 if counts[True] else 0


if __name__ == "__main__":
    sys.exit(main())
