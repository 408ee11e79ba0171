"""Process-wide switches of torch: determinism, precision of matrix products, denormal numbers."""

from typing import Any

from .._dispatch.argument_checks import expected
from .determinism import determinism

__all__ = ["are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi", "get_deterministic_debug_mode",
           "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled",
           "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
           "use_deterministic_algorithms"]

_PRECISIONS = ("highest", "high", "medium")
_MODES = ("default", "warn", "error")
_state: dict[str, Any] = {"precision": "highest"}


def get_float32_matmul_precision() -> str:
    """The precision that was set, or that `torch.backends.cuda.matmul.allow_tf32` stands for since."""
    from ..backends import cuda

    if not cuda.matmul.allow_tf32:
        return "highest"
    return "high" if _state["precision"] == "highest" else _state["precision"]


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices must be; on the CPU they are always exact."""
    if precision not in _PRECISIONS:
        raise RuntimeError(f"invalid precision {precision!r}: expected one of {', '.join(_PRECISIONS)}")
    _state["precision"] = precision
    from ..backends import cuda

    cuda.matmul.allow_tf32 = precision != "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for results that repeat, and for an error or a warning where PyTorch's may not."""
    for name, flag in (("mode", mode), ("warn_only", warn_only)):
        if flag.__class__ is not bool:
            position = 1 if name == "mode" else None
            raise TypeError(expected("_set_deterministic_algorithms", name, "bool", flag, position))
    determinism.set_mode(0 if not mode else 1 if warn_only else 2, warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    return determinism.mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return determinism.warn_only


def get_deterministic_debug_mode() -> int:
    return determinism.mode


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    if debug_mode.__class__ not in (int, str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    known = _MODES if isinstance(debug_mode, str) else range(3)
    if debug_mode not in known:
        raise RuntimeError(f"invalid value of debug_mode, expected one of {', '.join(map(repr, known))}, but got "
                           f"{debug_mode!r}")
    mode = _MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    determinism.set_mode(mode, mode == 1)


def set_flush_denormal(mode: bool) -> bool:
    """Whether the switch took effect: NumPy leaves the processor's mode alone."""
    return False


def compiled_with_cxx11_abi() -> bool:
    return True
