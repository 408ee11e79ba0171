"""`install()`: from then on `import torch`, and every submodule, gives this library."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from .absent import absent_class, absent_function
from .startup import mindtorch_v2_startup as startup

STARTUP = os.path.dirname(os.path.abspath(startup.__file__))  # the folder that goes into children's PYTHONPATH
_PREPARATION_DATA = spawn.get_preparation_data

_OURS = __name__.partition(".")[0]
_THEIRS = "torch"
# Programs import from all over these packages whether or not they come to use them; with what to say if they do.
_IMPORTED_ANYWAY = {
    "torch.distributed.": "See docs/distributed.md for what there is.",
    "torch.ao": "It has no quantization.",
    "torch.quantization": "It has no quantization.",
    "torch.onnx.": "It exports nothing.",
    "torch._inductor": "It compiles nothing.",
    "torch._export": "It exports nothing.",
}


class Finder(startup.Finder):
    """Finds `torch.x` as the module `mindtorch_v2.x`: one module object under two names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "functorch":  # PyTorch brings this package too
            return ModuleSpec(name, _Loader(f"{_OURS}._functorch.deprecated"), is_package=True)  # type: ignore[arg-type]
        if name in ("functorch.experimental", "functorch.compile"):
            inner = f"{_OURS}._{name}"
            return ModuleSpec(name, _Loader(inner))  # type: ignore[arg-type]
        if name == "torch_npu" or name.startswith("torch_npu."):  # and Ascend's programs this one
            inner = f"{_OURS}._{name}"
            found = importlib.util.find_spec(inner)
            is_package = found is not None and found.submodule_search_locations is not None
            return None if found is None else ModuleSpec(name, _Loader(inner), is_package=is_package)  # type: ignore[arg-type]
        if name != _THEIRS and not name.startswith(_THEIRS + "."):
            return None
        ours = _OURS + name[len(_THEIRS) :]
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:  # a parent is missing
            found = None
        if found is None and ours not in sys.modules:
            for start, why in _IMPORTED_ANYWAY.items():
                if name.startswith(start):
                    return ModuleSpec(name, _AbsentLoader(why), is_package=True)  # type: ignore[arg-type]
            raise ModuleNotFoundError(f"No module named '{name}' (mindtorch_v2, which stands in for PyTorch here, has "
                                      "no such module)", name=name)
        is_package = found is not None and found.submodule_search_locations is not None
        return ModuleSpec(name, _Loader(ours), is_package=is_package)  # type: ignore[arg-type]


class _Loader:
    def __init__(self, ours: str) -> None:
        self.ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.ours)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module is loaded already; it keeps the spec under its own name, which its relative imports need."""
        module.__spec__ = self.own_spec
        _name_submodules()

    def get_code(self, name: str) -> Any:
        """The code of the module, for `python -m`."""
        found: Any = importlib.util.find_spec(self.ours)
        return found.loader.get_code(self.ours)


def _name_submodules() -> None:
    """Gives our loaded public modules their second names, which programs look for in `sys.modules`.

    Were they found when imported, as private ones are, each would be set on its package in place of a function of that
    name there.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS + ".") and "._" not in name:
            sys.modules.setdefault(_THEIRS + name[len(_OURS) :], module)


class _AbsentLoader:
    """Makes a module whose names can be imported and tested against; using one raises NotImplementedError."""

    def __init__(self, why: str) -> None:
        self.why = why

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name, f"{spec.name}: not implemented.")

    def exec_module(self, module: ModuleType) -> None:
        def absent(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
            if name == "is_available":
                return lambda: False
            make = absent_class if name.lstrip("_")[:1].isupper() else absent_function
            made = make(f"{module.__name__}.{name}", self.why)
            setattr(module, name, made)
            return made

        module.__getattr__ = absent  # type: ignore[method-assign]


def install_here() -> None:
    """Makes `import torch` give this library in this process only: children decide for themselves."""
    package = sys.modules[_OURS]
    present = sys.modules.get(_THEIRS)
    if present is package:
        return
    if present is not None:
        raise RuntimeError(
            f"mindtorch_v2.install(): torch {getattr(present, '__version__', '')} is imported already, from "
            f"{getattr(present, '__file__', 'an unknown place')}. Call install() before anything imports torch, or run "
            "the program as: python -m mindtorch_v2 program.py"
        )
    sys.modules[_THEIRS] = package
    package.__name__ = _THEIRS
    _name_submodules()
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


def install() -> None:
    """Makes `import torch` give this library, in this process and those it starts, for every import from now on.

    RuntimeError if the real PyTorch is imported already: two libraries of one name would see each other's tensors.
    """
    install_here()
    os.environ[startup.VARIABLE] = "1"
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if STARTUP not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join([STARTUP, *filter(None, places)])
    if sys.flags.ignore_environment:  # then multiprocessing starts children that ignore it too
        spawn.get_preparation_data = _with_installation  # type: ignore[assignment]


def uninstall() -> None:
    """Takes `install()` back: the next `import torch` finds what is installed under that name, here and in children."""
    package = sys.modules[_OURS]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not _is_ours(finder)]
    if sys.modules.get(_THEIRS) is package:
        for name in [name for name in sys.modules if name.partition(".")[0] in (_THEIRS, "functorch")]:
            del sys.modules[name]
    package.__name__ = _OURS
    os.environ.pop(startup.VARIABLE, None)
    places = [place for place in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if place not in ("", STARTUP)]
    if places:
        os.environ["PYTHONPATH"] = os.pathsep.join(places)
    spawn.get_preparation_data = _PREPARATION_DATA


def _is_ours(finder: Any) -> bool:
    """Whether it finds torch here: the finder of this module, or that which ran at the start of the interpreter."""
    return finder is Finder or getattr(finder, "__module__", "").endswith(startup.__name__.rpartition(".")[2])


class _InstallFirst:
    """Installs the library in the process that unpickles it."""

    def __init__(self, path: list[str]) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return exec, (f"import sys; sys.path[:] = {self.path!r}; import {_OURS}; {_OURS}.install()",)


def _with_installation(name: str) -> dict[str, Any]:
    """What multiprocessing sends a spawned process; it installs the library before it imports the main program."""
    data = _PREPARATION_DATA(name)
    if name == "ignore":  # for the server that forks children: it must not import the program itself
        data.pop("init_main_from_path", None)
    return {**data, _OURS: _InstallFirst(data["sys_path"])}
