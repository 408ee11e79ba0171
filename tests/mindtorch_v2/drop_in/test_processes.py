"""Which torch a child sees, for every way in which programs start processes."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

CROSSINGS = str(Path(__file__).with_name("crossings.py"))
OURS, REAL = "2.13.0+mindtorch2", "2.13.0+real"
PRINT = "import torch; print(torch.__version__)"
WAYS = re.findall(r"^def (through_\w+)", Path(CROSSINGS).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def seen(environment):
    """Which torch each child of one program saw."""
    ways = [way for way in WAYS if way != "through_joblib" or importlib.util.find_spec("joblib")]
    done = environment.run("-m", "mindtorch_v2", CROSSINGS, *ways)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_child_sees_this_library(seen, way):
    if way == "through_joblib":
        pytest.importorskip("joblib", reason="a package of the extra `test`")
    assert seen[way] == OURS


def test_without_the_library_the_environment_decides(environment):
    expected = REAL if environment.other_torch.exists() else "ModuleNotFoundError: No module named 'torch'"
    assert environment.seen("-c", PRINT) == expected


def test_worker_processes_of_pytest(environment, tmp_path):
    pytest.importorskip("xdist", reason="a package of the extra `test`")
    (tmp_path / "test_version.py").write_text(f"""
import os
import torch

def test_version():
    assert os.environ["PYTEST_XDIST_WORKER"] and torch.__version__ == {OURS!r}
""")
    done = environment.run("-m", "mindtorch_v2", "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider",
                           str(tmp_path))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_kernels_of_notebooks(environment, tmp_path):
    pytest.importorskip("nbconvert", reason="a package of the extra `test`")
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": PRINT}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    (tmp_path / "book.ipynb").write_text(json.dumps(
        {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))
    done = environment.run("-m", "mindtorch_v2", "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout",
                           str(tmp_path / "book.ipynb"), JUPYTER_PLATFORM_DIRS="1", IPYTHONDIR=str(tmp_path))
    assert OURS in done.stdout, done.stderr


@pytest.mark.parametrize("flags", [["-I"], ["-E"]])
def test_spawned_processes_that_ignore_the_environment(environment, flags):
    """Python gives -I and -E to spawned processes too, which then see no variable of the environment."""
    done = environment.run(*flags, "-m", "mindtorch_v2", CROSSINGS, "through_spawn", "through_forkserver")
    assert json.loads(done.stdout) == {"through_spawn": OURS, "through_forkserver": OURS}, done.stderr


def test_install_and_uninstall(environment):
    code = f"""
import os, subprocess, sys
before = dict(os.environ)
import mindtorch_v2
def child():
    return subprocess.run([sys.executable, "-c", {PRINT!r}], capture_output=True, text=True).stdout.strip() or "none"
mindtorch_v2.install()
import torch, torch.nn.functional, functorch
print(torch is mindtorch_v2, child())
mindtorch_v2.uninstall()
print(dict(os.environ) == before, mindtorch_v2.__name__, [name for name in sys.modules if name.startswith("torch")])
print(child(), mindtorch_v2.nn.Linear(2, 3))
try:
    import torch
    print(torch.__version__)
except ModuleNotFoundError as error:
    print(error)
mindtorch_v2.uninstall()  # once more changes nothing
"""
    other = environment.other_torch.exists()
    assert environment.run("-c", code).stdout.splitlines() == [
        f"True {OURS}", "True mindtorch_v2 []",
        f"{REAL if other else 'none'} Linear(in_features=2, out_features=3, bias=True)",
        REAL if other else "No module named 'torch'",
    ]


def test_the_environments_own_sitecustomize_runs_too(environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.was_run = True\n")
    code = "import sys, subprocess; subprocess.run([sys.executable, '-c', 'import sys, torch; print(sys.was_run)'])"
    assert environment.seen("-m", "mindtorch_v2", "-c", code, PYTHONPATH=str(tmp_path)) == "True"


def test_a_child_that_cannot_import_the_library_says_so_and_takes_no_other_torch(environment):
    """As an interpreter of another environment, in which the real PyTorch is installed and NumPy is not."""
    code = f"""
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-c", "import sys; sys.modules['numpy'] = None; {PRINT}"]).returncode)
"""
    done = environment.run("-m", "mindtorch_v2", "-c", code)
    assert done.returncode == 1 and not done.stdout
    assert "cannot import it from" in done.stderr and "MINDTORCH_AS_TORCH=0" in done.stderr
    assert (str(environment.other_torch) in done.stderr) == environment.other_torch.exists()


def test_a_child_can_be_told_to_take_another_torch(environment):
    code = f"""
import os, subprocess, sys
subprocess.run([sys.executable, "-c", {PRINT!r}], env=dict(os.environ, MINDTORCH_AS_TORCH="0"))
"""
    expected = REAL if environment.other_torch.exists() else "ModuleNotFoundError: No module named 'torch'"
    assert environment.seen("-m", "mindtorch_v2", "-c", code) == expected
