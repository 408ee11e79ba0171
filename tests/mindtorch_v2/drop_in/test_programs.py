"""`python -m mindtorch_v2` and `install()`: programs that say `import torch` run here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindtorch_v2 import _platforms as platforms

PROGRAM = """
import sys, importlib.metadata
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
assert torch.nn.functional is F and torch.nn is nn
assert torch.__version__ >= "2.4" and torch.__version__ < (3, 0)
assert importlib.metadata.version("torch").startswith("2.")
assert "torch" in importlib.metadata.packages_distributions()["torch"]
assert not torch.cuda.is_available()
print(sys.argv[1:], __name__, torch.ones(2).sum().item())
"""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    source = str(Path(__file__).resolve().parents[3] / "src")
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd,
                          env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""})


def test_a_script_runs_with_its_arguments(tmp_path):
    (tmp_path / "train.py").write_text("from beside import HERE\n" + PROGRAM)
    (tmp_path / "beside.py").write_text("HERE = True\n")
    done = run("-m", "mindtorch_v2", str(tmp_path / "train.py"), "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--epochs', '3'] __main__ 2.0\n"


def test_a_module_runs(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(PROGRAM)
    done = run("-m", "mindtorch_v2", "-m", "package.train", "x", cwd=tmp_path)
    assert done.stdout == "['x'] __main__ 2.0\n", done.stderr


def test_code_runs():
    assert run("-m", "mindtorch_v2", "-c", "import torch; print(torch.zeros(1))").stdout == "tensor([0.])\n"


def test_an_exit_status_and_a_traceback_come_through(tmp_path):
    (tmp_path / "fails.py").write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    done = run("-m", "mindtorch_v2", str(tmp_path / "fails.py"))
    assert done.returncode == 1
    assert "fails.py" in done.stderr and "RuntimeError" in done.stderr
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(7)\n")
    assert run("-m", "mindtorch_v2", str(tmp_path / "exits.py")).returncode == 7


def test_a_missing_script_and_no_arguments_say_how_to_call_it():
    missing = run("-m", "mindtorch_v2", "no_such_file.py")
    assert missing.returncode == 1 and "no_such_file.py" in missing.stderr and "usage:" in missing.stderr
    none = run("-m", "mindtorch_v2")
    assert none.returncode == 2 and "usage:" in none.stdout


def test_info_lists_versions_and_devices():
    shown = run("-m", "mindtorch_v2", "info").stdout
    for line in ("mindtorch_v2", "NumPy", "SciPy", "kernels", "threads", "CUDA", "NPU"):
        assert line in shown


def test_a_module_that_is_not_here_says_so():
    done = run("-m", "mindtorch_v2", "-c", "import torch.no_such_part")
    assert "ModuleNotFoundError: No module named 'torch.no_such_part'" in done.stderr
    assert "mindtorch_v2" in done.stderr


def test_install_refuses_when_another_torch_is_imported(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0'\n")
    done = run(
        "-c", "import sys; sys.path.insert(0, '.'); import torch, mindtorch_v2; mindtorch_v2.install()", cwd=tmp_path
    )
    assert "RuntimeError: mindtorch_v2.install(): torch 2.13.0 is imported already" in done.stderr


def test_install_twice_is_install_once():
    assert (
        run("-c", "import mindtorch_v2 as m; m.install(); m.install(); import torch; print(torch is m)").stdout
        == "True\n"
    )


NOT_HERE = {
    "torch.onnx.export": "torch.onnx.export(None)",
    "torch.export.export": "torch.export.export(None)",
    "torch.jit.load": "torch.jit.load('x')",
    "torch.distributed.rpc.init_rpc": "import torch.distributed.rpc; torch.distributed.rpc.init_rpc('worker')",
}


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_not_implemented_raises_when_used_and_says_so(name):
    done = run("-m", "mindtorch_v2", "-c",
               f"import torch, torch.onnx, torch.export, torch.distributed, torch.nn.parallel\n{NOT_HERE[name]}")
    assert f"NotImplementedError: mindtorch_v2 has no {name}." in done.stderr


def test_modules_of_the_table_of_absent_names():
    done = run("-m", "mindtorch_v2", "-c", """
import importlib
import sys
import torch
from mindtorch_v2._compat.absent_modules import ABSENT_MODULES
for place in ABSENT_MODULES:
    module = importlib.import_module(f"torch.{place}")
    assert module is importlib.import_module(f"mindtorch_v2.{place}"), place
    for name in module.__all__:
        try:
            getattr(module, name)()
        except NotImplementedError as error:
            assert name in str(error), error
        else:
            raise AssertionError(f"{place}.{name} can be used")
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel as same
assert FullyShardedDataParallel is same and issubclass(same, torch.nn.Module)
assert not isinstance(torch.nn.ReLU(), same) and torch.quantization.QConfig is torch.ao.quantization.QConfig
import torch.quantization.observer
print("export" in ABSENT_MODULES)
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_the_package_functorch_comes_along():
    code = """
import warnings, torch, functorch
warnings.simplefilter("error", UserWarning); warnings.simplefilter("ignore", FutureWarning)
net = torch.nn.Linear(2, 3)
f, params = functorch.make_functional(net, disable_autograd_tracking=True)
assert torch.equal(f(params, torch.ones(2)), net(torch.ones(2))) and not params[0].requires_grad
nets = [torch.nn.BatchNorm1d(2).eval() for _ in range(4)]
f, params, buffers = functorch.combine_state_for_ensemble(nets)
print(functorch.vmap(f, (0, 0, None))(params, buffers, torch.ones(5, 2)).shape, params[0].requires_grad)
try:
    functorch.make_functional(nets[0])
except RuntimeError as error:
    print(error)
import torch.distributed.autograd
print(torch.distributed.autograd.is_available())
"""
    done = run("-m", "mindtorch_v2", "-c", code)
    assert done.stdout.splitlines() == [
        "torch.Size([4, 5, 2]) False",
        "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.",
        "False"], done.stderr


def test_importing_a_module_leaves_the_function_of_its_name():
    code = """
from torch.autograd.gradcheck import gradcheck
import torch, torch.nn.utils.weight_norm, torch.multiprocessing
print(torch.autograd.gradcheck is gradcheck, callable(torch.nn.utils.weight_norm), callable(torch.compile))
"""
    assert run("-m", "mindtorch_v2", "-c", code).stdout == "True True True\n"


@pytest.mark.parametrize("first", ["torch.optim", "torch.utils.data", "torch.jit"])
def test_modules_have_their_second_names_whichever_loaded_them(first):
    """Libraries look into sys.modules for torch.nn.init, to patch what initialises weights that they loaded."""
    names = ["torch.nn", "torch.nn.init", "torch.nn.modules.activation"]
    done = run("-m", "mindtorch_v2", "-c",
               f"import torch, sys; {first}; torch.nn; print([name in sys.modules for name in {names}])")
    assert done.stdout == "[True, True, True]\n", done.stderr


def test_machines_that_it_cannot_run_on_are_refused():
    platforms.check("little", 2**63 - 1)
    with pytest.raises(ImportError, match="needs a little-endian processor"):
        platforms.check("big", 2**63 - 1)
    with pytest.raises(ImportError, match="needs Python for 64 bits, and this one is for 32"):
        platforms.check("little", 2**31 - 1)
