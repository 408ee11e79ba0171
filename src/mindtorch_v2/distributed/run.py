"""`torchrun`: starts a script with the variables that a launcher sets; one process, here.

    python -m mindtorch_v2 -m torch.distributed.run --nproc_per_node=1 train.py
"""

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from .._compat.absent import refuse
from ._stores import ONE_PROCESS

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def get_args_parser() -> argparse.ArgumentParser:
    """The launcher's options, of which those that concern other processes are taken and ignored."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Starts a script as the one process of a group.")
    for name, default in (("nnodes", "1"), ("nproc-per-node", "1"), ("rdzv-backend", "static"), ("rdzv-endpoint", ""),
                          ("rdzv-id", "none"), ("rdzv-conf", ""), ("max-restarts", "0"), ("monitor-interval", "0.1"),
                          ("start-method", "spawn"), ("role", "default"), ("log-dir", ""), ("redirects", "0"),
                          ("tee", "0"), ("local-ranks-filter", ""), ("node-rank", "0"), ("master-addr", "127.0.0.1"),
                          ("master-port", "29500"), ("local-addr", "")):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", default=default)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module")
    parser.add_argument("--no-python", "--no_python", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    return get_args_parser().parse_args(args)


def run(args: argparse.Namespace) -> None:
    """Runs the script in this process."""
    automatic = ("auto", "cpu", "gpu")
    if str(args.nnodes).rpartition(":")[2] != "1" or str(args.nproc_per_node) not in ("1", *automatic):
        refuse(f"launcher of {args.nnodes} nodes with {args.nproc_per_node} processes each", ONE_PROCESS)
    os.environ.update({
        "RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "ROLE_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": str(args.master_port), "TORCHELASTIC_RUN_ID": args.rdzv_id,
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts)})
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.argv = [args.training_script, *args.training_script_args]
    if args.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(args.training_script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(args.training_script)))
        runpy.run_path(args.training_script, run_name="__main__")


def main(args: Sequence[str] | None = None) -> None:
    run(parse_args(args))


if __name__ == "__main__":
    main()
