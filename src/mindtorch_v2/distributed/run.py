"""`torchrun`: starts a script in several processes, with the variables that tell them of each other.

    torchrun --nproc-per-node 4 train.py --epochs 2
    python -m mindtorch_v2 -m torch.distributed.run --nproc-per-node 4 train.py      # the same
    torchrun --nnodes 2 --node-rank 1 --master-addr host0 --master-port 29500 --nproc-per-node 8 train.py
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from ._agent import Agent, Job, SignalReceived
from ._logs import Logs, parsed_streams
from .elastic.multiprocessing.errors import ChildFailedError

__all__ = ["get_args_parser", "main", "parse_args", "run"]

_OPTIONS: tuple[tuple[str, Any, type, str], ...] = (
    ("nnodes", "1:1", str, "number of nodes, or the least and the most of them: 1:4"),
    ("nproc-per-node", "1", str, "processes of each node: a number, auto, cpu or gpu"),
    ("rdzv-backend", "static", str, "how nodes meet: static (node-rank, master-addr) or c10d (rdzv-endpoint)"),
    ("rdzv-endpoint", "", str, "HOST[:PORT] where nodes meet"),
    ("rdzv-id", "none", str, "name of the job"),
    ("rdzv-conf", "", str, "more about meeting: last_call_timeout=30,..."),
    ("max-restarts", 0, int, "how often the whole group is started again after a failure"),
    ("monitor-interval", 0.1, float, "seconds between looks at the processes"),
    ("start-method", "spawn", str, "taken and not used: processes are programs of their own"),
    ("event-log-handler", "null", str, "taken and not used"),
    ("role", "default", str, "name of the processes"),
    ("log-dir", None, str, "folder of the files that processes print to"),
    ("redirects", "0", str, "what goes to files: 0 nothing, 1 stdout, 2 stderr, 3 both; or 0:1,1:3 by rank"),
    ("tee", "0", str, "what goes to files and is shown, as for --redirects"),
    ("local-ranks-filter", "", str, "only show these processes: 0,2"),
    ("node-rank", 0, int, "number of this node"),
    ("master-addr", "127.0.0.1", str, "host of the first node"),
    ("master-port", 29500, int, "port there"),
    ("local-addr", None, str, "taken and not used"),
    ("logs-specs", None, str, "taken and not used"),
    ("duplicate-stdout-filters", "", str, "taken and not used"),
    ("duplicate-stderr-filters", "", str, "taken and not used"),
    ("numa-binding", None, str, "taken and not used"),
)


def get_args_parser() -> argparse.ArgumentParser:
    """The launcher's options. Each can be given by a variable too: PET_NPROC_PER_NODE."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Starts a script in several processes.")
    for name, default, kind, text in _OPTIONS:
        value = os.environ.get(f"PET_{name.replace('-', '_').upper()}", default)
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", default=value, type=kind, help=text)
    for name, text in (("standalone", "one node, which needs no address"), ("run-path", "taken and not used"),
                       ("no-python", "the script is a program, not Python"),
                       ("signals-to-handle", "taken and not used"), ("virtual-local-rank", "taken and not used")):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", action="store_true", help=text)
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module")
    parser.add_argument("training_script", help="script, or module with -m")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    return get_args_parser().parse_args(args)


def _processes(text: str) -> int:
    if str(text).isdigit():
        return int(text)
    from .. import cuda

    if text == "gpu" or (text == "auto" and cuda.is_available()):
        if not cuda.is_available():
            raise ValueError("Cuda is not available.")
        return cuda.device_count()
    if text in ("cpu", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {text}")


def _command(args: argparse.Namespace) -> list[str]:
    """What each process runs: Python with this library in the place of PyTorch."""
    rest = list(args.training_script_args)
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return [args.training_script, *rest]
    python = [os.environ.get("PYTHON_EXEC", sys.executable), "-u", "-m", "mindtorch_v2"]
    return [*python, *(["-m"] if args.module else []), args.training_script, *rest]


def _job(args: argparse.Namespace) -> Job:
    fewest, _, most = str(args.nnodes).partition(":")
    nodes = (int(fewest), int(most or fewest))
    if not 0 < nodes[0] <= nodes[1]:
        raise ValueError(f"nnodes={args.nnodes} is no number of nodes: min_nodes <= max_nodes, both positive")
    conf = dict(pair.split("=", 1) for pair in args.rdzv_conf.split(",") if pair)
    host, port = args.master_addr, int(args.master_port)
    node_rank: int | None = int(args.node_rank)
    if args.standalone:
        nodes, host, port, node_rank = (1, 1), "localhost", 0, 0
    elif args.rdzv_backend != "static":
        if args.rdzv_backend not in ("c10d", "etcd", "etcd-v2"):
            raise ValueError(f"The rendezvous backend '{args.rdzv_backend}' is not known: use c10d or static")
        if args.rdzv_backend != "c10d":
            raise ValueError("etcd is not supported here: use --rdzv-backend c10d")
        host, _, number = args.rdzv_endpoint.rpartition(":") if ":" in args.rdzv_endpoint else (
            args.rdzv_endpoint, "", "29400")
        host, port, node_rank = host or "localhost", int(number), None
    elif args.rdzv_endpoint:
        host, _, number = args.rdzv_endpoint.partition(":")
        port = int(number or port)
    only = {int(each) for each in args.local_ranks_filter.split(",") if each} or None
    logs = Logs(args.log_dir, parsed_streams(str(args.redirects)), parsed_streams(str(args.tee)), only, args.role)
    return Job(_command(args), args.training_script, _processes(args.nproc_per_node), nodes, node_rank, host, port,
               args.rdzv_id, int(args.max_restarts), float(args.monitor_interval), args.role, logs,
               float(conf.get("last_call_timeout", 30)))


def run(args: argparse.Namespace) -> None:
    """Runs the script in all its processes; raises ChildFailedError if one fails for good."""
    Agent(_job(args)).run()


def main(args: Sequence[str] | None = None) -> None:
    try:
        run(parse_args(args))
    except ChildFailedError as error:
        print(f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: {error}", file=sys.stderr)
        sys.exit(1)
    except SignalReceived as error:
        print(f"[torchrun] {error}; its processes have ended", file=sys.stderr)
        sys.exit(128 + error.sigval)


if __name__ == "__main__":
    main()
