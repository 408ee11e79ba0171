"""Runs tests of one of PyTorch's test files; started by run.py, which reads the lines of JSON that this writes.

usage: worker.py ORDER, a file of JSON: checkout, file, output, absent, seconds, ids (null: all but those in `done`).
"""

import gc
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import traceback
import unittest
import zlib

import stand_ins


class TooSlow(BaseException):
    """A test ran for longer than it may."""


def _too_slow(*_):
    raise TooSlow


class Outcome(unittest.TestResult):
    """What became of one test, and in a line why it did not pass."""

    def __init__(self):
        super().__init__()
        self.outcome, self.why = "passed", ""

    def _worse(self, outcome, error):
        if self.outcome in ("passed", "skipped"):
            self.outcome = "slow" if issubclass(error[0], TooSlow) else outcome
            frames = traceback.extract_tb(error[2])
            ours = [frame for frame in frames if "/mindtorch_v2/" in frame.filename]
            place = (ours or frames)[-1]
            name = re.sub(r"^.*/(mindtorch_v2|test|torch)/", "", place.filename)
            message = re.sub(r"0x[0-9a-f]{6,}", "0x", str(error[1]))[:400]
            self.why = f"{error[0].__name__}: {message} [{name}:{place.lineno}]"

    def addFailure(self, test, err):
        self._worse("failed", err)

    def addError(self, test, err):
        self._worse("failed", err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._worse("failed", err)

    def addSkip(self, test, reason):
        if self.outcome == "passed":
            self.outcome = "skipped"

    def addExpectedFailure(self, test, err):
        self.outcome = "skipped"  # what PyTorch fails says nothing about the library

    def addUnexpectedSuccess(self, test):
        self.outcome = "skipped"


class Worker:
    """One test file in one process, and the children that it forks."""

    def __init__(self, order):
        self.order = order
        self.output = open(order["output"], "a", buffering=1)  # noqa: SIM115
        self.seconds = order["seconds"]

    def write(self, **line):
        self.output.write(json.dumps(line) + "\n")

    def load(self):
        """The tests of the file, by id."""
        path = os.path.join(self.order["checkout"], "test", self.order["file"])
        sys.path[:0] = [os.path.dirname(path), os.path.join(self.order["checkout"], "test")]
        os.chdir(os.path.join(self.order["checkout"], "test"))
        stand_ins.install(self.order["checkout"], self.order["absent"])
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        stand_ins.importing = False
        tests = {}
        for kind in list(vars(module).values()):
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind is not unittest.TestCase:
                for method in unittest.defaultTestLoader.getTestCaseNames(kind):
                    name = f"{kind.__name__}.{method}".replace("mindtorch_v2_", "")  # as it is called in PyTorch
                    tests.setdefault(name, (kind, method))
        return tests

    def run(self, test):
        """Runs one test; what it was."""
        kind, method = test
        result = Outcome()
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            unittest.TestSuite([kind(method)]).run(result)
        except BaseException:  # noqa: B036  SystemExit, TooSlow outside the test, a class that cannot be made
            result._worse("failed", sys.exc_info())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return result

    def run_until_one_fails(self, wanted, tests):
        """Runs tests in this child until one does not pass: what that one leaves behind must not reach the next."""
        for name in wanted:
            self.write(begun=name)
            result = self.run(tests[name]) if name in tests else Outcome()
            outcome = result.outcome if name in tests else "gone"
            self.write(id=name, outcome=outcome, why=result.why)
            if outcome not in ("passed", "skipped", "gone"):
                return

    def main(self):
        signal.signal(signal.SIGALRM, _too_slow)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            tests = self.load()
        except Exception as error:
            why = traceback.format_exc()[-1500:]
            self.write(missing=stand_ins.missing(error), why=why)
            return
        wanted = self.order["ids"]
        if wanted is None:  # the order is the same in every run, and no part of a file comes first
            wanted = sorted(set(tests) - set(self.order["done"]), key=lambda name: zlib.crc32(name.encode()))
        self.write(collected=len(tests), wanted=wanted)
        gc.collect()
        gc.freeze()
        while wanted:
            begin = os.path.getsize(self.order["output"])
            child = os.fork()
            if child == 0:
                try:
                    self.run_until_one_fails(wanted, tests)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            with open(self.order["output"]) as file:
                file.seek(begin)
                lines = [json.loads(line) for line in file]
            done = {line["id"] for line in lines if "id" in line}
            for line in lines[-1:]:
                if "begun" in line:  # it took the process with it
                    self.write(id=line["begun"], outcome="crashed", why="the process ended")
                    done.add(line["begun"])
            if not done:
                return
            wanted = [name for name in wanted if name not in done]
        self.write(finished=True)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        order = json.load(file)
    del sys.argv[1:]
    Worker(order).main()
