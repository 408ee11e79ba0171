"""Tensors spread over processes: not here. No tensor is an instance of DTensor, so that tests for it answer no."""

from ..._compat.absent import absent_class, absent_function
from ..._core.tensor import Tensor
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor"]

_WHY = "Tensors lie in one process; collectives move them."
DTensor = absent_class("torch.distributed.tensor.DTensor", _WHY, Tensor)
distribute_tensor = absent_function("torch.distributed.tensor.distribute_tensor", _WHY)
distribute_module = absent_function("torch.distributed.tensor.distribute_module", _WHY)
