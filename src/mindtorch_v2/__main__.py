"""Runs a PyTorch program on this library.

    python -m mindtorch_v2 train.py --epochs 3    # a script that says `import torch`
    python -m mindtorch_v2 -m package.train       # a module
    python -m mindtorch_v2 info                   # versions, devices, threads, kernels found
"""

import os
import runpy
import sys

from . import install

USAGE = "usage: python -m mindtorch_v2 (SCRIPT | -m MODULE | -c CODE | info) [ARGUMENTS ...]\n"


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE + str(__doc__).split("\n\n", 1)[1].rstrip())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "info":
        from ._info import describe

        print(describe())
        return
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        sys.exit(f"Argument expected for the {arguments[0]} option\n{USAGE}")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        if not os.path.exists(arguments[0]):
            sys.exit(f"can't open file '{os.path.abspath(arguments[0])}': No such file or directory\n{USAGE}")
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
