"""Writes the simulator's C source from the table of operators and the prototypes, and compiles it once."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
FACTS = FOLDER.parents[3] / "src" / "mindtorch_v2" / "_backends" / "npu" / "aclnn.tsv"

# The kinds of aclnn.tsv as C types.
C_TYPES = {"int64": "int64_t", "uint64": "uint64_t", "int32": "int32_t", "int8": "int8_t", "bool": "bool",
           "float": "float", "double": "double", "dtype": "int32_t", "char*": "const char*"}  # fmt: skip


class Prototype(NamedTuple):
    name: str
    result: str
    types: tuple[str, ...]  # C types of the parameters, pointers to anything opaque as void*


def runtime_prototypes() -> list[Prototype]:
    found = []
    for line in [line for name in ("runtime.h", "hccl.h") for line in (FOLDER / name).read_text().splitlines()]:
        if line.startswith("//"):
            continue
        match = re.fullmatch(r"(.+?)\s*\b(\w+)\((.*)\);", line)
        assert match, line
        parameters = [] if match[3] == "void" else match[3].split(", ")
        found.append(Prototype(match[2], match[1], tuple(re.sub(r"\s*\w+$", "", p) for p in parameters)))
    return found


def operator_kinds() -> dict[str, tuple[tuple[str, str], ...]]:
    """Name and kind of each parameter of each operator, straight from the table."""
    lines = [line.split("\t") for line in FACTS.read_text().splitlines() if not line.startswith("#")]
    return {symbol: tuple(tuple(part.split(":")) for part in parameters.split()) for symbol, parameters, *_ in lines}


def operator_prototypes() -> list[Prototype]:
    found = []
    for symbol, parameters in operator_kinds().items():
        types = tuple(C_TYPES.get(kind.rstrip("?"), "void*") for _, kind in parameters)
        found.append(Prototype(f"{symbol}GetWorkspaceSize", "int32_t", (*types, "uint64_t*", "void**")))
        found.append(Prototype(symbol, "int32_t", ("void*", "uint64_t", "void*", "void*")))
    return found


def prototypes() -> list[Prototype]:
    """All exported functions; a function's number is its place here."""
    return runtime_prototypes() + operator_prototypes()


_HEAD = """\
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
// Each function hands its arguments, widened to 64 bits, to one callback, which knows the declared types. Time spent
// there is summed up. While muted, functions answer by themselves, so that the caller's own cost can be measured.
typedef uint64_t (*handler_t)(uint32_t number, const uint64_t* raw);
static handler_t handler;
static uint64_t spent, calls;
static int32_t muted;
void simulator_set_handler(handler_t given) { handler = given; }
void simulator_mute(int32_t on) { muted = on; }
uint64_t simulator_spent_ns(void) { return spent; }
uint64_t simulator_calls(void) { return calls; }
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static uint64_t handle(uint32_t number, const uint64_t* raw, uint64_t muted_answer) {
    calls++;
    if (muted) return muted_answer;
    uint64_t begin = now(), result = handler(number, raw);
    spent += now() - begin;
    return result;
}
static uint64_t bits_of_float(float x) { uint64_t raw = 0; memcpy(&raw, &x, sizeof x); return raw; }
static uint64_t bits_of_double(double x) { uint64_t raw = 0; memcpy(&raw, &x, sizeof x); return raw; }
"""


def _widened(type_name: str, name: str) -> str:
    if type_name in ("float", "double"):
        return f"bits_of_{type_name}({name})"
    return f"(uint64_t){name}" if type_name.endswith("*") or type_name[0] in "ubs" else f"(uint64_t)(int64_t){name}"


def source() -> str:
    parts = [_HEAD]
    for number, (name, result, types) in enumerate(prototypes()):
        names = [f"a{i}" for i in range(len(types))]
        parameters = ", ".join(f"{t} {n}" for t, n in zip(types, names, strict=True)) or "void"
        raw = ", ".join(_widened(t, n) for t, n in zip(types, names, strict=True)) or "0"
        call = f"handle({number}, raw, {64 if result == 'void*' else 0})"
        parts.append(f"{result} {name}({parameters}) {{ uint64_t raw[] = {{{raw}}}; return ({result}){call}; }}")
    return "\n".join(parts) + "\n"


def compiler() -> str | None:
    """The C compiler to use, or None."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def toolkit() -> Path:
    """A folder that looks like an installed CANN toolkit, with the simulator as its libraries; made once and kept."""
    text, command = source(), compiler()
    assert command is not None
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    root = Path(tempfile.gettempdir()) / f"mindtorch-npu-simulator-{os.getuid()}" / key
    library = root / "lib64" / "libascendcl.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        written = root / f"simulator-{os.getpid()}.c"
        written.write_text(text)
        compiled = written.with_suffix(".so")
        subprocess.run([command, "-O1", "-shared", "-fPIC", "-o", compiled, written], check=True)
        try:
            os.link(compiled, library)  # one that is there stays: programs may have it open by one of its names
        except FileExistsError:  # another test run was quicker
            pass
        compiled.unlink()
        written.unlink()
    for name in ("libnnopbase.so", "libopapi.so", "libhccl.so", "libmsprofiler.so"):
        link = library.with_name(name)
        if not link.exists():
            try:
                link.symlink_to(library.name)
            except FileExistsError:  # another test run was quicker
                pass
    return root
