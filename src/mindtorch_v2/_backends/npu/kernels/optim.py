"""NPU kernels of optimizers: a whole step of Adam or AdamW in three launches, however many parameters there are.

The parameters of a list have a copy in one piece of memory, and their running means lie in such pieces. A step joins
the gradients, moves everything with one ACLNN operator, and writes the parameters back.
"""

import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...._core.dtype import COMPUTE
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops.fused_steps import FusedStep
from ..array import NpuArray, empty
from ..chips import way
from ..facts import signature
from ..families import cast, given, wrap_npu
from ..launch import run
from ..runtime import Runtime, at_stop, started
from .operators import call, number_of

SYMBOL = "aclnnApplyAdamWV2"
COUNTS = 1 << 12  # numbers of steps that are brought to the device at a time
_OF_TENSORS = SimpleNamespace(  # what steps on arrays need, for tensors
    multiply=lambda x, y, out: out.copy_(x * y), divide=lambda x, y, out: out.copy_(x / y),
    maximum=lambda x, y, out: out.copy_(x.maximum(y)),
    sqrt=lambda x, out=None: x.sqrt() if out is None else out.copy_(x.sqrt()))


class _Flat:
    """The parameters of one list in one piece, and their states, which live in such pieces."""

    def __init__(self, lists: Sequence[Sequence[Tensor]]) -> None:
        parameters, states = lists[0], lists[2:]
        first = id(parameters[0])
        self.members = [weakref.ref(p) for p in parameters]
        self.end = weakref.ref(parameters[0], lambda _: _flats.pop(first, None))
        self.sizes = tuple([p._array.size for p in parameters])
        self.values = _joined(parameters)
        self.kept = [_joined(tensors) for tensors in states]
        for flat, tensors in zip(self.kept, states, strict=True):
            parts = call("split_with_sizes", wrap_npu(flat), self.sizes, 0)
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.data = part.reshape(tensor.shape)
        self.versions = [p._version for p in parameters]

    def belongs_to(self, lists: Sequence[Sequence[Tensor]]) -> bool:
        """Whether these are the same parameters, with states that nobody has moved elsewhere."""
        same = len(lists[0]) == len(self.members)
        return (same and all(r() is p for r, p in zip(self.members, lists[0], strict=True))
                and len(lists) == 2 + len(self.kept)
                and all(t._array.storage is flat.storage
                        for flat, tensors in zip(self.kept, lists[2:], strict=True) for t in tensors))  # fmt: skip


_flats: dict[int, _Flat] = {}  # by the first parameter's id, as long as that lives
_counts: dict[tuple[int, int], NpuArray] = {}


def _row(tensor: Tensor) -> NpuArray:
    """A packed tensor's elements in one dimension, on the same memory."""
    array = tensor._array
    return array.storage.array((array.size,), array.dtype, array.offset, (array.itemsize,))


def _joined(tensors: Sequence[Tensor]) -> NpuArray:
    rows = [_row(t) for t in tensors]
    made = empty((sum(r.size for r in rows),), rows[0].dtype, rows[0].device_index)
    run("aclnnCat", (rows, 0, made), "aten::cat")
    return made


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
    return kind.itemsize <= 4 and way(SYMBOL, started(parameter._array.device_index).chip, types) is None


def _launch(name: str, flat: _Flat, gradient: NpuArray, number: int, lr: float, beta1: float, beta2: float,
            weight_decay: float, eps: float, amsgrad: bool, maximize: bool) -> None:
    """The step as one operator, which knows the decay of AdamW and counts steps from 0."""
    if name == "_fused_adam_":
        if weight_decay:
            run("aclnnInplaceAdd", (gradient, flat.values, -weight_decay if maximize else weight_decay), name)
        weight_decay = 0.0
    run(SYMBOL, (flat.values, flat.kept[0], flat.kept[1], flat.kept[2] if amsgrad else None, gradient,
                 _count(number - 1, gradient.device_index), lr, beta1, beta2, weight_decay, eps, amsgrad, maximize),
        f"aten::{name}")


def _by_parts(step: Any, tensors: Sequence[Tensor]) -> None:
    """A step out of ordinary operators; half types would lose the small numbers of its states."""
    wide = [cast(t, COMPUTE.get(t.dtype, t.dtype)) for t in tensors]
    step(_OF_TENSORS, *wide)
    for tensor, made in zip(tensors, wide, strict=True):
        if made is not tensor:
            tensor.copy_(made)


def _step_of_all(family: FusedStep, name: str, lists: Sequence[Sequence[Tensor]], number: int,
                 options: dict[str, Any]) -> None:
    """The step of a whole list."""
    parameters, gradients = lists[0], lists[1]
    flat = _flats.get(id(parameters[0]))
    if flat is None or not flat.belongs_to(lists):
        flat = _flats[id(parameters[0])] = _Flat(lists)
    elif flat.versions != [p._version for p in parameters]:  # somebody else wrote to them
        flat.values = _joined(parameters)
    gradient = _joined(gradients)
    if _has_step(parameters[0]):
        _launch(name, flat, gradient, number, **options)
    else:
        _by_parts(family.prepare(number, **options), [wrap_npu(x) for x in (flat.values, gradient, *flat.kept)])
    run("aclnnSplitWithSize", (flat.values, flat.sizes, 0, [_row(p) for p in parameters]), f"aten::{name}")
    for tensors in (parameters, *lists[2:]):
        for tensor in tensors:
            tensor._bump_version()
    flat.versions = [p._version for p in parameters]


def _as_one(name: str, lists: Sequence[Sequence[Tensor]], steps: Sequence[Any]) -> bool:
    """Whether a list steps as a whole: one type, packed, not empty, counted on the host and as far as each other."""
    if "adam" not in name or any(step._device.type != "cpu" for step in steps):
        return False
    every = [t for tensors in lists for t in tensors]
    same = {(t._array.dtype, t._device.index) for t in every}
    return (len(same) == 1 and all(t._array.size and t._array.is_contiguous for t in every)
            and len({step.item() for step in steps}) == 1)  # fmt: skip


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
    if lists[0] and counts and _as_one(name, lists, steps):
        _step_of_all(family, name, lists, int(steps[0].item()), options)
        return
    for step, *tensors in zip(steps, *lists, strict=True):
        _by_parts(family.prepare(None if step is None else step.item(), **options), tensors)


def _forget(runtime: Runtime) -> None:
    _counts.clear()
    _flats.clear()


at_stop.insert(0, _forget)
