"""Switches of the libraries that compute: torch.backends. Those of libraries that are not used here are off."""

import importlib as _importlib
from typing import Any as _Any

_NAMES = ("cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp",
          "opt_einsum", "quantized", "xeon", "xnnpack")
__all__ = list(_NAMES)


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
