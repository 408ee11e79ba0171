"""Kills a random rank of a training job at a random moment, many times.

    python tests/mindtorch_v2/distributed/random_kills.py --count 50 --seed 0

Half of the jobs may not restart: then every survivor that had not done all steps must end with an error that names a
rank, within the timeout. The others restart from their last checkpoint and must end with the losses of a job that was
not disturbed: to 4 decimals, as kernels are compiled at a count of calls that begins anew with the process, and
compiled ones round otherwise than NumPy.
"""

import argparse
import contextlib
import itertools
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = '''
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
from torch import nn
folder = sys.argv[1]
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
ddp = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
start, losses = 0, []
if os.path.exists(f"{folder}/saved.pt"):
    saved = torch.load(f"{folder}/saved.pt")
    model.load_state_dict(saved["model"]); optimizer.load_state_dict(saved["optimizer"])
    start, losses = saved["step"], saved["losses"]
with open(f"{folder}/pid {rank}", "w") as file:
    file.write(str(os.getpid()))
for step in range(start, 40):
    generator = torch.Generator().manual_seed(100 * step + rank)
    x, y = torch.randn(16, 20, generator=generator), torch.randint(5, (16,), generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(ddp(x), y)
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item())
    if rank == 0 and step % 5 == 4:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1,
                    "losses": losses}, f"{folder}/saved.tmp")
        os.replace(f"{folder}/saved.tmp", f"{folder}/saved.pt")
    import time; time.sleep(0.005)
if rank == 0:
    with open(f"{folder}/losses", "w") as file:
        file.write(" ".join(f"{each:.6f}" for each in losses))
open(f"{folder}/done {rank}", "w").close()
'''


def job(folder: Path, processes: int, restarts: int) -> subprocess.Popen:
    (folder / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mindtorch_v2.distributed.run", "--standalone", "--nproc-per-node", str(processes),
               "--max-restarts", str(restarts), str(folder / "train.py"), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)


def kill(folder: Path, processes: int, rank: int, delay: float) -> None:
    """Kills a rank a while after all have begun, if it has not ended."""
    files = [folder / f"pid {each}" for each in range(processes)]
    end = time.monotonic() + 120
    while not all(file.exists() and file.read_text() for file in files):
        if time.monotonic() > end:
            raise TimeoutError("the job did not begin")
        time.sleep(0.01)
    time.sleep(delay)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(files[rank].read_text()), signal.SIGKILL)


def undisturbed(processes: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, text = finished(job(folder, processes, 0))
        assert (folder / "losses").exists(), text
        return (folder / "losses").read_text()


def finished(started: subprocess.Popen) -> tuple[int, str]:
    text = started.communicate(timeout=200)[1]
    return started.returncode, text


def left_behind(pids: list[int]) -> list[int]:
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}") and "train.py" in _command_of(pid)]


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def alike(got: str, expected: str) -> bool:
    pairs = list(itertools.zip_longest(map(float, got.split()), map(float, expected.split()), fillvalue=math.nan))
    return all(abs(one - other) < 1e-4 for one, other in pairs)


def disturbed(number: int, seed: int, processes: int, expected: str) -> str:
    """What went wrong in a job of which a rank was killed; nothing if all was as it should be."""
    chance = random.Random(1000 * seed + number)
    rank, delay, restarts = chance.randrange(processes), chance.uniform(0, 0.4), 2 * (number % 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = job(folder, processes, restarts)
        kill(folder, processes, rank, delay)
        code, text = finished(started)
        pids = [int((folder / f"pid {each}").read_text()) for each in range(processes)]
        what = f"run {number} (rank {rank} killed after {delay:.2f} s, {restarts} restarts)"
        if left_behind(pids):
            return f"{what}: processes {left_behind(pids)} are left"
        if code == 0:
            got = (folder / "losses").read_text() if (folder / "losses").exists() else ""
            return "" if alike(got, expected) else f"{what}: losses {got}, not {expected}"
        if restarts:
            return f"{what}: did not finish: {text[-1500:]}"
        survivors = len(re.findall(r"DistBackendError: \[rank \d+\][^\n]*rank \d+ \(process \d+\)", text))
        unfinished = [each for each in range(processes) if each != rank and not (folder / f"done {each}").exists()]
        if "ChildFailedError" not in text or "SIGKILL" not in text or survivors < len(unfinished):
            return f"{what}: unclear: {text[-1500:]}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))
    expected = undisturbed(given.processes)
    numbers = range(given.count)
    if sys.stderr.isatty():
        from tqdm import tqdm

        numbers = tqdm(numbers)  # type: ignore[assignment]
    wrong = [text for text in (disturbed(number, given.seed, given.processes, expected) for number in numbers) if text]
    print("\n".join([*wrong, f"{given.count} kills, {len(wrong)} went wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
