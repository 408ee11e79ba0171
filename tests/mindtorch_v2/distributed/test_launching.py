"""The launcher: ranks, logs, restarts, signals, failures told with the rank's own traceback, no process left behind."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from mindtorch_v2.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

LIMIT = 150


def _environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **more}


def _command(*arguments):
    return [sys.executable, "-m", "mindtorch_v2.distributed.run", *map(str, arguments)]


def _run(*arguments, **more):
    return subprocess.run(_command(*arguments), capture_output=True, text=True, env=_environment(**more), timeout=LIMIT,
                          check=False)


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "train.py"
        path.write_text(text)
        return path

    return write


TOGETHER = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group()
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK TORCHELASTIC_RUN_ID".split()
sys.stdout.write(" ".join([str(total.item()), *(os.environ[n] for n in names), *sys.argv[1:]]) + "\\n")
dist.barrier()
dist.destroy_process_group()
"""


def test_processes_are_a_group(script):
    done = _run("--standalone", "--nproc-per-node", 2, "--rdzv-id", "job", script(TOGETHER), "--epochs", 2)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"3.0 {rank} {rank} 2 2 0 {rank} job --epochs 2" for rank in range(2)]


@pytest.mark.parametrize("meeting", ["static", "c10d"])
def test_two_nodes(script, meeting, free_port):
    port, path = free_port, script(TOGETHER)
    agents = []
    for node in range(2):
        how = (["--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port] if meeting == "static" else
               ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"])
        agents.append(subprocess.Popen(_command("--nnodes", 2, *how, "--nproc-per-node", 1, "--rdzv-id", "job", path),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()))
    printed = [agent.communicate(timeout=LIMIT) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], printed
    assert sorted(line for out, _ in printed for line in out.splitlines()) == [
        f"3.0 {rank} 0 2 1 {rank} {rank} job" for rank in range(2)]


def test_a_failure_is_told_with_the_ranks_traceback(script):
    done = _run("--standalone", "--nproc-per-node", 2, script("""
import os, time
def inner():
    if os.environ["RANK"] == "1":
        raise ValueError("this went wrong")
    time.sleep(60)
inner()
"""))
    assert done.returncode == 1
    text = done.stderr[done.stderr.index("ChildFailedError") :]
    assert "train.py FAILED" in text and "Root Cause (first observed failure):" in text
    assert re.search(r"rank      : 1 \(local_rank: 1\)\n  exitcode  : 1 \(pid: \d+\)", text)
    assert "in inner" in text and "ValueError: this went wrong" in text
    assert "exitcode  : -15" not in text  # that the launcher ended the other one is no failure


def test_the_first_cause_is_the_process_that_was_killed(script):
    done = _run("--standalone", "--nproc-per-node", 2, script("""
import os, signal
import torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(1))
"""))
    text = done.stderr[done.stderr.index("ChildFailedError") :]
    failures, root = text.split("Root Cause")
    assert "Signal 9 (SIGKILL) received by PID" in root and "rank      : 1" in root
    assert re.search(r"DistBackendError: \[rank 0\] gloo:all_reduce: rank 1 \(process \d+\) has ended", failures)


RESTARTED = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
folder = sys.argv[1]
start, weight = 0, torch.zeros(1)
if os.path.exists(f"{folder}/saved.pt"):
    saved = torch.load(f"{folder}/saved.pt")
    start, weight = saved["step"], saved["weight"]
for step in range(start, 6):
    grad = torch.ones(1) * (step + rank)
    dist.all_reduce(grad)
    weight += grad
    if rank == 0:
        torch.save({"step": step + 1, "weight": weight}, f"{folder}/saved.tmp")
        os.replace(f"{folder}/saved.tmp", f"{folder}/saved.pt")
    if attempt == 0 and step == 3 and rank == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()
os.write(1, f"{attempt} {start} {weight.item()}\\n".encode())  # one write: two ranks may print at once
"""


def test_the_group_starts_again_from_the_checkpoint(script, tmp_path):
    done = _run("--standalone", "--nproc-per-node", 2, "--max-restarts", 2, script(RESTARTED), tmp_path)
    assert done.returncode == 0, done.stderr
    attempts = {line for line in done.stdout.splitlines()}
    assert attempts <= {"1 4 36.0", "1 3 36.0"} and len(done.stdout.splitlines()) == 2
    assert "rank 1, pid" in done.stderr and "starting the group again" in done.stderr


def test_logs_of_each_rank(script, tmp_path):
    path = script("import os, sys\nprint('out of', os.environ['RANK'])\nprint('err of', os.environ['RANK'], "
                  "file=sys.stderr)\n")
    done = _run("--standalone", "--nproc-per-node", 2, "--log-dir", tmp_path / "logs", "--redirects", 3, "--tee", "0:1",
                path)
    assert done.returncode == 0 and done.stdout == "[default0]:out of 0\n", done.stderr
    files = {str(file.relative_to(tmp_path / "logs")).split("/", 1)[1]: file.read_text()
             for file in (tmp_path / "logs").rglob("*.log")}
    assert files == {f"attempt_0/{rank}/{name}.log": f"{name[3:]} of {rank}\n" for rank in range(2)
                     for name in ("stdout", "stderr")}
    shown = _run("--standalone", "--nproc-per-node", 2, "--local-ranks-filter", "1", path)
    assert shown.stdout == "out of 1\n"


def _alive(pids):
    alive = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "ZX":
                    alive.append(pid)
        except OSError:
            pass
    return alive


SLEEPING = """
import os, sys, time
open(f"{sys.argv[1]}/pid {os.environ['RANK']}", "w").write(str(os.getpid()))
if sys.argv[2:] == ["deaf"]:
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(300)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_launcher(script, tmp_path, number):
    agent = subprocess.Popen(_command("--standalone", "--nproc-per-node", 2, script(SLEEPING), tmp_path),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=_environment())
    files = [tmp_path / f"pid {rank}" for rank in range(2)]
    end = time.monotonic() + LIMIT
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < end
        time.sleep(0.05)
    pids = [int(file.read_text()) for file in files]
    assert _alive(pids) == pids
    agent.send_signal(number)
    said = agent.communicate(timeout=LIMIT)[1]
    while _alive(pids):
        assert time.monotonic() < end, said
        time.sleep(0.05)
    assert agent.returncode == (-9 if number == signal.SIGKILL else 128 + number), said


def test_failures_are_described():
    killed, raised = ProcessFailure(1, 11, -9, "", 1), ProcessFailure(0, 10, 1, "", 0)
    error = ChildFailedError("train.py", {0: raised, 1: killed})
    assert error.get_first_failure() == (1, killed)
    assert killed.signal_name() == "SIGKILL" and raised.signal_name() == "<N/A>"
    assert "[1]:" in str(error) and str(error).count("exitcode") == 2


def test_options_are_pytorchs(script):
    from mindtorch_v2.distributed.run import get_args_parser, parse_args

    given = parse_args(["--nproc_per_node=3", "--nnodes=1:2", "--rdzv_backend", "c10d", "--rdzv-endpoint", "h:1",
                        "--max_restarts", "2", "-m", "package.train", "--x", "1"])
    assert (given.nproc_per_node, given.nnodes, given.rdzv_endpoint, given.max_restarts, given.module,
            given.training_script, given.training_script_args) == ("3", "1:2", "h:1", 2, True, "package.train",
                                                                   ["--x", "1"])
    assert get_args_parser().prog == "torchrun"
    refused = _run("--nnodes", "0", script("pass"))
    assert refused.returncode == 1 and "nnodes=0 is no number of nodes" in refused.stderr
