"""An assembler of pickles and of the files that hold them, and good files to begin with."""

import collections
import io
import pickle
import struct
import warnings
import zipfile
from typing import Any

FLOATS = b"".join(struct.pack("<f", n) for n in range(6))


def name(full: str) -> bytes:
    module, _, last = full.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    width = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([width]) + value.to_bytes(width, "little", signed=True)


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def list_of(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def numbers(*values: int) -> bytes:
    return tuple_of(*map(number, values))


def call(function: str, *arguments: bytes) -> bytes:
    return name(function) + tuple_of(*arguments) + b"R"


def storage(
    kind: str = "torch.FloatStorage",
    key: bytes = text("0"),
    place: bytes = text("cpu"),
    count: bytes = number(6),
    tag: bytes = text("storage"),
) -> bytes:
    return tuple_of(tag, name(kind), key, place, count) + b"Q"


HOOKS = name("collections.OrderedDict") + b")R"


def tensor(
    on: bytes | None = None,
    offset: bytes = number(0),
    size: bytes = numbers(6),
    stride: bytes = numbers(1),
    *more: bytes,
    function: str = "torch._utils._rebuild_tensor_v2",
) -> bytes:
    return call(function, storage() if on is None else on, offset, size, stride, b"\x89", HOOKS, *more)


def archive(
    pickled: bytes | None = None,
    members: dict[str, bytes] | None = None,
    *,
    root: str = "archive",
    method: int = zipfile.ZIP_STORED,
    protocol: bytes = b"\x80\x02",
    end: bytes = b".",
) -> bytes:
    content = {
        "data.pkl": protocol + (tensor() if pickled is None else pickled) + end,
        "version": b"3\n",
        "byteorder": b"little",
        "data/0": FLOATS,
    } | (members or {})
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for member, data in content.items():
            if data is not None:
                file.writestr(f"{root}{'/' if root else ''}{member}", data)
    return made.getvalue()


def old_format(
    main: bytes,
    keys: tuple[str, ...] = ("1",),
    data: bytes = struct.pack("<q", 6) + FLOATS,
    magic: int = 0x1950A86A20F9469CFC6C,
    version: int = 1001,
) -> bytes:
    return old_parts(pickled(magic), pickled(version), b"\x80\x02" + main + b".", pickled(list(keys)), data)


def old_parts(
    magic: bytes, version: bytes, main: bytes, keys: bytes, data: bytes = struct.pack("<q", 6) + FLOATS
) -> bytes:
    return magic + version + pickled({"little_endian": True}) + main + keys + data


def pickled(value: object) -> bytes:
    return pickle.dumps(value, 2)


def old_storage(count: int = 6, view: bytes = b"N", tag: str = "storage", key: str = "1") -> bytes:
    return tuple_of(text(tag), name("torch.FloatStorage"), text(key), text("cpu"), number(count), view) + b"Q"


def nested_tuples(depth: int, width: int = 1) -> bytes:
    """Tuples in tuples; with width 2 one of depth n stands for 2**n parts in 4n bytes."""
    step = b"\x85" if width == 1 else b"q\x00h\x00\x86"
    return b")" + step * depth


def read_members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {member: file.read(member) for member in file.namelist()}


def write_members(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", method) as file:
        warnings.simplefilter("ignore")
        for member, data in members:
            file.writestr(zipfile.ZipInfo(member), data, method)
    return made.getvalue()


def good_files(torch: Any) -> list[bytes]:
    """Checkpoints of many kinds, in both formats, as a library saves them."""
    base = torch.arange(6.0)
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note = "kept"
    sparse = torch.tensor([[0, 1.0, 0], [2.0, 0, 3.0]])
    values = (
        base,
        {
            "a": base[2:],
            "b": base.view(2, 3).t(),
            "c": [1, "text", 2.5, None, True, (1, 2), {3}, b"ab", bytearray(b"c"), 1j],
        },
        collections.OrderedDict(p=parameter, q=torch.nn.Linear(2, 2).state_dict()),
        [sparse.to_sparse(), sparse.to_sparse_csr()],
        [
            torch.empty(2, 3, device="meta"),
            torch.ones(2, dtype=torch.bfloat16),
            torch.ones(2, dtype=torch.uint16),
            torch.Size([2]),
            torch.device("cpu"),
            torch.float64,
            torch.strided,
            base.untyped_storage(),
        ],
        torch.tensor([1 + 2j]).conj(),
        {(1, 2): base, 3: collections.Counter("ab")},
    )
    files = []
    for value in values:
        for zipped in (True, False):
            made = io.BytesIO()
            torch.save(value, made, _use_new_zipfile_serialization=zipped)
            files.append(made.getvalue())
    return files
