"""Finding CANN: which folders and libraries, in which order."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mindtorch_v2._backends.npu.libraries import (
    Libraries,
    LibrariesMissing,
    library_folders,
    operator_libraries,
    toolkit_roots,
)


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_environment_comes_first_then_the_newest_toolkit(tmp_path: Path) -> None:
    for name in ("cann-8.5.0", "cann-9.0.0", "cann-10.0.0"):
        make(tmp_path / name)
    environ = {"ASCEND_HOME_PATH": "/home/x", "ASCEND_TOOLKIT_HOME": "/kit/y"}
    roots = toolkit_roots(environ, tmp_path)
    assert [str(r) for r in roots[:2]] == ["/home/x", "/kit/y"]
    assert [r.name for r in roots[2:5]] == ["cann-10.0.0", "cann-9.0.0", "cann-8.5.0"]
    assert roots[5:] == [tmp_path / "ascend-toolkit" / "latest", tmp_path / "latest"]


def test_stub_folders_are_left_out(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    stub = make(kit / "lib64" / "stub", "libascendcl.so")
    real = make(kit / f"{platform.machine()}-linux" / "lib64")
    driver = make(tmp_path / "driver" / "lib64" / "driver")
    found = library_folders({"ASCEND_HOME_PATH": str(kit), "LD_LIBRARY_PATH": f"{stub}:{kit}/none"}, tmp_path)
    assert found == [kit / "lib64", real, driver]


def test_custom_then_split_then_single_then_old_libraries(tmp_path: Path) -> None:
    folder = make(tmp_path / "lib64", "libopapi.so", "libopapi_nn.so", "libopapi_math.so", "libaclnn_math.so")
    custom = make(tmp_path / "mine" / "op_api" / "lib", "libcust_opapi.so")
    vendor = make(tmp_path / "opp" / "vendors" / "acme" / "op_api" / "lib", "libcust_opapi.so")
    (tmp_path / "opp" / "vendors" / "config.ini").write_text("load_priority=acme\n")
    environ = {"ASCEND_CUSTOM_OPP_PATH": str(tmp_path / "mine"), "ASCEND_OPP_PATH": str(tmp_path / "opp")}
    other = make(tmp_path / "older" / "lib64", "libopapi.so")
    names = operator_libraries(environ, [folder, other])
    assert names == [
        custom / "libcust_opapi.so",
        vendor / "libcust_opapi.so",
        *(folder / n for n in ("libopapi_math.so", "libopapi_nn.so", "libopapi.so", "libaclnn_math.so")),
    ]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(LibrariesMissing, match="libascendcl.so not found in any folder"):
        Libraries({}, tmp_path)
    make(tmp_path / "latest" / "lib64", "libascendcl.so")
    with pytest.raises(LibrariesMissing, match="does not load: .* set_env.sh"):
        Libraries({}, tmp_path)


def test_without_cann_nothing_is_there_and_nothing_breaks() -> None:
    program = """
import mindtorch_v2 as torch, sys
assert "mindtorch_v2._backends.npu.runtime" not in sys.modules  # importing torch does not load the binding
assert torch.npu.is_available() is False and torch.npu.is_available(verbose=True) is False
assert torch.npu.device_count() == 0 and not torch.npu.is_initialized()
torch.npu.manual_seed_all(3)
torch.npu.empty_cache()
try:
    torch.npu.current_stream().synchronize()
except RuntimeError as error:
    assert "libascendcl.so not found" in str(error), error
else:
    raise AssertionError
"""
    path = ":".join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "NPU not available: libascendcl.so not found" in done.stderr
