"""`activate`: from then on every interpreter of the environment takes this library for torch."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

import mindtorch_v2
from mindtorch_v2._compat import activation
from mindtorch_v2._compat.startup import mindtorch_v2_startup

OURS, REAL = "2.13.0+mindtorch2", "2.13.0+real"
PRINT = "import torch; print(torch.__version__)"
SHIM = Path(__file__).resolve().parents[3] / "packaging" / "torch-shim"


@pytest.fixture(scope="module")
def activated(environment):
    done = environment.run("-m", "mindtorch_v2", "activate")
    assert done.returncode == 0, done.stderr
    assert (str(environment.other_torch) in done.stdout) == environment.other_torch.exists()
    return environment


def test_activate(activated):
    assert activated.seen("-c", PRINT) == OURS
    assert activated.seen("-I", "-c", PRINT) == OURS
    assert activated.seen("-c", PRINT, MINDTORCH_AS_TORCH="0") != OURS
    shown = activated.run("-m", "mindtorch_v2", "status").stdout
    assert str(activated.packages / activation.PTH) in shown and f"gives mindtorch_v2 ({OURS})" in shown
    assert (str(activated.other_torch) in shown) == activated.other_torch.exists()


def test_programs_that_do_not_import_torch_load_nothing_of_it(activated):
    loaded = activated.seen("-c", "import sys; print([m for m in sys.modules if 'torch' in m or m == 'numpy'])")
    assert loaded == "['mindtorch_v2_startup']"
    asked = "import importlib.util as u, sys; print(u.find_spec('torch').name, 'mindtorch_v2' in sys.modules)"
    assert activated.seen("-c", asked) == "torch False"


def test_modules_of_torch_run_and_its_metadata_answers(activated):
    assert OURS in activated.run("-m", "torch.utils.collect_env").stdout
    code = "import importlib.metadata as m; print(m.version('torch'), 'torch' in m.packages_distributions()['torch'])"
    assert activated.seen("-c", code) == f"{OURS} True"


def test_pip_takes_an_activated_environment_for_one_with_torch(activated):
    found = f"importlib.metadata.distributions(name='torch', path=[{str(activated.packages)!r}])"
    code = f"import importlib.metadata; print([torch.version for torch in {found}])"
    assert activated.seen("-c", code) == f"['{OURS}']"


@pytest.mark.parametrize("first", ["torch", "torch.nn.functional", "functorch", "mindtorch_v2"])
def test_whatever_is_imported_first_there_is_one_library(activated, first):
    code = f"import {first}; import torch, mindtorch_v2; print(torch is mindtorch_v2, torch.__spec__.name)"
    assert activated.seen("-c", code) == "True mindtorch_v2"


def test_an_activated_environment_from_which_the_library_is_gone_starts_quietly(activated):
    pth = activated.packages / activation.PTH
    written = pth.read_text()
    pth.write_text(activation.pth_line(str(activated.packages / "gone")))
    done = activated.run("-c", "print('started')")
    pth.write_text(written)
    assert (done.stdout, done.stderr) == ("started\n", "")


def test_deactivate(activated):
    assert str(activated.packages / activation.PTH) in activated.run("-m", "mindtorch_v2", "deactivate").stdout
    expected = REAL if activated.other_torch.exists() else "ModuleNotFoundError: No module named 'torch'"
    assert activated.seen("-c", PRINT) == expected
    assert not any("mindtorch" in path.name for path in activated.packages.iterdir())
    assert "was not activated" in activated.run("-m", "mindtorch_v2", "deactivate").stdout
    assert "activated     no" in activated.run("-m", "mindtorch_v2", "status").stdout


def test_the_shim_is_a_wheel_of_metadata_and_activation(environment, tmp_path):
    spec = importlib.util.spec_from_file_location("wheel_of_the_shim", SHIM / "wheel_of_the_shim.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    name = backend.build_wheel(str(tmp_path))
    assert name == f"torch-{OURS}-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        assert len(wheel.namelist()) == 4
        assert wheel.read(backend.ACTIVATION).decode() == activation.pth_line()
        wheel.extract(backend.ACTIVATION, environment.packages)
    seen = environment.seen("-c", PRINT)
    (environment.packages / backend.ACTIVATION).unlink()
    assert seen == OURS


def test_the_version_stands_once():
    assert str(mindtorch_v2.__version__) == mindtorch_v2_startup.VERSION
    assert f'version = "{OURS}"' in (SHIM / "pyproject.toml").read_text()
    assert f"torch=={OURS}" in (SHIM.parent / "constraints.txt").read_text()
