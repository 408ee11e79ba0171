"""NPU kernels of attention: CANN's flash attention where the chip has it and it takes the call, else its parts."""

from typing import Any

from ...._core.dtype import BOOL, bool_
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops.attention import _backward_by_parts, _composed_of
from ..array import empty
from ..chips import way
from ..facts import signature
from ..families import cast, given, store, uninitialised, wrap_npu
from ..launch import run
from ..runtime import Runtime, at_stop, started
from .operators import call, infer

WIDEST, MOST_HEADS = 768, 256
EVERYTHING = (1 << 31) - 1  # as many tokens before and after
CAUSAL, LARGEST_MASK = 2, 2048  # the mode of a triangle from the upper left corner, told by a square of this size
ROWS_WITHOUT_KEYS = 2  # the precision with which a query that sees no key gets zeros
_LANES = 8  # copies of each number that CANN keeps
_triangles: dict[int, Tensor] = {}


def _takes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether flash attention computes this: on this chip, in this type, with these sizes and this mask."""
    shape, kind = query._array.shape, query._array.dtype
    names = ("query", "key", "value", "attentionOutOut")
    types = tuple([kind if p.name in names else None for p in signature("aclnnFlashAttentionScore")])
    if way("aclnnFlashAttentionScore", started(query._array.device_index).chip, types) is not None:
        return False
    return (len(shape) in (3, 4) and shape[-1] <= WIDEST and value._array.shape[-1] <= shape[-1]
            and shape[-3] <= MOST_HEADS and (mask is None or mask.dtype.category == BOOL))


def _four(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() == 4 else tensor.unsqueeze(0)


def _hidden(query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor | None:
    """The mask as CANN wants it: true where a key is not seen."""
    if is_causal:
        index = query._array.device_index
        made = _triangles.get(index)
        if made is None:
            square = (LARGEST_MASK, LARGEST_MASK)
            made = _triangles[index] = query.new_ones(square, dtype=bool_).triu(1)
        return made
    if mask is None:
        return None
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    heads = query.shape[1]
    batch = query.shape[0] if shape[1] == heads > 1 else shape[0]
    return call("logical_not", mask.reshape(shape).expand((batch, shape[1], query.shape[2], key.shape[2])))


def _options(query: Tensor, hidden: Any, is_causal: bool, scale: float) -> tuple[Any, ...]:
    """What stands between the mask and the results."""
    precise = ROWS_WITHOUT_KEYS if hidden is not None and not is_causal else 0
    return (None, scale, 1.0, EVERYTHING, EVERYTHING, query.shape[1], "BNSD", precise, CAUSAL if is_causal else 0)


@given("operator")
def attention(operator: Operator, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool,
              scale: float) -> Any:
    specs = infer(operator, query, key, value, mask, is_causal, scale)
    output, norms = (uninitialised(spec, query._device) for spec in specs)
    if not _takes(query, key, value, mask):
        store(output, _composed_of(query, key, value, mask, is_causal, scale))
        return result_of(operator, (output, norms))
    q, k, v, out = map(_four, (query, key, value, output))
    hidden = _hidden(q, k, mask, is_causal)
    lanes = (*q.shape[:3], _LANES)
    largest, total = (empty(lanes, norms._array.dtype, query._device) for _ in range(2))
    run("aclnnFlashAttentionScore",
        (q._array, k._array, v._array, None, None, None, None if hidden is None else hidden._array,
         *_options(q, hidden, is_causal, scale), largest, total, empty((0,), q._array.dtype, query._device),
         out._array), operator.name)
    shape = norms.shape[1:]
    store(norms[0], wrap_npu(largest).select(-1, 0).reshape(shape))
    store(norms[1], wrap_npu(total).select(-1, 0).reshape(shape).log())
    return result_of(operator, (wrap_npu(output._array), wrap_npu(norms._array)))


@given("operator")
def attention_backward(operator: Operator, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor,
                       mask: Tensor | None, is_causal: bool, scale: float, norms: Tensor, output: Tensor) -> Any:
    specs = infer(operator, grad_out, query, key, value, mask, is_causal, scale, norms, output)
    if not _takes(query, key, value, mask):
        made = _backward_by_parts(grad_out, query, key, value, mask, is_causal, scale, norms, output)
        return result_of(operator, [cast(m, query.dtype) for m in made])
    q, k, v, grad, out = map(_four, (query, key, value, cast(grad_out, query.dtype), output))
    hidden = _hidden(q, k, mask, is_causal)
    lanes = (*q.shape[:3], _LANES)
    largest, total = (each.reshape((*q.shape[:3], 1)).expand(lanes).contiguous() for each in (norms[0], norms[1].exp()))
    results = [uninitialised(spec, query._device) for spec in specs]
    run("aclnnFlashAttentionScoreGrad",
        (q._array, k._array, v._array, grad._array, None, None, None, None if hidden is None else hidden._array,
         largest._array, total._array, None, out._array, *_options(q, hidden, is_causal, scale),
         *(_four(r)._array for r in results), empty((0,), q._array.dtype, query._device)), operator.name)
    return result_of(operator, results)


def _forget(runtime: Runtime) -> None:
    _triangles.clear()


at_stop.insert(0, _forget)
