"""Machine code on disk: found again, never half of it, and never needed."""

import errno
import functools
import gc
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import weakref

import pytest
from compiled_programs import CONSTANT, SOURCE, printed, started

from mindtorch_v2._backends.cpu.jit import elf, machine
from mindtorch_v2._core import disk_cache as cache

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
LONG = 10**6


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    deadline = time.monotonic() + 120
    while machine._jobs and time.monotonic() < deadline:  # kernels of tests before, which would be kept here
        time.sleep(0.01)
    monkeypatch.setenv("MINDTORCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def constant(number: int, persistent: bool = True) -> int:
    addresses = machine.load(CONSTANT.format(number=number), ["constant"], persistent=persistent)
    return machine.callable_from(addresses["constant"], "constant")()


# what is kept --------------------------------------------------------------------------------------------------------


def test_steps_of_a_pipeline_are_found_again_without_their_ir(folder):
    program = """
import mindtorch_v2 as torch
from mindtorch_v2._kernels import llvm
written, module_of = [], llvm.module_of
llvm.module_of = lambda kernel, **how: written.append(kernel.name) or module_of(kernel, **how)
x = torch.ones(64)
with torch.pipeline() as pipe:
    y = (x * 2).exp()
print(pipe.history[-1][1].steps[0].kernel.name in written, 'llvmlite' in sys.modules)
"""
    assert printed(program, folder, MINDTORCH_JIT="now") == "True True\n"
    assert printed(program, folder, MINDTORCH_JIT="now") == "False False\n"


def test_machine_code_is_found_again_without_llvmlite(folder):
    program = "print(constant(41), constant(42), 'llvmlite' in sys.modules)"
    assert printed(program, folder) == "41 42 True\n"
    before = {path: path.read_bytes() for path in folder.glob("*.o")}
    assert len(before) == 2
    expected = "41 42 False\n" if elf.usable() else "41 42 True\n"
    assert printed(program, folder) == expected
    assert {path: path.read_bytes() for path in folder.glob("*.o")} == before


def test_what_is_not_meant_to_last_is_not_kept(folder):
    assert constant(43, persistent=False) == 43
    assert not folder.exists()


def test_files_that_changed_under_a_program_do_not_name_what_it_makes(folder, tmp_path, monkeypatch):
    file = tmp_path / "kernels.py"
    file.write_text("as it was imported")
    monkeypatch.setattr(machine, "_files", lambda: [file])
    monkeypatch.setattr(machine, "_imported", time.time() + 3600)
    monkeypatch.setattr(machine, "sources", functools.cache(machine.sources.__wrapped__))
    named = machine.sources()
    assert named is not None

    def loaded(number):
        return machine.load(lambda: CONSTANT.format(number=number), ["constant"], known_as=machine.sources)

    loaded(50)
    assert [path.stem for path in folder.glob("*.o")] == [machine._key(named)]
    (folder / f"{machine._key(named)}.o").unlink()
    file.write_text("of another version")
    os.utime(file, (time.time() + 7200,) * 2)
    loaded(51)  # what runs here may be of either version: the name is of the first
    assert not list(folder.glob("*.o"))
    machine.sources.cache_clear()
    assert machine.sources() is None
    loaded(52)
    assert [path.stem for path in folder.glob("*.o")] == [machine._key(CONSTANT.format(number=52))]
    file.unlink()
    machine.sources.cache_clear()
    assert machine.sources() is None


def test_other_ir_versions_and_processors_have_other_entries(folder, monkeypatch):
    constant(44)
    for name, value in (("_VERSION", "another"), ("_processor", lambda: "another")):
        monkeypatch.setattr(machine, name, value)
        machine._identity.cache_clear()
        assert constant(44) == 44
    machine._identity.cache_clear()
    assert len(list(folder.glob("*.o"))) == 3


@pytest.mark.parametrize("usable", [True, False], ids=["own", "llvm"])
def test_both_linkers_resolve_every_kind_of_symbol(usable, monkeypatch):
    """Constants, data that changes, functions inside and outside, tables of addresses, and memory outside."""
    monkeypatch.setattr(elf, "usable", lambda: usable and sys.platform == "linux")
    ir = """
        @mindtorch_threads = external global i64
        @PyArray_Type = external global i8
        @_Py_NoneStruct = external global i8
        @PyArray_API = external constant [1 x ptr]
        @calls = internal global i64 100
        @zeros = internal global [1000 x i64] zeroinitializer
        @table = internal constant [2 x ptr] [ptr @first, ptr @second]
        declare double @cos(double)
        declare ptr @Py_BuildValue(ptr, ...)
        @format = internal constant [10 x i8] c"(LLdLLLL)\\00"
        define i64 @first(i64 %x) noinline {
          ret i64 %x
        }
        define i64 @second(i64 %x) noinline {
          %y = mul i64 %x, 3
          ret i64 %y
        }
        define ptr @all(ptr %self, ptr %args, i64 %count) {
          %before = load i64, ptr @calls
          %calls = add i64 %before, 1
          store i64 %calls, ptr @calls
          %zero = getelementptr i64, ptr @zeros, i64 %count
          %nothing = load i64, ptr %zero
          store i64 %calls, ptr %zero
          %place = getelementptr ptr, ptr @table, i64 %count
          %function = load ptr, ptr %place
          %value = call i64 %function(i64 7)
          %cosine = call double @cos(double 0.0)
          %threads = load volatile i64, ptr @mindtorch_threads
          %type = ptrtoint ptr @PyArray_Type to i64
          %none = ptrtoint ptr @_Py_NoneStruct to i64
          %result = call ptr (ptr, ...) @Py_BuildValue(ptr @format, i64 %calls, i64 %value, double %cosine,
                                                       i64 %threads, i64 %nothing, i64 %type, i64 %none)
          ret ptr %result
        }"""
    import numpy as np

    import mindtorch_v2 as torch

    address = machine.load(ir, ["all"], persistent=False)["all"]
    function = machine.callable_from(address, "all")
    threads = torch.get_num_threads()
    assert function() == (101, 7, 1.0, threads, 0, id(np.ndarray), id(None))
    assert function(None) == (102, 21, 1.0, threads, 0, id(np.ndarray), id(None))
    assert function() == (103, 7, 1.0, threads, 101, id(np.ndarray), id(None))


def test_a_name_that_nothing_has_is_reported():
    ir = "declare void @nobody_has_this()\ndefine void @f() {\n call void @nobody_has_this()\n ret void\n}"
    with pytest.raises(RuntimeError, match="nobody_has_this"):
        machine.load(ir, ["f"], persistent=False)


def test_wrong_ir_is_reported_and_not_kept(folder):
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        machine.load("define i32 @f() { ret i64 0 }", ["f"])
    assert not folder.exists()


# files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [
    lambda content: b"",
    lambda content: content[:20],
    lambda content: content[:-1],
    lambda content: content + b"\0",
    lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    lambda content: bytes(len(content)),
], ids=["empty", "short", "truncated", "longer", "changed", "zeros"])
def test_a_damaged_entry_is_made_anew(folder, damage):
    assert constant(45) == 45
    (entry,) = folder.glob("*.o")
    content = entry.read_bytes()
    entry.write_bytes(damage(content))
    assert cache.read(entry.stem) is None
    assert constant(45) == 45
    assert entry.read_bytes() == content


def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINDTORCH_CACHE", str(tmp_path / "file"))
    assert constant(46) == 46
    monkeypatch.setenv("MINDTORCH_CACHE", str(tmp_path / "file" / "below"))
    assert constant(46) == 46
    assert (tmp_path / "file").read_bytes() == b""


def test_a_folder_that_cannot_be_written_costs_time_only(folder, monkeypatch):
    """The owner may write into any folder where tests run as root, so the system's answer is imitated as well."""
    folder.mkdir()
    folder.chmod(0o500)

    def refused(*args):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refused)
    assert constant(47) == 47
    assert not list(folder.iterdir())
    folder.chmod(0o700)


def test_a_full_disk_costs_time_only(folder, monkeypatch):
    """/dev/full takes the place of the file: what is written to it fails as on a full disk."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    written = []

    def full(path, mode):
        written.append(path)
        os.symlink("/dev/full", path)
        return open(path, "wb")

    monkeypatch.setattr(cache, "open", full, raising=False)
    assert cache.write("key", b"code") is False
    monkeypatch.setattr(cache, "open", open, raising=False)
    assert len(written) == 1 and not list(folder.iterdir())
    assert cache.write("key", b"code") and cache.read("key") == b"code"


def test_without_a_home_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("MINDTORCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert cache.directory() is None
    assert not cache.write("key", b"code") and cache.read("key") is None
    assert constant(48) == 48


@pytest.mark.skipif(sys.platform != "linux", reason="the rules of Linux")
def test_where_machine_code_is_kept(monkeypatch):
    monkeypatch.delenv("MINDTORCH_CACHE")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.directory() == "/home/somebody/.cache/mindtorch_v2"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache.directory() == "/elsewhere/mindtorch_v2"
    monkeypatch.setenv("MINDTORCH_CACHE", "/chosen")
    assert cache.directory() == "/chosen"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner")
def test_machine_code_of_somebody_else_is_not_run(folder, monkeypatch):
    cache.write("key", b"code")
    owner = os.stat(folder / "key.o").st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.read("key") == (b"code" if owner == 0 else None)
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda number: os.stat_result((*real(number)[:4], owner + 2, *real(number)[5:])))
    assert cache.read("key") is None


def test_what_was_used_longest_ago_is_dropped_first(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 10_000)
    month = 30 * 86400
    for number in range(8):
        cache.write(f"key{number}", bytes(1000))
        os.utime(folder / f"key{number}.o", (0, time.time() - month - number))
    (folder / "key.o.0123").write_bytes(b"left behind")
    os.utime(folder / "key.o.0123", (0, 0))
    (folder / "key.o.4567").write_bytes(b"under way")
    (folder / "other").write_bytes(bytes(20_000))  # nobody else's file is touched, or counted
    assert cache.read("key7")  # so it is no longer the oldest
    os.utime(folder / "counted", (0, 0))
    monkeypatch.setattr(cache, "_uncounted", 0)
    for number in range(8, 12):
        cache.write(f"key{number}", bytes(1000))
    left = {path.name for path in folder.iterdir()}
    assert sum(path.stat().st_size for path in folder.glob("*.o")) <= 10_000
    assert "key7.o" in left and "key6.o" not in left and {f"key{number}.o" for number in (0, 8, 9, 10, 11)} <= left
    assert {"other", "key.o.4567"} <= left and "key.o.0123" not in left


def test_a_folder_that_is_removed_meanwhile_is_made_anew(folder, monkeypatch):
    monkeypatch.setattr(cache, "_uncounted", 0)
    replace = os.replace

    def replaced(*paths):
        replace(*paths)
        shutil.rmtree(folder)

    monkeypatch.setattr(os, "replace", replaced)
    cache.write("key", b"code")
    assert cache.read("key") is None and not folder.exists()
    monkeypatch.setattr(os, "replace", replace)
    assert cache.write("key", b"code") and cache.read("key") == b"code"


# several processes ---------------------------------------------------------------------------------------------------


def test_two_processes_may_compile_the_same(folder):
    both = [started("print([constant(number) for number in range(5)])", folder) for _ in range(3)]
    assert [printed(program) for program in both] == ["[0, 1, 2, 3, 4]\n"] * 3
    assert len(list(folder.glob("*.o"))) == 5 and not list(folder.glob("*.o.*"))


def test_a_writer_that_is_killed_leaves_whole_entries_only(folder):
    """Killed at random points, over and over, each time writing where the others did."""
    program = f"""
import importlib.util, itertools
spec = importlib.util.spec_from_file_location("cache", {cache.__file__!r})
cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache)
print("ready", flush=True)
for number in itertools.count():
    cache.write(f"key{{number % 7}}", bytes([number % 7]) * {LONG})
"""
    wait = random.Random(1)
    for _ in range(15):
        writer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": SOURCE, "MINDTORCH_CACHE": str(folder)})
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(wait.random() * 0.05)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        for number in range(7):
            assert cache.read(f"key{number}") in (None, bytes([number]) * LONG)
    for number in range(7):
        assert cache.write(f"key{number}", bytes([number]) * LONG)
        assert cache.read(f"key{number}") == bytes([number]) * LONG


# without -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare, variables", [
    ("", {"MINDTORCH_JIT": "0"}),
    ("sys.modules['llvmlite'] = None", {}),
    ("machine._ndarray_as_expected = lambda: False", {}),
    ("elf.usable, elf.executable_memory = lambda: True, lambda: False", {}),
], ids=["turned off", "not installed", "another NumPy", "a system that forbids it"])
def test_where_nothing_can_be_compiled_operators_compute_all_the_same(prepare, variables, folder):
    program = f"""
from mindtorch_v2._backends.cpu.jit import elf
{prepare}
x = torch.arange(200_000.0)
for _ in range(40):
    y = (x * 2 + 1).sum()
print(machine.available(), y.item() == x.double().mul(2).add(1).sum().item(), 'llvmlite.binding' in sys.modules)
"""
    assert printed(program, folder, **variables) == "False True False\n"


def test_importing_the_library_does_not_load_llvmlite(folder):
    assert printed("print(machine.available(), 'llvmlite' in sys.modules)", folder) == "True False\n"


# in the background ---------------------------------------------------------------------------------------------------


def test_jobs_wait_for_a_thread_that_the_system_gives(folder):
    program = """
import threading
made, end, start = [], threading.Event(), threading.Thread.start
def done(addresses):
    made.append(machine.callable_from(addresses["constant"], "constant")())
    if len(made) == 2:
        end.set()
def refused(self):
    raise RuntimeError("can't start new thread")
for number in (1, 2):
    threading.Thread.start = refused if number == 1 else start
    machine.load_in_background(lambda text=CONSTANT.format(number=number): text, ["constant"], done)
assert end.wait(60)
print(made)
"""
    assert printed(program, folder) == "[1, 2]\n"


@pytest.mark.parametrize("interval", [0.005, 5e-5, 7e-6])
def test_a_job_in_the_background_leaves_the_interpreters_interval_as_it_was(interval):
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(interval * 1.001)  # it cuts off what is below a microsecond
        usual, during = sys.getswitchinterval(), []
        for number in range(2):
            machine.load_in_background(lambda number=number: CONSTANT.format(number=number), ["constant"],
                                       lambda addresses: during.append(sys.getswitchinterval()))
            deadline = time.monotonic() + 120
            while machine._jobs and time.monotonic() < deadline:
                time.sleep(0.001)
            assert sys.getswitchinterval() == usual
        assert during == [min(usual, during[0])] * 2 and during[0] < 6e-5
    finally:
        sys.setswitchinterval(before)


def test_jobs_in_the_background_are_done_in_turn_and_one_that_fails_stops_no_other(folder):
    program = """
import threading, warnings
order, end = [], threading.Event()
def job(number, ir=None):
    text = CONSTANT.format(number=number) if ir is None else ir
    def done(addresses):
        order.append((machine.callable_from(addresses["constant"], "constant")(), threading.current_thread().daemon))
        if number == 3:
            end.set()
    machine.load_in_background(lambda: text, ["constant"], done)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    job(1)
    job(2, "not IR")
    job(3)
    assert end.wait(60)
print(order, [str(w.message)[:30] for w in caught])
"""
    assert printed(program, folder) == (
        "[(1, True), (3, True)] ['a kernel could not be compiled']\n")


@pytest.mark.parametrize("in_background", [False, True])
def test_kernels_are_parsed_by_the_thread_that_asks_where_python_has_one_parser(in_background, folder):
    program = f"""
import ast, threading
from mindtorch_v2._backends.cpu.jit import calls
machine._PARSES_IN_BACKGROUND = {in_background}
parse, threads = ast.parse, set()
def noted(text, **mode):
    if not mode:  # a kernel, no value of a schema
        threads.add(threading.current_thread().name)
    return parse(text, **mode)
ast.parse = noted
done, was_done = threading.Event(), calls.Code._done
def ended(self, addresses):
    was_done(self, addresses)
    threads.add("compiled by " + threading.current_thread().name)
    done.set()
calls.Code._done = ended
x = torch.arange(64.0).reshape(8, 8)
x.topk(3)
x.topk(3)
assert done.wait(100)
print(sorted(threads))
"""
    parser = "mindtorch_v2 compiler" if in_background else "MainThread"
    expected = str(sorted({parser, "compiled by mindtorch_v2 compiler"})) + "\n"
    assert printed(program, folder) == expected  # the code is made
    on_disk = printed(program, folder)
    assert on_disk == "['compiled by mindtorch_v2 compiler']\n"


def test_a_program_may_end_while_kernels_are_compiled(folder):
    program = """
for number in range(20):
    machine.load_in_background(lambda number=number: slow(number), ["slow"], print)
"""
    assert len(printed(program, folder).splitlines()) <= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_neither_waits_for_the_parents_compiler_nor_lacks_one(folder):
    program = """
import threading, time
def job(number, done):
    machine.load_in_background(lambda: CONSTANT.format(number=number), ["constant"], done)
for number in range(2):
    machine.load_in_background(lambda number=number: slow(number), ["slow"], lambda addresses: None)
time.sleep(0.05)  # the first one is being compiled
child = os.fork()
end = threading.Event()
job(50, lambda addresses: end.set())
assert constant(51) == 51
assert end.wait(100)
if child:
    print(os.waitpid(child, 0)[1])
else:
    os._exit(0)
"""
    assert printed(program, folder) == "0\n"


def test_what_a_function_stands_on_outlives_its_module(monkeypatch):
    made = []

    class Recorded(machine._MethodDef):
        def __init__(self, *fields):
            super().__init__(*fields)
            made.append(weakref.ref(self))

    monkeypatch.setattr(machine, "_MethodDef", Recorded)
    monkeypatch.setattr(machine, "_kept", [])
    function = machine.callable_from(1, "named")
    machine._kept.clear()  # as the interpreter does at its end, before the last functions go
    gc.collect()
    assert [ref() is not None for ref in made] == [True]
    assert function.__name__ == "named"
