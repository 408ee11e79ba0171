"""Where `save` writes: a new file that takes the old one's place when it is complete; in place where that cannot be."""

import contextlib
import errno
import hashlib
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

_UNNAMED = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_NOT_HERE = (errno.EACCES, errno.EPERM, errno.EROFS)  # no file can be made in the folder
_WITHOUT_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)  # what file systems without them say


@contextlib.contextmanager
def target(f: Any, zipped: bool) -> Iterator[tuple[Any, str]]:
    """The file to write to, and the name of the folder inside it."""
    if not isinstance(f, (str, os.PathLike)):
        yield f, "archive"
        return
    path = os.path.realpath(f)
    root = os.path.splitext(os.path.basename(path))[0] or "archive"
    with _opening_refused(zipped):
        _check_name(os.fspath(f), path, zipped)
        draft = _Draft.beside(path) if _is_replaced(os.fspath(f), path) else None
    if draft is None:
        with contextlib.closing(_InPlace(os.fspath(f), zipped)) as file:
            yield file, root
        return
    try:
        yield draft.file, root
        draft.put_in_place()
    finally:
        draft.close()


@contextlib.contextmanager
def _opening_refused(zipped: bool) -> Iterator[None]:
    """PyTorch's error for a zip file that cannot be opened; the old format fails with Python's."""
    try:
        yield
    except OSError as error:
        if not zipped:
            raise
        raise RuntimeError(f"open file failed with strerror: {error.strerror}: {error.filename}") from error


def _check_name(given: str, path: str, zipped: bool) -> None:
    """Raises for names that cannot be a file's."""
    named, has_folder = bool(given) and not given.endswith(os.sep), os.path.isdir(os.path.dirname(path))
    if not zipped and not (named and has_folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), given)
    if not named:
        raise RuntimeError(f"invalid file name: {given}")
    if not has_folder:
        raise RuntimeError(f"Parent directory {os.path.dirname(given) or os.path.dirname(path)} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _is_replaced(given: str, path: str) -> bool:
    """Whether a new file takes the place of what is there: not of devices and pipes, nor of one of several links.

    Nor of an empty file, which may be a temporary one that its maker has open, and has nothing to lose. A file that
    another save is replacing at this moment may have no link at all.
    """
    try:
        found = os.stat(given)
    except FileNotFoundError:
        return True
    if not os.access(given, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and found.st_size > 0


class _InPlace:
    """A file that is overwritten where it is, from the first write on: what cannot be pickled leaves it alone."""

    def __init__(self, path: str, zipped: bool) -> None:
        self.path, self.zipped = path, zipped
        self.file: IO[bytes] | None = None

    def write(self, data: Any) -> int:
        if self.file is None:
            with _opening_refused(self.zipped):
                self.file = open(self.path, "wb", buffering=1 << 20)  # noqa: SIM115 - closed with this object
        return self.file.write(data)

    def flush(self) -> None:
        if self.file is not None:
            self.file.flush()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class _Draft:
    """A file that nobody sees until it is complete.

    Where the system has files without names it is one, so that nothing is left of it when the process is killed. But
    no system lets such a file take the place of another: it gets a name for the microseconds between two calls.
    Elsewhere it has its name from the start. The name follows from the target's and is locked while it is in use: one
    that a killed process left is removed by the next save or load of the target.
    """

    def __init__(self, path: str, file: IO[bytes], name: str | None) -> None:
        self.path, self.file, self.name = path, file, name

    @classmethod
    def beside(cls, path: str) -> "_Draft | None":
        """A draft in the folder of a path; None if it cannot be made there, or not like the file that is there."""
        old = os.stat(path) if os.path.exists(path) else None
        mode = 0o666 if old is None else 0o600
        try:
            number, name = _unnamed(path, mode) or _named(path, mode)
        except OSError as error:
            if old is None or error.errno not in _NOT_HERE:
                raise
            return None
        draft = cls(path, os.fdopen(number, "w+b", buffering=1 << 20), name)
        if old is None or _made_alike(number, path, old):
            return draft
        draft.close()
        return None

    def put_in_place(self) -> None:
        """Gives the complete file the target's name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        try:
            self._rename()
        except OSError:  # a file that is mounted by itself, say: no other can take its place
            self.file.seek(0)
            with open(self.path, "r+b") as file:
                shutil.copyfileobj(self.file, file, 1 << 20)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            return
        self.name = None

    def _rename(self) -> None:
        if sys.platform == "win32":
            self.file.close()
            os.replace(str(self.name), self.path)
            return
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            if self.name is None:
                self._link_and_rename(folder)
            else:
                os.replace(self.name, self.path)
            with contextlib.suppress(OSError):  # not every file system writes folders to disk when asked
                os.fsync(folder)
        finally:
            os.close(folder)

    def _link_and_rename(self, folder: int) -> None:
        """Gives a file without a name the target's. If that is taken it must have another one for some microseconds."""
        source, target = f"/proc/self/fd/{self.file.fileno()}", os.path.basename(self.path)
        places: Any = {"src_dir_fd": folder, "dst_dir_fd": folder}  # which also has Python follow the link in /proc
        with contextlib.suppress(FileExistsError):
            os.link(source, target, **places)
            return
        fcntl.flock(self.file, fcntl.LOCK_EX)
        for full in _draft_names(self.path):
            name = os.path.basename(full)
            with contextlib.suppress(FileExistsError):
                os.link(source, name, **places)
                self.name = full
                os.replace(name, target, **places)
                return

    def close(self) -> None:
        self.file.close()
        if self.name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name)


def _name_beside(path: str, number: int) -> str:
    """A hidden name in the folder of a path, one for each number, and short however long the path's is."""
    folder, name = os.path.split(path)
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    return os.path.join(folder, f".{digest}{f'.{number}' if number else ''}.saving")


def _unnamed(path: str, mode: int) -> tuple[int, None] | None:
    """A file without a name; None where there are none."""
    if not _UNNAMED:
        return None
    try:
        return os.open(os.path.dirname(path), _UNNAMED | os.O_RDWR, mode), None
    except OSError as error:
        if error.errno in _WITHOUT_UNNAMED:
            return None
        raise


def _named(path: str, mode: int) -> tuple[int, str]:
    """A new file with a name, locked."""
    for name in _draft_names(path):
        try:
            number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        except FileExistsError:
            continue
        if sys.platform == "win32" or _locked(number, name):
            break
        os.close(number)
    return number, name


def _locked(number: int, name: str) -> bool:
    """Locks a new file; False if another save has removed it before that, taking it for one that was left."""
    fcntl.flock(number, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(number), os.stat(name))
    except FileNotFoundError:
        return False


def _draft_names(path: str) -> Iterator[str]:
    """Names for a draft of a path: the first that no other save is using."""
    for number in itertools.count():
        name = _name_beside(path, number)
        if not os.path.lexists(name) or _removed_if_stale(name):
            yield name


def remove_leftover(path: str | os.PathLike[str]) -> None:
    """Removes the draft of a path whose save was killed after it got its name, and before it took the path's."""
    for number in itertools.count():
        name = _name_beside(os.path.realpath(path), number)
        if not os.path.lexists(name):
            return
        _removed_if_stale(name)


def _removed_if_stale(name: str) -> bool:
    """Removes what a killed save left under a name; False if it may be that of a living one, which has locked it."""
    if sys.platform == "win32":
        return False
    try:
        number = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stale = os.path.samestat(os.fstat(number), os.stat(name))
        if stale:
            os.unlink(name)
        return stale
    except OSError:
        return False
    finally:
        os.close(number)


def _made_alike(number: int, path: str, old: os.stat_result) -> bool:
    """Whether a new file could be given the owner, the mode and the extended attributes of the one it is to replace."""
    if sys.platform == "win32":
        return True
    try:
        made = os.fstat(number)
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(number, old.st_uid, old.st_gid)
        os.fchmod(number, stat.S_IMODE(old.st_mode))
        for attribute in os.listxattr(path) if sys.platform == "linux" else ():
            os.setxattr(number, attribute, os.getxattr(path, attribute))
    except OSError as error:
        return error.errno == errno.ENOTSUP
    return True
