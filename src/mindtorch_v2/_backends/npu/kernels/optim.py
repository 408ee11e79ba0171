"""NPU kernels of optimizers: a whole step in a few launches, however many parameters there are.

The running means of a list lie in one piece of memory each. A step joins parameters and gradients, moves everything at
once (Adam and AdamW with one ACLNN operator), and writes the parameters back.
"""

from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...._core.dtype import COMPUTE
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops.fused_steps import FusedStep
from ..array import NpuArray, empty
from ..facts import signature
from ..families import cast, given, wrap_npu
from ..launch import is_offered, run
from ..runtime import Runtime, at_stop
from .operators import call, number_of

SYMBOL = "aclnnApplyAdamWV2"
COUNTS = 1 << 12  # numbers of steps that are brought to the device at a time
ALIGNED = 32  # bytes at which memory of its own begins
_OF_TENSORS = SimpleNamespace(  # what steps on arrays need, for tensors
    multiply=lambda x, y, out: out.copy_(x * y), divide=lambda x, y, out: out.copy_(x / y),
    maximum=lambda x, y, out: out.copy_(x.maximum(y)),
    sqrt=lambda x, out=None: x.sqrt() if out is None else out.copy_(x.sqrt()))
_counts: dict[tuple[int, int], NpuArray] = {}


def _row(tensor: Tensor) -> NpuArray:
    """A packed tensor's elements in one dimension, on the same memory."""
    array = tensor._array
    return array.storage.array((array.size,), array.dtype, array.offset, (array.itemsize,))


def _part(array: NpuArray, first: int, size: int) -> NpuArray:
    return array.storage.array((size,), array.dtype, array.offset + first * array.itemsize, (array.itemsize,))


def _joined(rows: Sequence[NpuArray]) -> NpuArray:
    made = empty((sum(r.size for r in rows),), rows[0].dtype, rows[0].device_index)
    run("aclnnCat", (rows, 0, made), "aten::cat")
    return made


def _lies_in_one_piece(tensors: Sequence[Tensor]) -> bool:
    """Whether the tensors lie one behind the other in one piece of memory."""
    first = tensors[0]._array
    places = accumulate([t._array.size * first.itemsize for t in tensors], initial=first.offset)
    return all(t._array.storage is first.storage and t._array.offset == place
               for t, place in zip(tensors, places, strict=False))  # fmt: skip


def _in_one_piece(tensors: Sequence[Tensor]) -> NpuArray:
    """States as one row; those that lie elsewhere move into one piece of memory, and stay there."""
    if not _lies_in_one_piece(tensors):
        flat = wrap_npu(_joined([_row(t) for t in tensors]))
        parts = call("split_with_sizes", flat, [t._array.size for t in tensors], 0)
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.data = part.reshape(tensor.shape)
    first = tensors[0]._array
    return _part(first, 0, sum(t._array.size for t in tensors))


def _parameters_and_gradients(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> tuple[NpuArray, NpuArray]:
    """Copies of both, each in one piece."""
    rows = [_row(t) for t in parameters]
    size, kind = sum(r.size for r in rows), rows[0].dtype
    between = -size % (ALIGNED // kind.itemsize)
    padding = [empty((between,), kind, rows[0].device_index)] if between else []  # nobody reads it
    made = _joined([*rows, *padding, *(_row(t) for t in gradients)])
    return _part(made, 0, size), _part(made, size + between, size)


def _count(number: int, index: int) -> NpuArray:
    """A number of steps on the device, out of a table."""
    first = number // COUNTS * COUNTS
    table = _counts.get((index, first))
    if table is None:
        table = _counts[index, first] = empty((COUNTS,), np.dtype(np.float32), index)
        run("aclnnArange", (float(first), float(first + COUNTS), 1.0, table), "aten::arange")
    return table.storage.array((1,), table.dtype, 4 * (number - first), (4,))


def _has_step(parameter: Tensor) -> bool:
    """Whether this chip has the operator of a whole step in the parameter's type."""
    kind = parameter._array.dtype
    types = tuple([kind if p.name == "varRef" else None for p in signature(SYMBOL)])
    return kind.itemsize <= 4 and is_offered(SYMBOL, parameter._array.device_index, types)


def _launch(name: str, values: NpuArray, gradient: NpuArray, states: Sequence[NpuArray], number: int, lr: float,
            beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool) -> None:
    """The step as one operator, which knows the decay of AdamW and counts steps from 0."""
    if name == "_fused_adam_":
        if weight_decay:
            run("aclnnInplaceAdd", (gradient, values, -weight_decay if maximize else weight_decay), name)
        weight_decay = 0.0
    run(SYMBOL, (values, states[0], states[1], states[2] if amsgrad else None, gradient,
                 _count(number - 1, gradient.device_index), lr, beta1, beta2, weight_decay, eps, amsgrad, maximize),
        f"aten::{name}")


def _by_parts(step: Any, tensors: Sequence[Tensor]) -> None:
    """A step out of ordinary operators; half types would lose the small numbers of its states."""
    wide = [cast(t, COMPUTE.get(t.dtype, t.dtype)) for t in tensors]
    step(_OF_TENSORS, *wide)
    for tensor, made in zip(tensors, wide, strict=True):
        if made is not tensor:
            tensor.copy_(made)


def _step_of_all(family: FusedStep, name: str, lists: Sequence[Sequence[Tensor]], number: int | None,
                 options: dict[str, Any]) -> None:
    """The step of a whole list."""
    parameters, gradients = lists[0], lists[1]
    states = [_in_one_piece(tensors) for tensors in lists[2:]]
    values, gradient = _parameters_and_gradients(parameters, gradients)
    if number is not None and "adam" in name and _has_step(parameters[0]):
        _launch(name, values, gradient, states, number, **options)
    else:
        _by_parts(family.prepare(number, **options), [wrap_npu(x) for x in (values, gradient, *states)])
    sizes = [p._array.size for p in parameters]
    run("aclnnSplitWithSize", (values, sizes, 0, [_row(p) for p in parameters]), f"aten::{name}")
    for tensors in (parameters, *lists[2:]):
        for tensor in tensors:
            tensor._bump_version()


def _as_one(lists: Sequence[Sequence[Tensor]], steps: Sequence[Any]) -> bool:
    """Whether a list steps as a whole: one type, packed, not empty, counted on the host and as far as each other."""
    every = [t for tensors in lists for t in tensors]
    same = {(t._array.dtype, t._device.index) for t in every}
    return (len(same) == 1 and all(t._array.size and t._array.is_contiguous for t in every)
            and all(step is None or step._device.type == "cpu" for step in steps)
            and len({None if step is None else step.item() for step in steps}) == 1)  # fmt: skip


@given("operator")
def fused_step(operator: Operator, *args: Any) -> None:
    """A step as declared: as a whole where it can be, else tensor by tensor, out of ordinary operators."""
    family, name = operator.declaration.family, operator.schema.base_name
    assert isinstance(family, FusedStep)
    count, counts = 2 + family.state_lists, family.counts
    lists = [args[0], *(tensors for tensors in args[1:count] if tensors)]
    steps: Sequence[Any] = args[count] if counts else [None] * len(args[0])
    scale, found_inf = args[-2:]
    if found_inf is not None and found_inf.item():
        return
    names = operator.schema.names[count + counts : -2]
    options = dict(zip(names, map(number_of, args[count + counts : -2]), strict=True))
    if scale is not None:
        for gradient in lists[1]:
            gradient.div_(scale)
    if lists[0] and _as_one(lists, steps):
        _step_of_all(family, name, lists, int(steps[0].item()) if counts else None, options)
        return
    for step, *tensors in zip(steps, *lists, strict=True):
        _by_parts(family.prepare(None if step is None else step.item(), **options), tensors)


def _forget(runtime: Runtime) -> None:
    _counts.clear()


at_stop.insert(0, _forget)
