"""CANN's fused operators that no operator of PyTorch stands for: gated activations, rotary embeddings."""

from ...._core.tensor import Tensor
from ..array import empty
from ..chips import way
from ..facts import signature
from ..families import wrap_npu
from ..launch import run
from ..runtime import started

HALF, INTERLEAVED = 0, 1


def takes(symbol: str, *tensors: Tensor) -> bool:
    """Whether these are on an NPU whose CANN and chip have the operator in their type."""
    first = tensors[0]
    if any(t.device.type != "npu" or t.dtype is not first.dtype for t in tensors):
        return False
    runtime = started(first._array.device_index)
    kinds = tuple([first._array.dtype if p.is_tensor else None for p in signature(symbol)])
    return way(symbol, runtime.chip, kinds) is None and runtime.libraries.operator_symbol(symbol) is not None


def swiglu(x: Tensor, dim: int) -> Tensor:
    shape = tuple(n // 2 if d == dim else n for d, n in enumerate(x.shape))
    made = empty(shape, x._array.dtype, x._device)
    run("aclnnSwiGlu", (x._array, dim, made), "torch_npu.npu_swiglu")
    return wrap_npu(made)


def swiglu_grad(grad: Tensor, x: Tensor, dim: int) -> Tensor:
    made = empty(tuple(x.shape), x._array.dtype, x._device)
    run("aclnnSwiGluGrad", (grad._array, x._array, dim, made), "torch_npu.npu_swiglu")
    return wrap_npu(made)


def rotary(x: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    made = empty(tuple(x.shape), x._array.dtype, x._device)
    run("aclnnRotaryPositionEmbedding", (x._array, cosines._array, sines._array,
                                         INTERLEAVED if interleaved else HALF, made), "torch_npu.npu_rotary_mul")
    return wrap_npu(made)
