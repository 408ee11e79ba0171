"""Tensors in pieces on the processes of a mesh."""

from ..._weights_only_unpickler import _add_safe_globals
from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401 - by this name
from ._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from ._spec import DTensorSpec, TensorMeta
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
           "full", "ones", "rand", "randn", "zeros"]

DTensor.__module__ = __name__
_add_safe_globals([DTensor, DTensorSpec, DeviceMesh, Partial, Replicate, Shard, TensorMeta, _StridedShard])
