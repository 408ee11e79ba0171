"""Object code on disk: each entry is a file named for what it was made from, with a checksum of what it holds."""

import hashlib
import os
import sys
import threading
from pathlib import Path

__all__ = ["LIMIT", "directory", "read", "write"]

LIMIT = 256 << 20  # bytes kept in all; the entries that were used longest ago go first
_CHECK = 32  # length of the checksum that stands before the code


def directory() -> Path:
    """The folder of the entries, which may not exist yet."""
    chosen = os.environ.get("MINDTORCH_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        base = Path(os.path.expanduser("~/Library/Caches"))
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    return base / "mindtorch_v2"


def _path(key: str) -> str:
    return os.path.join(directory(), key + ".o")


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_CHECK).digest()


def read(key: str) -> bytes | None:
    """The code stored under a key; None where there is none, or where the file is not whole."""
    try:
        with open(_path(key), "rb") as file:
            content = file.read()
    except OSError:
        return None
    check, code = content[:_CHECK], content[_CHECK:]
    return code if code and check == _checksum(code) else None


def write(key: str, code: bytes) -> bool:
    """Whether the code was stored. A reader sees all of it or nothing; a home that cannot be written is no error."""
    path = _path(key)
    beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(beside, "wb") as file:
            file.write(_checksum(code) + code)
        os.replace(beside, path)
    except OSError:
        try:
            os.unlink(beside)
        except OSError:
            pass  # it was never made
        return False
    return True
