"""torch._inductor: the modes and options that `torch.compile` takes."""

from typing import Any

from . import config

__all__ = ["config", "list_mode_options", "list_options"]

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True,
        "selective_decompose": True,
        "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False,
        "triton.reorder_for_reducing_graph_partitions": False,
        "use_pre_grad_passes": False,
        "use_joint_graph_passes": False,
        "use_post_grad_passes": False,
        "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that a mode stands for, or those of every mode."""
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])


def list_options() -> list[str]:
    """The names that `torch.compile(options=...)` takes."""
    return list(config.get_config_copy())


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options by their names here; unknown ones and values of other types are refused."""
    known = config.get_config_copy()
    found = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(known)}")
        if not isinstance(value, config.get_type(name)):
            raise RuntimeError(
                f"Unexpected type of attr {key}, got {type(value).__name__} should be {type(known[name]).__name__}"
            )
        found[name] = value
    return found
