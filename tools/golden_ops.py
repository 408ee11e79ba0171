"""Writes tests/mindtorch_v2/golden/operators: what PyTorch answers to the samples of every operator, one file a family.

Run with PyTorch installed: python tools/golden_ops.py, or with --family pool for the operators of _ops/pool.py alone.
For each case and element type the file has the outcome: the error's type and text, or structure, types, shapes, strides
and values. Values lie in one pool of bytes; the index beside it is JSON.
"""

import argparse
import collections
import importlib
import json
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

ROOT = pathlib.Path(__file__).parent.parent
TESTS = ROOT / "tests" / "mindtorch_v2"
TARGET = TESTS / "golden" / "operators"
sys.path += [str(ROOT / "src"), str(TESTS)]

import operator_cases as samples  # noqa: E402

STORED = ("float32", "float64", "int64", "int32", "bool", "complex64")  # other types: the outcome without values


class Pool:
    """Values of all results, one after the other."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.known: dict[bytes, int] = {}

    def add(self, content: bytes) -> int:
        """Where the content lies; equal content is stored once."""
        at = self.known.get(content)
        if at is None:
            at = self.known[content] = self.size
            self.parts.append(content)
            self.size += len(content)
        return at


def found_in_torch(place: str, name: str) -> Any:
    """PyTorch's object at a public place, None if there is none."""
    owner: Any = {"torch": torch, "Tensor": torch.Tensor}.get(place)
    if owner is None:
        try:
            owner = importlib.import_module(f"torch.{place}")
        except ModuleNotFoundError:
            return None
    return getattr(owner, name, None)


def function_of(declaration: samples.Declaration) -> Callable | None:
    """PyTorch's function for an operator; None if it has none."""
    for place, name in samples.public_places(declaration):
        function = found_in_torch(place, name)
        if function is not None:
            return function
    schema = declaration.operator.schema
    packet = getattr(torch.ops.aten, schema.base_name, None)
    return getattr(packet, schema.overload or "default", None)


def described(tensor: torch.Tensor, inputs: list[torch.Tensor], pool: Pool, store: bool) -> list:
    """[dtype, shape, strides, whether it shares memory with an input, place of the values or -1]."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    at = -1
    if store:
        carried = plain.to(torch.float32) if plain.dtype in (torch.bfloat16, torch.float16) else plain
        at = pool.add(np.ascontiguousarray(carried.numpy()).tobytes())
    memory = tensor.untyped_storage().data_ptr()
    shares = tensor.numel() > 0 and any(memory == i.untyped_storage().data_ptr() for i in inputs)
    return [str(tensor.dtype)[6:], list(tensor.shape), list(tensor.stride()), shares, at]


def outcome(call: samples.Call, dtype: str, function: Callable, pool: Pool) -> dict:
    """What one call gives in one element type."""
    tensors = samples.bases(call, torch, dtype)
    args, kwargs = samples.arguments(call, torch, tensors)
    store = dtype in STORED and samples.base_name(call.declaration) not in samples.UNINITIALISED
    try:
        result = function(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
        return {"error": type(error).__name__, "text": str(error)[:300]}
    described_leaves = [
        described(leaf, tensors, pool, store) if isinstance(leaf, torch.Tensor) else plain_value(leaf)
        for leaf in samples.leaves(result)
    ]
    record = {"structure": samples.structure(result), "leaves": described_leaves}
    returned = {id(leaf) for leaf in samples.leaves(result)}
    changed = {str(i): described(t, [], pool, store) for i, t in enumerate(tensors)
               if t._version and id(t) not in returned}  # fmt: skip
    return record | ({"changed": changed} if changed else {})


def attempt(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """(result, None), or (None, name of the error)."""
    try:
        return call(), None
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        return None, type(error).__name__


def derivative(call: samples.Call, function: Callable) -> dict:
    """Which tensors of the result need grad when the inputs do, and whether backward and gradcheck then work."""
    tensors = samples.bases(call, torch, "float64")
    wanted = samples.require_grad(call, tensors)

    def outputs(*inputs: torch.Tensor) -> list[torch.Tensor]:
        given = list(tensors)
        for i, tensor in zip(wanted, inputs, strict=True):
            given[i] = tensor
        args, kwargs = samples.arguments(call, torch, samples.writable(call, given))
        return [leaf for leaf in samples.leaves(function(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]

    def differentiated(*inputs: torch.Tensor) -> tuple:
        return tuple(leaf for leaf in outputs(*inputs) if leaf.requires_grad)

    inputs = [tensors[i] for i in wanted]
    made, refused = attempt(lambda: outputs(*inputs)) if wanted else (None, "no input")
    if refused:
        return {}
    record = {"needs_grad": [leaf.requires_grad for leaf in made]}
    chosen = [leaf for leaf in made if leaf.requires_grad]
    if not chosen:
        return record
    ones = [torch.ones_like(leaf) for leaf in chosen]
    _, error = attempt(lambda: torch.autograd.grad(chosen, inputs, ones, allow_unused=True))
    if error is None and samples.has_kinks(call):
        wrong = [attempt(lambda: check(differentiated, inputs))[1]  # noqa: B023
                 for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck)]  # fmt: skip
        record["smooth"] = not any(wrong)
    return record | {"backward": error}


def on_meta(call: samples.Call, function: Callable) -> dict:
    """Whether PyTorch answers the call on the meta device, and differentiates it there."""
    tensors = samples.bases(call, torch, "float64", "meta")
    wanted = samples.require_grad(call, tensors)
    args, kwargs = samples.arguments(call, torch, samples.writable(call, tensors), "meta")
    result, error = attempt(lambda: function(*args, **kwargs))
    if error is not None:
        return {"meta": error}
    chosen = [leaf for leaf in samples.leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    ones = [torch.ones_like(leaf) for leaf in chosen]
    inputs = [tensors[i] for i in wanted]
    if chosen:
        _, error = attempt(lambda: torch.autograd.grad(chosen, inputs, ones, allow_unused=True))
    return {"meta": None, "meta_backward": error}


def plain_value(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def out_forms(call: samples.Call, function: Callable) -> dict:
    """How PyTorch answers `out=`: whether it takes it, and into a wrong size or a wrong type."""

    def answer(make: Callable[[torch.Tensor], torch.Tensor]) -> dict:
        args, kwargs = samples.arguments(call, torch, samples.bases(call, torch, "float32"))
        given = tuple(make(leaf) for leaf in samples.leaves(result))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                function(*args, **kwargs, out=given if isinstance(result, (tuple, list)) else given[0])
            except (RuntimeError, TypeError, ValueError) as error:
                return {"error": type(error).__name__}
        return {"resized": any("was resized" in str(w.message) for w in caught)}

    args, kwargs = samples.arguments(call, torch, samples.bases(call, torch, "float32"))
    result = function(*args, **kwargs)
    if not all(isinstance(leaf, torch.Tensor) for leaf in samples.leaves(result)) or isinstance(result, list):
        return {"taken": False}
    if "error" in answer(lambda leaf: leaf.new_empty(0)):
        return {"taken": False}
    return {
        "taken": True,
        "wrong_size": answer(lambda leaf: leaf.new_empty((*leaf.shape, 2))),
        "wrong_type": answer(lambda leaf: torch.empty(leaf.shape, dtype=torch.int8)),
    }


def record_of(declaration: samples.Declaration, pool: Pool) -> dict:
    record: dict[str, Any] = {"fingerprint": samples.fingerprint(declaration)}
    function = function_of(declaration)
    if function is None:
        return record | {"skip": "PyTorch has no such operator"}
    run = samples.seeded(declaration, torch, function)
    secondary = {call.index for call in samples.secondary_calls(declaration)}
    record["cases"] = []
    for call in samples.calls(declaration):
        dtypes = (samples.PRIMARY, *(samples.SECONDARY if call.index in secondary else ()))
        record["cases"].append({dtype: outcome(call, dtype, run, pool) for dtype in dtypes})
    good = [call for call in samples.good_calls(declaration) if "error" not in record["cases"][call.index]["float32"]]
    if samples.is_internal(declaration) and len(good) < len(samples.good_calls(declaration)):
        return {
            "fingerprint": record["fingerprint"],
            "skip": "internal: PyTorch's operator of this name takes other arguments",
        }
    for call in samples.calls(declaration):
        record["cases"][call.index] |= on_meta(call, run)
    for call in good:
        record["cases"][call.index] |= derivative(call, run)
    record["out"] = out_forms(good[0], run) if good else {"taken": False}
    return record


def complaints(name: str, declaration: samples.Declaration, record: dict) -> list[str]:
    """Samples that claim something else than PyTorch does."""
    found = []
    for call, outcomes in zip(samples.calls(declaration), record.get("cases", ()), strict=False):
        got, raises = outcomes[samples.PRIMARY], call.case.raises
        if raises is None and "error" in got:
            found.append(f"{name} {call}: PyTorch raises {got['error']}: {got['text'].splitlines()[0]}")
        elif raises is not None and "error" not in got:
            found.append(f"{name} {call}: PyTorch does not raise")
        elif raises is not None and (got["error"] != raises[0].__name__ or raises[1] not in got["text"]):
            found.append(f"{name} {call}: PyTorch raises {got['error']}: {got['text'].splitlines()[0]}")
    return found


def write(family: str, index: dict[str, dict], pool: Pool) -> None:
    """Stores the answers to one family's samples."""
    text = json.dumps(index, separators=(",", ":")).encode()
    np.savez_compressed(
        TARGET / f"{family}.npz",
        index=np.frombuffer(text, np.uint8),
        values=np.frombuffer(b"".join(pool.parts), np.uint8),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only list samples that PyTorch contradicts")
    parser.add_argument("--family", action="append", help="a module of _ops by its name; all of them if not given")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    by_family: dict[str, dict[str, samples.Declaration]] = collections.defaultdict(dict)
    for name, declaration in samples.sampled().items():
        by_family[samples.family(declaration)][name] = declaration
    for path in TARGET.glob("*.npz"):
        if path.stem not in by_family and not options.check:
            path.unlink()
    for family in options.family or by_family:
        pool, index = Pool(), {}
        for name, declaration in by_family[family].items():
            index[name] = record_of(declaration, pool)
            for complaint in complaints(name, declaration, index[name]):
                print(complaint)
        if not options.check:
            write(family, index, pool)
    unknown = sorted(f"{place}.{name}" for place, functions in samples.PUBLIC.items() for name in functions
                     if not place.startswith("_") and found_in_torch(place, name) is None)  # fmt: skip
    print(f"names that PyTorch does not have: {', '.join(unknown)}")
    if not options.check:
        (TARGET / "unknown_names.json").write_text(json.dumps(unknown) + "\n")


if __name__ == "__main__":
    main()
