"""DeviceMesh: processes in a grid, with a group for each line of it."""

import math
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from .._core.device import device as _device
from ._groups import ProcessGroup
from ._world import (
    default_group,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    is_outside,
    new_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The ranks of processes in a grid. Along each dimension this process is in one group."""

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
                 backend_override: Any = None, _init_backend: bool = True, _rank: int | None = None,
                 _groups: Sequence[Any] | None = None, _root: "DeviceMesh | None" = None) -> None:
        self.device_type = device_type
        values = mesh.detach().cpu() if isinstance(mesh, torch.Tensor) else torch.tensor(mesh)
        self.mesh = values.to(torch.int64)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root = _root
        self._flattened: dict[str, DeviceMesh] = {}
        if _init_backend and not is_initialized():
            init_process_group()
        flat = self.mesh.flatten().tolist()
        if len(set(flat)) != len(flat):
            raise AssertionError(f"DeviceMesh cannot have duplicate values, but found {flat}")
        if flat and max(flat) >= get_world_size():
            raise RuntimeError(f"Mesh should not be bigger than default world size {get_world_size()}, but found "
                               f"{max(flat) + 1} ranks!")
        self._rank = get_rank() if _rank is None else _rank
        found = (self.mesh == self._rank).nonzero()
        self._coordinate = found[0].tolist() if found.numel() else None
        self._groups = list(_groups) if _groups is not None else self._lines() if _init_backend else []

    def _lines(self) -> list[Any]:
        """This process's group in each dimension. All processes make all groups, in one order."""
        made = []
        for dim in range(self.mesh.ndim):
            lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
            mine: Any = None
            for ranks in lines:
                if len(ranks) == get_world_size() and ranks == list(range(len(ranks))):
                    mine = default_group()
                    continue
                group = new_group(ranks, group_desc=f"mesh_{self._name_of(dim)}")
                if not is_outside(group):
                    mine = group
            made.append(mine)
        return made

    def _name_of(self, dim: int) -> str:
        return self.mesh_dim_names[dim] if self.mesh_dim_names else f"dim_{dim}"

    @property
    def ndim(self) -> int:
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def __repr__(self) -> str:
        dims = ", ".join(f"{self._name_of(at)}={length}" for at, length in enumerate(self.shape))
        shown = f"({dims})" if self.mesh_dim_names else self.shape
        return f"DeviceMesh({shown}, '{self.device_type}', stride={tuple(self.mesh.stride())})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and torch.equal(self.mesh, other.mesh) and (
            self.device_type, self.mesh_dim_names) == (other.device_type, other.mesh_dim_names))

    def __hash__(self) -> int:
        return hash((tuple(self.mesh.flatten().tolist()), self.shape, self.device_type, self.mesh_dim_names))

    def _dim(self, mesh_dim: int | str | None, what: str) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs "
                                   f"to be specified when device_mesh.ndim > 1. {what}")
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                               f"mesh_dim_names={self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        if isinstance(mesh_dim, str) and mesh_dim in self._flattened:
            return self._flattened[mesh_dim].get_group()
        at = self._dim(mesh_dim, "If you want to get the list of all the ProcessGroups in the DeviceMesh, please use "
                                 "`get_all_groups()` instead.")
        return self._groups[at]

    def get_all_groups(self) -> list[ProcessGroup]:
        return list(self._groups)

    def get_rank(self) -> int:
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        at = self._dim(mesh_dim, "")
        if self._coordinate is None:
            raise RuntimeError(f"rank {self._rank} is not in this DeviceMesh")
        return self._coordinate[at]

    def get_coordinate(self) -> list[int] | None:
        return self._coordinate

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> "DeviceMesh":
        """The part of the grid around this process that has only the named dimensions."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if len(names) == 1 and names[0] in self._flattened:
            return self._flattened[names[0]]
        if names == self.mesh_dim_names:
            return self
        dims = [self._dim(name, "") for name in names]
        mesh = self.mesh
        if self._coordinate is not None:
            kept = [slice(None) if at in dims else self._coordinate[at] for at in range(self.ndim)]
            order = sorted(dims)
            mesh = mesh[tuple(kept)].permute([order.index(dim) for dim in dims])
        return DeviceMesh(self.device_type, mesh, mesh_dim_names=names, _groups=[self._groups[dim] for dim in dims],
                          _root=self._root or self)

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> "DeviceMesh":
        """The grid as one line."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root or self
        if name in root._flattened:
            return root._flattened[name]
        dims = [root._dim(each, "") for each in self.mesh_dim_names or ()] or list(range(root.ndim))
        rest = [dim for dim in range(root.ndim) if dim not in dims]
        lines = root.mesh.permute([*rest, *dims]).reshape(-1, self.size()).tolist()
        mine: Any = None
        for ranks in lines:
            group = default_group() if ranks == list(range(get_world_size())) else new_group(ranks, sort_ranks=False)
            if not is_outside(group):
                mine = group
        made = DeviceMesh(self.device_type, self.mesh.flatten(), mesh_dim_names=(name,), _groups=[mine], _root=root)
        root._flattened[name] = made
        return made

    def _get_root_mesh(self) -> "DeviceMesh":
        return self._root or self

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *,
                   mesh_dim_names: Sequence[str] | None = None) -> "DeviceMesh":
        """The grid of groups that there are."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if isinstance(group, ProcessGroup):
            ranks = torch.tensor(get_process_group_ranks(group))
            if mesh is not None and torch.as_tensor(mesh).tolist() != ranks.tolist():
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks.tolist()}")
            mesh = ranks
        elif mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)


def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
                     backend_override: Any = None) -> DeviceMesh:
    """All processes in a grid of a shape."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError("Each mesh_dim_name must be unique.", f"Found repeated mesh_dim_name in "
                                                                     f"mesh_dim_names {mesh_dim_names}")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length!",
                               f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):"
                               f"{len(mesh_shape)}.")
    if device_type and not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ",
                           "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
    _device(device_type)
    return DeviceMesh(device_type, torch.arange(math.prod(mesh_shape)).view(*mesh_shape),
                      mesh_dim_names=mesh_dim_names)
