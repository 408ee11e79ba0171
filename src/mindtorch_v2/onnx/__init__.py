"""torch.onnx: exporting is not implemented."""

from collections.abc import Callable
from typing import Any

from .._compat.absent import absent_class, absent_function

__all__ = [
    "ExportOptions",
    "ONNXProgram",
    "dynamo_export",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]

_WHY = "Export the model with PyTorch, from a checkpoint that torch.save wrote here."
export = absent_function("torch.onnx.export", _WHY)
dynamo_export = absent_function("torch.onnx.dynamo_export", _WHY)
ONNXProgram, ExportOptions = (
    absent_class("torch.onnx.ONNXProgram", _WHY),
    absent_class("torch.onnx.ExportOptions", _WHY),
)


def is_in_onnx_export() -> bool:
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int,
                                custom_opsets: dict | None = None) -> None:
    """Libraries say here how their operators are exported; nothing asks for it."""


def __getattr__(name: str) -> Any:
    if name.startswith("symbolic_opset"):  # modules of exporting functions, for exporting functions to use
        return absent_class(f"torch.onnx.{name}", _WHY)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
