"""`python -m mindtorch_v2 activate`: `import torch` gives this library in every process of an environment.

A .pth file does it, which the interpreter reads as it starts. Beside it stands the metadata of a distribution torch,
with which pip takes `Requires: torch` for satisfied, and which `pip uninstall torch` removes again.
"""

import importlib.metadata
import os
import shutil
import site
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

from .drop_in import STARTUP
from .startup.mindtorch_v2_startup import VARIABLE, VERSION

PTH = "mindtorch_v2_as_torch.pth"
_INFO = f"torch-{VERSION}.dist-info"


def _folder() -> Path:
    """Where packages of this environment go; the user's own folder where that may not be written."""
    folder = Path(sysconfig.get_paths()["purelib"])
    if os.access(folder, os.W_OK) or not site.ENABLE_USER_SITE:
        return folder
    return Path(site.getusersitepackages())


def pth_line(folder: str | None = None) -> str:
    """What a .pth file says: it watches for `import torch`, and cannot fail, also where the library is gone.

    Without a folder it looks for the library on the path, as that of the package torch does which `make shim` builds.
    """
    start = (
        "import os, sys\n"
        "for place in [{}] * (os.environ.get('{}') != '0'):\n"
        " if os.path.isdir(place):\n"
        "  sys.path.insert(0, place)\n"
        "  try:\n"
        "   import mindtorch_v2_startup\n"
        "   mindtorch_v2_startup.watch()\n"
        "  except ImportError: pass\n"
        "  sys.path.remove(place)\n"
        "  break\n"
    )
    anywhere = "*(os.path.join(place, 'mindtorch_v2', '_compat', 'startup') for place in sys.path)"
    return f"import sys; exec({start.format(anywhere if folder is None else repr(folder), VARIABLE)!r}, {{}})\n"


def real_torch() -> str | None:
    """The file of another torch that this library stands in front of."""
    found = PathFinder.find_spec("torch")
    return None if found is None else str(found.origin or next(iter(found.submodule_search_locations or []), None))


def _has_metadata_of_torch(folder: Path) -> bool:
    return any(importlib.metadata.distributions(name="torch", path=[str(folder)]))


def activate() -> str:
    """Lets `import torch` mean this library in the whole environment; says what was written."""
    folder = _folder()
    pth = folder / PTH
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pth.write_text(pth_line(STARTUP), encoding="utf-8")
        if not _has_metadata_of_torch(folder):
            _write_metadata(folder)
    except OSError as error:
        sys.exit(f"{folder} cannot be written to ({error.strerror}): activate needs an environment of your own")
    hidden = real_torch()
    return f"Activated: `import torch` gives mindtorch_v2 in {sys.prefix} ({pth})." + (
        f"\nIt hides {hidden}; deactivate brings that back." if hidden else ""
    )


def _write_metadata(folder: Path) -> None:
    info = folder / _INFO
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\nSummary: mindtorch_v2, activated here\n"
    )
    (info / "INSTALLER").write_text("mindtorch_v2\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in (
        PTH, f"{_INFO}/METADATA", f"{_INFO}/INSTALLER", f"{_INFO}/RECORD")))


def deactivate() -> str:
    """Undoes `activate`; says what was removed."""
    removed = []
    for folder in _places():
        if (folder / PTH).exists():
            (folder / PTH).unlink()
            removed.append(str(folder / PTH))
        installer = folder / _INFO / "INSTALLER"
        if installer.exists() and installer.read_text().strip() == "mindtorch_v2":
            shutil.rmtree(folder / _INFO)
    return f"Deactivated: removed {', '.join(removed)}." if removed else f"{sys.prefix} was not activated."


def _places() -> list[Path]:
    return [Path(place) for place in dict.fromkeys([sysconfig.get_paths()["purelib"], site.getusersitepackages()])]


def status() -> str:
    """What `import torch` gives in this environment and in this process's children, and why."""
    pth = next((folder / PTH for folder in _places() if (folder / PTH).exists()), None)
    shim = next((dist for dist in importlib.metadata.distributions(name="torch", path=sys.path)
                 if (dist.read_text("INSTALLER") or "").strip() != "mindtorch_v2" and dist.version == VERSION), None)
    because = f"by {pth}" if pth else f"by the package torch {shim.version}" if shim else "no"
    other, switch = real_torch(), os.environ.get(VARIABLE)
    if switch == "0" and because != "no":
        because += f", switched off by {VARIABLE}=0"
    ours = switch not in (None, "0") or (switch is None and because != "no")
    return "\n".join([
        f"environment   {sys.prefix}",
        f"activated     {because}",
        f"children      {'take this library for torch' if switch not in (None, '0') else 'as the environment'}",
        f"other torch   {other or 'none'}",
        f"import torch  gives {f'mindtorch_v2 ({VERSION})' if ours else other or 'ModuleNotFoundError'}",
    ])
