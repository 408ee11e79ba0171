"""Finds and loads CANN's shared libraries."""

import ctypes
import os
import platform
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

INSTALL_ROOT = Path("/usr/local/Ascend")
# In the order in which they need each other; those marked False may be absent.
CORE = (("libascend_hal.so", False), ("libascend_protobuf.so", False), ("libplatform.so", False),
        ("libascendcl.so", True), ("libnnopbase.so", True))  # fmt: skip
# Asked last: an older division of the operators.
FEATURES = ("libaclnn_ops_infer.so", "libaclnn_ops_train.so", "libaclnn_math.so", "libaclnn_rand.so", "libaclnn_fft.so",
            "libaclnn_sparse.so")  # fmt: skip


class LibrariesMissing(RuntimeError):
    """CANN is not installed, or its libraries do not load; the text says which and where was looked."""


def toolkit_roots(environ: Mapping[str, str], install_root: Path = INSTALL_ROOT) -> list[Path]:
    """Folders that may hold the toolkit, best first."""
    named = [Path(environ[name]) for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if environ.get(name)]
    versioned = sorted(install_root.glob("cann-*"), key=_version, reverse=True)
    fixed = [install_root / "ascend-toolkit" / "latest", install_root / "latest"]
    return list(dict.fromkeys([*named, *versioned, *fixed]))


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def library_folders(environ: Mapping[str, str], install_root: Path = INSTALL_ROOT) -> list[Path]:
    """Existing folders with libraries, best first; stubs link but do not run, so their folders are left out."""
    folders = []
    for root in toolkit_roots(environ, install_root):
        folders += [root / "lib64", root / f"{platform.machine()}-linux" / "lib64"]
    folders += [Path(part) for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    folders.append(install_root / "driver" / "lib64" / "driver")
    return [f for f in dict.fromkeys(folders) if "stub" not in f.parts and f.is_dir()]


def custom_libraries(environ: Mapping[str, str]) -> Iterator[Path]:
    """Libraries of custom operators, which override the built-in ones."""
    vendors = [Path(part) for part in environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if part]
    if environ.get("ASCEND_OPP_PATH"):
        root = Path(environ["ASCEND_OPP_PATH"]) / "vendors"
        order = root / "config.ini"
        listed = order.read_text() if order.is_file() else ""
        names = re.search(r"load_priority\s*=\s*(.*)", listed)
        vendors += [root / name.strip() for name in (names[1].split(",") if names else []) if name.strip()]
    for folder in vendors:
        path = folder / "op_api" / "lib" / "libcust_opapi.so"
        if path.is_file():
            yield path


def operator_libraries(environ: Mapping[str, str], folders: list[Path]) -> list[Path]:
    """Libraries that may hold operators, in the order in which to ask them."""
    paths = list(custom_libraries(environ))
    for folder in folders:
        split = sorted(folder.glob("libopapi_*.so"))
        paths += [*split, *(folder / name for name in ("libopapi.so", *FEATURES) if (folder / name).is_file())]
        if split or (folder / "libopapi.so").is_file():
            break  # libraries of two toolkits do not go together
    return paths


class Libraries:
    """The loaded libraries. Operators are looked for when first asked for, one library after the other.

    The split libopapi_*.so and the old libopapi.so should not be loaded together, so the latter is opened only for an
    operator that none of the former has.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, install_root: Path = INSTALL_ROOT) -> None:
        self.folders = library_folders(environ, install_root)
        self.core = {name: self._load_core(name, required) for name, required in CORE}
        self._closed = operator_libraries(environ, self.folders)
        self._open: list[Any] = []
        self._opening = threading.Lock()  # loading a library lets other threads run
        if not self._closed:
            raise LibrariesMissing(f"no operator library (libopapi*.so) in {self._shown()}")

    def _shown(self) -> str:
        shown = ", ".join(map(str, self.folders))
        return shown or f"any folder (is ASCEND_HOME_PATH set? there is nothing below {INSTALL_ROOT})"

    def _load_core(self, name: str, required: bool) -> Any:
        for folder in self.folders:
            if (folder / name).is_file():
                return _load(folder / name)
        if required:
            raise LibrariesMissing(f"{name} not found in {self._shown()}")
        return None

    def runtime_symbol(self, name: str) -> Any:
        """A function of the runtime or of the meta objects; AttributeError if this CANN lacks it."""
        for library in (self.core["libascendcl.so"], self.core["libnnopbase.so"]):
            found = getattr(library, name, None)
            if found is not None:
                return found
        raise AttributeError(f"{name} is in neither libascendcl.so nor libnnopbase.so of this CANN")

    def has_runtime_symbol(self, name: str) -> bool:
        return any(hasattr(self.core[library], name) for library in ("libascendcl.so", "libnnopbase.so"))

    def operator_symbol(self, name: str) -> Any:
        """A function of an operator, or None if no library of this CANN has it."""
        with self._opening:
            for library in self._open:
                found = getattr(library, name, None)
                if found is not None:
                    return found
            while self._closed:
                self._open.append(_load(self._closed.pop(0)))
                found = getattr(self._open[-1], name, None)
                if found is not None:
                    return found
        return None


def _load(path: Path) -> ctypes.CDLL:
    """A library by its full path: changing LD_LIBRARY_PATH in a running process has no effect."""
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise LibrariesMissing(f"{path} does not load: {error}. Has set_env.sh of the toolkit been sourced?") from error
