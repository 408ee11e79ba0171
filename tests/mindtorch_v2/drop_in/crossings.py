"""A program that crosses the boundary to other processes in every way it can, and prints which torch each of them saw.

Arguments: the ways to try; none for all. It is run as a script, so that spawned processes import it again.
"""

import concurrent.futures
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

import torch

PRINT = "import torch; print(torch.__version__)"
MAIN = torch.__version__  # of the process that imports this file: the parent, and each spawned child


class Seen(torch.utils.data.Dataset):
    """Says which torch the worker that reads it has."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return MAIN


def version():
    return MAIN


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return done.stdout.strip() or done.stderr.strip()


def through_subprocess():
    return output(sys.executable, "-c", PRINT)


def through_a_shell():
    return output(f'"{sys.executable}" -c "{PRINT}"', shell=True)


def through_exec():
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", PRINT.replace("print(", "assert 'mindtorch' in (")])
    return "failed" if os.waitpid(pid, 0)[1] else MAIN


def through_a_grandchild():
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PRINT!r}])"  # does not import torch itself
    return output(sys.executable, "-c", code)


def through_a_console_script():
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "train")
        with open(script, "w") as file:
            file.write(f"#!{sys.executable}\n{PRINT}\n")
        os.chmod(script, 0o755)
        return output("train", env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})


def through_metadata():
    return output(sys.executable, "-c", "import importlib.metadata as m; print(m.version('torch'))")


def through_a_module_of_torch():
    shown = output(sys.executable, "-m", "torch.utils.collect_env")
    return next(line.split()[2] for line in shown.splitlines() if line.startswith("PyTorch version:"))


def through_spawn():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(version)


def through_forkserver():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        return pool.submit(version).result()


def through_a_data_loader():
    loader = torch.utils.data.DataLoader(Seen(), num_workers=1, multiprocessing_context="spawn", collate_fn=list)
    return next(iter(loader))[0]


def through_joblib():
    import joblib

    return joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(version)()] * 2)[0]


def main():
    ways = sys.argv[1:] or [name for name in globals() if name.startswith("through_")]
    print(json.dumps({way: globals()[way]() for way in ways}))


if __name__ == "__main__":
    main()
