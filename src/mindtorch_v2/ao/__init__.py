"""torch.ao: dynamic quantization of models; of the rest only the names are here."""

import importlib as _importlib
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    if name in ("nn", "ns", "pruning", "quantization"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
