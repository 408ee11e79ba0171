"""LLVM IR made into machine code that Python can call."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import queue
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import cache, symbols, threads

__all__ = ["available", "callable_from", "load", "load_in_background"]

_VERSION = "1"  # of what this module does with IR; another one finds none of the entries on disk
_METH_FASTCALL = 0x80
_kept: list[Any] = []  # what machine code stands on; it is never unloaded


def _ndarray_as_expected() -> bool:
    """Whether the fields of an ndarray lie where compiled code reads them."""
    array = np.zeros((2, 3), np.float32)[:, 1:]
    at = id(array)
    fields = (ctypes.c_int64 * 9).from_address(at)
    shape = (ctypes.c_int64 * 2).from_address(fields[4])
    strides = (ctypes.c_int64 * 2).from_address(fields[5])
    return (
        fields[2] == array.ctypes.data
        and fields[3] & 0xFFFFFFFF == array.ndim
        and tuple(shape) == array.shape
        and tuple(strides) == array.strides
        and fields[6] == id(array.base)
        and fields[7] == id(array.dtype)
        and fields[8] & 0xFFFFFFFF == array.flags.num
    )


@functools.cache
def available() -> bool:
    """Whether IR can be compiled here; llvmlite is looked for, not loaded."""
    return (
        os.environ.get("MINDTORCH_JIT") != "0"
        and sys.implementation.name == "cpython"
        and sys.maxsize == 2**63 - 1
        and sys.byteorder == "little"
        and importlib.util.find_spec("llvmlite") is not None
        and _ndarray_as_expected()
    )


class _Compiler:
    """LLVM for the processor of this machine.

    The target machine carries the processor's name and features, so functions need no attributes of their own; loops
    become vectors of the width that LLVM prefers for the processor.
    """

    def __init__(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm = llvm
        self.triple = llvm.get_process_triple()
        processor, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        self.target = llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=processor, features=features, opt=3, reloc="pic", codemodel="small", jit=True
        )
        self.layout = str(self.target.target_data)
        self.linker = llvm.create_lljit_compiler()
        self.linker._owned = True  # not taken down at exit: other threads may still be in its code
        self.identity = "\n".join(
            (_VERSION, llvmlite.__version__, str(llvm.llvm_version_info), self.triple, processor, features)
        )
        self.libraries = 0

    def object_code(self, ir: str) -> bytes:
        """The optimised machine code of IR."""
        llvm = self.llvm
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.triple, module.data_layout = self.triple, self.layout
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_interleaving = options.loop_unrolling = True
        builder = llvm.create_pass_builder(self.target, options)
        builder.getModulePassManager().run(module, builder)
        return self.target.emit_object(module)

    def link(self, code: bytes, ir: str, names: Sequence[str]) -> dict[str, int]:
        """The addresses of the functions of object code, which is in memory from now on."""
        library = self.llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in re.findall(r"^declare [^@]*@([\w.$]+)\(|^@([\w.$]+) = external", ir, re.MULTILINE):
            declared = name[0] or name[1]
            at = None if declared.startswith("llvm.") else _address(declared)
            if at is not None:
                library.import_symbol(declared, at)
        for name in names:
            library.export_symbol(name)
        self.libraries += 1
        tracker = library.link(self.linker, f"kernels{self.libraries}")
        tracker._owned = True
        _kept.append(tracker)
        return {name: tracker[name] for name in names}


@functools.cache
def _runtime() -> dict[str, int]:
    """The addresses of the functions that kernels share."""
    return load(threads.runtime_ir(), threads.FUNCTIONS)


def _address(name: str) -> int | None:
    return _runtime()[name] if name in threads.FUNCTIONS else symbols.address(name)


@functools.cache
def _compiler() -> _Compiler:
    return _Compiler()


def load(ir: str, names: Sequence[str], *, persistent: bool = True) -> dict[str, int]:
    """The addresses of the named functions of IR: from disk where it was compiled before, else compiled now."""
    compiler = _compiler()
    key = hashlib.blake2b((compiler.identity + "\n" + ir).encode(), digest_size=20).hexdigest()
    code = cache.read(key) if persistent else None
    if code is None:
        code = compiler.object_code(ir)
        if persistent:
            cache.write(key, code)
    return compiler.link(code, ir, names)


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def callable_from(address: int, name: str) -> Callable[..., Any]:
    """A builtin function over machine code `PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t count)`."""
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p]
    method = _MethodDef(name.encode(), address, _METH_FASTCALL, None)
    _kept.append(method)
    return new(ctypes.byref(method), None, None)


_waiting: "queue.SimpleQueue[tuple[Callable[[], str], Sequence[str], Callable[[dict[str, int]], None]]]"
_waiting = queue.SimpleQueue()
_worker: list[threading.Thread] = []


def _work() -> None:
    while True:
        ir, names, done = _waiting.get()
        try:
            done(load(ir(), names))
        except Exception as error:  # the kernel stays uncompiled, the next ones are wanted all the same
            warnings.warn(f"a kernel could not be compiled, and is computed by NumPy: {error}", stacklevel=1)


def load_in_background(ir: Callable[[], str], names: Sequence[str], done: Callable[[dict[str, int]], None]) -> None:
    """Makes IR and loads it in a thread of its own, which then calls `done` with the addresses."""
    if not _worker:
        _worker.append(threading.Thread(target=_work, name="mindtorch-compiler", daemon=True))
        _worker[0].start()
    _waiting.put((ir, names, done))
