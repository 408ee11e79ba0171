"""NVRTC, which compiles CUDA C without a GPU, through ctypes.

It is in the CUDA toolkit, and the wheel `nvidia-cuda-nvrtc` has it alone.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
import os
import pathlib
from typing import Any


def _folders() -> list[pathlib.Path]:
    """Where the library may lie, besides where the loader looks."""
    toolkits = [os.environ[name] for name in ("CUDA_PATH", "CUDA_HOME") if name in os.environ]
    found = [pathlib.Path(path) / "lib64" for path in (*toolkits, "/usr/local/cuda")]
    wheels = importlib.util.find_spec("nvidia")
    for path in (wheels.submodule_search_locations or []) if wheels is not None else []:
        found += sorted(pathlib.Path(path).glob("*/lib"))
    return found


@functools.cache
def library() -> Any:
    """NVRTC; None where there is none."""
    for folder in _folders():
        files = sorted(folder.glob("libnvrtc.so*"))
        if files:
            for builtins in sorted(folder.glob("libnvrtc-builtins.so*")):  # which NVRTC asks the loader for
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(files[0]))
    name = ctypes.util.find_library("nvrtc")
    return None if name is None else ctypes.CDLL(name)


def errors(text: str, architecture: str = "sm_80") -> str:
    """What NVRTC says of a source that it cannot compile; nothing of others. The options are launch.py's and CuPy's."""
    nvrtc, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    options = [b"--std=c++17", b"-arch=" + architecture.encode()]
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    assert code == 0, f"NVRTC cannot begin: {code}"
    try:
        code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return f"{code}: {log.value.decode()}" if code else ""
