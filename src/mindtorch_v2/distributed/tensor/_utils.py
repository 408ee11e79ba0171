"""Where the pieces of distributed tensors lie, for those who store them."""

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from ._spec import local_geometry
from .placement_types import Placement

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(global_shape: Sequence[int], mesh: DeviceMesh,
                                          placements: Sequence[Placement]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of this process's piece, where it begins in the whole)."""
    return local_geometry(global_shape, mesh, placements)
