"""Tensors in the layout torch._mkldnn, and the names of PyTorch's convolution kernels.

Memory lies here as it does in other tensors: `to_mkldnn` changes the name of the layout, not the elements.
"""

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

import mindtorch_v2 as torch

from ._core.device import _mkldnn
from ._core.dtype import bfloat16, dtype, float16, float32, int8, uint8
from ._core.tensor import Tensor


class MkldnnTensor(Tensor):
    """A tensor that only functions of oneDNN look into."""

    is_mkldnn = True

    @property
    def layout(self) -> Any:
        return _mkldnn

    def to_dense(self, dtype: dtype | None = None, *, masked_grad: bool | None = None) -> Any:
        """The same elements as an ordinary tensor."""
        made = self.as_subclass(Tensor)
        return made if dtype is None else made.to(dtype)

    def to_mkldnn(self, dtype: dtype | None = None) -> NoReturn:
        raise NotImplementedError("Could not run 'aten::to_mkldnn' with arguments from the 'MkldnnCPU' backend.")

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError("can't convert Mkldnn layout tensor to numpy. Use Tensor.to_dense() first.")

    def data_ptr(self) -> NoReturn:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    tolist = data_ptr

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shown = repr(self.detach().as_subclass(Tensor))
        return f"{shown[:-1]}, layout=torch._mkldnn)"


def to_mkldnn(self: Tensor, dtype: dtype | None = None) -> MkldnnTensor:
    """The tensor in the layout of oneDNN."""
    if self.dtype not in (float32, bfloat16, float16, uint8, int8):
        raise RuntimeError("dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input")
    return (self if dtype is None else self.to(dtype)).as_subclass(MkldnnTensor)


_ConvBackend = enum.IntEnum(  # type: ignore[misc]
    "_ConvBackend", "CudaDepthwise2d CudaDepthwise3d Cudnn CudnnTranspose Empty Miopen MiopenDepthwise MiopenTranspose "
    "Mkldnn MkldnnTranspose MkldnnEmpty NnpackSpatial Overrideable Slow2d Slow3d SlowDilated2d SlowDilated3d "
    "SlowTranspose2d SlowTranspose3d Winograd3x3Depthwise", start=0)


def _select_conv_backend(input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
                         dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
                         bias_sizes: Any = None) -> _ConvBackend:
    """The kernel that PyTorch takes for a convolution on the CPU; here all of these are one."""
    opaque = input.is_mkldnn
    if not input.shape[0] or not input.shape[1]:
        return _ConvBackend.MkldnnEmpty if opaque else _ConvBackend.Empty
    worthwhile = any(step > 1 for step in (*stride, *dilation)) or input.shape[0] >= 16 or max(weight.shape[2:]) > 3
    plain = input.dtype is float32 and torch.backends.mkldnn.enabled and max(weight.shape[2:]) > 1
    if opaque or plain and (worthwhile or torch.get_num_threads() > 1):
        return _ConvBackend.MkldnnTranspose if transposed else _ConvBackend.Mkldnn
    kind = "Transpose" if transposed else "Dilated" if any(step > 1 for step in dilation) else ""
    return _ConvBackend[f"Slow{kind}{3 if input.dim() == 5 else 2}d"]
