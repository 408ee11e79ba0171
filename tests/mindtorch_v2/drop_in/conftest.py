"""Environments for tests of processes: with this library, with and without another torch installed."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"
OURS, REAL = "2.13.0+mindtorch2", "2.13.0+real"


class Environment:
    """A virtual environment that sees the packages of this one; `run` starts its interpreter in it."""

    def __init__(self, folder: Path, other_torch: bool) -> None:
        venv.create(folder, symlinks=True)
        self.python = str(folder / "bin" / "python")
        self.packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (self.packages / "a_packages.pth").write_text(f"{SOURCE}\n" + "".join(
            f"{place}\n" for place in sys.path if place.endswith("site-packages")))
        self.other_torch = self.packages / "torch" / "__init__.py"
        if other_torch:
            self.other_torch.parent.mkdir()
            self.other_torch.write_text(f"__version__ = {REAL!r}\n")

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        kept = {name: value for name, value in os.environ.items()
                if name not in ("PYTHONPATH", "MINDTORCH_AS_TORCH", "VIRTUAL_ENV")}
        return subprocess.run([self.python, *arguments], capture_output=True, text=True, cwd=self.packages.parent,
                              env={**kept, "CUDA_VISIBLE_DEVICES": "", **variables})

    def seen(self, *arguments: str, **variables: str) -> str:
        """What a process printed, or the last line of its error."""
        done = self.run(*arguments, **variables)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module", params=["alone", "beside another torch"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), other_torch=request.param != "alone")
