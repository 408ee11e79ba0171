"""What the launcher says of processes that failed, and how they tell it why."""

import functools
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from string import Template
from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record", "write_error"]

_UNKNOWN = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
_FORM = Template("""
${border}
${name} FAILED
${line}
Failures:
${others}
${line}
Root Cause (first observed failure):
${root}
${border}""")


def write_error(error: BaseException) -> None:
    """Leaves an exception where the launcher of this process looks for it; does nothing if there is no launcher."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path) and os.path.getsize(path):
        return
    shown = "".join(traceback.format_exception(error))
    text = {"message": {"message": f"{type(error).__name__}: {error}",
                        "extraInfo": {"py_callstack": shown, "timestamp": str(int(time.time()))}},
            "time": time.time()}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(text, file)


@dataclass
class ProcessFailure:
    """How a process of the launcher failed."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    rank: int = -1
    error_file_data: dict = field(init=False)
    message: Any = field(init=False)
    timestamp: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.error_file_data, self.message = {}, ""
        self.timestamp = self.timestamp or time.time()
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
        except (OSError, ValueError):
            if self.exitcode < 0:
                self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            else:
                self.message = _UNKNOWN
        else:
            self.message = self.error_file_data["message"]
            self.timestamp = self.error_file_data.get("time", self.timestamp)

    def signal_name(self) -> str:
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"
        except ValueError:
            return "<Unknown>"

    def traceback(self) -> str:
        """The traceback that the process left, or what is known otherwise."""
        if isinstance(self.message, str):
            return self.message
        return self.message.get("extraInfo", {}).get("py_callstack") or self.message.get("message", _UNKNOWN)

    def timestamp_isoformat(self) -> str:
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")[:19]

    def described(self, index: int) -> str:
        trace = self.traceback().rstrip().replace("\n", "\n    ")
        return (f"[{index}]:\n  time      : {self.timestamp_isoformat()}\n  host      : {socket.getfqdn()}\n"
                f"  rank      : {self.rank} (local_rank: {self.local_rank})\n  exitcode  : {self.exitcode} (pid: "
                f"{self.pid})\n  error_file: {self.error_file if self.error_file_data else '<N/A>'}\n"
                f"  traceback : {trace}")


class ChildFailedError(Exception):
    """Processes that the launcher started have failed; `failures` says how, by global rank."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the process that failed before the others; one that was killed comes first."""
        rank = min(self.failures, key=lambda each: (self.failures[each].exitcode >= 0, self.failures[each].timestamp))
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        first, root = self.get_first_failure()
        rest = [each for rank, each in sorted(self.failures.items()) if rank != first]
        others = [each.described(at) for at, each in enumerate(rest, 1)]
        return _FORM.substitute(border=boarder_delim * 60, line=section_delim * 60, name=self.name,
                                others="\n".join(others) or "  <NO_OTHER_FAILURES>", root=root.described(0))


class ErrorHandler:
    """Writes down the exceptions of a process."""

    def initialize(self) -> None:
        """Nothing has to be prepared."""

    def record_exception(self, e: BaseException) -> None:
        write_error(e)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Passes the first cause on to the launcher of this launcher, if there is one."""
        own = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if own and os.path.exists(rootcause_error_file):
            with open(rootcause_error_file) as source, open(own, "w") as target:
                target.write(source.read())


def get_error_handler() -> ErrorHandler:
    return ErrorHandler()


def record(fn: Callable, error_handler: Any = None) -> Callable:
    """The function, whose exception is written down for the launcher before it goes on its way."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler = error_handler or get_error_handler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code:
                handler.record_exception(error)
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file_data:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
