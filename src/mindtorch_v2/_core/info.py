"""What `python -m mindtorch_v2 info` prints."""

import importlib.metadata
import os
import platform
import sys


def version_of(distribution: str) -> str:
    """The version of an installed package, or a word saying that it is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _onednn() -> str:
    from .._backends.cpu.onednn import library
    from ..backends import mkldnn

    found = library()
    if found is None:
        return "not found (pip install onednn-cpu-gomp)"
    return found.version if mkldnn.enabled else f"{found.version}, switched off"


def _npu() -> str:
    from .._backends.npu.runtime import why_unavailable

    reason = why_unavailable()
    return "available" if reason is None else f"no ({reason})"


def _kernels() -> str:
    from .._backends.cpu.jit import machine
    from . import disk_cache

    if os.environ.get("MINDTORCH_JIT") == "0":
        return "not compiled (MINDTORCH_JIT is 0)"
    if not machine.available():
        return "not compiled (pip install llvmlite)" if version_of("llvmlite") == "not installed" else "not compiled"
    return f"compiled by llvmlite {version_of('llvmlite')}, kept in {disk_cache.directory()}"


def _cuda() -> str:
    from .. import cuda

    if not cuda.is_available():
        return "no (needs an NVIDIA GPU and CuPy)"
    return ", ".join(cuda.get_device_name(index) for index in range(cuda.device_count()))


def describe() -> str:
    """Versions, devices and threads, one a line."""
    import numpy as np

    from .. import __version__, get_num_threads

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[call-overload,index]
    rows = {
        "mindtorch_v2": __version__,
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "NumPy": f"{np.__version__} with {blas['name']} {blas['version']}",
        "SciPy": version_of("scipy"),
        "ml_dtypes": version_of("ml_dtypes"),
        "safetensors": version_of("safetensors"),
        "oneDNN": _onednn(),
        "kernels": _kernels(),
        "CPU cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "threads": str(get_num_threads()),
        "CUDA": _cuda(),
        "NPU": _npu(),
        "as torch": "yes" if sys.modules.get("torch") is sys.modules[__package__.partition(".")[0]] else "no",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())
