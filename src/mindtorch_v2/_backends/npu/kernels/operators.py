"""What the kernels here are written with: other operators, and what declarations say of results."""

from typing import Any

from ...._core.geometry import contiguous_strides
from ...._core.tensor import Tensor
from ...._dispatch.callers import call_bound
from ...._dispatch.registry import Operator, registry
from ...._ops._declare.rules import Spec, common_dtype
from ..families import cast, store, uninitialised, wrap_npu
from ..launch import packed_copy


def call(name: str, *values: Any) -> Any:
    """Runs another operator on values in its schema's order."""
    return call_bound(registry.get(f"aten::{name}"), values)


def infer(operator: Operator, *values: Any) -> Any:
    """What an operator's declaration says of its result."""
    return operator.declaration.family.infer(*values)


def reshaped(self: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in another shape, on the same memory where that is packed; no view."""
    packed = self._array if self._array.is_contiguous else packed_copy(self._array)
    strides = contiguous_strides(shape, packed.itemsize)
    made = wrap_npu(packed.storage.array(shape, packed.dtype, packed.offset, strides))
    made._offset = packed.offset
    return made


def laid_out(made: Tensor, spec: Spec) -> Tensor:
    target = uninitialised(spec, made._device)
    store(target, made)
    return target


def untouched(made: Tensor) -> Tensor:
    """A fresh tensor on what was written through views: a result starts at version 0."""
    return wrap_npu(made._array)


def promoted_to_one(*tensors: Tensor) -> list[Tensor]:
    """The tensors in their common type."""
    kind = common_dtype(tensors)
    return [cast(tensor, kind) for tensor in tensors]


def number_of(value: Any) -> Any:
    return value.item() if hasattr(value, "_array") else value
