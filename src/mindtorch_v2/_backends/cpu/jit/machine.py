"""LLVM IR made into machine code that Python can call."""

import atexit
import collections
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...._core import disk_cache
from ...._core.native import forever, python_function
from ...._kernels import llvm, panels
from . import elf, onednn_products, symbols, threads

__all__ = ["available", "callable_from", "compiling", "load", "load_in_background"]

_VERSION = "4"  # of what this module makes of IR; with another one, none of the entries on disk is found
_METH_FASTCALL = 0x80
_SGEMM = "mindtorch_blas_sgemm"
_kept: list[Any] = []  # what machine code stands on; it is never unloaded


# what is here --------------------------------------------------------------------------------------------------------


def _ndarray_as_expected() -> bool:
    """Whether the fields of an ndarray, and of its type, lie where compiled code reads them."""
    array = np.zeros((2, 3), np.float32)[:, 1:]
    fields = (ctypes.c_int64 * 9).from_address(id(array))
    if fields[2] != array.ctypes.data or fields[3] & 0xFFFFFFFF != array.ndim:
        return False
    shape, strides = ((ctypes.c_int64 * 2).from_address(fields[at]) for at in (4, 5))
    return (
        (tuple(shape), tuple(strides)) == (array.shape, array.strides)
        and (fields[6], fields[7]) == (id(array.base), id(array.dtype))
        and fields[8] & 0xFFFFFFFF == array.flags.num
        and (ctypes.c_int64 * 6).from_address(id(array.dtype))[5] == array.itemsize
    )


@functools.cache
def available() -> bool:
    """Whether IR can be compiled and run here; llvmlite is looked for, not loaded."""
    return (
        os.environ.get("MINDTORCH_JIT") != "0"
        and sys.implementation.name == "cpython"
        and sys.maxsize == 2**63 - 1
        and sys.byteorder == "little"
        and importlib.util.find_spec("llvmlite") is not None
        and _ndarray_as_expected()
        and (not elf.usable() or elf.executable_memory())
    )


def _processor() -> str:
    """The processor's kind and what it can do, in the system's words, or in LLVM's where the system says nothing."""
    facts = {"vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "CPU variant", "Features"}
    try:
        with open("/proc/cpuinfo") as lines:
            pairs = []
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in facts:
                    pairs.append(f"{name.strip()}={value.strip()}")
                elif not line.strip():
                    break  # the other cores are alike
    except OSError:
        pairs = []
    if not any(pair.startswith(("flags=", "Features=")) for pair in pairs):
        pairs = [_compiler().processor, _compiler().features]
    return " ".join(pairs)


@functools.cache
def _identity() -> str:
    """What object code depends on beside its IR: this module, llvmlite with the LLVM that it holds, the processor.

    llvmlite is not loaded for it: what lies on disk needs it not.
    """
    spec = importlib.util.find_spec("llvmlite")
    assert spec is not None and spec.origin is not None
    with open(os.path.join(os.path.dirname(spec.origin), "_version.py")) as file:
        version = re.findall(r"'([^']*)'", file.read())
    return "\n".join((_VERSION, *version, sys.platform, _processor()))


# compiling -----------------------------------------------------------------------------------------------------------

compiling = threading.RLock()  # LLVM is asked by one thread at a time, and by none while the process forks or ends


class _Compiler:
    """LLVM for the processor of this machine.

    The target machine carries the processor's name and features, so functions need no attributes of their own; loops
    become vectors of the width that LLVM prefers for it (512 bits on Zen 4 and 5). For Intel's it prefers 256, as the
    first of them that had 512 ran slower then. Those with 16-bit arithmetic in such vectors (Sapphire Rapids and
    later) do not: there a loop of twice the width looks twice as far ahead in memory, and took half the time.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm = llvm
        self.triple = llvm.get_process_triple()
        features = llvm.get_host_cpu_features()
        self.processor, self.features = llvm.get_host_cpu_name(), features.flatten()
        if features.get("avx512fp16"):
            self.features += ",-prefer-256-bit"
        self.target = llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.processor, features=self.features, opt=3, reloc="pic", codemodel="small", jit=True
        )
        self.layout = str(self.target.target_data)
        self.linker: Any = None
        self.libraries = 0

    def object_code(self, ir: str, as_written: bool = False) -> bytes:
        """The machine code of IR, optimised unless it is to stay as it was written."""
        llvm = self.llvm
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.triple, module.data_layout = self.triple, self.layout
        module.verify()
        if as_written:
            return self.target.emit_object(module)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_interleaving = options.loop_unrolling = True
        builder = llvm.create_pass_builder(self.target, options)
        builder.getModulePassManager().run(module, builder)
        return self.target.emit_object(module)

    def link(self, code: bytes, ir: str, names: Sequence[str]) -> dict[str, int]:
        """The addresses of the functions of object code, which is in memory from now on."""
        if self.linker is None:
            self.linker = self.llvm.create_lljit_compiler()
            self.linker._owned = True  # not taken down at exit: another thread may be in its code
        library = self.llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        module = self.llvm.parse_assembly(ir, self.llvm.create_context())
        for value in (*module.functions, *module.global_variables):
            at = _address(value.name) if value.is_declaration and not value.name.startswith("llvm.") else None
            if at is not None:
                library.import_symbol(value.name, at)
        for name in names:
            library.export_symbol(name)
        self.libraries += 1
        tracker = library.link(self.linker, f"kernels{self.libraries}")
        tracker._owned = True
        _kept.append(tracker)
        return {name: tracker[name] for name in names}


@functools.cache
def _compiler() -> _Compiler:
    with compiling:
        return _Compiler()


# loading -------------------------------------------------------------------------------------------------------------


_imported = time.time()


def _files() -> list[Path]:
    """All that machine code of kernels is made by."""
    return [*sorted(Path(llvm.__file__).parent.rglob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))]


def _are_as_imported() -> bool:
    """Whether no file was changed since: then what runs here is what they say."""
    try:
        return all(max(facts.st_mtime, facts.st_ctime) < _imported for facts in map(os.stat, _files()))
    except OSError:
        return False


@functools.cache
def sources() -> str | None:
    """A digest of all files that machine code of kernels is made by; None where these are no files, or changed."""
    digest = hashlib.blake2b(digest_size=20)
    try:
        for file in _files():
            digest.update(file.read_bytes())
    except OSError:
        return None
    return digest.hexdigest() if _are_as_imported() else None


@functools.cache
def _runtime() -> dict[str, int]:
    """The addresses of the functions that kernels share."""
    shared = load(llvm.shared_functions, llvm.SHARED, known_as=_shared_name)
    return load(threads.runtime_ir(), threads.FUNCTIONS) | shared


def _shared_name() -> str | None:
    return f"shared {sources()}" if sources() else None


@functools.cache
def _single_product() -> int | None:
    """What multiplies float32 matrices."""
    if not onednn_products.addresses():
        return symbols.address(_SGEMM)
    return load(onednn_products.ir(), ["sgemm"])["sgemm"]


@functools.cache
def _panel_functions(kind: str, tile: panels.Tile) -> dict[str, int]:
    """What packs panels, and multiplies with them.

    Its vectors and loops are written as the processor is to run them: LLVM's passes found nothing that was quicker, in
    twice the time that it takes without.
    """
    return load(*panels.module_of(kind, tile), as_written=True)


@functools.cache
def tile() -> panels.Tile | None:
    """What this processor's registers hold of a product; None where that is not known."""
    return panels.tile_of(_processor()) if available() else None


def _address(name: str) -> int | None:
    """Where a name lies that compiled code declares."""
    if name == _SGEMM:
        return _single_product()
    if name.startswith(panels.PREFIX):
        _, kind, vector, tall = name.removeprefix(panels.PREFIX).split("_")
        return _panel_functions(kind, panels.Tile(int(vector), int(tall)))[name]
    return _runtime()[name] if name in threads.FUNCTIONS or name in llvm.SHARED else symbols.address(name)


def _key(text: str) -> str:
    """The name on disk of the code that is made of this IR, or that is known by this name."""
    return hashlib.blake2b(f"{_identity()}\n{text}".encode(), digest_size=20).hexdigest()


def load(
    ir: str | Callable[[], str],
    names: Sequence[str],
    *,
    persistent: bool = True,
    as_written: bool = False,
    known_as: Callable[[], str | None] | None = None,
) -> dict[str, int]:
    """The addresses of the named functions of IR: from disk where it was compiled before, else compiled now.

    `known_as` tells all that the IR depends on, so that it need not be made to be found on disk; None if nothing does.
    """
    global _waited
    with compiling:  # one thread at a time: making IR, finding libraries and linking remember what they did
        name = None if known_as is None else known_as()
        if name is None and not isinstance(ir, str):
            ir = ir()
        key = _key(name or str(ir))
        code = disk_cache.read(key) if persistent else None
        if code is None:
            ir = ir if isinstance(ir, str) else ir()
            is_waited_for = threading.current_thread() is not _worker
            _waited = math.inf if is_waited_for else _waited
            try:
                code = _compiler().object_code(ir, as_written)
            finally:
                _waited = time.monotonic() if is_waited_for else _waited
            if persistent and (name is None or _are_as_imported()):  # else the name would be that of other code
                disk_cache.write(key, code)
        if elf.usable():
            try:
                found = elf.linked(code, _address)
                return {name: found[name] for name in names}
            except elf.Unsupported:
                pass  # LLVM knows every kind
        return _compiler().link(code, ir if isinstance(ir, str) else ir(), names)


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def _method(address: int, name: str) -> _MethodDef:
    """What builtin functions over some machine code share; they look at it when they go, maybe after all modules."""
    return forever(_MethodDef(name.encode(), address, _METH_FASTCALL, None))


def callable_from(address: int, name: str, owner: Any = None) -> Callable[..., Any]:
    """A builtin function over machine code `PyObject *f(PyObject *owner, PyObject *const *args, Py_ssize_t count)`."""
    new = python_function("PyCFunction_NewEx", ctypes.py_object, *[ctypes.c_void_p] * 3)
    return new(ctypes.addressof(_method(address, name)), None if owner is None else id(owner), None)


# in the background ---------------------------------------------------------------------------------------------------

_SWITCH = 5e-5  # seconds
_QUIET, _PATIENCE = 0.12, 2.0  # seconds
_waited = -math.inf  # when the last compilation ended that a program waited for
# Python up to 3.11.7 has one counter for all threads that parse: a program's own `ast.parse` would fail beside a thread
# that parses kernels ("AST constructor recursion depth mismatch"). There the thread that asks for them makes their IR.
_PARSES_IN_BACKGROUND = sys.version_info >= (3, 11, 8)
_usual, _hurried = 0.0, 0.0  # the interpreter's interval before a job, and what it tells of the one during it
_Job = tuple[
    Callable[[], str],
    Sequence[str],
    Callable[[dict[str, int]], None],
    Callable[[], str | None] | None,
    Callable[[], bool],
]
_jobs: "collections.deque[_Job]" = collections.deque()  # the first one is being done
_worker: threading.Thread | None = None  # there is one while there are jobs
_queueing = threading.Lock()


def load_in_background(
    ir: Callable[[], str],
    names: Sequence[str],
    done: Callable[[dict[str, int]], None],
    known_as: Callable[[], str | None] | None = None,
    is_needed: Callable[[], bool] = lambda: True,
) -> None:
    """Makes IR and loads it in a thread of its own, which then calls `done` with the addresses.

    Unless it is not needed any more when its turn comes.
    """
    if not _PARSES_IN_BACKGROUND:
        try:
            _make_shared_functions()
            ir = _made(ir, known_as)
        except Exception as error:
            warn_of(error)
            return
    with _queueing:
        _jobs.append((ir, names, done, known_as, is_needed))
        _start_worker()


@functools.cache
def _make_shared_functions() -> None:
    _made(llvm.shared_functions, _shared_name)


def _made(ir: Callable[[], str], known_as: Callable[[], str | None] | None) -> Callable[[], str]:
    """The IR made now, unless it is known that it will not be needed: its code lies on disk."""
    name = None if known_as is None else known_as()
    if name is not None and elf.usable() and disk_cache.read(_key(name)) is not None:
        return ir
    text = ir()
    return lambda: text


def warn_of(error: Exception) -> None:
    """Says that a kernel stays without machine code."""
    warnings.warn(f"a kernel could not be compiled, and is computed by NumPy: {error}", stacklevel=2)


def _start_worker() -> None:
    """Starts the thread that does the jobs; where the system gives none, they wait for the next one that is wanted."""
    global _worker
    if _worker is None:
        worker = threading.Thread(target=_work, name="mindtorch_v2 compiler", daemon=True)
        with contextlib.suppress(RuntimeError):
            worker.start()
            _worker = worker


def _work() -> None:
    """Does the first job; the next one is another thread's."""
    global _worker, _usual, _hurried
    ir, names, done, known_as, is_needed = _jobs[0]
    begun = time.monotonic()
    # A program that waits for one kernel often waits for the next soon, and not for this one.
    while is_needed() and (left := min(_waited + _QUIET, begun + _PATIENCE) - time.monotonic()) > 0:
        time.sleep(left)
    # The main thread hands the interpreter over after this time; between any two calls of LLVM's it is asked for it.
    _usual = sys.getswitchinterval()
    _set_interval(min(_usual, _SWITCH))
    _hurried = sys.getswitchinterval()
    try:
        if is_needed():
            done(load(ir, names, known_as=known_as))
    except Exception as error:  # the kernel stays uncompiled, the next ones are wanted all the same
        warn_of(error)
    finally:
        _restore_interval()
        with _queueing:
            _jobs.popleft()
            _worker = None
            if _jobs:
                _start_worker()


def _set_interval(seconds: float) -> None:
    """Sets how long a thread keeps the interpreter; it counts in whole microseconds, and cuts off what is below."""
    sys.setswitchinterval((round(seconds * 1e6) + 0.5) * 1e-6)


def _restore_interval() -> None:
    """After a job: unless a program has chosen another interval meanwhile."""
    global _hurried
    if sys.getswitchinterval() == _hurried:
        _set_interval(_usual)
    _hurried = 0.0


def _before_fork() -> None:
    compiling.acquire()
    _queueing.acquire()


def _after_fork() -> None:
    _queueing.release()
    compiling.release()


def _after_fork_in_child() -> None:
    """The child has no worker. It does the jobs itself when it asks for another one."""
    global _worker
    _worker = None
    _restore_interval()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


@atexit.register
def _finish() -> None:
    """Lets the compilation that is under way end, and none begin: LLVM must not run while the process takes it down."""
    compiling.acquire()
    with _queueing:
        while len(_jobs) > 1:
            _jobs.pop()
