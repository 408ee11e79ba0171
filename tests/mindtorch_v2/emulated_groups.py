"""Kernels that are written for a GPU (_backends/cuda/group_sources.py), run by a C++ compiler of the host.

The threads of a block are fibers that take turns; they wait for each other where the GPU's would. A kernel gets its
arguments as the driver gives them: each from the place of its number among those of the launch.
"""

import copy
import ctypes
import hashlib
import pathlib
import re
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from tests.mindtorch_v2.interpreted_kernels import Interpreted

from mindtorch_v2._backends.cuda.group_sources import Written
from mindtorch_v2._pipeline import planner, row_calls
from mindtorch_v2._pipeline import run as running

# What the GPU's compiler and prelude.py have.
_BEFORE = r"""
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
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
static bool failed;
extern "C" void __assertfail(const char*, const char*, unsigned int, const char*, size_t) { failed = true; }
"""
_AFTER = r"""
static void** given;
static void thread() {
    KERNEL(ARGUMENTS);
    current->done = true;
    swapcontext(&current->context, &scheduler);
}
extern "C" const int sizes[] = {SIZES};
extern "C" bool launch(void** all, int grid, int x, int y) {
    given = all;
    failed = false;
    blockDim = {x, y};
    for (blockIdx = {0, 0}; blockIdx.x < grid; ++blockIdx.x) {
        if (ALONE) {
            fibers.resize(1);
            current = &fibers[0];
            for (int i = 0; i < x * y; ++i) { current->place = {i % x, i / x}; KERNEL(ARGUMENTS); }
            continue;
        }
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
    return !failed;
}
"""


class Emulated:
    """In the place of machine code: `call(*arrays, geometry, *numbers)`."""

    launches = 0
    folder: pathlib.Path
    written: list[Written]  # for the plans since the last `install`

    def __init__(self, written: Written, offsets: Sequence[int], may_fail: bool) -> None:
        self.written, self.offsets, self.may_fail = written, offsets, may_fail

    def wanted(self, size: int) -> Any:
        return self.call

    def call(self, *given: Any) -> bool:
        Emulated.launches += 1
        count, written = len(self.offsets), self.written
        numbers = given[count + self.may_fail + 1 :]
        starts = [a.__array_interface__["data"][0] + offset
                  for a, offset in zip(given[:count], self.offsets, strict=True)]  # fmt: skip
        values = [*starts, *numbers]
        slots = [(ctypes.c_double if letter == "d" else ctypes.c_longlong)(value)
                 for letter, value in zip(written.format, values, strict=True)]  # fmt: skip
        library = self._built(len(slots) + len(written.fixed))
        told = [*slots, *written.fixed]
        sizes = (ctypes.c_int * len(told)).in_dll(library, "sizes")
        assert list(sizes) == [ctypes.sizeof(one) for one in told]
        places = (ctypes.c_void_p * len(told))(*map(ctypes.addressof, told))
        (grid,), (x, y) = written.grid, (*written.block, 1)[:2]
        library.launch.restype = ctypes.c_bool
        fine = library.launch(places, grid, x, y)
        if self.may_fail:
            given[count][0] = not fine
        return True

    def _built(self, count: int) -> Any:
        written = self.written
        kinds = parameters(written)
        assert len(kinds) == count
        arguments = ", ".join(f"*({kind}*)given[{k}]" for k, kind in enumerate(kinds))
        after = _AFTER.replace("KERNEL", written.name).replace("ARGUMENTS", arguments)
        after = after.replace("SIZES", ", ".join(f"sizeof({kind})" for kind in kinds))
        after = after.replace("ALONE", "false" if written.name == "row_group" else "true")
        text = '#include "before.h"\n' + written.text.replace('extern "C" __global__', "static") + after
        file = Emulated.folder / f"{hashlib.md5(text.encode()).hexdigest()}.cpp"
        library = file.with_suffix(".so")
        if not library.exists():
            file.write_text(text)
            _compile("-shared", str(file), "-o", str(library))
        return ctypes.CDLL(str(library))


def parameters(written: Written) -> list[str]:
    """The types of a kernel's parameters."""
    found = re.search(rf'extern "C" __global__ void [^;{{]*?{written.name}\(([^{{]*)\) {{', written.text)
    assert found is not None
    return [re.sub(r"\s*\w+$", "", one.strip()) for one in found[1].split(",")]


def _compile(*given: str) -> None:
    subprocess.run(["g++", "-std=c++17", "-w", "-fPIC", *given], check=True)


def install(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
    """Plans of the CPU have the groups that those of a GPU have, and run their kernels, built in a folder."""
    Emulated.folder = folder
    if not (folder / "before.h").exists():
        (folder / "before.h").write_text(_BEFORE)
        _compile("-x", "c++-header", str(folder / "before.h"))
    Emulated.written, launched = collect(monkeypatch)

    def code_of(kernel: Any) -> Any:
        return Emulated(*launched[id(kernel)][1:]) if id(kernel) in launched else Interpreted(kernel)

    monkeypatch.setattr(running, "code_of", code_of)


def collect(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Written], dict[int, tuple]]:
    """Plans of the CPU have the groups that those of a GPU have: what is written for one, as they are planned.

    Then, by the identity of a kernel of the CPU's: this, what is written, where arrays begin, whether it may fail.
    """
    collected: list[Written] = []
    launched: dict[int, tuple] = {}
    step_of, geometry_of = planner._Planner._step, planner.geometry_of
    seen: list[Any] = []

    def geometry(kind: str, shape: Any, stay: int, rows: Any, operands: list[Any], stored: int) -> Any:
        made = geometry_of(kind, shape, stay, rows, operands, stored)
        seen[:] = operands, [o.name for o in operands[:stored]], made[1]
        return made

    def step(self: Any, draft: Any, reads: dict[int, int]) -> Any:
        seen.clear()
        made = step_of(self, draft, reads)
        if not seen:
            return made
        operands, stored, letters = seen
        loaded = [name for name, _ in draft.loaded.values()]
        written = planner.written_for_cuda(draft, operands, stored, loaded, letters)
        if written is not None:
            collected.append(written)
            made.kernel, made.form = copy.copy(made.kernel), None  # a launch is for its own sizes
            launched[id(made.kernel)] = made.kernel, written, made.group.offsets, made.group.may_fail
        return made

    monkeypatch.setattr(planner, "geometry_of", geometry)
    monkeypatch.setattr(planner._Planner, "_step", step)
    monkeypatch.setattr(planner._Planner, "_summed", lambda *given: False)
    monkeypatch.setattr(planner, "WRITING_ROWS", ("cpu",))
    monkeypatch.setattr(row_calls, "_SPLITTING", ("cpu",))
    monkeypatch.setitem(planner.ROWS, "cpu", planner.ROWS["cuda"])
    monkeypatch.setitem(row_calls._KINDS_OF, "cpu", row_calls._KINDS_OF["cuda"])
    return collected, launched
