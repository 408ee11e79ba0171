"""CANN's fused operators that no operator of PyTorch stands for: gated activations, rotary embeddings."""

from collections.abc import Sequence

from ...._core.tensor import Tensor
from ..array import empty
from ..facts import signature
from ..families import wrap_npu
from ..launch import is_offered, run

HALF, INTERLEAVED = 0, 1
SEVERAL_RESULTS, OF_PAIRS = 0, -1  # of products
MOST_PAIRS = 128


def takes(symbol: str, *tensors: Tensor) -> bool:
    """Whether these are on an NPU whose CANN and chip have the operator in their type."""
    first = tensors[0]
    if any(t.device.type != "npu" or t.dtype is not first.dtype for t in tensors):
        return False
    kinds = tuple([first._array.dtype if p.kind.rpartition("_")[2] in ("tensor", "list") and not p.optional else None
                   for p in signature(symbol)])  # fmt: skip
    return is_offered(symbol, first._array.device_index, kinds)


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


def products(left: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The product of each pair of packed matrices."""
    made = []
    for at in range(0, len(left), MOST_PAIRS):
        pairs = left[at : at + MOST_PAIRS], right[at : at + MOST_PAIRS]
        shapes = [(a.shape[0], b.shape[1]) for a, b in zip(*pairs, strict=True)]
        results = [empty(shape, left[0]._array.dtype, left[0]._device) for shape in shapes]
        run("aclnnGroupedMatmulV4", (*([t._array for t in some] for some in pairs), *[None] * 10, SEVERAL_RESULTS,
                                     OF_PAIRS, 0, 0, results, None, None), "torch_npu.npu_grouped_matmul")
        made += [wrap_npu(r) for r in results]
    return tuple(made)
