"""A process that loads files which may do harm, one by one, and tells of each what it did."""

import contextlib
import io
import json
import os
import pickle
import resource
import select
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from pickle_assembly import archive, good_files, number, numbers, storage, tensor, text

REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, NotImplementedError)
FORBIDDEN = {
    "os.system",
    "subprocess.Popen",
    "os.posix_spawn",
    "os.exec",
    "os.fork",
    "socket.connect",
    "os.remove",
    "os.rename",
    "os.putenv",
    "exec",
    "compile",
    "import",
    "ctypes.dlopen",
    "code.__new__",
}
SECONDS, WAYS = 2.0, 4  # of processor time that loading a file may take; in so many ways each is loaded
MEGABYTES, FACTOR = 24, 250  # of memory: so many in any case, and so many times the size of the file


def compute(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


# What a test has the process do besides, to see that it is noticed.
HARMS: dict[str, Callable[[], Any]] = {
    "": lambda: None,
    "runs": lambda: os.system("true"),
    "fails": lambda: [].missing,
    "waits": lambda: time.sleep(1e6),  # type: ignore
    "computes": lambda: compute(SECONDS * WAYS + 1),
    "allocates": lambda: b"1" * (40 << 20),
    "ends": lambda: os._exit(3),
}


class Loader:
    """A process that loads files one by one and tells what happened; another one after a file that ended it."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
            self.child = None

    def complaint(self, data: bytes, harm: str = "", patience: float = 60.0) -> str | None:
        """What is wrong with how a file was loaded; None if it was loaded or refused as it should be."""
        if self.child is None:
            path = os.pathsep.join(filter(None, sys.path))
            self.child = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                    "MINDTORCH_JIT": "0",  # what is called often would be compiled and kept, which is no file's doing
                },
            )
            assert self.child.stdout is not None and self.child.stdout.readline() == b"ready\n"
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(struct.pack("<q10s", len(data), harm.encode()) + data)
        self.child.stdin.flush()
        ready, _, _ = select.select([self.child.stdout], [], [], patience)
        line = self.child.stdout.readline() if ready else b""
        if not line:
            ended = f"ended with status {self.child.wait()}" if ready else "did not come back: it hangs"
            self.stop()
            return f"the process {ended}"
        return json.loads(line)


def serve() -> None:
    """Loads the files that come in, each with its length before it, and answers with a line about each."""
    import mindtorch_v2 as torch

    seen: list[str] = []
    watching = [False]

    def watch(event: str, args: tuple) -> None:
        if watching[0] and (event in FORBIDDEN or (event == "open" and args[1] not in ("r", "rb", None))):
            seen.append(f"{event} {str(args)[:200]}")

    flags = b"}(" + text("conj") + b"\x88" + text("neg") + b"\x88u"
    lazy = archive(
        tensor(storage("torch.ComplexFloatStorage", count=number(3)), number(0), numbers(3), numbers(1), flags)
    )
    for file in (
        *good_files(torch),
        lazy,
    ):  # what first loads import or compile is not to be taken for the work of a file
        load_in_all_ways(torch, file)
    for place in ("npu:0", "cuda:0"):
        with contextlib.suppress(RuntimeError):
            torch.load(io.BytesIO(archive(tensor(storage(place=text(place))))))
    sys.addaudithook(watch)
    warnings.simplefilter("ignore")
    print("ready", flush=True)
    while head := sys.stdin.buffer.read(18):
        size, harm = struct.unpack("<q10s", head)
        found = judged(torch, sys.stdin.buffer.read(size), HARMS[harm.rstrip(b"\0").decode()], seen, watching)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def judged(torch: Any, data: bytes, harm: Callable[[], Any], seen: list[str], watching: list[bool]) -> str | None:
    seen.clear()
    limit = memory("VmSize") + 3 * (MEGABYTES << 20) + FACTOR * len(data)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before, start = memory("VmRSS"), time.process_time()
    watching[0] = True
    try:
        harm()
        load_in_all_ways(torch, data)
    except REFUSALS as error:
        if not str(error):
            return f"{type(error).__name__} without a text"
        if isinstance(error, RecursionError):
            return "RecursionError"
    except BaseException as error:
        return f"internal error: {type(error).__name__}: {str(error)[:200]}"
    finally:
        watching[0] = False
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    seconds, grown = time.process_time() - start, memory("VmHWM") - before
    if seen:
        return f"ran or imported: {seen[:3]}"
    if seconds > SECONDS * WAYS:
        return f"took {seconds:.1f} s"
    if grown > (MEGABYTES << 20) + FACTOR * len(data):
        return f"needed {grown >> 20} MB"
    return None


def memory(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{field}:"))


def load_in_all_ways(torch: Any, data: bytes) -> None:
    """Loads a file onto meta, mapped, its list of globals, and from memory; whether it is refused the last one says."""
    for other in (
        lambda: torch.load(io.BytesIO(data), map_location="meta"),
        lambda: load_mapped(torch, data),
        lambda: torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)),
    ):
        with contextlib.suppress(*REFUSALS):
            other()
    touch(torch, torch.load(io.BytesIO(data)))


def load_mapped(torch: Any, data: bytes) -> None:
    """Loads a file that is mapped; it is one in memory, so that nothing is opened for writing."""
    number = os.memfd_create("file")
    try:
        os.write(number, data)
        touch(torch, torch.load(f"/proc/self/fd/{number}", mmap=True))
    finally:
        os.close(number)


def touch(torch: Any, value: Any) -> None:
    """Reads the tensors in what was loaded, of which none may reach beyond its memory."""
    pending, known = [value], {}
    while pending and len(known) < 1000:
        one = pending.pop()
        if id(one) in known:
            continue
        known[id(one)] = one
        if isinstance(one, torch.Tensor) and one.layout is torch.strided and one.numel() < 100_000:
            one.detach().clone()
        elif isinstance(one, dict):
            pending.extend([*one.values()][:100])
        elif isinstance(one, (list, tuple)):
            pending.extend(one[:100])


if __name__ == "__main__":
    serve()
