"""`watch()` lets `import torch` find mindtorch_v2, which is imported only then: other programs pay nothing.

It runs in every interpreter of an activated environment, and in whichever interpreter a program on mindtorch_v2 starts,
also in one that is too old for the library. So it uses little, imports nothing that is not loaded yet, and says clearly
what keeps the library from being imported.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself takes longer to load than all of this
    from typing import Any

PLACE = os.path.abspath(__file__)
for _ in range(4):  # the folder that holds the package: above mindtorch_v2/_compat/startup
    PLACE = os.path.dirname(PLACE)
VERSION = "2.13.0+mindtorch2"
VARIABLE = "MINDTORCH_AS_TORCH"  # "0" leaves torch to the environment


class Finder:
    """Finds torch, and the library in the place that this file belongs to."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("torch", "functorch", "torch_npu", "mindtorch_v2"):
            return None
        from importlib.machinery import ModuleSpec, PathFinder

        if name == "mindtorch_v2":
            return PathFinder.find_spec(name, [PLACE])
        origin = os.path.join(PLACE, "mindtorch_v2", "__init__.py")
        return ModuleSpec(name, Loader(), origin=origin, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> Any:
        if getattr(context, "name", None) not in (None, "torch") or "path" in vars(context or object):
            return ()  # asked for other packages, or for those in given folders
        from importlib.metadata import Distribution

        class Torch(Distribution):
            """The package metadata that libraries ask for before they import torch."""

            def read_text(self, filename: str) -> str | None:
                return {
                    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n",
                    "top_level.txt": "torch\n",
                    "RECORD": "",
                }.get(filename)

            def locate_file(self, path: Any) -> Any:
                return os.path.join(PLACE, "mindtorch_v2")

        return (Torch(),)


class Loader:
    """Imports mindtorch_v2 and gives it as torch."""

    def create_module(self, spec: Any) -> Any:
        try:
            if sys.version_info < (3, 11):  # noqa: UP036 - whichever interpreter a program starts comes here
                raise ImportError("it needs Python 3.11 or newer")
            from mindtorch_v2._compat import drop_in
        except ImportError as error:
            raise ImportError(_refusal(error)) from error
        drop_in.install_here()
        found: Any = drop_in.Finder.find_spec(spec.name)
        self.loader = found.loader
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)


def _refusal(error: ImportError) -> str:
    from importlib.machinery import PathFinder

    other = PathFinder.find_spec("torch")
    hidden = f" The torch in {other.origin} was not taken for it." if other is not None else ""
    return (
        "`import torch` means mindtorch_v2 in this process: its environment is activated, or the program that "
        f"started it runs on mindtorch_v2. But {sys.executable} cannot import it from {PLACE}: {error}.{hidden}"
        " Set MINDTORCH_AS_TORCH=0 for processes that are to use another torch."
    )


def watch() -> None:
    """Lets `import torch` find the library from now on."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
