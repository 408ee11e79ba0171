"""oneDNN through its C interface: the library where one is found, descriptors of memory, and primitives.

Names and numbers are those of the headers of oneDNN 3 (dnnl.h, dnnl_types.h). What is computed with it is in
onednn_kernels.py. Nothing here is loaded before an operator asks for it.
"""

import ctypes
import functools
import math
import os
import site
import sys
import threading
from collections.abc import Iterator, Sequence
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any, NamedTuple

import numpy as np

from ..._core.geometry import is_dense
from ..._core.threads import get_num_threads
from .openmp import waiting_briefly

VARIABLE = "MINDTORCH_ONEDNN"  # names the library's file, or 0 for none
_FILE = "libdnnl.so.3"  # the wheel onednn-cpu-gomp puts it below the prefix it is installed to
_CPU, _IN_ORDER, _ANY = 1, 1, 1  # dnnl_cpu, dnnl_stream_in_order, dnnl_format_tag_any
BF16, F32 = 2, 3  # dnnl_bf16, dnnl_f32
_BYTES = {BF16: 2, F32: 4}
_BF16_INSTRUCTIONS = 0xE7  # the bits of dnnl_cpu_isa_avx512_core_bf16, which larger sets have too
_IMPLEMENTATION, _ARGUMENT_LAYOUT = 8, 255  # dnnl_query_impl_info_str, dnnl_query_exec_arg_md
_ALIGNMENT = 64  # bytes
_OUT_OF_MEMORY, _REFUSED = 1, (2, 3)  # dnnl_out_of_memory; dnnl_invalid_arguments and dnnl_unimplemented
_SLOW = (b"ref", b"ncsp_bnorm", b"nspc_bnorm")  # implementations that NumPy outruns

SRC, DST, WEIGHTS, BIAS, MEAN, VARIANCE, SCALE, SHIFT = 1, 17, 33, 41, 49, 50, 51, 52
OTHER, AFTER = 2, 1 << 15  # DNNL_ARG_SRC_1, and what the numbers of the first part's arguments are counted from
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_SCALE, DIFF_SHIFT = 129, 145, 161, 255, 256

_Dims = c_int64 * 12  # dnnl_dims_t


class Unsupported(Exception):
    """oneDNN has no implementation of what was asked for; or, if not `lasting`, could not make it this time."""

    def __init__(self, function: str, lasting: bool = True) -> None:
        super().__init__(function)
        self.lasting = lasting


class _Argument(ctypes.Structure):
    _fields_ = [("number", c_int), ("memory", c_void_p)]


class _Version(ctypes.Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("patch", c_int)]


class Layout(NamedTuple):
    """Shape, strides in elements, and type of an array; no strides: as the primitive likes it best."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    kind: int = F32


# the library ---------------------------------------------------------------------------------------------------------


def _places() -> Iterator[str]:
    """Where the library may be: named, where its wheel puts it, or known to the loader."""
    named = os.environ.get(VARIABLE)
    if named:
        yield from () if named == "0" else (named,)
        return
    for prefix in (sys.prefix, sys.base_prefix, site.getuserbase()):
        yield os.path.join(prefix, "lib", _FILE)
    yield _FILE


class _Library:
    """The loaded library, with an engine and a stream on the CPU."""

    def __init__(self, path: str) -> None:
        with waiting_briefly():
            self.slow = ctypes.CDLL(path)  # lets other threads run meanwhile
        self.quick = ctypes.PyDLL(path)
        self.slow.dnnl_version.restype = ctypes.POINTER(_Version)
        version = self.slow.dnnl_version().contents
        if version.major != 3:
            raise OSError(f"{path} is version {version.major} of oneDNN, not 3")
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        self.slow.dnnl_primitive_desc_query_md.restype = c_void_p
        self.slow.dnnl_memory_desc_get_size.restype = c_size_t
        self.quick.dnnl_memory_set_data_handle.argtypes = [c_void_p, c_void_p]
        self.slow.dnnl_primitive_execute.argtypes = [c_void_p, c_void_p, c_int, c_void_p]
        self.set_threads = getattr(self.slow, "omp_set_num_threads", None)  # of the OpenMP that it is linked to
        self.engine = self.made("dnnl_engine_create", _CPU, c_size_t(0))
        self.stream = self.made("dnnl_stream_create", self.engine, _IN_ORDER)

    @property
    def has_bf16(self) -> bool:
        """Whether the processor multiplies bfloat16 numbers, so that it pays not to widen them."""
        return self.slow.dnnl_get_effective_cpu_isa() & _BF16_INSTRUCTIONS == _BF16_INSTRUCTIONS

    def made(self, function: str, *args: Any) -> c_void_p:
        """The handle that a function makes; Unsupported if it will not."""
        handle = c_void_p()
        status = getattr(self.slow, function)(byref(handle), *args)
        if status:
            raise Unsupported(function, status in _REFUSED)
        return handle


@functools.cache
def library() -> _Library | None:
    """The library; None where none was found."""
    for path in _places():
        try:
            return _Library(path)
        except (OSError, AttributeError, Unsupported):
            continue
    return None


def loaded() -> _Library:
    found = library()
    assert found is not None
    return found


# threads -------------------------------------------------------------------------------------------------------------

_lock = threading.Lock()  # a primitive's memory objects are bound to one call's arrays at a time
_told = threading.local()  # how many threads OpenMP was told to use: it keeps that for each thread that calls it
_forked = False


def _after_fork() -> None:
    global _lock, _forked
    _lock, _forked = threading.Lock(), True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads(work: float) -> int:
    """How many threads `work`, in units that are worth another thread, gets; OpenMP was told so.

    It is one or all: libgomp ends the threads that a smaller team does not need. A primitive must be made and run with
    the same number. In a forked process, where OpenMP lacks its threads, it is 1.
    """
    count = 1 if _forked or work < 1 else get_num_threads()
    if getattr(_told, "count", 0) != count:
        tell = loaded().set_threads
        if tell is not None:
            tell(count)
        _told.count = count
    return count


# primitives ----------------------------------------------------------------------------------------------------------


def dims(values: Sequence[int]) -> Any:
    return _Dims(*values)


class Operand(NamedTuple):
    """An array that a call is given, by the number that oneDNN has for it."""

    number: int
    layout: Layout
    is_result: bool = False


class Recipe:
    """What primitives are described by; keeps and destroys what was made on the way."""

    def __init__(self) -> None:
        self.library = loaded()
        self.handles: list[tuple[str, c_void_p]] = []

    def _kept(self, kind: str, handle: c_void_p) -> c_void_p:
        self.handles.append((kind, handle))
        return handle

    def descriptor(self, layout: Layout) -> c_void_p:
        shape, strides, element = layout
        kind = "with_tag" if strides is None else "with_strides"
        last = _ANY if strides is None else dims(strides)
        made = self.library.made(f"dnnl_memory_desc_create_{kind}", len(shape), dims(shape), element, last)
        return self._kept("memory_desc", made)

    def described(self, name: str, *args: Any, attributes: c_void_p | None = None) -> c_void_p:
        """A primitive's descriptor; layouts among the arguments are turned into theirs."""
        args = tuple(self.descriptor(a) if a.__class__ is Layout else a for a in args)
        made = self._kept("primitive_desc", self.library.made(f"dnnl_{name}_primitive_desc_create",
                                                              self.library.engine, *args, attributes))
        text = ctypes.c_char_p()
        self.library.slow.dnnl_primitive_desc_query(made, _IMPLEMENTATION, 0, byref(text))
        if (text.value or b"").startswith(_SLOW):
            raise Unsupported(name)
        return made

    def followed_by(self, parts: Sequence[tuple[int, float | Layout]]) -> c_void_p:
        """Attributes of a primitive whose result others take on: functions with a parameter, or of another array."""
        attributes = self._kept("primitive_attr", self.library.made("dnnl_primitive_attr_create"))
        chain = self._kept("post_ops", self.library.made("dnnl_post_ops_create"))
        slow = self.library.slow
        statuses = [slow.dnnl_post_ops_append_binary(chain, algorithm, self.descriptor(other))
                    if isinstance(other, Layout) else
                    slow.dnnl_post_ops_append_eltwise(chain, algorithm, c_float(other), c_float(0))
                    for algorithm, other in parts]  # fmt: skip
        if any(statuses) or slow.dnnl_primitive_attr_set_post_ops(attributes, chain):
            raise Unsupported("dnnl_primitive_attr_set_post_ops")
        return attributes

    def memory(self, descriptor: Any) -> c_void_p:
        made = self.library.made("dnnl_memory_create", descriptor, self.library.engine, c_void_p(0))
        return self._kept("memory", made)

    def primitive(self, description: c_void_p) -> c_void_p:
        return self._kept("primitive", self.library.made("dnnl_primitive_create", description))

    def reorder(self, source: Any, target: Any, pair: Sequence[c_void_p]) -> "_Step":
        engine = self.library.engine
        made = self.library.made("dnnl_reorder_primitive_desc_create", source, engine, target, engine, None)
        return _Step(self.primitive(self._kept("primitive_desc", made)), (SRC, DST), pair)

    def __del__(self) -> None:
        for kind, handle in reversed(self.handles):
            getattr(self.library.slow, f"dnnl_{kind}_destroy")(handle)


class _Step:
    """A primitive with its arguments."""

    def __init__(self, primitive: c_void_p, numbers: Sequence[int], memories: Sequence[c_void_p]) -> None:
        self.arguments = (_Argument * len(numbers))(*[_Argument(n, m) for n, m in zip(numbers, memories, strict=True)])
        self.call = (primitive, loaded().stream, len(numbers), self.arguments)


@functools.cache
def _compiled_call() -> Any:
    """What may become machine code that runs primitives; None where there is none for them."""
    from .jit import onednn_calls, onednn_products

    return onednn_calls.EXECUTE if onednn_products.addresses() else None


class Primitive:
    """Computes on arrays of the operands' layouts; what it wants laid out in another way, oneDNN rearranges."""

    def __init__(self, recipe: Recipe, description: c_void_p, operands: Sequence[Operand]) -> None:
        self.recipe, self.library = recipe, recipe.library
        self.bound: list[c_void_p] = []  # the memory of each operand
        self.expected = [(o.layout.kind, math.prod(o.layout.shape)) for o in operands]
        self.scratch: list[tuple[c_void_p, int]] = []
        used, before, after = [], [], []
        slow = self.library.slow
        for number, layout, is_result in operands:
            wanted = c_void_p(slow.dnnl_primitive_desc_query_md(description, _ARGUMENT_LAYOUT, number))
            own = wanted if layout.strides is None else recipe.descriptor(layout)
            memory = recipe.memory(own)
            self.bound.append(memory)
            if not slow.dnnl_memory_desc_equal(own, wanted):
                other = recipe.memory(wanted)
                self.scratch.append((other, slow.dnnl_memory_desc_get_size(wanted)))
                if is_result:
                    after.append(recipe.reorder(wanted, own, (other, memory)))
                else:
                    before.append(recipe.reorder(own, wanted, (memory, other)))
                memory = other
            used.append(memory)
        kernel = _Step(recipe.primitive(description), [o.number for o in operands], used)
        self.steps = [*before, kernel, *after]
        self.words: np.ndarray | None = None  # for compiled code, where nothing is rearranged
        if len(self.steps) == 1:
            primitive, stream, count, arguments = kernel.call
            places = [primitive.value, stream.value, count, ctypes.addressof(arguments)]
            self.words = np.array([*places, *[memory.value for memory in self.bound]], np.int64)

    def __call__(self, *arrays: np.ndarray) -> None:
        """Runs on the arrays, none of which is to lie as the primitive likes it, in the order of the operands."""
        for (kind, size), array in zip(self.expected, arrays, strict=True):
            if array.size != size or array.itemsize != _BYTES[kind] or not (array.flags.forc or is_dense(array)):
                raise RuntimeError(f"oneDNN was to read {size} elements of {_BYTES[kind]} bytes that lie densely, but "
                                   f"got an array of {array.shape} with strides {array.strides}")
        self.run(*arrays)

    def run(self, *arrays: np.ndarray) -> None:
        """Runs on arrays that are known to lie as the operands' layouts say."""
        compiled = _compiled_call() if self.words is not None else None
        code = compiled and (compiled.call or compiled.wanted(1))
        if code is not None:
            with _lock:
                _check(code(self.words, *arrays))
            return
        place, execute = self.library.quick.dnnl_memory_set_data_handle, self.library.slow.dnnl_primitive_execute
        rooms = []
        with _lock:
            for memory, array in zip(self.bound, arrays, strict=True):
                place(memory, array.ctypes.data)
            for memory, size in self.scratch:
                room = np.empty(size + _ALIGNMENT, np.uint8)
                rooms.append(room)
                place(memory, room.ctypes.data + -room.ctypes.data % _ALIGNMENT)
            for step in self.steps:
                _check(execute(*step.call))


class Packing:
    """Lays an array out as a primitive likes one of its arguments best: it is given the bytes of that from then on."""

    def __init__(self, recipe: Recipe, description: c_void_p, number: int, layout: Layout) -> None:
        self.recipe, self.library = recipe, recipe.library
        slow = self.library.slow
        own = recipe.descriptor(layout)
        wanted = c_void_p(slow.dnnl_primitive_desc_query_md(description, _ARGUMENT_LAYOUT, number))
        if slow.dnnl_memory_desc_equal(own, wanted):
            raise Unsupported("an argument that lies as it is liked")
        self.size: int = slow.dnnl_memory_desc_get_size(wanted)
        self.pair = recipe.memory(own), recipe.memory(wanted)
        self.step = recipe.reorder(own, wanted, self.pair)
        self.wanted = wanted

    def gives_the_same_as(self, other: "Packing") -> bool:
        """Whether both give an array of one layout the same bytes."""
        return bool(self.library.slow.dnnl_memory_desc_equal(self.wanted, other.wanted))

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The bytes of an array that lies as was said, rearranged."""
        room = np.empty(self.size + _ALIGNMENT, np.uint8)
        made = room[-room.ctypes.data % _ALIGNMENT :][: self.size]
        with _lock:
            for memory, place in zip(self.pair, (array, made), strict=True):
                self.library.quick.dnnl_memory_set_data_handle(memory, place.ctypes.data)
            _check(self.library.slow.dnnl_primitive_execute(*self.step.call))
        return made


def _check(status: int) -> None:
    """Raises what oneDNN says."""
    if status == _OUT_OF_MEMORY:
        raise MemoryError("dnnl_primitive_execute")
    if status:
        raise RuntimeError(f"oneDNN could not run a primitive (status {status})")
