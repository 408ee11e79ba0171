"""Along which lines of a mesh parameters are cut, and along which they are whole."""

from dataclasses import dataclass
from typing import Any

import mindtorch_v2 as torch

from ..._core.computed import computed_once
from ..device_mesh import DeviceMesh, init_device_mesh


@dataclass(eq=False)
class FSDPMeshInfo:
    """A mesh of one dimension, which cuts; or of two, of which the first replicates."""

    mesh: DeviceMesh
    shard_mesh_dim: int = 0
    replicate_mesh_dim: int | None = None

    @computed_once
    def shard_group(self) -> Any:
        return self.mesh.get_group(self.shard_mesh_dim)

    @computed_once
    def replicate_group(self) -> Any:
        return None if self.replicate_mesh_dim is None else self.mesh.get_group(self.replicate_mesh_dim)

    @property
    def pieces(self) -> int:
        return self.mesh.size(self.shard_mesh_dim)

    @property
    def piece(self) -> int:
        """Which piece this process has."""
        return self.mesh.get_local_rank(self.shard_mesh_dim)


def mesh_info(mesh: DeviceMesh | None) -> FSDPMeshInfo:
    """How a mesh is used; one line of all processes if none is given."""
    if mesh is None:
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group()
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        mesh = init_device_mesh("cpu" if here is None else here.type, (torch.distributed.get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 1:
        return FSDPMeshInfo(mesh)
    if mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return FSDPMeshInfo(mesh, shard_mesh_dim=1, replicate_mesh_dim=0)


_SMALLER: dict[tuple, FSDPMeshInfo] = {}  # groups are made once for a mesh


def after_forward(reshard: Any, info: FSDPMeshInfo) -> FSDPMeshInfo | None:
    """The mesh over which parameters are cut between forward and backward; None leaves them whole."""
    if isinstance(reshard, bool):
        return info if reshard else None
    if not isinstance(reshard, int):
        raise ValueError("reshard_after_forward should be a bool or an int representing the group size to reshard to, "
                         f"not {reshard}")
    pieces = info.pieces
    if not 1 <= reshard <= pieces or pieces % reshard:
        raise ValueError("If passing reshard_after_forward as an int, it should be a factor of "
                         f"{pieces}, not {reshard}")
    if reshard == 1:
        return None
    if reshard == pieces:
        return info
    key = (info.mesh, info.shard_mesh_dim, reshard)
    if key not in _SMALLER:
        grid = info.mesh.mesh.movedim(info.shard_mesh_dim, -1).reshape(-1, reshard)
        _SMALLER[key] = FSDPMeshInfo(DeviceMesh(info.mesh.device_type, grid), 1, 0)
    return _SMALLER[key]
