"""torch._logging: which logs of torch.compile are shown; TORCH_LOGS does the same from outside."""

import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["getArtifactLogger", "set_logs", "warning_once"]

_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.NOTSET)
_COMPONENTS = "all dynamo aot autograd dynamic inductor distributed c10d ddp fsdp dtensor onnx export".split()
_ARTIFACTS = """
    bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects
    graph_sizes guards recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code
    schedule perf_hints pre_grad_graphs post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap
    cudagraphs sym_node compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning
    incremental graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching""".split()
_enabled: set[str] = set()


def set_logs(*, modules: Mapping[str, int | bool] | None = None, **logs: Any) -> None:
    """Sets levels of components (`dynamo=logging.DEBUG`), turns artifacts on (`recompiles=True`) and the rest off."""
    for name in logs:
        if name not in _COMPONENTS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument {name!r}")
    if "TORCH_LOGS" in os.environ:
        logging.getLogger(__name__).warning(
            "Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs"
        )
        return
    _set({**logs, **(modules or {})})


def _set(logs: Mapping[str, Any]) -> None:
    for name, value in logs.items():
        if name in _COMPONENTS and value is not None and value not in _LEVELS:
            raise ValueError(
                f"Unrecognized log level for log {name}: {value}, valid level values are: {','.join(map(str, _LEVELS))}"
            )
    _enabled.clear()
    for name in _COMPONENTS:
        component_logger(name).setLevel(logs.get(name) or logging.WARNING)
    for name, value in logs.items():
        if name in _ARTIFACTS and value:
            _enabled.add(name)
        elif name not in _COMPONENTS and name not in _ARTIFACTS:
            logging.getLogger(name).setLevel(value)


def component_logger(name: str) -> logging.Logger:
    """The logger of a component."""
    logger = logging.getLogger("torch" if name == "all" else f"torch._{name}")
    if not logging.getLogger("torch").handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname).1s%(asctime)s %(name)s] %(message)s", "%m%d %H:%M:%S"))
        logging.getLogger("torch").addHandler(handler)
    return logger


def shows(artifact: str) -> bool:
    """Whether an artifact, such as `recompiles`, is to be logged."""
    return artifact in _enabled


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger that an artifact is written to."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(
            f"Artifact name: {artifact_name} not registered,please call register_artifact({artifact_name})"
            " in torch._logging.registrations."
        )
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


@functools.cache
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """A warning that each caller of these words sees once."""
    logger_obj.warning(*args, **kwargs)


def _from_environment(text: str) -> dict[str, Any]:
    """What TORCH_LOGS asks for: `+name` is DEBUG, `-name` ERROR, a component INFO, an artifact on."""
    logs: dict[str, Any] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name = entry.lstrip("+-")
        level = {"+": logging.DEBUG, "-": logging.ERROR}.get(entry[0], logging.INFO)
        logs[name] = True if name in _ARTIFACTS else level
    return logs


def trace_structured(name: str, metadata_fn: Callable = dict, **options: Any) -> None:
    """Writes one entry of a structured trace; none is kept."""


if "TORCH_LOGS" in os.environ:
    _set(_from_environment(os.environ["TORCH_LOGS"]))
