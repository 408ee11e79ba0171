"""Bytecode of generated functions on disk, as Python keeps that of modules: compiling it is most of a first call.

All of it is in one entry of the cache that machine code has, which a program reads with the first function it makes and
writes when it ends, if it has made others. Nothing is written where Python is told not to write bytecode.
"""

import atexit
import functools
import marshal
import sys
from collections.abc import Callable, Sequence
from importlib.util import MAGIC_NUMBER
from types import CodeType

__all__ = ["found"]

_LIMIT = 8 << 20  # bytes in all; above it, what the last program did not use is dropped
_used: dict[bytes, bytes] = {}  # code by what it was made from, of this program
_made: list[bytes] = []  # the keys of what was not on disk


def _name() -> str:
    """The entry of this Python, for which it was compiled."""
    return f"{sys.implementation.cache_tag}-{MAGIC_NUMBER.hex()}-{sys.flags.optimize}"


def _stored() -> dict[bytes, bytes]:
    from .._core import disk_cache

    content = disk_cache.read(_name(), disk_cache.BYTECODE)
    return {} if content is None else marshal.loads(content)


@functools.cache
def _known() -> dict[bytes, bytes]:
    """What was on disk as this program began."""
    return _stored()


def found(parts: Sequence[str], made: Callable[[], CodeType]) -> CodeType:
    """The code that `made` gives, which follows from the text of the parts alone."""
    from hashlib import blake2b

    key = blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()
    stored = _known().get(key)
    if stored is not None:
        _used[key] = stored
        return marshal.loads(stored)
    code = made()
    if not _made:
        atexit.register(_write)
    _made.append(key)
    _used[key] = marshal.dumps(code)
    return code


def _write() -> None:
    """Adds what was made to what is on disk by now."""
    from .._core import disk_cache

    if sys.dont_write_bytecode:
        return
    merged = _stored() | {key: _used[key] for key in _made}
    if sum(map(len, merged.values())) > _LIMIT:
        merged = _used
    disk_cache.write(_name(), marshal.dumps(merged), disk_cache.BYTECODE)
