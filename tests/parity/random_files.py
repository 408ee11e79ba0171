"""Random files: hostile ones that must do no harm, damaged ones and good ones that PyTorch must read alike.

    python tests/parity/random_files.py --count 3000 --seed 1

Of `count` files one in ten is a good one: a random value, saved by either library in either format and loaded by the
other. Two in ten are damaged ones, loaded by both libraries: what PyTorch loads must be loaded alike here, or refused
for a reason that docs/differences.md gives. The others come from the generator in
tests/mindtorch_v2/hostile_files.py, which begins with files of PyTorch too.
"""

import argparse
import collections
import io
import os
import pathlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import mindtorch_v2

sys.path.append(str(pathlib.Path(__file__).parents[1] / "mindtorch_v2"))

from hostile_files import Generator  # noqa: E402
from hostile_loader import Loader  # noqa: E402
from pickle_assembly import good_files  # noqa: E402

DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32"
).split()
OF_OLD_CLASSES = DTYPES[:12]  # of the others PyTorch cannot read the old files that it writes
PARTS = {
    "coo": ("_indices", "_values", "is_coalesced"),
    "csr": ("crow_indices", "col_indices", "values"),
    "csc": ("ccol_indices", "row_indices", "values"),
}
# Why a file that PyTorch loads is refused here; docs/differences.md has each.
REFUSED = (
    "is compressed",
    "more than once",
    "not a plain path",
    "not in a subdirectory",
    "is encrypted",
    "has no proper",
    "The pickle is malformed",
    "reach into what follows",
    "Trying to resize storage that is not resizable",
    "its header names another file",
    "invalid header or archive is corrupted",
    "numel: integer multiplication overflow",
    "Storage size calculation overflowed",
    "does not hold the bytes",
    "elements, where",
    "claims storages of",
    "truncated",
    "more bytes. The file might be corrupted",
    "failed finding central directory",
    "Cannot load TorchScript archives",
    "is not satisfied",
    "size is inconsistent with indices",
    "found negative index",
    "is_coalesced",
    "that nothing in it refers to",
)


# good files -----------------------------------------------------------------------------------------------------------


class Recipe:
    """A random value, made equally by either library."""

    def __init__(self, seed: str, old: bool) -> None:
        self.seed, self.dtypes = seed, OF_OLD_CLASSES if old else DTYPES

    def value(self, lib: Any) -> Any:
        choose = random.Random(self.seed)
        bases = [self.base(lib, choose) for _ in range(choose.randrange(1, 4))]
        return self.item(lib, choose, bases, 3)

    def base(self, lib: Any, choose: random.Random) -> Any:
        count = choose.choice((0, 16, 64))
        data = lib.tensor([choose.randrange(2) for _ in range(count)], dtype=lib.uint8)
        name = choose.choice(self.dtypes)
        return data.to(lib.bool) if name == "bool" else data.view(getattr(lib, name))

    def item(self, lib: Any, choose: random.Random, bases: list[Any], depth: int) -> Any:
        makers: list[Callable[[], Any]] = [
            lambda: self.view(choose, choose.choice(bases)),
            lambda: self.view(choose, choose.choice(bases)),
            lambda: lib.nn.Parameter(lib.ones(choose.randrange(3)), requires_grad=choose.random() < 0.5),
            lambda: lib.ones(2, requires_grad=True),
            lambda: lib.empty(choose.randrange(3), 2, device="meta"),
            lambda: self.sparse(lib, choose),
            lambda: lib.arange(4, dtype=lib.uint8).untyped_storage(),
            lambda: choose.choice((None, True, 1.5, -(2**70), "text ä", b"\xff", bytearray(b"a"), 2j, {1, 2})),
            lambda: choose.choice((lib.Size([2, 3]), lib.device("cuda:1"), lib.float8_e5m2, lib.strided)),
            lambda: self.tagged(lib),
        ]
        if depth:
            makers += [
                lambda: [self.item(lib, choose, bases, depth - 1) for _ in range(choose.randrange(4))],
                lambda: tuple(self.item(lib, choose, bases, depth - 1) for _ in range(choose.randrange(4))),
                lambda: {
                    key: self.item(lib, choose, bases, depth - 1) for key in ("a", 1, (2, "b"))[: choose.randrange(4)]
                },
                lambda: collections.OrderedDict(w=self.item(lib, choose, bases, depth - 1)),
            ] * 2
        return choose.choice(makers)()

    def view(self, choose: random.Random, base: Any) -> Any:
        if base.numel() < 4:
            return base
        return choose.choice(
            (
                lambda: base,
                lambda: base[1:],
                lambda: base[::2],
                lambda: base[0],
                lambda: base[:0],
                lambda: base[:4].view(2, 2).t(),
                lambda: base[:1].expand(3),
                lambda: base[2:4].unsqueeze(0),
            )
        )()

    def tagged(self, lib: Any) -> Any:
        made = lib.zeros(2)
        made.note = "kept"
        return made

    def sparse(self, lib: Any, choose: random.Random) -> Any:
        dense = lib.tensor([[float(choose.randrange(2)) for _ in range(3)] for _ in range(2)])
        return choose.choice(
            (lambda: dense.to_sparse(), lambda: dense.to_sparse_csr(), lambda: dense.to_sparse_csc())
        )()


def _plain(part: Any) -> Any:
    return part if isinstance(part, bool) else part.tolist()


def description(value: Any, storages: dict[int, int]) -> Any:
    """What can be told of a value of either library: kinds, geometry, bits, and which tensors share memory."""
    kind = type(value).__name__
    if kind in ("Tensor", "Parameter"):
        flags = kind, str(value.dtype), str(value.device), str(value.layout), tuple(value.shape), value.requires_grad
        if "sparse" in str(value.layout):  # to_dense of PyTorch would write to wherever damaged indices point
            parts = PARTS[str(value.layout).removeprefix("torch.sparse_")]
            return *flags, *(_plain(getattr(value.detach(), part)()) for part in parts)
        if value.is_meta:
            return *flags, value.stride()
        if value.is_complex():  # which may carry the mark of a conjugate in PyTorch
            return *flags, value.stride(), value.storage_offset(), repr(value.resolve_conj().tolist())
        storage = value.detach().untyped_storage()
        return (
            *flags,
            value.stride(),
            value.storage_offset(),
            getattr(value, "note", None),
            storage.tolist(),
            storages.setdefault(storage.data_ptr(), len(storages)) if storage.nbytes() else None,
        )
    if kind == "UntypedStorage":
        return kind, value.tolist()
    if kind == "TypedStorage":  # so PyTorch loads the other
        return "UntypedStorage", value.untyped().tolist()
    if isinstance(value, dict):
        return kind, [(repr(key), description(item, storages)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return kind, [description(item, storages) for item in value]
    return kind, value.__name__ if isinstance(value, type) else str(value)


def saved(lib: Any, value: Any, old: bool) -> bytes:
    made = io.BytesIO()
    lib.save(value, made, _use_new_zipfile_serialization=not old)
    return made.getvalue()


def good_file_differs(seed: str) -> str | None:
    """What is not carried from one library into the other, of one value; None if everything is."""
    old = random.Random(seed).random() < 0.5
    recipe = Recipe(seed, old)
    for writer, reader in ((torch, mindtorch_v2), (mindtorch_v2, torch)):
        value = recipe.value(writer)
        wanted = description(value, {})
        for weights_only in (True, False):
            data = saved(writer, value, old)
            found = description(reader.load(io.BytesIO(data), weights_only=weights_only), {})
            if found != wanted:
                return f"{writer.__name__} to {reader.__name__}, {'old' if old else 'zip'}: {found} for {wanted}"
    return None


# damaged files --------------------------------------------------------------------------------------------------------


def damaged_file_differs(data: bytes) -> str | None:
    """How the libraries differ on a file that PyTorch loads; None if they do not, or for a known reason."""
    results: list[Any] = []
    for lib in (torch, mindtorch_v2):
        try:
            results.append(description(lib.load(io.BytesIO(data)), {}))
        except Exception as error:  # noqa: BLE001 - damaged files raise anything in PyTorch
            results.append(error)
    theirs, ours = results
    if isinstance(theirs, Exception):  # here it may lie in a part of the file that is not looked at
        return None
    if isinstance(ours, Exception):
        return None if any(reason in str(ours) for reason in REFUSED) else f"PyTorch loads it; here {ours}"
    return None if ours == theirs else f"{ours} for {theirs}"


# all of them ----------------------------------------------------------------------------------------------------------


def complaints(seed: int, numbers: Any) -> Iterator[tuple[int, str]]:
    """The numbers of the files that are not treated as they should be, and what is wrong."""
    generator = Generator(seed, [*good_files(torch), *good_files(mindtorch_v2)])
    damages = (generator.mutated_bytes, generator.mutated_members)
    with Loader() as loader, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in numbers:
            if index % 10 == 0:
                found = good_file_differs(f"{seed}-{index}")
            elif index % 10 < 3:
                generator.random.seed(f"{seed}-{index}")
                found = damaged_file_differs(damages[index % 10 - 1]())
            else:
                found = loader.complaint(generator.file(index)[1])
            if found is not None:
                yield index, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first file")
    args = parser.parse_args()
    numbers: Any = range(args.first, args.first + args.count)
    if sys.stderr.isatty():
        from tqdm import tqdm

        numbers = tqdm(numbers)
    count = 0
    for index, found in complaints(args.seed, numbers):
        count += 1
        print(f"{found[:1000]} | {os.path.basename(__file__)} --seed {args.seed} --first {index} --count 1", flush=True)
    print(f"{args.count} files, {count} complaints")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
