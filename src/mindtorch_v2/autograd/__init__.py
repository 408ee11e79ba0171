"""torch.autograd: gradients on request, custom Functions, checks, and a look into the graph."""

import warnings as _warnings
from typing import Any as _Any

from .._autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .._autograd.engine import run_backward as _run_backward
from .._autograd.function import Function
from .._autograd.roots import backward_of as _backward_of
from .._autograd.roots import check_flags as _check_flags
from .._autograd.roots import input_tuple as _input_tuple
from .._autograd.roots import root_gradients as _root_gradients
from .._autograd.roots import several as _several
from .._autograd.saved import SavedTensor
from .._core.tensor import Tensor as _Tensor
from .._dispatch.callers import call_torch_function as _call_torch_function
from .._dispatch.keys import PYTHON_MASK as _PYTHON_MASK
from .._dispatch.keys import modes as _modes
from .._ops._declare.documentation import explain as _explain
from . import forward_ad, function, functional, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .grad_mode import _force_original_view_tracking, _unsafe_preserve_version_counter  # noqa: F401
from .grad_mode import set_multithreading_enabled as set_multithreading_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .variable import Variable

__all__ = [
    "Function",
    "GradcheckError",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def _tuple(value: _Any, length: int) -> tuple:
    if value is None:
        return (None,) * length
    return (value,) if isinstance(value, _Tensor) else tuple(value)


def backward(tensors: _Any, grad_tensors: _Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: _Any = None, inputs: _Any = None) -> None:
    """Adds the gradients of `tensors` into the `.grad` of the leaves they were computed from."""
    if grad_variables is not None:
        _warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                               "`backward()`. Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    tensors = _several(tensors)
    grads = _tuple(grad_tensors, len(tensors))
    _backward_of(tensors, grads, retain_graph, create_graph, inputs)


def grad(
    outputs: _Any,
    inputs: _Any,
    grad_outputs: _Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> _Any:
    """The gradients of `outputs` with respect to `inputs`, as a tuple or, for a dict, by name; `.grad` stays."""
    if type(inputs) is dict:
        made = grad(outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs,
                    allow_unused, is_grads_batched, materialize_grads)
        return dict(zip(inputs, made, strict=True))
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    outputs, inputs = _several(outputs), _input_tuple(inputs, "grad")
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    owners = [t for t in (*outputs, *inputs) if getattr(t, "_keys", 0) & _PYTHON_MASK]
    if owners and not _modes.exclude & _PYTHON_MASK:
        return _call_torch_function(
            grad,
            owners,
            (outputs, inputs),
            {
                "grad_outputs": grad_outputs,
                "retain_graph": retain_graph,
                "create_graph": create_graph,
                "allow_unused": allow_unused,
            },
        )
    if not only_inputs:
        _warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate "
                       "gradient for other parts of the graph, please use torch.autograd.backward.", FutureWarning,
                       stacklevel=2)
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, create_graph, bool(allow_unused or materialize_grads))
    _check_flags(retain_graph, create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _root_gradients(outputs, _tuple(grad_outputs, len(outputs)))
    result = _run_backward(
        outputs, roots, keep, create_graph, inputs, bool(allow_unused or materialize_grads), accumulate_grad=False
    )
    if materialize_grads:
        return tuple(_zeros_for(i, create_graph) if g is None else g for i, g in zip(inputs, result, strict=True))
    return result


def _zeros_for(value: _Any, requires_grad: bool) -> _Any:
    """Zeros in the shape and type of a tensor."""
    if isinstance(value, graph.GradientEdge):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    from .. import zeros_like

    return zeros_like(value, requires_grad=requires_grad)


def _batched(outputs: tuple, inputs: tuple, grad_outputs: _Any, create_graph: bool, allow_unused: bool) -> tuple:
    """One backward pass for all rows of `grad_outputs`."""
    from .._functorch.vmap import vmap

    used: list[bool] = []

    def one_row(*grads: _Any) -> tuple:
        made = grad(outputs, inputs, grads, retain_graph=True, create_graph=create_graph, allow_unused=allow_unused)
        used[:] = [g is not None for g in made]
        return tuple(g for g in made if g is not None)

    rows = iter(vmap(one_row)(*_tuple(grad_outputs, len(outputs))))
    return tuple(next(rows) if is_used else None for is_used in used)


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was last told."""
    return set_multithreading_enabled.value


def is_view_replay_enabled() -> bool:
    """What `_force_original_view_tracking` was last told."""
    return _force_original_view_tracking.value


def kineto_available() -> bool:
    """Whether the profiler writes timelines."""
    return True


def __getattr__(name: str) -> _Any:
    if name in ("profiler", "profiler_util", "variable"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_explain("autograd", globals())
