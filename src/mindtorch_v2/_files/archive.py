"""The zip files that checkpoints are: members stored as they are, each beginning at a multiple of 64 bytes."""

import struct
import zipfile
import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

ALIGNMENT = 64
_LIMIT = 0xFFFFFFFF  # what does not fit below it goes into a field of 64 bits
_FLAGS = 0x0808  # names are UTF-8; check sum and sizes follow the data
_CORRUPT = ("If you are seeing this error, there is a high likelihood that your checkpoint file is corrupted. This can "
            "happen if the checkpoint was not saved properly, was transferred incorrectly, or the file was modified "
            "after saving.")


class Writer:
    """Writes members one after the other through `write`; no seeking, so that any file object will do."""

    def __init__(self, write: Callable[[Any], Any], root: str, check_sums: bool) -> None:
        self.write, self.root, self.check_sums = write, root, check_sums
        self.position = 0
        self.members: list[tuple[bytes, int, int, int]] = []  # name, position of the header, size, check sum

    def put(self, data: Any) -> None:
        self.write(data)
        self.position += len(data)

    def add(self, name: str, data: Any) -> None:
        """Adds a member out of bytes, or a flat array of bytes."""
        full, size, start = f"{self.root}/{name}".encode(), len(data), self.position
        # The sizes of a large member stand in its header's extra field; another, of no meaning, aligns the data.
        extra = struct.pack("<HHQQ", 1, 16, size, size) if size >= _LIMIT else b""
        padding = -(start + 30 + len(full) + len(extra) + 4) % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        shown = _LIMIT if size >= _LIMIT else 0
        self.put(struct.pack("<4sHHHHHLLLHH", b"PK\3\4", 0, _FLAGS, 0, 0, 0, 0, shown, shown, len(full), len(extra))
                 + full + extra)
        self.put(memoryview(data))
        check_sum = zlib.crc32(data) if self.check_sums else 0
        form = "<4sLQQ" if size >= _LIMIT else "<4sLLL"
        self.put(struct.pack(form, b"PK\7\x08", check_sum, size, size))
        self.members.append((full, start, size, check_sum))

    def close(self) -> None:
        """Adds what ends a file: the members that describe it, and the directory."""
        self.add("version", b"3\n")
        parts = (b"".join(name for name, *_ in self.members), b"".join(b"%d," % sum_ for *_, sum_ in self.members))
        digits = "".join(f"{int.from_bytes(blake2b(part, digest_size=8).digest()):020d}" for part in parts)
        self.add(".data/serialization_id", digits.encode())
        begin = self.position
        for name, start, size, check_sum in self.members:
            wide = [value for value in (size, size, start) if value >= _LIMIT]
            extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            shown = min(size, _LIMIT)
            self.put(struct.pack("<4sHHHHHHLLLHHHHHLL", b"PK\1\2", 0, 0, _FLAGS, 0, 0, 0, check_sum, shown, shown,
                                 len(name), len(extra), 0, 0, 0, 0, min(start, _LIMIT)) + name + extra)
        count, size, end = len(self.members), self.position - begin, self.position
        self.put(struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 0x31E, 45, 0, 0, count, count, size, begin))
        self.put(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        shown = min(count, 0xFFFF)
        self.put(struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, shown, shown, min(size, _LIMIT), min(begin, _LIMIT), 0))


class Reader:
    """The members of a checkpoint by name; what the file says of them was checked against the file itself."""

    def __init__(self, file: Any) -> None:
        self.file = file
        try:
            with zipfile.ZipFile(file) as archive:
                members, self.end = archive.infolist(), archive.start_dir
        except (zipfile.BadZipFile, struct.error, ValueError, EOFError, OSError, NotImplementedError,
                OverflowError) as error:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: failed finding central directory "
                               f"({error}): the file is truncated or damaged. {_CORRUPT}") from error
        if not members:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: it is empty. {_CORRUPT}")
        self.root = members[0].orig_filename.partition("/")[0]
        starts = sorted(member.header_offset for member in members)
        follows = dict(zip(starts, [*starts[1:], self.end], strict=True))
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.limits: dict[str, int] = {}
        for member in members:
            name = self._checked_name(member)
            if name in self.members:
                raise RuntimeError(f"the checkpoint holds {name} more than once")
            self.members[name], self.limits[name] = member, follows[member.header_offset]
        for name in self.members:
            if not name.startswith("data/"):  # whose headers are looked at when they are read
                self.place(name)
        self._check_version()

    def _checked_name(self, member: zipfile.ZipInfo) -> str:
        full = member.orig_filename
        root, slash, name = full.partition("/")
        if not slash:
            raise RuntimeError(f"file in archive is not in a subdirectory: {full}")
        if root != self.root:
            raise RuntimeError(f"file in archive is not in a subdirectory {self.root}/: {full}")
        if not root or "\\" in full or "\0" in full or any(part in ("", ".", "..") for part in full.split("/")):
            raise RuntimeError(f"the name of the checkpoint's member {full!r} is not a plain path below one folder")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise RuntimeError(f"the checkpoint's member {full} is compressed; members must be stored as they are. "
                               "Pack the file anew without compression")
        if member.flag_bits & 1:
            raise RuntimeError(f"the checkpoint's member {full} is encrypted")
        return name

    def _check_version(self) -> None:
        name = "version" if "version" in self else ".data/version"
        if name not in self:
            raise RuntimeError('Expected hasRecord("version") to be true, but got false.')
        text = self.read(name)[:20].decode("latin1").strip()
        if not text.isascii() or not text.isdigit():
            raise RuntimeError(f"Couldn't parse the version {text} as Long Long.")
        if not 1 <= int(text) <= 10:
            limit = "minimum supported version for reading is 1" if text == "0" else \
                "maximum supported version for reading is 10"
            raise RuntimeError(f"Attempted to read a PyTorch file with version {text}, but the {limit}.")

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def place(self, name: str) -> tuple[int, int]:
        """Where a member's data begins in the file, and its size."""
        member = self.members.get(name)
        if member is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found. {_CORRUPT}")
        header = b""
        if 0 <= member.header_offset < self.end:
            self.file.seek(member.header_offset)
            header = self.file.read(30)
        if len(header) < 30 or header[:4] != b"PK\3\4":
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: invalid header or archive is "
                               f"corrupted. {_CORRUPT}")
        name_size, extra_size = struct.unpack("<HH", header[26:])
        if self.file.read(name_size) != member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437"):
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its header names another file. "
                               f"{_CORRUPT}")
        start = member.header_offset + 30 + name_size + extra_size
        if start + member.file_size > self.limits[name]:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its {member.file_size} bytes reach "
                               f"into what follows it. {_CORRUPT}")
        return start, member.file_size

    def read(self, name: str) -> bytes:
        return self.array(name).tobytes()

    def array(self, name: str, expected: int | None = None) -> np.ndarray:
        """A member's bytes in fresh memory; with `expected`, there must be so many."""
        start, size = self.place(name)
        check_size(size, expected)
        self.file.seek(start)
        return read_exactly(self.file, size)


def check_size(size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise RuntimeError(f"record size ({size} bytes) does not match expected size ({expected} bytes = {expected} "
                           "elements * 1 bytes/element) for dtype Byte")


def read_exactly(file: Any, size: int) -> np.ndarray:
    """The next `size` bytes of a file; its caller knows that the file is so long."""
    bytes_: Any = np.empty(size, np.uint8)
    done = 0
    while done < size:
        if hasattr(file, "readinto"):
            count = file.readinto(memoryview(bytes_)[done:]) or 0
        else:
            piece = file.read(size - done)
            count = len(piece)
            bytes_[done : done + count] = np.frombuffer(piece, np.uint8)
        if not count:
            raise RuntimeError(f"unexpected EOF, expected {size - done} more bytes. The file might be corrupted.")
        done += count
    return bytes_
