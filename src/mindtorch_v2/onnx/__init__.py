"""torch.onnx: exporting is not implemented."""

from .._absent import absent_class, absent_function

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
register_custom_op_symbolic = absent_function("torch.onnx.register_custom_op_symbolic", _WHY)
ONNXProgram, ExportOptions = (
    absent_class("torch.onnx.ONNXProgram", _WHY),
    absent_class("torch.onnx.ExportOptions", _WHY),
)


def is_in_onnx_export() -> bool:
    return False
