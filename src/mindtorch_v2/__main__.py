"""Runs a PyTorch program on this library.

python -m mindtorch_v2 train.py --epochs 3    # a script that says `import torch`; processes it starts take it along
python -m mindtorch_v2 -m package.train       # a module
python -m mindtorch_v2 -c 'import torch'      # code; `-` reads it from standard input, `-i` asks for it
python -m mindtorch_v2 accelerate launch x.py # a command of this environment
python -m mindtorch_v2 activate               # from now on, `import torch` gives this library in the whole environment
python -m mindtorch_v2 deactivate             # undoes that
python -m mindtorch_v2 status                 # which torch programs get here
python -m mindtorch_v2 info                   # versions, devices, threads, kernels found
python -m mindtorch_v2 check npu              # what an Ascend chip and its CANN do, for a report
python -m mindtorch_v2 show softmax           # an operator: declaration, derivative, kernels, generated code
python -m mindtorch_v2 --trace out.html train.py   # runs it and writes a page that shows every call, step by step
python -m mindtorch_v2 stubs typings          # lets type checkers take `import torch` for this library
"""

import io
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import NoReturn

from . import install

MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID")  # variables that starters of MPI programs set
USAGE = (
    "usage: python -m mindtorch_v2 (SCRIPT | -m MODULE | -c CODE | - | -i | COMMAND | activate | deactivate | status | "
    "info | check npu | show NAME | stubs FOLDER | --trace PAGE PROGRAM | --version) [ARGUMENTS ...]\n"
)


def _print_from_the_program_on(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an error of the program without the lines of what started it, and leaves it to the launcher, if any."""
    shown = trace
    while shown is not None and _is_launcher(shown.tb_frame):
        shown = shown.tb_next
    error = error.with_traceback(trace if shown is None else shown)
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from .distributed.elastic.multiprocessing.errors import write_error

        write_error(error)
    sys.__excepthook__(kind, error, shown)


def _is_launcher(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "runpy" or frame.f_code.co_filename == __file__


def _info() -> None:
    from ._core.info import describe

    print(describe())


def _version() -> None:
    from . import __version__
    from ._core.info import version_of

    print(f"mindtorch_v2 {version_of('mindtorch_v2')}, torch {__version__}")


def _show(*names: str) -> None:
    from ._show import describe_operator

    if not names:
        sys.exit(f"show which operator?\n{USAGE}")
    try:
        print("\n\n".join(map(describe_operator, names)), flush=True)
    except BrokenPipeError:  # its reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except LookupError as error:
        sys.exit(error.args[0])


def _stubs(folder: str) -> None:
    from ._compat.type_stubs import write_torch_stubs

    print(f"{write_torch_stubs(Path(folder))} stubs written to {Path(folder) / 'torch'}")


def _check(device: str) -> None:
    if device != "npu":
        sys.exit(f"python -m mindtorch_v2 check {device}: only `check npu` is known")
    from ._backends.npu.check import lines

    for line in lines():
        print(line, flush=True)


def _activate() -> None:
    from ._compat import activation

    print(activation.activate())


def _deactivate() -> None:
    from ._compat import activation

    print(activation.deactivate())


def _status() -> None:
    from ._compat import activation

    print(activation.status())


# By word, with how many arguments it takes; a file of such a name can be run as ./info.
_COMMANDS: dict[str, tuple[Callable[..., None], int | None]] = {
    "info": (_info, 0),
    "--version": (_version, 0),
    "-V": (_version, 0),
    "show": (_show, None),
    "stubs": (_stubs, 1),
    "check": (_check, 1),
    "activate": (_activate, 0),
    "deactivate": (_deactivate, 0),
    "status": (_status, 0),
}


def _run_as_main(code: CodeType, file: str | None = None) -> None:
    """Runs code as the module `__main__`, where pickle and multiprocessing look for what it defines."""
    main = ModuleType("__main__")
    if file is not None:
        main.__file__ = file
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _command(name: str) -> str | None:
    """The file of a command that is written in Python, such as those of installed packages."""
    found = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    if found is None:
        return None
    with open(found, "rb") as file:
        return found if b"python" in file.readline(256).partition(b"#!")[2] else None


def _interpreter(arguments: list[str]) -> NoReturn:
    """Goes on as the interpreter itself, which asks for code better than a program could."""
    if os.name == "posix":
        os.execv(sys.executable, [sys.executable, *arguments])
    sys.exit(subprocess.call([sys.executable, *arguments]))


def _traced(arguments: list[str]) -> None:
    """Runs a program and writes the page of what it did, also of one that fails."""
    if len(arguments) < 2:
        sys.exit(f"--trace takes the page to write, and a program\n{USAGE}")
    from .utils.tracing import Trace

    page, sys.argv = os.path.abspath(arguments[0]), [sys.argv[0], *arguments[1:]]
    trace = Trace()
    try:
        with trace:
            main()
    finally:
        trace.save(page)
        print(f"{len(trace)} calls: {page}", file=sys.stderr)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE + str(__doc__).split("\n\n", 1)[1].rstrip())
        sys.exit(0 if arguments else 2)
    first, rest = arguments[0], arguments[1:]
    if first == "--trace":
        return _traced(rest)
    run, count = _COMMANDS.get(first, (None, None))
    if run is not None and count in (None, len(rest)):
        return run(*rest)
    if first in ("-m", "-c") and not rest:
        sys.exit(f"Argument expected for the {first} option\n{USAGE}")
    if "RANK" not in os.environ and any(name in os.environ for name in MPI_RANKS):
        from .distributed._environment import adopt_mpi_environment

        adopt_mpi_environment()
    install()
    if first == "-i" or (first == "-" and sys.stdin.isatty()):
        _interpreter(arguments)
    sys.excepthook = _print_from_the_program_on
    if first == "-m":
        sys.argv = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first in ("-c", "-"):
        sys.argv = [first, *rest[first == "-c":]]
        sys.path[0] = ""
        source, name = (rest[0], "<string>") if first == "-c" else (sys.stdin.read(), "<stdin>")
        _run_as_main(compile(source, name, "exec", dont_inherit=True))
    else:
        _run_file(arguments)


def _run_file(arguments: list[str]) -> None:
    """Runs a script, a folder or archive with a `__main__`, or a command of the environment."""
    script: str | None = arguments[0]
    if not os.path.exists(arguments[0]):
        script = _command(arguments[0])
    if script is None:
        sys.exit(f"can't open file '{os.path.abspath(arguments[0])}': No such file or directory\n{USAGE}")
    sys.argv = [script, *arguments[1:]]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    if os.path.isdir(script) or script.endswith((".pyz", ".zip", ".pyc")):
        runpy.run_path(script, run_name="__main__")
    else:
        with io.open_code(os.path.abspath(script)) as file:
            code = compile(file.read(), script, "exec", dont_inherit=True)
        _run_as_main(code, script)


if __name__ == "__main__":
    main()
