"""NPU kernels of layers and optimizers: resampling by a row or by parts, bags of embeddings, whole steps."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ...._core.dtype import float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import decomposed, result_of
from ...._ops.fused_steps import FusedStep, _decayed
from ..families import given, number_tensor, uninitialised
from ..launch import run
from .operators import call, infer, number_of, untouched


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


_ADAMW_TYPES = ("float32", "float16", "bfloat16")
_OF_TENSORS = SimpleNamespace(  # what steps on arrays need, for tensors
    multiply=lambda x, y, out: out.copy_(x * y), divide=lambda x, y, out: out.copy_(x / y),
    maximum=lambda x, y, out: out.copy_(x.maximum(y)),
    sqrt=lambda x, out=None: x.sqrt() if out is None else out.copy_(x.sqrt()))


def _adam_step(decoupled: bool, lists: Sequence[Any], step: Any, lr: float, beta1: float, beta2: float,
               weight_decay: float, eps: float, amsgrad: bool, maximize: bool) -> None:
    """One parameter's step in one launch; ACLNN counts steps from 0."""
    parameter, gradient, mean, square_mean, *greatest = lists
    if not decoupled:
        gradient = _decayed(parameter, gradient, weight_decay, maximize)
        weight_decay, maximize = 0.0, False
    before = step - 1 if step._device == parameter._device else number_tensor(step.item() - 1, float32,
                                                                            parameter._device)
    run("aclnnApplyAdamWV2", (parameter._array, mean._array, square_mean._array,
                              greatest[0]._array if amsgrad else None, gradient._array, before._array, lr, beta1,
                              beta2, weight_decay, eps, amsgrad, maximize), "aten::_fused_adamw_")
    for tensor in (parameter, mean, square_mean, *greatest):
        tensor._bump_version()


@given("operator")
def fused_step(operator: Operator, *args: Any) -> None:
    """A step as declared, on tensors instead of arrays; Adam and AdamW as ACLNN's operator where it has the type."""
    family, name = operator.declaration.family, operator.schema.base_name
    assert isinstance(family, FusedStep)
    count, counts = 2 + family.state_lists, family.counts
    lists = [args[0], *(tensors for tensors in args[1:count] if tensors)]
    steps, (scale, found_inf) = args[count] if counts else [None] * len(args[0]), args[-2:]
    if found_inf is not None and found_inf.item():
        return
    names = operator.schema.names[count + counts : -2]
    options = dict(zip(names, map(number_of, args[count + counts : -2]), strict=True))
    for step, *tensors in zip(steps, *lists, strict=True):
        if scale is not None:
            tensors[1].div_(scale)
        same = len({tensor.dtype for tensor in tensors}) == 1
        if "adam" in name and same and tensors[0].dtype.name in _ADAMW_TYPES:
            _adam_step(name == "_fused_adamw_", tensors, step, **options)
        else:
            family.prepare(None if step is None else step.item(), **options)(_OF_TENSORS, *tensors)
