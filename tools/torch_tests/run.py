"""Runs PyTorch's own test files on the library and compares with the tests that passed before.

    make torch-tests SOURCE=../pytorch                         every test of the lists in tests/torch_tests
    make torch-tests SOURCE=../pytorch FILES="test_torch.py nn/test_pooling.py"
    make torch-tests SOURCE=../pytorch UPDATE=1 FILES=test_fx.py    runs all tests of the file and writes its list

SOURCE is a checkout of PyTorch, not built: the tests and torch/testing/_internal are read from it. A test that is in
the lists and does not pass is run once more alone; if it fails again, the run fails. A run that is interrupted goes on
where it stopped; `--again` begins anew. `--budget` bounds the seconds of a file: with `--update`, tests that did not
run keep their place in the list.
"""

import argparse
import collections
import contextlib
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LISTS = ROOT / "tests" / "torch_tests"
ABSENT = LISTS / "absent.txt"
RESULTS = ROOT / "build" / "torch_tests"
PASSED = "passed"


def list_of(file):
    """Where the passing tests of a test file are listed."""
    return LISTS / (file.removesuffix(".py") + ".txt.gz")


def passing(file):
    """The tests of a file that passed when its list was written."""
    place = list_of(file)
    return gzip.decompress(place.read_bytes()).decode().split() if place.exists() else []


def write_list(file, names):
    place = list_of(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(gzip.compress("".join(f"{name}\n" for name in sorted(names)).encode(), 9, mtime=0))


def listed_files():
    return sorted(str(place.relative_to(LISTS)).replace(".txt.gz", ".py") for place in LISTS.rglob("*.txt.gz"))


def lines_of(path):
    """The complete lines of JSON in a file."""
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]
    return []


class Run:
    """A run over test files: its options, the stand-ins it has learned, and what it found so far."""

    def __init__(self, options):
        self.options = options
        self.checkout = str(Path(options.source).resolve())
        RESULTS.mkdir(parents=True, exist_ok=True)
        self.record = RESULTS / ("update.jsonl" if options.update else "compare.jsonl")
        if options.again:
            self.record.unlink(missing_ok=True)
        self.found = collections.defaultdict(dict)  # file -> id -> (outcome, why)
        for line in lines_of(self.record):
            self.found[line["file"]][line["id"]] = (line["outcome"], line["why"])
        self.absent = ABSENT.read_text().splitlines() if ABSENT.exists() else []
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
                            "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT / "src")])}

    def learn(self, place):
        """Remembers a name that a test file looks up when it is imported and that the library does not have."""
        self.absent.append(place)
        LISTS.mkdir(parents=True, exist_ok=True)
        ABSENT.write_text("".join(f"{entry}\n" for entry in sorted(set(self.absent))))

    def worker(self, file, ids, folder, seen):
        """Runs one worker to its end, calling `seen` with each of its lines; why it ended early, if it did."""
        output, order = Path(folder, "output"), Path(folder, "order")
        output.write_text("")
        order.write_text(json.dumps({"checkout": self.checkout, "file": file, "output": str(output), "ids": ids,
                                     "done": list(self.found[file]), "absent": self.absent,
                                     "seconds": self.options.timeout}))
        with tempfile.TemporaryFile() as log, open(output) as lines:
            child = subprocess.Popen([sys.executable, str(HERE / "worker.py"), str(order)], env=self.environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                                     start_new_session=True)
            ended, moved, pending = None, time.monotonic(), ""
            while True:
                over = child.poll() is not None
                while text := lines.readline():
                    pending += text
                    if pending.endswith("\n"):
                        seen(json.loads(pending))
                        pending, moved = "", time.monotonic()
                now = time.monotonic()
                if over or now > self.until or now - moved > self.options.timeout + 120:
                    ended = None if over else "budget" if now > self.until else "hang"
                    break
                time.sleep(0.05)
            with contextlib.suppress(ProcessLookupError):  # with what its tests left running
                os.killpg(child.pid, 9)
            child.wait()
            log.seek(0)
            return ended, log.read()[-1000:].decode(errors="replace")

    def run_file(self, file, ids, bar):
        """Runs tests of a file, or all of them; an error text if it cannot be imported."""
        self.until = float("inf")  # importing a file is not counted
        wanted = None if ids is None else [name for name in ids if name not in self.found[file]]
        while wanted is None or wanted:
            state = {"begun": None, "missing": None, "error": None, "loaded": False, "wanted": None, "finished": False}
            with tempfile.TemporaryDirectory() as folder, open(self.record, "a", buffering=1) as record:

                def note(name, outcome, why, record=record):
                    self.found[file][name] = (outcome, why)
                    record.write(json.dumps({"file": file, "id": name, "outcome": outcome, "why": why}) + "\n")
                    bar.advance(file, outcome)

                def seen(line, state=state, note=note):
                    if "id" in line:
                        note(line["id"], line["outcome"], line["why"])
                        state["begun"] = None
                    elif "begun" in line:
                        state["begun"] = line["begun"]
                    elif "collected" in line:
                        state.update(loaded=True, wanted=line["wanted"])
                        self.until = min(self.until, time.monotonic() + self.options.budget)
                        bar.total(len(line["wanted"]))
                    elif "missing" in line:
                        state.update(missing=line["missing"], error=line["why"])
                    else:
                        state["finished"] = True

                ended, log = self.worker(file, wanted, folder, seen)
                if state["missing"] and state["missing"] not in self.absent:
                    self.learn(state["missing"])
                    continue
                if state["error"] or not state["loaded"]:
                    return state["error"] or log
                if state["begun"] and ended != "budget":
                    note(state["begun"], "hung" if ended == "hang" else "crashed", log[-300:])
                if state["finished"] or ended == "budget":
                    break
                wanted = [name for name in state["wanted"] if name not in self.found[file]]
        return None


class Bar:
    """A progress bar on a terminal, a line a file elsewhere."""

    def __init__(self, files):
        self.count, self.files = 0, len(files)
        self.bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(unit=" tests", smoothing=0.05)

    def total(self, count):
        if self.bar is not None:
            self.bar.reset(count)

    def advance(self, file, outcome):
        if self.bar is not None:
            self.bar.set_description(f"{self.count + 1}/{self.files} {file}", refresh=False)
            self.bar.update()

    def line(self, text):
        self.count += 1
        if self.bar is not None:
            self.bar.write(text)
        else:
            print(text, flush=True)

    def close(self):
        if self.bar is not None:
            self.bar.close()


def causes(found):
    """The reasons for which tests did not pass, numbers and sizes left out, with how often each came."""
    counts = collections.Counter()
    for results in found.values():
        for outcome, why in results.values():
            if outcome not in (PASSED, "skipped"):
                first = why.partition("\n")[0]
                place = why[why.rfind("["):] if "\n" in why else ""
                counts[outcome + ": " + re.sub(r"\d[\d.e+-]*", "N", first)[:150] + re.sub(r":\d+", "", place)] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a checkout of PyTorch 2.13")
    parser.add_argument("files", nargs="*", help="test files in its folder test; if none, those with a list")
    parser.add_argument("--update", action="store_true", help="run all tests of the files and write their lists")
    parser.add_argument("--again", action="store_true", help="forget what an interrupted run found")
    parser.add_argument("--budget", type=float, default=3600, help="seconds for a file")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a test")
    parser.add_argument("--causes", type=int, default=0, metavar="N", help="print the N most frequent causes")
    options = parser.parse_intermixed_args()
    if not os.path.isdir(os.path.join(options.source, "torch", "testing", "_internal")):
        parser.error(f"{options.source} is not a checkout of PyTorch: it has no torch/testing/_internal")
    files = options.files or listed_files()
    run, bar = Run(options), Bar(files)
    lost = []
    for file in files:
        listed = passing(file)
        error = run.run_file(file, None if options.update else listed, bar)
        if error is None and not options.update:
            again = [name for name in listed if run.found[file].get(name, (PASSED,))[0] != PASSED]
            for name in again:
                del run.found[file][name]
                run.run_file(file, [name], bar)
        results = run.found[file]
        good = {name for name, (outcome, _) in results.items() if outcome == PASSED}
        bad = {name for name, (outcome, _) in results.items() if outcome not in (PASSED, "skipped")}
        if options.update and error is None:
            write_list(file, good | (set(listed) - bad))
        missing = sorted(set(listed) & bad) or ([f"{error.strip().splitlines()[-1]}"] if error else [])
        lost += [(file, name) for name in missing]
        bar.line(f"{file:45} {len(good)} passed, {len(bad)} did not" + (f": {error.strip()[-200:]}" if error else ""))
    bar.close()
    for cause, count in causes(run.found).most_common(options.causes):
        print(f"{count:6}  {cause}")
    run.record.replace(run.record.with_suffix(".last.jsonl"))
    for file, name in lost:
        why = run.found[file].get(name, ("", ""))[1].partition("\n")[0]
        print(f"passed before: {file} {name}  {why}")
    if lost and not options.update:
        sys.exit(f"{len(lost)} tests that passed do not pass any more")


if __name__ == "__main__":
    main()
