"""Compiled code on disk: each entry is a file named for what it was made from, and begins with a checksum of the rest.

A folder that cannot be written, a full disk, a writer that was killed, or two at once cost time only: a reader sees a
whole entry or none.
"""

import hashlib
import os
import re
import sys
import time

__all__ = ["BYTECODE", "LIMIT", "MACHINE_CODE", "directory", "read", "write"]

LIMIT = 256 << 20  # bytes kept in all; the entries that were used longest ago go first
MACHINE_CODE, BYTECODE = ".o", ".code"  # how the names of entries end
_UNFINISHED = re.compile(r"\.(o|code)\.")
_CHECK = 32  # bytes of the checksum
_DAY = 86400.0
_HOUR = 3600.0
_COUNTED = "counted"  # a file as old as the last count of the entries, which takes long if there are many
_uncounted = 0  # bytes that this process has written since it counted them


def directory() -> str | None:
    """The folder of the entries, which may not exist yet; None where the user has no home."""
    chosen = os.environ.get("MINDTORCH_CACHE")
    if chosen:
        return chosen
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "mindtorch_v2") if os.path.isabs(base) else None


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_CHECK).digest()


def read(key: str, kind: str = MACHINE_CODE) -> bytes | None:
    """The code stored under a key; None where there is none, where it is not whole, or where someone else put it."""
    folder = directory()
    if folder is None:
        return None
    path = os.path.join(folder, key + kind)
    try:
        with open(path, "rb") as file:
            facts, content = os.fstat(file.fileno()), file.read()
        if time.time() - facts.st_mtime > _DAY:
            os.utime(path)  # it is in use: others are dropped before it
    except OSError:
        return None
    if hasattr(os, "geteuid") and facts.st_uid not in (os.geteuid(), 0):
        return None  # it would run with this user's rights
    check, code = content[:_CHECK], content[_CHECK:]
    return code if code and check == _checksum(code) else None


def write(key: str, code: bytes, kind: str = MACHINE_CODE) -> bool:
    """Whether the code could be stored under a key."""
    global _uncounted
    folder = directory()
    if folder is None:
        return False
    path = os.path.join(folder, key + kind)
    beside = f"{path}.{os.urandom(8).hex()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            with open(beside, "xb") as file:
                file.write(_checksum(code) + code)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError:
        return False
    first, _uncounted = _uncounted == 0, _uncounted + len(code)
    if _uncounted > LIMIT // 16 or first and _is_old(os.path.join(folder, _COUNTED)):
        _uncounted = len(code)
        _drop_oldest(folder)
    return True


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > _HOUR
    except OSError:
        return True


def _drop_oldest(folder: str) -> None:
    """Removes what exceeds the limit, and what writers that were killed left behind."""
    entries = []
    try:
        with open(os.path.join(folder, _COUNTED), "wb"):
            found = list(os.scandir(folder))
    except OSError:
        return  # somebody removed it all
    for entry in found:
        try:
            facts = entry.stat()
            if entry.name.endswith((MACHINE_CODE, BYTECODE)):
                entries.append((facts.st_mtime, facts.st_size, entry.path))
            elif _UNFINISHED.search(entry.name) and time.time() - facts.st_mtime > _DAY:
                os.unlink(entry.path)
        except OSError:
            continue  # another process was faster
    excess = sum(size for _, size, _ in entries) - LIMIT
    for _, size, path in sorted(entries):
        if excess <= 0:
            return
        try:
            os.unlink(path)
        except OSError:
            continue
        excess -= size
