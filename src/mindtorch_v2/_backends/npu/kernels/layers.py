"""NPU kernels of layers: resampling by a row or by parts, bags of embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.composites import decomposed
from ...._ops._declare.families import result_of
from ..families import given, uninitialised
from ..launch import run
from .operators import call, infer, untouched


@given("operator", "row")
def nearest(operator: Operator, row: Callable, self: Tensor, output_size: Sequence[int],
            *scales: float | None) -> Tensor:
    """ACLNN's operators know sizes only; with a given scale the places are computed on the host."""
    known = all(scale is None for scale in scales)
    return (row if known else decomposed(operator))(self, output_size, *scales)


@given("operator")
def embedding_bag(operator: Operator, weight: Any, indices: Any, offsets: Any, *options: Any) -> Any:
    """ACLNN tells the bag of each index only where a mean, a maximum or padding needs it."""
    specs = infer(operator, weight, indices, offsets, *options)
    by_frequency, mode, sparse, factors, has_last, padding = options
    told = indices.numel() if mode or padding >= 0 else 0
    made = [uninitialised(spec, weight._device) for spec in specs]
    bags = made[1] if made[1].numel() == told else indices.new_empty((told,))
    if indices.numel() and weight.numel():
        run("aclnnEmbeddingBag", (weight._array, indices._array, offsets._array, by_frequency, mode, sparse,
                                  None if factors is None else factors._array, has_last, padding, made[0]._array,
                                  bags._array, made[2]._array, made[3]._array), "aten::_embedding_bag")
    else:
        made = [m.zero_() for m in made]
    if made[1].numel() != told:
        number = call("arange.start_step", 0, indices.numel(), 1, offsets.dtype, None, offsets._device, None, False)
        made[1] = call("searchsorted", offsets, number, False, True, None, None).to(indices.dtype) - 1
    return result_of(operator, map(untouched, made))
