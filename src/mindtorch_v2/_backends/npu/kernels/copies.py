"""NPU kernels that copy: within a device, between devices, to and from the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.device import META
from ...._core.dtype import dtype
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._dispatch.schema import NUMBERS
from ...._ops._declare.rules import Spec
from ...._ops.copy import _check_copy, preserved_strides
from ...._ops.copy import store as store_on_host
from ..array import copy_bytes, empty, from_host, to_host, write_bytes
from ..families import device_index, exact_number, given, store, uninitialised
from ..launch import packed_copy, run
from .operators import call, infer, reshaped


@given("row")
def fill_(row: Callable, self: Tensor, value: Any) -> Tensor:
    return row(self, exact_number(value, self.dtype) if value.__class__ in NUMBERS else value)


@given("operator")
def clone(operator: Operator, self: Tensor, memory_format: Any) -> Tensor:
    made = uninitialised(infer(operator, self, memory_format), self._device)
    if made._array.size:
        store(made, self)
    return made


def to_copy(self: Tensor, kind: dtype | None, where: Any, non_blocking: bool, memory_format: Any) -> Tensor:
    target = device_index(where, (self,))
    spec = Spec(self._array.shape, kind or self.dtype, preserved_strides(self, memory_format))
    made = uninitialised(spec, target)
    if made._array.size:
        _transfer(made, self, non_blocking)
    return made


def copy_(self: Tensor, src: Any, non_blocking: bool) -> Tensor:
    _check_copy(self, src, non_blocking)
    if self._device is META:
        pass
    elif src.__class__ in NUMBERS:
        return call("fill_", self, src)
    elif self._array.size:
        if src._array.shape != self._array.shape:
            src = src.expand(self._array.shape)
        _transfer(self, src, non_blocking)
    self._bump_version()
    return self


def _transfer(target: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copies elements between memories of any two devices; the shapes are equal."""
    array, value = target._array, source._array
    if array.__class__ is np.ndarray:
        direct = array.flags.c_contiguous and value.is_contiguous and array.dtype == value.dtype
        if direct:
            to_host(value, array, non_blocking)
        else:
            store_on_host(np, array, to_host(value))
    elif value.__class__ is np.ndarray and not value.shape and value.dtype.isbuiltin == 1:
        call("fill_", target, value.item())  # a number travels as an argument
    elif value.__class__ is np.ndarray:
        if value.dtype != array.dtype:
            cast_value = np.empty(value.shape, array.dtype)
            store_on_host(np, cast_value, value)
            value = cast_value
        if array.is_contiguous:
            write_bytes(array.storage, array.offset, np.ascontiguousarray(value), non_blocking)
        else:
            run("aclnnInplaceCopy", (array, from_host(value, array.device_index)), "aten::copy_")
    elif value.device_index == array.device_index:
        run("aclnnInplaceCopy", (array, value), "aten::copy_")
    else:
        packed = value if value.is_contiguous else packed_copy(value)
        moved = empty(value.shape, value.dtype, array.device_index)
        copy_bytes(moved.storage, 0, packed.storage, packed.offset, moved.nbytes)
        run("aclnnInplaceCopy", (array, moved), "aten::copy_")


@given("operator")
def unsafe_view(operator: Operator, self: Tensor, size: tuple[int, ...]) -> Tensor:
    return reshaped(self, infer(operator, self, size).shape)
