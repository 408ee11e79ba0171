"""Files that were made to harm, or were damaged.

    python tests/mindtorch_v2/hostile_files.py --count 3000 --seed 1

prints each file that hung, ran or imported something, ended in an internal error, or needed more memory than its size
allows, with the line that makes it again; and a summary.
"""

import argparse
import collections
import os
import pickletools
import random
import struct
import sys
import zipfile
from collections.abc import Callable
from typing import Any

from hostile_loader import Loader
from pickle_assembly import (
    FLOATS,
    HOOKS,
    archive,
    call,
    good_files,
    list_of,
    name,
    nested_tuples,
    number,
    numbers,
    old_parts,
    old_storage,
    pickled,
    read_members,
    storage,
    tensor,
    text,
    tuple_of,
    write_members,
)

BOMB = nested_tuples(60, 2)
CALLED = (
    "collections.OrderedDict",
    "collections.Counter",
    "builtins.set",
    "builtins.bytearray",
    "builtins.complex",
    "_codecs.encode",
    "torch.Size",
    "torch.device",
    "torch.serialization._get_layout",
    "torch._tensor._rebuild_from_type_v2",
    *(
        f"torch._utils._rebuild_{what}"
        for what in (
            "tensor",
            "tensor_v2",
            "tensor_v3",
            "parameter",
            "parameter_with_state",
            "meta_tensor_no_storage",
            "wrapper_subclass",
            "sparse_tensor",
        )
    ),
)
NAMED = (
    *CALLED,
    "torch.float32",
    "torch.complex64",
    "torch.int64",
    "torch.bool",
    "torch.uint16",
    "torch.int4",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.FloatStorage",
    "torch.storage.UntypedStorage",
    "torch.LongStorage",
    "torch.storage.TypedStorage",
    "torch.FloatTensor",
    "os.system",
    "builtins.eval",
    "torch.load",
    "copyreg._reconstructor",
    "torch._utils._rebuild_qtensor",
    "numpy.core.multiarray._reconstruct",
)
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    6,
    24,
    64,
    65,
    127,
    255,
    256,
    1 << 16,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 40,
    (1 << 61) - 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
    -(1 << 63),
    1 << 70,
    1 << 1000,
)
TEXTS = (
    "",
    "0",
    "1",
    "cpu",
    "cuda:0",
    "cuda:99999999999",
    "meta",
    "moon",
    "storage",
    "module",
    "latin1",
    "latin-1",
    "idna",
    "zlib",
    "punycode",
    "conj",
    "neg",
    "torch.strided",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "torch.sparse_bsr",
    "torch.os",
    "_array",
    "__class__",
    "a" * 300,
    "../data.pkl",
    "\0",
    "ä",
)
LONGS = "torch.LongStorage"


class Generator:
    """Hostile files, the same for the same seed; mutations begin with files that are good."""

    def __init__(self, seed: int, good: list[bytes]) -> None:
        self.seed, self.good, self.random = seed, good, random.Random(seed)
        self.ways: list[Callable[[], bytes]] = [
            self.crafted_call,
            self.crafted_call,
            self.crafted_storage,
            self.crafted_container,
            self.crafted_old,
            self.mutated_pickle,
            self.mutated_pickle,
            self.mutated_bytes,
            self.mutated_members,
            self.repeated,
        ]

    def file(self, index: int) -> tuple[str, bytes]:
        """The file with that number, and the way that it was made."""
        self.random.seed(f"{self.seed}-{index}")
        way = self.ways[index % len(self.ways)]
        return way.__name__, way()

    def pick(self, values: Any) -> Any:
        return self.random.choice(values)

    def value(self, depth: int = 2) -> bytes:
        """A value of any kind."""
        makers: list[Callable[[], bytes]] = [
            lambda: number(self.pick(INTEGERS)),
            lambda: text(self.pick(TEXTS)),
            lambda: name(self.pick(NAMED)),
            lambda: self.pick((b"N", b"\x88", b"\x89", b")", b"]", b"}", b"\x8f", HOOKS)),
            lambda: b"G" + struct.pack(">d", self.pick((0.0, 1.5, float("inf"), float("nan"), 1e308))),
            lambda: BOMB,
            lambda: nested_tuples(self.random.randrange(1, 300)),
            storage,
            lambda: tensor(storage(), number(self.pick((0, 0, 1))), self.sizes(), self.sizes()),
            self.longs,
            self.sizes,
            lambda: call("_codecs.encode", text("abc"), text("latin1")),
        ]
        if depth:
            makers += [
                lambda: tuple_of(*(self.value(depth - 1) for _ in range(self.random.randrange(5)))),
                lambda: list_of(*(self.value(depth - 1) for _ in range(self.random.randrange(5)))),
                lambda: (
                    b"}("
                    + b"".join(self.value(depth - 1) + self.value(depth - 1) for _ in range(self.random.randrange(3)))
                    + b"u"
                ),
                lambda: call(self.pick(CALLED), *(self.value(depth - 1) for _ in range(self.random.randrange(5)))),
                lambda: call("torch.serialization._get_layout", text(self.pick(TEXTS[17:21]))),
            ]
        return self.pick(makers)()

    def sizes(self) -> bytes:
        return numbers(*(self.pick((0, 1, 2, 3, 6, *INTEGERS)) for _ in range(self.random.randrange(4))))

    def longs(self) -> bytes:
        """A tensor of indices, which may be spread over far more places than it has memory for."""
        size = self.pick(((3,), (1, 3), (2, 1), (1, 1 << 40), (1 << 20,), (2, 1 << 62)))
        stride = self.pick(((1,) * len(size), (0,) * len(size)))
        return tensor(storage(LONGS, count=number(3)), number(0), numbers(*size), numbers(*stride))

    def fitting(self, function: str) -> list[bytes]:
        """Arguments of the kinds that a function takes."""
        layout = call("torch.serialization._get_layout", text(self.pick(TEXTS[17:21])))
        on = [storage(), number(self.pick((0, 0, 1, 6))), self.sizes(), self.sizes()]
        metadata = b"}(" + text(self.pick(("conj", "neg"))) + b"\x88u"
        last = function.rpartition("_rebuild_")[2]
        kinds: dict[str, Callable[[], list[bytes]]] = {
            "tensor": lambda: on,
            "tensor_v2": lambda: [*on, b"\x88", HOOKS, metadata],
            "tensor_v3": lambda: [*on, b"\x89", HOOKS, name("torch.complex64"), metadata],
            "parameter": lambda: [tensor(), b"\x88", HOOKS],
            "parameter_with_state": lambda: [
                tensor(),
                b"\x88",
                HOOKS,
                b"}" + text(self.pick(TEXTS)) + self.value() + b"s",
            ],
            "meta_tensor_no_storage": lambda: [name("torch.float32"), self.sizes(), self.sizes(), b"\x88"],
            "sparse_tensor": lambda: [layout, tuple_of(self.longs(), self.longs(), tensor(), self.sizes())],
            "from_type_v2": lambda: [
                name("torch._utils._rebuild_tensor_v2"),
                name("torch.Tensor"),
                tuple_of(*on, b"\x89", HOOKS),
                b"}" + text(self.pick(TEXTS)) + self.value() + b"s",
            ],
        }
        return kinds.get(last, lambda: [self.value() for _ in range(self.random.randrange(3))])()

    def members(self) -> dict[str, bytes]:
        return {"data/0": self.pick((FLOATS, FLOATS, struct.pack("<3q", 0, 1, 2)))}

    def crafted_call(self) -> bytes:
        """A call of an allowed function, with arguments of the right kinds of which one or two are others."""
        function = self.pick(CALLED)
        arguments = self.fitting(function)
        for _ in range(self.random.randrange(3)):
            if arguments:
                arguments[self.random.randrange(len(arguments))] = self.value()
        made = (
            name(function)
            + self.pick((tuple_of(*arguments), tuple_of(*arguments), self.value()))
            + self.pick((b"R", b"R", b"\x81"))
        )
        made += self.pick((b"", b"", self.value() + b"b", self.value() + self.value() + b"s"))
        return archive(made, self.members())

    def crafted_storage(self) -> bytes:
        """A storage of which any field may be anything."""
        fields = {"key": text("0"), "place": text("cpu"), "count": number(6), "tag": text("storage")}
        for _ in range(self.random.randrange(1, 3)):
            fields[self.pick(list(fields))] = self.value()
        made = (
            storage(**fields)
            if self.random.random() < 0.6
            else tuple_of(text("storage"), self.value(), *list(fields.values())[: self.random.randrange(5)]) + b"Q"
        )
        return archive(self.pick((made, tensor(made))), self.members())

    def crafted_container(self) -> bytes:
        """Keys, members and items that are hard to hash, compare or show."""
        bomb = self.pick((BOMB, nested_tuples(200_000), nested_tuples(self.random.randrange(5, 40), 2), self.value()))
        return archive(
            self.pick(
                (
                    b"}" + bomb + b"Ns",
                    b"}(" + bomb + b"N" + bomb + b"Nu",
                    call("builtins.set", list_of(bomb, bomb)),
                    call("collections.OrderedDict", list_of(bomb + b"N\x86")),
                    call("collections.Counter", b"}" + bomb + b"Ns"),
                    list_of(bomb, bomb),
                    HOOKS + b"}" + bomb + b"Nsb",
                    HOOKS + bomb + b"b",
                    bomb + b"R",
                    bomb + bomb + b"R",
                    bomb + bomb + b"\x81",
                    bomb + b"Q",
                    bomb + b"b",
                    bomb + bomb + b"b",
                    b"}" + bomb + b"a",
                    bomb + b"Ns",
                    b"}" + bomb,
                )
            )
        )

    def crafted_old(self) -> bytes:
        """The old format, of which any part may be anything."""

        def whole() -> bytes:
            return b"\x80\x02" + self.value() + b"."

        parts = [
            pickled(0x1950A86A20F9469CFC6C),
            pickled(1001),
            b"\x80\x02" + tensor(old_storage()) + b".",
            pickled(["1"]),
        ]
        for _ in range(self.random.randrange(1, 3)):
            parts[self.random.randrange(4)] = self.pick(
                (
                    whole(),
                    b"\x80\x02" + list_of(self.value()) + b".",
                    b"\x80\x02"
                    + old_storage(
                        self.pick(INTEGERS[:20]),
                        self.pick(
                            (
                                b"N",
                                self.value(),
                                tuple_of(text("2"), number(self.pick(INTEGERS)), number(self.pick(INTEGERS))),
                            )
                        ),
                    )
                    + b".",
                )
            )
        return old_parts(
            *parts,
            self.pick((struct.pack("<q", 6) + FLOATS, b"", struct.pack("<q", self.pick((-1, 5, 1 << 62))) + FLOATS)),
        )

    def mutated_pickle(self) -> bytes:
        """A good file in whose pickle opcodes are left out, repeated, moved, or replaced by values."""
        file = self.pick(self.good)
        if not file.startswith(b"PK"):
            start = len(pickled(0x1950A86A20F9469CFC6C)) + len(pickled(1001))
            return file[:start] + self.mutated_opcodes(file[start:], 2)
        members = read_members(file)
        main = next(key for key in members if key.endswith("/data.pkl"))
        members[main] = self.mutated_opcodes(members[main], 1)
        return write_members(list(members.items()))

    def mutated_opcodes(self, data: bytes, pickles: int) -> bytes:
        opcodes, rest = [], data
        for _ in range(pickles):
            places = [place for _, _, place in pickletools.genops(rest)]
            opcodes += [rest[a:b] for a, b in zip(places, [*places[1:], places[-1] + 1], strict=True)]
            rest = rest[places[-1] + 1 :]
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(opcodes))
            how = self.random.randrange(6)
            if how == 0:
                del opcodes[at]
            elif how == 1:
                opcodes.insert(at, opcodes[self.random.randrange(len(opcodes))])
            elif how == 2:
                other = self.random.randrange(len(opcodes))
                opcodes[at], opcodes[other] = opcodes[other], opcodes[at]
            elif how == 3:
                opcodes.insert(at, self.value())
            elif how == 4:
                opcodes[at] = self.value()
            else:
                opcodes[at] = self.pick(
                    (
                        b"R",
                        b"b",
                        b"s",
                        b"a",
                        b"(",
                        b"t",
                        b"h\x00",
                        b"q\x00",
                        b"Q",
                        b"\x81",
                        b"\x86",
                        b"0",
                        b"2",
                        b"\x93",
                        b"\x8b\xff\xff\xff\x7f",
                        b"\x95" + bytes(8),
                        b"\x97",
                        b"I9\n",
                        b".",
                    )
                )
        return b"".join(opcodes) + rest

    def mutated_bytes(self) -> bytes:
        """A good file with other bytes in some places, a piece too little or too much."""
        data = bytearray(self.pick(self.good))
        how = self.random.randrange(4)
        if how == 0:
            return bytes(data[: self.random.randrange(len(data))])
        if how == 1:
            at = self.random.randrange(len(data))
            return bytes(data[:at] + self.random.randbytes(self.random.randrange(1, 40)) + data[at:])
        ends = (0, len(data)) if how == 2 else (data.rfind(b"PK\1\2") if data.rfind(b"PK\1\2") > 0 else 0, len(data))
        for _ in range(self.random.randrange(1, 6)):
            data[self.random.randrange(*ends)] = self.pick((0, 1, 255, 127, 128, self.random.randrange(256)))
        return bytes(data)

    def mutated_members(self) -> bytes:
        """A good zip file whose members are others, or twice there, or not; or whose directory lies."""
        members = list(read_members(self.pick([file for file in self.good if file.startswith(b"PK")])).items())
        for _ in range(self.random.randrange(1, 3)):
            at, other = (self.random.randrange(len(members)) for _ in range(2))
            how = self.random.randrange(6)
            if how == 0 and len(members) > 1:
                del members[at]
            elif how == 1:
                members.append(members[at])
            elif how == 2:
                members[at] = members[at][0], members[other][1]
            elif how == 3:
                members[at] = members[at][0], self.random.randbytes(self.random.randrange(50))
            elif how == 4:
                members[at] = (
                    self.pick(
                        (
                            "",
                            "a",
                            "../x",
                            "/etc/passwd",
                            "archive",
                            "archive/",
                            "b/data.pkl",
                            "archive/data/../0",
                            "archive/constants.pkl",
                        )
                    ),
                    members[at][1],
                )
            else:
                members[at] = members[at][0], members[at][1][:-1]
        data = bytearray(
            write_members(members, self.pick((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
        )
        entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\1\2"]
        if entries and self.random.random() < 0.5:
            field = self.pick((8, 10, 16, 20, 24, 28, 30, 32, 42))
            at = self.pick(entries) + field
            data[at : at + 4] = struct.pack("<L", self.pick((0, 1, 3, 100, len(data), 0x7FFFFFFF, 0xFFFFFFFF)))
        return bytes(data)

    def repeated(self) -> bytes:
        """Much work or memory out of few bytes: one argument that is shared by very many calls."""
        many, items = self.pick((300, 2000)), self.pick((300, 4000))
        shared: dict[str, tuple[str, bytes]] = {
            "sets": ("builtins.set", tuple_of(list_of(*map(number, range(items))))),
            "dicts": ("collections.OrderedDict", tuple_of(list_of(*(number(n) + b"N\x86" for n in range(items))))),
            "counters": (
                "collections.Counter",
                tuple_of(b"}(" + b"".join(number(n) + b"N" for n in range(items)) + b"u"),
            ),
            "bytes": ("_codecs.encode", tuple_of(text("a" * items * 10), text("latin1"))),
            "arrays": ("builtins.bytearray", tuple_of(text("a" * items * 10), text("latin1"))),
            "sizes": ("torch.Size", tuple_of(numbers(*[1] * items))),
            "metas": (
                "torch._utils._rebuild_meta_tensor_no_storage",
                tuple_of(name("torch.float32"), numbers(*[1] * items), numbers(*[1] * items), b"\x89"),
            ),
            "tensors": ("torch._utils._rebuild_tensor", tuple_of(storage(), number(0), numbers(6), numbers(1))),
            "long tensors": (
                "torch._utils._rebuild_tensor",
                tuple_of(storage(), number(0), numbers(*[1] * items), numbers(*[1] * items)),
            ),
            "negatives": (
                "torch._utils._rebuild_tensor_v2",
                tuple_of(
                    storage(), number(0), numbers(1 << 30), numbers(0), b"\x89", HOOKS, b"}(" + text("neg") + b"\x88u"
                ),
            ),
            "sparse": (
                "torch._utils._rebuild_sparse_tensor",
                tuple_of(
                    call("torch.serialization._get_layout", text("torch.sparse_coo")),
                    tuple_of(
                        tensor(
                            storage(LONGS, count=number(3)),
                            number(0),
                            numbers(1, 1 << self.pick((3, 20, 40))),
                            numbers(0, 0),
                        ),
                        tensor(
                            storage(LONGS, count=number(3)), number(0), numbers(1 << self.pick((3, 20, 40))), numbers(0)
                        ),
                        numbers(8),
                    ),
                ),
            ),
            "states": (
                "torch._utils._rebuild_parameter_with_state",
                tuple_of(tensor(), b"\x88", HOOKS, b"}(" + b"".join(text(f"x{n}") + b"N" for n in range(items)) + b"u"),
            ),
        }
        how = self.random.randrange(len(shared) + 4)
        if how < len(shared):
            function, arguments = self.pick(list(shared.values()))
            again = b"h\x01h\x02R"
            longs = struct.pack("<3q", 0, 1, 2) if "Long" in arguments.decode("latin1") else FLOATS
            return archive(name(function) + b"q\x01" + arguments + b"q\x02(" + again * many + b"t", {"data/0": longs})
        if how == len(shared):  # keys with one hash
            return archive(b"}(" + b"".join(number(n * ((1 << 61) - 1)) + b"N" for n in range(items)) + b"u")
        if how == len(shared) + 1:
            return archive(
                b"}("
                + b"".join(call("builtins.complex", number(-1000003 * n), number(n)) + b"N" for n in range(items))
                + b"u"
            )
        if how == len(shared) + 2:  # one large key, again and again
            return archive(nested_tuples(13, 2) + b"q\x01}(" + b"h\x01N" * items + b"u")
        return archive(b"(" + self.pick((b"]", b"}", b"\x8f", b"N", b")")) * items * 10 + b"t")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first file")
    parser.add_argument("--keep", help="a folder for the files that were complained of")
    args = parser.parse_args()
    import mindtorch_v2

    return run(
        Generator(args.seed, good_files(mindtorch_v2)), args.first, args.count, args.keep, os.path.basename(__file__)
    )


def run(generator: Generator, first: int, count: int, keep: str | None, script: str) -> int:
    """Loads files of a generator, prints what is wrong and a summary; the number of complaints."""
    complaints: collections.Counter[str] = collections.Counter()
    numbers_: Any = range(first, first + count)
    if sys.stderr.isatty():
        from tqdm import tqdm

        numbers_ = tqdm(numbers_)
    with Loader() as loader:
        for index in numbers_:
            way, data = generator.file(index)
            found = loader.complaint(data)
            if found is not None:
                complaints[way] += 1
                print(
                    f"{found} | {way}, {len(data)} bytes: {script} --seed {generator.seed} --first {index} --count 1",
                    flush=True,
                )
                if keep:
                    with open(os.path.join(keep, f"{generator.seed}-{index}.pt"), "wb") as file:
                        file.write(data)
    print(f"{count} files, {sum(complaints.values())} complaints {dict(complaints) or ''}")
    return sum(complaints.values())


if __name__ == "__main__":
    sys.exit(min(main(), 1))
