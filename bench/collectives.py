"""Times all_reduce between two processes of this host, under this library and under PyTorch's gloo, in turns.

    python bench/collectives.py                    # needs PyTorch beside this library
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (("1 KB", 256), ("64 KB", 1 << 14), ("1 MB", 1 << 18), ("16 MB", 1 << 22))


def measure(rank: int, world: int, path: str) -> None:
    """Prints the best of several rounds of each size, in milliseconds."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    figures = []
    for _, count in SIZES:
        tensor, repeats = torch.ones(count), 50 if count < 1 << 20 else 5
        dist.all_reduce(tensor)
        best = float("inf")
        for _ in range(12):
            tensor.fill_(1)
            dist.barrier()
            began = time.perf_counter()
            for _ in range(repeats):
                dist.all_reduce(tensor)
            best = min(best, (time.perf_counter() - began) / repeats)
        figures.append(best * 1e3)
    if rank == 0:
        print(" ".join(f"{figure:.4f}" for figure in figures))
    dist.destroy_process_group()


def timed(launcher: list[str], world: int) -> list[float]:
    """The figures of one library, each process started as the others are."""
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen([sys.executable, *launcher, __file__, "--rank", str(rank), "--world", str(world),
                                     "--path", f"{folder}/meeting"], stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(world)]
        printed = [process.communicate()[0] for process in started]
    return [float(figure) for figure in printed[0].split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--path")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.rank is not None:
        measure(given.rank, given.world, given.path)
        return
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1] / "src")
    ours, theirs = [], []
    for _ in range(given.rounds):
        theirs.append(timed([], given.world))
        ours.append(timed(["-m", "mindtorch_v2"], given.world))
    print("size      here ms   gloo ms   ratio")
    for (name, _), *columns in zip(SIZES, map(min, zip(*ours)), map(min, zip(*theirs))):
        print(f"{name:8}{columns[0]:9.4f} {columns[1]:9.4f} {columns[0] / columns[1]:7.2f}")


if __name__ == "__main__":
    main()
