"""NPU kernels of attention: CANN's flash attention where the chip has it and it takes the call, else its parts."""

import math
from typing import Any

from ...._core.dtype import BOOL, bool_, finfo
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ...._ops.attention import _backward_by_parts, _composed_of
from ..array import empty
from ..facts import signature
from ..families import cast, given, store, uninitialised, wrap_npu
from ..launch import is_offered, run
from ..runtime import Runtime, at_stop
from .operators import call, infer

WIDEST, WIDEST_SHIFTED, MOST_HEADS = 768, 512, 256  # the second with numbers added to scores
EVERYTHING = (1 << 31) - 1  # as many tokens before and after
CAUSAL, LARGEST_MASK = 2, 2048  # the mode of a triangle from the upper left corner, told by a square of this size
ROWS_WITHOUT_KEYS = 2  # the precision with which a query that sees no key gets zeros
SCALE_THEN_SHIFT = 0  # the order in which numbers are added to scores
_LANES = 8  # copies of each number that CANN keeps
_triangles: dict[int, Tensor] = {}


def _takes(query: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether flash attention computes this: on this chip, in this type, with these sizes."""
    shape, kind = query._array.shape, query._array.dtype
    shifted = mask is not None and mask.dtype.category != BOOL
    symbol, widest = ("aclnnFlashAttentionScoreV2", WIDEST_SHIFTED) if shifted else ("aclnnFlashAttentionScore", WIDEST)
    names = ("query", "key", "value", "attentionOutOut")
    types = tuple([kind if p.name in names else None for p in signature(symbol)])
    if not is_offered(symbol, query._array.device_index, types):
        return False
    return (len(shape) in (3, 4) and shape[-1] <= widest and value._array.shape[-1] <= shape[-1]
            and shape[-3] <= MOST_HEADS)


def _four(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() == 4 else tensor.unsqueeze(0)


def _triangle(query: Tensor) -> Tensor:
    index = query._array.device_index
    made = _triangles.get(index)
    if made is None:
        made = _triangles[index] = query.new_ones((LARGEST_MASK, LARGEST_MASK), dtype=bool_).triu(1)
    return made


def _expanded(mask: Tensor, query: Tensor, key: Tensor, heads: int) -> Tensor:
    """A mask for every pair of query and key, with this many heads."""
    batch = query.shape[0] if heads > 1 and mask.dtype.category == BOOL else mask.shape[0]
    return mask.expand((batch, heads, query.shape[2], key.shape[2]))


def _masks(query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> tuple[Any, Any]:
    """The mask as CANN wants it: true where a key is not seen, and what is added to scores elsewhere."""
    if is_causal:
        return _triangle(query), None
    if mask is None:
        return None, None
    full = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    if mask.dtype.category == BOOL:
        return call("logical_not", _expanded(full, query, key, full.shape[1])), None
    never = full == -math.inf  # apart, since a query that sees no key is to get zeros
    least = finfo(query.dtype).min
    shift = cast(full.masked_fill(never, 0).clamp_min(least), query.dtype)
    return _expanded(never, query, key, full.shape[1]).contiguous(), _expanded(shift, query, key, query.shape[1])


def _launch(symbol: str, op: str, tensors: tuple[Tensor, ...], masks: tuple[Any, Any], kept: tuple[Any, ...],
            call: tuple[bool, float, Tensor | None, float], results: tuple[Any, ...]) -> None:
    """Runs one of the two operators: tensors come first, then masks, what the forward pass kept, and numbers."""
    hidden, shift = (None if mask is None else mask._array for mask in masks)
    is_causal, scale, bits, dropout_p = call
    precise = ROWS_WITHOUT_KEYS if hidden is not None and not is_causal else 0
    starts = () if shift is None else (None, None)  # where queries and keys begin, which only the second version asks
    order = () if shift is None else (SCALE_THEN_SHIFT,)
    run(symbol + ("V2" if shift is not None else ""),
        (*(t._array for t in tensors), shift, None if bits is None else bits._array, None, hidden, *kept, None, *starts,
         scale, 1.0 - dropout_p, EVERYTHING, EVERYTHING, tensors[0].shape[1], "BNSD", precise,
         CAUSAL if is_causal else 0, *order, *results), op)


@given("operator")
def attention(operator: Operator, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool,
              scale: float) -> Any:
    return attention_dropped(operator, query, key, value, mask, is_causal, scale, None, 0.0)


@given("operator")
def attention_backward(operator: Operator, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor,
                       mask: Tensor | None, is_causal: bool, scale: float, norms: Tensor, output: Tensor) -> Any:
    return attention_dropped_backward(operator, grad_out, query, key, value, mask, is_causal, scale, norms, output,
                                      None, 0.0)


@given("operator")
def attention_dropped(operator: Operator, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
                      is_causal: bool, scale: float, bits: Tensor | None, dropout_p: float) -> Any:
    specs = infer(operator, query, key, value, mask, is_causal, scale)
    output, norms = (uninitialised(spec, query._device) for spec in specs)
    if not _takes(query, value, mask):
        store(output, _composed_of(query, key, value, mask, is_causal, scale, bits, dropout_p))
        return result_of(operator, (output, norms))
    q, k, v, out = map(_four, (query, key, value, output))
    lanes = (*q.shape[:3], _LANES)
    largest, total = (empty(lanes, norms._array.dtype, query._device) for _ in range(2))
    nothing = empty((0,), q._array.dtype, query._device)
    _launch("aclnnFlashAttentionScore", operator.name, (q, k, v), _masks(q, k, mask, is_causal), (),
            (is_causal, scale, bits, dropout_p), (largest, total, nothing, out._array))
    shape = norms.shape[1:]
    store(norms[0], wrap_npu(largest).select(-1, 0).reshape(shape))
    store(norms[1], wrap_npu(total).select(-1, 0).reshape(shape).log())
    return result_of(operator, (wrap_npu(output._array), wrap_npu(norms._array)))


@given("operator")
def attention_dropped_backward(operator: Operator, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor,
                               mask: Tensor | None, is_causal: bool, scale: float, norms: Tensor, output: Tensor,
                               bits: Tensor | None, dropout_p: float) -> Any:
    specs = infer(operator, grad_out, query, key, value)
    if not _takes(query, value, mask):
        made = _backward_by_parts(grad_out, query, key, value, mask, is_causal, scale, norms, output, bits, dropout_p)
        return result_of(operator, [_laid(m, spec, query) for m, spec in zip(made, specs, strict=True)])
    q, k, v, grad, out = map(_four, (query, key, value, cast(grad_out, query.dtype), output))
    lanes = (*q.shape[:3], _LANES)
    largest, total = (each.reshape((*q.shape[:3], 1)).expand(lanes).contiguous() for each in (norms[0], norms[1].exp()))
    results = [uninitialised(spec, query._device) for spec in specs]
    masks = _masks(q, k, mask, is_causal)
    of_shift = empty((0,) if masks[1] is None else tuple(masks[1].shape), q._array.dtype, query._device)
    _launch("aclnnFlashAttentionScoreGrad", operator.name, (q, k, v, grad), masks,
            (largest._array, total._array, None, out._array), (is_causal, scale, bits, dropout_p),
            (*(_four(r)._array for r in results), of_shift))
    return result_of(operator, results)


def _laid(made: Tensor, spec: Spec, query: Tensor) -> Tensor:
    """What was computed, in the type and layout that were inferred."""
    if spec.strides is None:
        return cast(made, query.dtype)
    result = uninitialised(spec, query._device)
    store(result, made)
    return result


def _forget(runtime: Runtime) -> None:
    _triangles.clear()


at_stop.insert(0, _forget)
