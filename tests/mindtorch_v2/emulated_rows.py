"""Kernels of rows that are written for a GPU (_backends/cuda/row_groups.py), run by a C++ compiler of the host.

The threads of a block are fibers that take turns; they wait for each other where the GPU's would.
"""

import copy
import ctypes
import hashlib
import math
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from tests.mindtorch_v2.interpreted_kernels import Interpreted

from mindtorch_v2._backends.cuda import row_groups
from mindtorch_v2._core.geometry import collapsed
from mindtorch_v2._kernels import cuda, ir
from mindtorch_v2._pipeline import planner, row_calls
from mindtorch_v2._pipeline import run as running

# What the GPU's compiler and launch.py have.
_BEFORE = r"""
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
typedef long long int64;
struct Place { int x, y; };
struct Fiber { ucontext_t context; Place place; bool done; std::vector<char> stack; };
static Place blockIdx, blockDim;
static std::vector<Fiber> fibers;
static Fiber* current;
static ucontext_t scheduler;
#define threadIdx (current->place)
static double given_values[1024];
static int arrived[33], turn[33], members[33];  // of warps, and of the block
static int number() { return current->place.x + current->place.y * blockDim.x; }
static void meet(int group) {
    int now = turn[group];
    if (++arrived[group] == members[group]) { arrived[group] = 0; ++turn[group]; }
    while (turn[group] == now) swapcontext(&current->context, &scheduler);
}
static void __syncthreads() { meet(32); }
template <typename T> static T __shfl_xor_sync(unsigned, T x, int s) {
    int own = number();
    T made;
    memcpy(&given_values[own], &x, sizeof x);
    meet(own / 32);
    memcpy(&made, &given_values[own ^ s], sizeof made);
    meet(own / 32);
    return made;
}
static double __longlong_as_double(long long x) { double made; memcpy(&made, &x, 8); return made; }
static int64 __double_as_longlong(double x) { int64 made; memcpy(&made, &x, 8); return made; }
static float __int_as_float(int x) { float made; memcpy(&made, &x, 4); return made; }
static int __float_as_int(float x) { int made; memcpy(&made, &x, 4); return made; }
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }
template <typename T> static void atomicAdd(T*, T) {}
template <typename T> static void atomicMin(T*, T) {}
template <typename T> static void atomicMax(T*, T) {}
struct half_t { unsigned short bits; };
struct bfloat_t { unsigned short bits; };
static float widened(half_t x) { _Float16 made; memcpy(&made, &x, 2); return (float)made; }
static float widened(bfloat_t x) { return __int_as_float((int)x.bits << 16); }
template <typename T> static T widened(T x) { return x; }
template <typename T> struct narrow { template <typename U> static T of(U x) { return (T)x; } };
template <> struct narrow<half_t> {
    static half_t of(float x) { _Float16 h = (_Float16)x; half_t made; memcpy(&made, &h, 2); return made; }
};
template <> struct narrow<bfloat_t> {
    static bfloat_t of(float x) {
        unsigned u = __float_as_int(x);
        bfloat_t made;
        made.bits = x != x ? 0x7fc0 : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
        return made;
    }
};
constexpr int aligned_to(int bytes) { return (bytes & -bytes) > 16 ? 16 : bytes & -bytes; }
template <typename T, int N> struct alignas(aligned_to(sizeof(T) * N)) pack { T v[N]; };
static void require(bool) {}
"""
_AFTER = r"""
struct Given { void** arrays; double* reals; int64* wholes; int64 rows, width; Places* places; };
static Given* given;
static void thread() {
    row_group(ARGUMENTS given->rows, given->width, *given->places);
    current->done = true;
    swapcontext(&current->context, &scheduler);
}
extern "C" void launch(Given* all, int grid, int x, int y) {
    given = all;
    blockDim = {x, y};
    for (blockIdx = {0, 0}; blockIdx.x < grid; ++blockIdx.x) {
        fibers.assign(x * y, Fiber());
        memset(members, 0, sizeof members);
        memset(arrived, 0, sizeof arrived);
        members[32] = x * y;
        for (int i = 0; i < x * y; ++i) {
            Fiber& own = fibers[i];
            own.place = {i % x, i / x};
            own.stack.resize(1 << 17);
            ++members[i / 32];
            getcontext(&own.context);
            own.context.uc_stack.ss_sp = own.stack.data();
            own.context.uc_stack.ss_size = own.stack.size();
            makecontext(&own.context, thread, 0);
        }
        for (bool more = true; more;) {
            more = false;
            for (Fiber& own : fibers)
                if (!own.done) { more = true; current = &own; swapcontext(&scheduler, &own.context); }
        }
    }
}
"""


class _Given(ctypes.Structure):
    _fields_ = (("arrays", ctypes.c_void_p), ("reals", ctypes.c_void_p), ("wholes", ctypes.c_void_p),
                ("rows", ctypes.c_longlong), ("width", ctypes.c_longlong), ("places", ctypes.c_void_p))  # fmt: skip


class Emulated:
    """In the place of machine code: `call(*arrays, geometry, *numbers)`. `dealt_as` counts rows in another way."""

    launches = 0
    dealt_as: int | None = None
    folder: pathlib.Path

    def __init__(self, body: Any, operands: Sequence[Any], stored: Sequence[str], loaded: Sequence[str], letters: str,
                 shape: Sequence[int]) -> None:  # fmt: skip
        self.body, self.operands, self.names, self.letters = body, operands, (stored, loaded), letters
        self.shape = shape

    def wanted(self, size: int) -> Any:
        return self.call

    def call(self, *given: Any) -> bool:
        Emulated.launches += 1
        count = len(self.operands) - len(self.body.places)
        arrays, behind = given[:count], given[count + bool(self.body.wrong) :]
        words, numbers = behind[0], behind[1:]
        *outer, width = self.shape
        narrowest = min([o.layout.dtype.itemsize for o, letter in zip(self.operands[:count], self.letters, strict=False)
                         if letter == "1"], default=4)  # fmt: skip
        rows = math.prod(outer)
        dealt = row_groups.dealt(self.dealt_as or rows, width, narrowest)
        assert dealt is not None
        sizes, strides = collapsed(range(len(outer) - 1, -1, -1), outer, [o.layout.strides[:-1] for o in self.operands])
        steps = [s // o.layout.dtype.itemsize for o, own in zip(self.operands, strides, strict=True) for s in own]
        types = [cuda.C_TYPES[ir.TYPES[o.layout.dtype.name]] for o in self.operands]
        source = row_groups.row_source(self.body, types, *self.names, self.letters, len(sizes), dealt)
        told = words[len(words) - self.body.words :] if self.body.words else ()
        places = (ctypes.c_longlong * (len(sizes) + len(steps) + len(told)))(*sizes, *steps, *told)
        starts = [a.__array_interface__["data"][0] + int(words[4 + len(types) + k]) for k, a in enumerate(arrays)]
        lists = ((ctypes.c_void_p * count)(*starts), (ctypes.c_double * (len(numbers) + 1))(*map(float, numbers)),
                 (ctypes.c_longlong * (len(numbers) + 1))(*map(int, numbers)))  # fmt: skip
        own = _Given(*map(ctypes.addressof, lists), rows, width, ctypes.addressof(places))
        self._built(source, types[:count]).launch(ctypes.byref(own), -(-rows // dealt.block[1]), *dealt.block)
        return True

    def _built(self, source: str, types: Sequence[str]) -> Any:
        arguments = [f"({kind}*)given->arrays[{k}], " for k, kind in enumerate(types)]
        arguments += [f"given->{'reals' if kind == 'f64' else 'wholes'}[{i}], "
                      for i, kind in enumerate(self.body.numbers.values())]  # fmt: skip
        text = _BEFORE + source.replace('extern "C"', "") + _AFTER.replace("ARGUMENTS", "".join(arguments))
        file = Emulated.folder / f"{hashlib.md5(text.encode()).hexdigest()}.cpp"
        library = file.with_suffix(".so")
        if not library.exists():
            file.write_text(text)
            subprocess.run(["g++", "-std=c++17", "-w", "-shared", "-fPIC", str(file), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def install(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
    """Plans of the CPU have the rows that those of a GPU have, and run their kernels."""
    Emulated.folder, made = folder, dict[int, tuple[Any, Any]]()
    shapes: list[tuple] = []
    geometry, kernel = planner.row_geometry, planner.row_kernel

    def row_geometry(shape: Sequence[int], operands: Sequence[Any]) -> Any:
        shapes.append((shape, operands))
        return geometry(shape, operands)

    def row_kernel(
        body: Any, operands: Sequence[Any], stored: Sequence[str], names: Sequence[str], letters: str
    ) -> Any:
        own = copy.copy(kernel(body, operands, stored, names, letters))
        shape, rows = shapes[-1]
        made[id(own)] = own, Emulated(body, rows, stored, names, letters, shape)
        return own

    monkeypatch.setattr(planner, "row_geometry", row_geometry)
    monkeypatch.setattr(planner, "row_kernel", row_kernel)
    monkeypatch.setattr(planner._Planner, "_summed", lambda *given: False)
    monkeypatch.setattr(planner, "WRITING_ROWS", ("cpu",))
    monkeypatch.setattr(row_calls, "_SPLITTING", ("cpu",))
    monkeypatch.setitem(planner.ROWS, "cpu", planner.ROWS["cuda"])
    monkeypatch.setitem(row_calls._KINDS_OF, "cpu", row_calls._KINDS_OF["cuda"])
    monkeypatch.setattr(running, "code_of", lambda k: made[id(k)][1] if id(k) in made else Interpreted(k))
