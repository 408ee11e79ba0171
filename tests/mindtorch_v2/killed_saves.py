"""Saves that are killed at random moments: each must leave the old or the new file whole, and nothing beside it.

A name that one left within the microseconds in which the new file takes the old one's place is counted, and must be
gone after the next load.

    python tests/mindtorch_v2/killed_saves.py --count 200 --elements 200000
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import mindtorch_v2 as torch

# Saves without end; the first number tells which save a file is of, and all others are equal to it.
SAVER = """
import itertools, sys
import mindtorch_v2 as torch
path, elements = sys.argv[1], int(sys.argv[2])
for number in itertools.count(1):
    torch.save(torch.full((elements,), float(number)), path)
    print(number, flush=True)
"""


def killed_once(folder: pathlib.Path, elements: int, delay: float) -> tuple[str, bool]:
    """What is wrong after a process that saves has been killed, an empty text for nothing; whether it left a name."""
    path = folder / "a.pt"
    torch.save(torch.zeros(elements), path)
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(path), str(elements)], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert saver.stdout is not None
    saver.stdout.readline()  # it has begun
    time.sleep(delay)
    saver.send_signal(signal.SIGKILL)
    saved = saver.stdout.read().split()
    saver.wait()
    left = len(os.listdir(folder)) > 1
    found = torch.load(path)
    beside = sorted(set(os.listdir(folder)) - {"a.pt"})
    for name in beside:
        (folder / name).unlink()
    if found.shape != (elements,) or not bool((found == found[0]).all()):
        return "the file is of two saves", left
    if saved and not float(saved[-1]) <= float(found[0]) <= float(saved[-1]) + 1:
        return f"save {saved[-1]} was complete, and the file is of save {found[0]:g}", left
    return f"left beside it: {beside}" if beside else "", left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--elements", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        ends = [killed_once(pathlib.Path(folder), options.elements, rng.uniform(0, 0.1)) for _ in range(options.count)]
    wrong = [complaint for complaint, _ in ends if complaint]
    names = sum(left for _, left in ends)
    print(
        f"{options.count} killed saves, {len(wrong)} complaints, {names} names for the load to remove", *wrong, sep="\n"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
