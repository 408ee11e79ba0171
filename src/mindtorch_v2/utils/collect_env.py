"""What a report of a problem should say of the machine: `python -m mindtorch_v2.utils.collect_env`."""

import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

_UNKNOWN = "Could not collect"
_PACKAGES = re.compile(r"torch|numpy|scipy|ml.dtypes|mypy|cupy|onednn|safetensors|triton|onnx|nccl|optree|flake8")


class SystemEnv(NamedTuple):
    """The facts, as text."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    hip_compiled_version: str
    os: str
    gcc_version: str
    clang_version: str
    cmake_version: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str
    nvidia_gpu_models: str
    is_npu_available: str
    cpu_info: str
    pip_packages: str


_TEXT = """PyTorch version: {torch_version} (mindtorch_v2)
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}
ROCM used to build PyTorch: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
GPU models and configuration: {nvidia_gpu_models}
Is NPU available: {is_npu_available}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}"""


def run(*command: str) -> str | None:
    """What a program prints; None without it, or if it fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _first_match(pattern: str, *command: str) -> str:
    found = re.search(pattern, run(*command) or "")
    return found.group(1) if found else _UNKNOWN


def get_os() -> str:
    """The system's name and version."""
    if sys.platform.startswith("linux"):
        try:
            name = platform.freedesktop_os_release()["PRETTY_NAME"]
        except (OSError, KeyError):
            name = platform.system()
    else:
        name = f"{platform.system()} {platform.release()}"
    return f"{name} ({platform.machine()})"


def get_pip_packages() -> str:
    """Installed packages that matter here, one a line."""
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    lines = [f"[pip3] {name}=={version}" for name, version in sorted(found.items(), key=lambda item: item[0].lower())
             if _PACKAGES.search(name.lower())]
    return "\n".join(lines) or "[pip3] " + _UNKNOWN


def get_env_info() -> SystemEnv:
    """The facts of this machine."""
    from .. import __version__, cuda, npu, version

    available = cuda.is_available()
    gpus = "\n".join(f"GPU {i}: {cuda.get_device_name(i)}" for i in range(cuda.device_count())) if available else ""
    return SystemEnv(
        torch_version=str(__version__), is_debug_build="False", cuda_compiled_version=str(version.cuda or _UNKNOWN),
        hip_compiled_version="N/A", os=get_os(), gcc_version=_first_match(r"gcc (.*)", "gcc", "--version"),
        clang_version=_first_match(r"clang version (.*)", "clang", "--version"),
        cmake_version=_first_match(r"cmake (.*)", "cmake", "--version"), libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version.replace(chr(10), ' ')} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(), is_cuda_available=str(available),
        cuda_runtime_version=_first_match(r"release .+ V(.*)", "nvcc", "--version"), nvidia_gpu_models=gpus or _UNKNOWN,
        is_npu_available=str(npu.is_available()), cpu_info=run("lscpu") or platform.processor() or _UNKNOWN,
        pip_packages=get_pip_packages())


def pretty_str(envinfo: SystemEnv) -> str:
    return _TEXT.format(**envinfo._asdict())


def get_pretty_env_info() -> str:
    """The facts as one text."""
    return pretty_str(get_env_info())


def main() -> None:
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
