"""Object code of x86-64 Linux put into memory without LLVM.

LLVM links an object in 0.2 ms, but has to be loaded first, which takes a hundred times as long, and while one thread
compiles, the others wait for llvmlite's lock. Kernels that lie on disk need none of that: their files are small and
have few kinds of relocation.
"""

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...._core.native import forever

__all__ = ["Unsupported", "executable_memory", "linked", "usable"]

_HEADER, _X86_64 = b"\x7fELF\x02\x01\x01", (1, 62)  # 64 bits, little-endian; a relocatable file of x86-64
_SYMBOLS, _RELOCATIONS, _EMPTY, _UNWINDING = 2, 4, 8, 0x70000001  # kinds of section
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 1, 2, 0x400  # flags of a section
_UNDEFINED = 0  # the section of symbols that lie elsewhere
# Relocations: an address; the distance to it in 4 or 8 bytes; that of a call; that of a place where the address stands.
_ADDRESS, _DISTANCE, _FAR_DISTANCE, _CALL, _INDIRECT = 1, 2, 24, 4, (9, 41, 42)
_ENTRY, _JUMP = 16, 8  # bytes for a symbol that lies elsewhere: its address, then a jump to it


class Unsupported(Exception):
    """An object file holds something that this module does not know."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    target: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


def usable() -> bool:
    """Whether object code of this machine is what this module links."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@functools.cache
def _mprotect() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _make_executable(memory: mmap.mmap, size: int) -> None:
    """Lets the first bytes be run, and no longer be written."""
    if _mprotect()(_address(memory), size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def executable_memory() -> bool:
    """Whether the system lets a program run what it wrote."""
    try:
        _make_executable(mmap.mmap(-1, mmap.PAGESIZE), mmap.PAGESIZE)
    except OSError:
        return False
    return True


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _records(layout: str, code: bytes, section: _Section) -> Iterator[tuple[int, ...]]:
    return struct.iter_unpack(layout, code[section.start : section.start + section.size])


class _Image:
    """An object file in memory: what is only read and run, entries for outside symbols, then what is written."""

    def __init__(self, code: bytes, outside: Callable[[str], int | None]) -> None:
        if code[:7] != _HEADER or struct.unpack_from("<HH", code, 16) != _X86_64:
            raise Unsupported("not a relocatable file of x86-64")
        self.code, self.outside = code, outside
        (start,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
        headers = struct.iter_unpack("<2I4Q2I2Q", code[start : start + 64 * count])
        self.sections = [_Section._make(fields) for fields in headers]
        self.symbols = list(self._read_symbols())
        self.places: dict[int, int] = {}  # of sections, from the start of the memory
        self.entries: dict[int, int] = {}  # of symbols, likewise
        self.first_entry = _rounded(self._place(0, 0), _ENTRY)
        self.executable = _rounded(self.first_entry + _ENTRY * len(self.symbols), mmap.PAGESIZE)
        self.memory = mmap.mmap(-1, _rounded(self._place(_WRITABLE, self.executable), mmap.PAGESIZE))
        self.base = _address(self.memory)

    def _read_symbols(self) -> Iterator[_Symbol]:
        for section in self.sections:
            if section.kind == _SYMBOLS:
                names = self.sections[section.link].start
                for name, _, _, number, value, _ in _records("<I2BH2Q", self.code, section):
                    end = self.code.index(0, names + name)
                    yield _Symbol(self.code[names + name : end].decode(), number, value)

    def _place(self, writable: int, end: int) -> int:
        """Gives the sections of one kind a place each; where they end."""
        for number, section in enumerate(self.sections):
            if section.flags & _THREAD_LOCAL:
                raise Unsupported("thread-local data")
            if section.flags & (_IN_MEMORY | _WRITABLE) == _IN_MEMORY | writable and section.kind != _UNWINDING:
                self.places[number] = _rounded(end, section.alignment or 1)
                end = self.places[number] + section.size
        return end

    def value(self, number: int) -> int:
        """Where a symbol lies."""
        name, section, value = self.symbols[number]
        if section in self.places:
            return self.base + self.places[section] + value
        if section != _UNDEFINED:
            raise Unsupported(f"symbol {name} in section {section}")
        found = self.outside(name)
        if found is None:
            raise RuntimeError(f"compiled code names {name}, which this process does not have")
        return found

    def entry(self, number: int) -> int:
        """Where the address of a symbol stands, with a jump to it behind: code may be too far away to reach it."""
        if number not in self.entries:
            place = self.first_entry + _ENTRY * len(self.entries)
            jump = b"\xff\x25" + struct.pack("<i", -_JUMP - 6)  # jmp *[rip - 14], the start of this entry
            struct.pack_into("<Q8s", self.memory, place, self.value(number), jump)
            self.entries[number] = self.base + place
        return self.entries[number]

    def relocate(self) -> None:
        """Writes into each section where the symbols lie that it names."""
        for section in self.sections:
            if section.kind != _RELOCATIONS or section.target not in self.places:
                continue
            start = self.places[section.target]
            for offset, kind, symbol, addend in _records("<Q2Iq", self.code, section):
                place = start + offset
                here = self.base + place
                if kind in _INDIRECT:
                    target = self.entry(symbol)
                elif kind == _CALL and self.symbols[symbol].section == _UNDEFINED:
                    target = self.entry(symbol) + _JUMP
                elif kind in (_ADDRESS, _DISTANCE, _FAR_DISTANCE, _CALL):
                    target = self.value(symbol)
                else:
                    raise Unsupported(f"relocation {kind}")
                distance = 0 if kind == _ADDRESS else here
                layout = "<q" if kind in (_ADDRESS, _FAR_DISTANCE) else "<i"
                struct.pack_into(layout, self.memory, place, target + addend - distance)

    def load(self) -> dict[str, int]:
        """The addresses of what the file defines, ready to run."""
        for number, place in self.places.items():
            section = self.sections[number]
            if section.kind != _EMPTY:
                self.memory[place : place + section.size] = self.code[section.start : section.start + section.size]
        self.relocate()
        _make_executable(self.memory, self.executable)
        return {
            symbol.name: self.value(number)
            for number, symbol in enumerate(self.symbols)
            if symbol.name and symbol.section in self.places
        }


def linked(code: bytes, outside: Callable[[str], int | None]) -> dict[str, int]:
    """The addresses of the functions and data of an object file, which is in memory from now on.

    `outside` tells where the symbols lie that the file names and does not define.
    """
    image = _Image(code, outside)
    forever(image.memory)  # code is never unloaded: another thread may be in it
    return image.load()
