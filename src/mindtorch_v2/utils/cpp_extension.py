"""torch.utils.cpp_extension: extensions in C++ are written against PyTorch's own C++ library, which is not here."""

import os
import shutil
import sys
import tempfile
from typing import Any

from .._compat.absent import absent_class, absent_function

_INSTEAD = ("An extension links PyTorch's C++ library. Declare an operator in Python with torch.library.custom_op, and "
            "call compiled code from it through ctypes.")

load, load_inline, CppExtension, CUDAExtension, SyclExtension = (
    absent_function(f"torch.utils.cpp_extension.{name}", _INSTEAD)
    for name in ("load", "load_inline", "CppExtension", "CUDAExtension", "SyclExtension"))
BuildExtension = absent_class("torch.utils.cpp_extension.BuildExtension", _INSTEAD)
CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
ROCM_HOME = None
IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform.startswith("linux")


def get_default_build_root() -> str:
    """The folder below which extensions would be built."""
    return os.path.join(tempfile.gettempdir(), "torch_extensions")


def get_cxx_compiler() -> str:
    return os.environ.get("CXX", "cl" if IS_WINDOWS else "c++")


def is_ninja_available() -> bool:
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    return []


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True, **kwargs: Any) -> list[str]:
    return []
