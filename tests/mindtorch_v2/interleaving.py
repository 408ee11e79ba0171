"""Two threads whose steps interleave in every way that one switch there and back allows.

The interpreter may hand over to another thread between any two instructions, and does so rarely: what goes wrong then
is seen once in thousands of runs. Here it is made to happen at each instruction of a function in turn.
"""

import dis
import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import mindtorch_v2

LIBRARY = os.path.dirname(mindtorch_v2.__file__)
PATIENCE = 0.01  # seconds, after which the other thread is taken to wait for a lock that the first one holds


class _Switch:
    """A trace function that lets another thread run before one of the instructions of the library."""

    def __init__(self, at: int, other: Callable[[], Any]) -> None:
        self.at, self.passed, self.errors = at, 0, []
        self._other = other
        self.thread: threading.Thread | None = None

    def _run(self) -> None:
        try:
            self._other()
        except BaseException as error:
            self.errors.append(error)

    def __call__(self, frame: Any, event: str, arg: Any) -> "_Switch":
        if frame.f_code.co_filename.startswith(LIBRARY) or "weakref" in frame.f_code.co_filename:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if event == "opcode":
                self.passed += 1
                if self.passed == self.at:
                    self.thread = threading.Thread(target=self._run)
                    self.thread.start()
                    self.thread.join(PATIENCE)
        return self


def interleaved(prepare: Callable[[], Any], first: Callable[[Any], Any], other: Callable[[Any], Any],
                check: Callable[[Any, Any], None] = lambda state, made: None) -> int:
    """Runs `first(state)` for each of its instructions, with `other(state)` in another thread before that.

    Each time `prepare` makes the state, and `check(state, made)` is told what `first` gave; errors of either thread
    are raised. How many instructions there were.
    """
    before = sys.gettrace()
    for at in itertools.count(1):
        state = prepare()
        switch = _Switch(at, lambda state=state: other(state))
        sys.settrace(switch)
        try:
            made = first(state)
        finally:
            sys.settrace(before)
        if switch.thread is None:
            return at - 1
        switch.thread.join(60)
        assert not switch.thread.is_alive(), f"the other thread hangs, switched to at instruction {at}"
        for error in switch.errors:
            raise error
        check(state, made)
    raise AssertionError


class _Interrupt:
    """A trace function that raises KeyboardInterrupt in functions of a file, where the interpreter would do so.

    It looks for signals when a function begins, after calls, and where loops go back.
    """

    def __init__(self, at: int, file: str) -> None:
        self.at, self.passed, self._file = at, 0, file
        self._done: dict[Any, str] = {}  # the name of each frame's last instruction

    def __call__(self, frame: Any, event: str, arg: Any) -> "_Interrupt":
        if frame.f_code.co_filename == self._file:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if event == "opcode":
                done = self._done.get(frame, "")
                self._done[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                if done == "RESUME" or done.startswith("CALL") or "JUMP_BACKWARD" in done:
                    self.passed += 1
                    if self.passed == self.at:
                        raise KeyboardInterrupt
        return self


def interrupted(function: Callable[[], Any], file: str, check: Callable[[], None], after: Callable[[], None]) -> int:
    """Calls a function for each place in a file where it may be interrupted, with an interrupt there; then the others.

    How many places there were.
    """
    before = sys.gettrace()
    for at in itertools.count(1):
        interrupt = _Interrupt(at, file)
        sys.settrace(interrupt)
        try:
            function()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if interrupt.passed < at:
            return at - 1
        try:
            check()
        finally:
            after()
    raise AssertionError
