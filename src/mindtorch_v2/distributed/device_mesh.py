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
    groups,
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
        values = mesh.detach().cpu() if isinstance(mesh, torch.Tensor) else torch.tensor(mesh, device="cpu")
        self.mesh = values.to(torch.int32)
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
        self._coordinate = tuple(found[0].tolist()) if found.numel() else None
        self._hash = hash((tuple(flat), self.shape, device_type, self.mesh_dim_names))
        self._groups = list(_groups) if _groups is not None else self._lines() if _init_backend else []

    def __getstate__(self) -> dict[str, Any]:
        """Groups are not written but their names, by which they are found where they are."""
        return {**self.__dict__, "_groups": [group.group_name for group in self._groups], "_root": None,
                "_flattened": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if is_initialized():
            known = {group.group_name: group for group in groups}
            self._groups = [known[name] for name in state["_groups"] if name in known]

    def __deepcopy__(self, memo: dict) -> "DeviceMesh":
        return self

    def __enter__(self) -> "DeviceMesh":
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        _mesh_resources.mesh_stack.pop()

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
        return self is other or (isinstance(other, DeviceMesh) and self._hash == other._hash and torch.equal(
            self.mesh, other.mesh) and (self.device_type, self.mesh_dim_names) == (
                other.device_type, other.mesh_dim_names))

    def __hash__(self) -> int:
        return self._hash

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

    def get_coordinate(self) -> tuple[int, ...] | None:
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
        if any(name not in self.mesh_dim_names for name in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are "
                           f"{[*self.mesh_dim_names, *self._flattened]}.")
        dims = [self._dim(name, "") for name in names]
        if dims != sorted(dims):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        mesh = self.mesh
        if self._coordinate is not None:
            mesh = mesh[tuple(slice(None) if at in dims else self._coordinate[at] for at in range(self.ndim))]
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

    def _unflatten(self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str],
                   backend_override: Any = None) -> "DeviceMesh":
        """The grid with one of its dimensions as several."""
        at = self._dim(dim, "")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        if math.prod(mesh_sizes) != self.size(at):
            raise ValueError(f"The product of mesh_sizes={tuple(mesh_sizes)} is not {self.size(at)}, which is the size "
                             f"of dimension {dim}")
        names = self.mesh_dim_names or tuple(f"dim_{d}" for d in range(self.ndim))
        return DeviceMesh(self.device_type, self.mesh.unflatten(at, list(mesh_sizes)),
                          mesh_dim_names=(*names[:at], *mesh_dim_names, *names[at + 1 :]))

    @staticmethod
    def _concatenate(device_mesh_list: Sequence["DeviceMesh"]) -> "DeviceMesh":
        """The part of a grid that has the dimensions of all these parts of it."""
        root = device_mesh_list[0]._get_root_mesh()
        names = tuple(name for mesh in device_mesh_list for name in mesh.mesh_dim_names or ())
        if any(mesh._get_root_mesh() != root for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        if any(name not in (root.mesh_dim_names or ()) for name in names):
            lines = [mesh.mesh.flatten() for mesh in device_mesh_list]
            first = int(lines[0][0])
            grid = lines[0] - first
            for line in lines[1:]:
                grid = grid.unsqueeze(-1) + (line - int(line[0]))
            groups = [group for mesh in device_mesh_list for group in mesh._groups]
            return DeviceMesh(root.device_type, grid + first, mesh_dim_names=names, _groups=groups, _root=root)
        return root[names]

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        return self._dim(mesh_dim_name, "")

    def _get_all_submeshes(self, mesh_dim_name: str) -> list["DeviceMesh"]:
        """Every line of the grid along a dimension."""
        at = self._dim(mesh_dim_name, "")
        lines = self.mesh.movedim(at, -1).reshape(-1, self.size(at))
        return [DeviceMesh(self.device_type, line, mesh_dim_names=(mesh_dim_name,),
                           _groups=[self._groups[at]] if self._rank in line.tolist() else [], _root=self)
                for line in lines]

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate is not None

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


class _MeshEnv:
    """The meshes that are in force, the innermost last."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]


_mesh_resources = _MeshEnv()


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
    return DeviceMesh(device_type, torch.arange(math.prod(mesh_shape), device="cpu").view(*mesh_shape),
                      mesh_dim_names=mesh_dim_names)
