"""`install()`: from then on `import torch`, and every submodule, gives this library."""

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .absent import absent_class, absent_function

_OURS = __name__.partition(".")[0]
_THEIRS = "torch"
# Programs import from all over these packages whether or not they come to use them; with what to say if they do.
_IMPORTED_ANYWAY = {
    "torch.distributed.": "It runs one process.",
    "torch.ao": "It has no quantization.",
    "torch.quantization": "It has no quantization.",
    "torch.onnx.": "It exports nothing.",
    "torch._inductor": "It compiles nothing.",
    "torch._export": "It exports nothing.",
}


class _Distribution(importlib.metadata.Distribution):
    """The package metadata that libraries ask for before they import torch."""

    def read_text(self, filename: str) -> str | None:
        version = str(sys.modules[_OURS].__version__).partition("+")[0]
        return {
            "METADATA": f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {version}\n",
            "top_level.txt": f"{_THEIRS}\n",
            "RECORD": "",
        }.get(filename)

    def locate_file(self, path: Any) -> Any:
        return sys.modules[_OURS].__path__[0]


class _Finder:
    """Finds `torch.x` as the module `mindtorch_v2.x`: one module object under two names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "functorch":  # PyTorch brings this package too
            return ModuleSpec(name, _Loader(f"{_OURS}._functorch.deprecated"))  # type: ignore[arg-type]
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

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        if context is None or context.name is None or context.name == _THEIRS:
            yield _Distribution()


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


def install() -> None:
    """Makes `import torch` give this library, in this process and for every module imported from now on.

    RuntimeError if the real PyTorch is imported already: two libraries of one name would see each other's tensors.
    """
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
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    _install_in_children()


class _InstallFirst:
    """Installs the library in the process that unpickles it."""

    def __init__(self, path: list[str]) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return exec, (f"import sys; sys.path[:] = {self.path!r}; import {_OURS}; {_OURS}.install()",)


def _install_in_children() -> None:
    """Lets spawned processes install the library before they import the main program, which says `import torch`."""
    from multiprocessing import spawn

    original = spawn.get_preparation_data

    def with_installation(name: str) -> dict[str, Any]:
        data = original(name)
        if name == "ignore":  # for the server that forks children: it must not import the program itself
            data.pop("init_main_from_path", None)
        return {**data, _OURS: _InstallFirst(data["sys_path"])}

    spawn.get_preparation_data = with_installation  # type: ignore[assignment]
