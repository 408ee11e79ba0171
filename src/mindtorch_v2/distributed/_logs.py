"""What processes print: to the launcher's own output, to files, or to both."""

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import IO

NONE, OUT, ERR, BOTH = range(4)


def parsed_streams(text: str) -> "int | dict[int, int]":
    """Which streams: "3" for all processes, "0:1,1:3" for some of them."""
    if not any(c == ":" for c in text):
        return _checked(text)
    return {int(rank): _checked(number) for rank, _, number in (pair.partition(":") for pair in text.split(","))}


def _checked(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError(f"{text} is none of 0 (nothing), 1 (stdout), 2 (stderr), 3 (both), nor 'RANK:STREAM,...'")
    return int(text)


@dataclass
class Logs:
    """Where the output of processes goes, by local rank."""

    folder: str | None = None
    redirects: "int | dict[int, int]" = NONE
    tee: "int | dict[int, int]" = NONE
    only: set[int] | None = None  # whose output is shown
    role: str = "default"
    _open: list[IO] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _here: str = ""

    def begin(self, run_id: str, attempt: int) -> None:
        if self.redirects == NONE and self.tee == NONE:
            return
        if not self._here:
            if self.folder:
                os.makedirs(self.folder, exist_ok=True)
            self._root = tempfile.mkdtemp(prefix=f"{run_id}_", dir=self.folder)
        self._here = os.path.join(self._root, f"attempt_{attempt}")

    def _of(self, streams: "int | dict[int, int]", local: int) -> int:
        return streams if isinstance(streams, int) else streams.get(local, NONE)

    def started(self, local: int, command: list[str], environment: dict[str, str]) -> subprocess.Popen:
        """A process whose output goes where it should."""
        tee = self._of(self.tee, local)
        files = self._of(self.redirects, local) | tee
        hidden = self.only is not None and local not in self.only
        targets: list[IO | int | None] = []
        for stream, name in ((OUT, "stdout.log"), (ERR, "stderr.log")):
            if files & stream:
                os.makedirs(os.path.join(self._here, str(local)), exist_ok=True)
                self._open.append(open(os.path.join(self._here, str(local), name), "ab"))  # noqa: SIM115
                targets.append(subprocess.PIPE if tee & stream and not hidden else self._open[-1])
            else:
                targets.append(subprocess.DEVNULL if hidden else None)
        worker = subprocess.Popen(command, env=environment, stdout=targets[0], stderr=targets[1])
        for pipe, shown, stream in ((worker.stdout, sys.stdout, OUT), (worker.stderr, sys.stderr, ERR)):
            if pipe is not None:
                name = "stdout.log" if stream == OUT else "stderr.log"
                copy = next(each for each in self._open if each.name == os.path.join(self._here, str(local), name))
                arguments = pipe, copy, shown, f"[{self.role}{local}]:"
                thread = threading.Thread(target=_copied, args=arguments, daemon=True)
                thread.start()
                self._threads.append(thread)
        return worker

    def close(self) -> None:
        for thread in self._threads:
            thread.join(5)
        for file in self._open:
            file.close()
        self._open, self._threads = [], []


def _copied(source: IO[bytes], file: IO[bytes], shown: IO[str], prefix: str) -> None:
    """Copies lines into a file, and shows them with the process's name."""
    with source:
        for line in source:
            file.write(line)
            file.flush()
            shown.write(prefix + line.decode(errors="replace"))
            shown.flush()
