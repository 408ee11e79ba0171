"""Runs a PyTorch program on this library.

python -m mindtorch_v2 train.py --epochs 3    # a script that says `import torch`
python -m mindtorch_v2 -m package.train       # a module
python -m mindtorch_v2 info                   # versions, devices, threads, kernels found
python -m mindtorch_v2 show softmax           # an operator: declaration, derivative, kernels, generated code
python -m mindtorch_v2 stubs typings          # lets type checkers take `import torch` for this library
"""

import os
import runpy
import sys
from pathlib import Path
from types import FrameType, TracebackType

from . import install

USAGE = (
    "usage: python -m mindtorch_v2 (SCRIPT | -m MODULE | -c CODE | info | show NAME | stubs FOLDER) [ARGUMENTS ...]\n"
)


def _print_from_the_program_on(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an error of the program without the lines of what started it."""
    shown = trace
    while shown is not None and _is_launcher(shown.tb_frame):
        shown = shown.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace if shown is None else shown), shown)


def _is_launcher(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "runpy" or frame.f_code.co_filename == __file__


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE + str(__doc__).split("\n\n", 1)[1].rstrip())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "info":
        from ._core.info import describe

        print(describe())
        return
    if arguments[0] == "show":
        from ._show import describe_operator

        if len(arguments) < 2:
            sys.exit(f"show which operator?\n{USAGE}")
        try:
            print("\n\n".join(map(describe_operator, arguments[1:])))
        except LookupError as error:
            sys.exit(error.args[0])
        return
    if arguments[0] == "stubs" and len(arguments) == 2:
        from ._compat.type_stubs import write_torch_stubs

        print(f"{write_torch_stubs(Path(arguments[1]))} stubs written to {Path(arguments[1]) / 'torch'}")
        return
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        sys.exit(f"Argument expected for the {arguments[0]} option\n{USAGE}")
    install()
    sys.excepthook = _print_from_the_program_on
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
