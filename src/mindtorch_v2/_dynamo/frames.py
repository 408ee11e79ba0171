"""Where a program is, and what it is about to do with elements."""

import sys
import traceback
from types import FrameType
from typing import Any

from .._core.dtype import INT

_PACKAGE = __name__.partition(".")[0]
# Functions that read elements to decide what the program does next: title, explanation, hints, context, reason.
BRANCHING: dict[str, tuple[str, str, list[str], str, str]] = {
    "__bool__": (
        "Data-dependent branching",
        "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing "
        "dynamic control flow.",
        [
            "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through "
            "your code. Consider finding a workaround.",
            "Use `torch.cond` to express dynamic control flow.",
        ],
        "attempted to jump with TensorVariable()",
        "generic_jump TensorVariable()",
    ),
    "tolist": (
        "Tensor.tolist() with non-integer tensor",
        "Dynamo currently does not support tracing `tolist()` on non-integer tensors.",
        ["Ensure the input tensor to `tolist()` is an integer type (e.g., int8, int16, int32, int64)."],
        "call_method TensorVariable() to_list",
        "call_method TensorVariable() to_list",
    ),
}
_ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
_SCALARS = "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False."
_CAPTURING = ("Set `torch._dynamo.config.capture_scalar_outputs = True` or `export "
              "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1` to include these operations in the captured graph.")  # fmt: skip
_CALLED = "call_method TensorVariable() item () {}"
# Those that end a graph unless the function is to be one, in which PyTorch captures them.
READING: dict[str, tuple[str, str, list[str], str, str]] = dict.fromkeys(
    ("item", "__int__", "__float__", "__index__"),
    (_ITEM, _SCALARS, [_CAPTURING], _CALLED,
     f"{_ITEM}\n  Explanation: {_SCALARS}\n  Hint: {_CAPTURING}\n\n  Developer debug context: {_CALLED}\n"),
)  # fmt: skip


def called_from() -> tuple[str, Any]:
    """The function of this library that the program called, and the tensor that it is a method of, if it is one."""
    frame: FrameType | None = sys._getframe(1)
    name, called = "", None
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == _PACKAGE:
        name, called, frame = frame.f_code.co_name, frame, frame.f_back
    tensor = called.f_locals.get("self") if called is not None else None
    return name, tensor if hasattr(tensor, "_keys") else None


def ends_by_reading(name: str, tensor: Any, fullgraph: bool) -> tuple[str, str, list[str], str, str] | None:
    """Why a method that reads a tensor's elements ends a graph; None where it is captured."""
    if name == "tolist" and tensor is not None and tensor.dtype.category == INT:  # captured as the items are
        name = "item"
    if name in BRANCHING:
        return BRANCHING[name]
    return None if fullgraph else READING.get(name)


def user_stack() -> traceback.StackSummary:
    """The program's frames inside the compiled function, outermost first.

    Those of contextlib are none of them: this library's context managers run there.
    """
    frame: FrameType | None = sys._getframe(1)
    frames: list[traceback.FrameSummary] = []
    while frame is not None and frame.f_code.co_name != "call_compiled":
        code = frame.f_code
        if (frame.f_globals.get("__name__") or "").partition(".")[0] not in (_PACKAGE, "contextlib"):
            _, end_lineno, colno, end_colno = list(code.co_positions())[frame.f_lasti // 2]
            frames.append(
                traceback.FrameSummary(
                    code.co_filename,
                    frame.f_lineno,
                    code.co_name,
                    end_lineno=end_lineno,
                    colno=colno,
                    end_colno=end_colno,
                )
            )
        frame = frame.f_back
    return traceback.StackSummary.from_list(frames[::-1])
