"""What a program decides about sharding: types of elements, where pieces lie, and who communicates."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["AllGather", "CPUOffloadPolicy", "Comm", "MixedPrecisionPolicy", "OffloadPolicy", "ReduceScatter"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The types in which a module computes, reduces gradients and answers; the optimizer's type is the parameter's."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Pieces stay on the device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Pieces of parameters, their gradients and the optimizer's state are on the CPU."""

    pin_memory: bool = True


class Comm(ABC):
    """A collective that a program brings: where its buffers come from."""

    @abstractmethod
    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        """A buffer for the collective."""


class AllGather(Comm):
    """A program's own `all_gather_into_tensor`."""

    @abstractmethod
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        """The work, if asynchronous."""


class ReduceScatter(Comm):
    """A program's own `reduce_scatter_tensor`."""

    @abstractmethod
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        """The work, if asynchronous."""


for _class in (MixedPrecisionPolicy, OffloadPolicy, CPUOffloadPolicy):
    _class.__module__ = __name__.rpartition(".")[0]
