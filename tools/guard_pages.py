"""Runs kernels on arrays that end, or begin, at a page that nobody may touch: an element too far ends the process.

    python tools/guard_pages.py                  # everything: oneDNN where it is installed, LAPACK, all operators
    python tools/guard_pages.py lapack onednn    # parts of it

NumPy takes the memory of all arrays from here, each from pages of its own; a C compiler is needed. The part that fails
shows its Python traceback. Bytes between an array's end and the page, which alignment leaves, are looked at when it is
freed.
"""

import argparse
import ctypes
import faulthandler
import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "mindtorch_v2")]

import mindtorch_v2 as torch  # noqa: E402
from mindtorch_v2 import nn  # noqa: E402

_SET_HANDLER = 304  # PyDataMem_SetHandler in NumPy's table of C functions
_ALLOCATOR = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define PAGE 4096
#define MARK 0xA5
int at_end;
long arrays, overwritten;
typedef struct { size_t pages, size; } Block;  /* lies in the first page: that, a guard, the array's pages, a guard */

static Block* block_of(void* array) { return (Block*)(((uintptr_t)array & ~(uintptr_t)(PAGE - 1)) - 2 * PAGE); }

void* guarded_malloc(void* context, size_t size) {
    size_t room = ((size ? size : 1) + 15) / 16 * 16, pages = (room + PAGE - 1) / PAGE * PAGE;
    char* start = mmap(0, pages + 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return 0;
    ((Block*)start)->pages = pages;
    ((Block*)start)->size = size;
    memset(start + 2 * PAGE, MARK, pages);
    mprotect(start + PAGE, PAGE, PROT_NONE);
    mprotect(start + 2 * PAGE + pages, PAGE, PROT_NONE);
    ++arrays;
    return start + 2 * PAGE + (at_end ? pages - room : 0);
}

void guarded_free(void* context, void* array, size_t size) {
    if (!array) return;
    Block block = *block_of(array);
    unsigned char *first = (unsigned char*)block_of(array) + 2 * PAGE, *own = array;
    for (unsigned char* p = first; p < first + block.pages; ++p)
        if ((p < own || p >= own + block.size) && *p != MARK) {
            ++overwritten;
            fprintf(stderr, "bytes around an array of %zu bytes were written\n", block.size);
            break;
        }
    munmap(block_of(array), block.pages + 3 * PAGE);
}

void* guarded_calloc(void* context, size_t count, size_t size) {
    void* made = guarded_malloc(context, count * size);
    return made ? memset(made, 0, count * size) : 0;
}

void* guarded_realloc(void* context, void* array, size_t size) {
    void* made = guarded_malloc(context, size);
    if (!made || !array) return made;
    size_t old = block_of(array)->size;
    memcpy(made, array, old < size ? old : size);
    guarded_free(context, array, old);
    return made;
}
"""


def compiled() -> ctypes.CDLL:
    """The allocator. NumPy frees arrays while an error is on its way, which a function in Python would lose."""
    folder = pathlib.Path(tempfile.mkdtemp())
    source, library = folder / "guard.c", folder / "guard.so"
    source.write_text(_ALLOCATOR)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-w", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class Guard:
    """Lets NumPy take the memory of its arrays from the allocator; `at_end`: they end at a page without access."""

    def __init__(self, library: ctypes.CDLL, at_end: bool) -> None:
        ctypes.c_int.in_dll(library, "at_end").value = at_end
        self.arrays, self.overwritten = (ctypes.c_long.in_dll(library, name) for name in ("arrays", "overwritten"))
        pointer, names = ctypes.c_void_p, ("malloc", "calloc", "realloc", "free")
        functions = [ctypes.cast(getattr(library, f"guarded_{name}"), pointer) for name in names]

        class Handler(ctypes.Structure):  # PyDataMem_Handler
            _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", pointer),
                        *((name, pointer) for name in names)]

        handler = Handler(b"guard pages", 1, None, *functions)
        capsule, contents = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetPointer
        capsule.restype, capsule.argtypes = ctypes.py_object, [pointer, ctypes.c_char_p, pointer]
        contents.restype, contents.argtypes = pointer, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(contents(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(pointer))  # type: ignore[attr-defined]
        change = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
        self.kept = handler, change(capsule(ctypes.addressof(handler), b"mem_handler", None))
        assert np._core.multiarray.get_handler_name() == "guard pages"  # type: ignore[attr-defined]


# what is run ---------------------------------------------------------------------------------------------------------


def _attempt(call: Callable[[], Any]) -> None:
    """Runs a call; that it refuses is as good as that it computes."""
    try:
        call()
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return


def lapack() -> int:
    """Every function that calls LAPACK, on matrices of many shapes and types, and with wrong pivots."""
    kinds = (torch.float32, torch.float64, torch.complex64, torch.complex128)
    sizes = (1, 2, 3, 5, 17)
    return sum(_factored(*case) for case in itertools.product(kinds, ((), (3,)), sizes, sizes))


def _factored(kind: torch.dtype, batch: tuple[int, ...], rows: int, columns: int) -> int:
    L = torch.linalg
    torch.manual_seed(0)
    A, B = torch.randn(*batch, rows, columns, dtype=kind), torch.randn(*batch, rows, 2, dtype=kind)
    calls: list[Callable] = [
        lambda: L.svd(A), lambda: L.svdvals(A), lambda: L.qr(A), lambda: L.qr(A, "complete"), lambda: L.lu(A),
        lambda: L.pinv(A), lambda: torch.geqrf(A), lambda: L.cond(A), lambda: torch.lu_unpack(*L.lu_factor(A)),
        lambda: L.householder_product(*torch.geqrf(A)), lambda: torch.ormqr(*torch.geqrf(A), B),
        *(lambda d=d: L.lstsq(A, B, driver=d) for d in ("gels", "gelsy", "gelsd", "gelss"))]
    if rows == columns:
        S = A @ A.mH + torch.eye(rows, dtype=kind)
        calls += [lambda: L.cholesky(S), lambda: torch.cholesky_inverse(L.cholesky(S)), lambda: L.eigh(S),
                  lambda: torch.cholesky_solve(B, L.cholesky(S)), lambda: L.eig(A), lambda: L.inv(A),
                  lambda: L.solve(A, B), lambda: L.det(A), lambda: L.slogdet(A), lambda: L.matrix_exp(A),
                  lambda: L.lu_solve(*L.lu_factor(A), B), lambda: L.ldl_solve(*L.ldl_factor(S), B),
                  *(lambda u=u, n=n: L.solve_triangular(A, B, upper=u, unitriangular=n)
                    for u in (True, False) for n in (True, False))]
        for wrong in (0, -1, rows + 1, 10**8, -(10**8)):
            pivots = torch.full((*batch, rows), wrong, dtype=torch.int32)
            calls += [lambda p=pivots: L.lu_solve(A, p, B), lambda p=pivots: torch.lu_unpack(A, p),
                      lambda p=pivots: L.ldl_solve(A, p, B)]
    for call in calls:
        _attempt(call)
    return len(calls)


def onednn() -> int:
    """What oneDNN computes, of many shapes, forwards and backwards, and gradients with sizes that do not fit."""
    from mindtorch_v2._backends.cpu.kernels import onednn as onednn_kernels

    onednn_kernels._LITTLE = 1
    chance = random.Random(0)
    return sum(_layers(chance) for _ in range(300))


def _trained(call: Callable, *tensors: torch.Tensor) -> None:
    leaves = [t.requires_grad_() for t in tensors]
    made = call(*leaves)
    made.backward(torch.ones_like(made))


def _layers(chance: random.Random) -> int:
    functional, aten = nn.functional, torch.ops.aten
    rows, width = chance.choice((1, 3, 17, 64, 513)), chance.choice((1, 7, 16, 33, 300, 1024))
    x, w, b, column = torch.randn(rows, width), torch.randn(width), torch.randn(width), torch.ones(rows, 1)
    wrong = torch.randn(chance.choice((1, 2, width + 1, 5000)))
    channels, made, groups = chance.choice(((3, 8, 1), (8, 16, 1), (16, 16, 16), (16, 32, 2), (5, 7, 1), (1, 1, 1)))
    kernel, stride, pad, dilation = (chance.choice(c) for c in ((1, 2, 3, 5), (1, 2, 3), (0, 1, 2), (1, 2)))
    image = torch.randn(2, channels, chance.randint(9, 20), chance.randint(9, 20))
    if chance.random() < 0.5:
        image = image.contiguous(memory_format=torch.channels_last)
    filters, options = torch.randn(made, channels // groups, kernel, kernel), (None, stride, pad, dilation, groups)
    steps = [stride] * 2, [pad] * 2, [dilation] * 2, False, [0, 0], groups, [True, True, False]
    calls = [lambda: _trained(lambda x, w, b: functional.layer_norm(x, (width,), w, b), x, w, b),
             lambda: _trained(lambda x: functional.softmax(x, -1), x), lambda: _trained(functional.gelu, x),
             lambda: _trained(functional.silu, x), lambda: _trained(torch.sigmoid, x),
             lambda: _trained(lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), x, w, b),
             lambda: _trained(lambda i: functional.batch_norm(i, None, None, None, None, True), image),
             lambda: _trained(lambda i, f: functional.conv2d(i, f, *options), image, filters),
             lambda: _trained(lambda i, f: functional.conv1d(i[:, :, 0], f[..., 0], *options), image, filters),
             lambda: functional.layer_norm(x, (width,), wrong, b),
             lambda: functional.batch_norm(x, None, None, wrong, b, True),
             lambda: aten.native_layer_norm_backward(x, x, [width], column, column, wrong, b, [True] * 3),
             lambda: aten.native_layer_norm_backward(x, x, [width], wrong, column, w, b, [True] * 3),
             lambda: aten._softmax_backward_data(wrong, x, 1, torch.float32),
             lambda: aten.gelu_backward(wrong, x), lambda: aten.silu_backward(x, wrong),
             lambda: aten.convolution_backward(torch.randn(2, made, 7, 9), image, filters, None, *steps)]
    for call in calls:
        _attempt(call)
    return len(calls)


def operators() -> int:
    """Every sample of every operator in four types, with gradients, and with its tensors' sizes mixed up."""
    import operator_cases

    count, chance = 0, random.Random(0)
    kinds = ("float32", "float64", "int64", "bfloat16")
    for declaration in operator_cases.sampled().values():
        for call, kind, change in itertools.product(operator_cases.calls(declaration), kinds, (False, True)):
            _attempt(lambda call=call, kind=kind, change=change: _sampled(call, kind, chance if change else None))
            count += 1
    return count


def _sampled(call: Any, kind: str, chance: random.Random | None) -> None:
    import operator_cases

    tensors = [t.requires_grad_(chance is None and t.is_floating_point()) for t in
               operator_cases.bases(call, torch, kind)]
    args, kwargs = operator_cases.arguments(call, torch, tensors)
    if chance is not None:
        args = tuple(torch.randn(chance.randint(1, 5), chance.randint(1, 40)).to(a.dtype)
                     if isinstance(a, torch.Tensor) and chance.random() < 0.5 else a for a in args)
    made = operator_cases.dispatch(call.declaration.operator.name, *args, **kwargs)
    if isinstance(made, torch.Tensor) and made.requires_grad:
        made.sum().backward()


PARTS: dict[str, Callable[[], int]] = {"lapack": lapack, "onednn": onednn, "operators": operators}


def guarded(part: str, library: ctypes.CDLL, at_end: bool) -> bool:
    """Whether a part runs in a process of its own without touching a guard page or the bytes before it."""
    child = os.fork()
    if not child:
        faulthandler.enable()
        guard = Guard(library, at_end)
        calls = PARTS[part]()
        side = "after" if at_end else "before"
        print(f"{part}, pages {side} arrays: {calls} calls, {guard.arrays.value} arrays, "
              f"{guard.overwritten.value} with bytes written around them", flush=True)
        os._exit(bool(guard.overwritten.value))
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=list(PARTS))
    chosen = parser.parse_args().parts
    torch.set_num_threads(1)
    if not torch.backends.mkldnn.is_available():
        chosen = [part for part in chosen if part != "onednn"]
        print("oneDNN is not installed: its kernels are left out")
    library = compiled()
    failed = [part for part in chosen for at_end in (True, False) if not guarded(part, library, at_end)]
    sys.exit(f"{', '.join(failed)}: outside of an array" if failed else 0)


if __name__ == "__main__":
    main()
