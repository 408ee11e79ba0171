"""What recorded nodes are called: PyTorch's names, which users read in printed tensors and in graphs.

A name is the operator's in capitals, `Backward`, and the number of the overload. Where PyTorch composes what is one
operator here, the node has the name of PyTorch's last one.
"""

from collections.abc import Callable
from typing import Any


def _overload_by(argument: str) -> Callable[[Any], str]:
    """Backward1 where the argument was given, else Backward0."""

    def name(node: Any) -> str:
        at = type(node).saved_names.index(argument)
        given = node.saved is not None and node.saved[at] is not None
        return type(node).__name__[:-1] + ("1" if given else "0")

    return name


def _of_linear(node: Any) -> str:
    has_bias = node.saved is None or node.edges[0] is not None or _saved(node, "bias_shape") is not None
    if len(node.outputs[0][0]) == 2:
        return "AddmmBackward0" if has_bias else "MmBackward0"
    return "ViewBackward0" if has_bias else "UnsafeViewBackward0"


def _saved(node: Any, name: str) -> Any:
    return None if node.saved is None else node.saved[type(node).saved_names.index(name)]


def _of_clamp(node: Any) -> str:
    bounds = (_saved(node, "min"), _saved(node, "max"))
    return "ClampBackward0" if any(hasattr(bound, "_array") for bound in bounds) else "ClampBackward1"


def _of_attention(node: Any) -> str:
    fused = len(node.outputs[0][0]) == 4
    return "ScaledDotProductFlashAttentionForCpuBackward0" if fused else "UnsafeViewBackward0"


FIXED = {"_cross_entropy": "NllLossBackward0", "max": "MaxBackward1", "min": "MinBackward1",
         "native_rms_norm": "MulBackward0", "_native_rms_norm": "MulBackward0", "squeeze.dim": "SqueezeBackward1",
         "squeeze.dims": "SqueezeBackward2", "_group_norm": "NativeGroupNormBackward0"}
BY_NODE: dict[str, Callable[[Any], str]] = {
    "_attention": _of_attention, "clamp": _of_clamp, "linear": _of_linear, "mean": _overload_by("dim"),
    "prod": _overload_by("dim"), "sum": _overload_by("dim"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _overload_by("other_shape")),
}


def class_name(operator_name: str, base_name: str) -> str:
    """The name of an operator's node class."""
    known = FIXED.get(operator_name)
    return known if known is not None else base_name.title().replace("_", "") + "Backward0"
