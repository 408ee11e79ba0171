"""DTensor: a tensor in pieces on the processes of a mesh."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ..._core.geometry import contiguous_strides
from ..._core.wrapper_subclass import make_wrapper_subclass
from .. import _collectives as collectives
from ..device_mesh import DeviceMesh, _mesh_resources
from ._redistribute import of_gradient, redistributed
from ._spec import DTensorSpec, TensorMeta, checked, local_shape
from .placement_types import Cut, Partial, Placement, Replicate

__all__ = ["DTensor", "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros"]


class _FromLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Any, spec: DTensorSpec, placements: Any) -> Any:
        ctx.placements = of_gradient(spec.placements) if placements is None else placements
        return DTensor(local.view_as(local), spec, requires_grad=local.requires_grad)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return redistributed(grad._local_tensor, grad._spec, ctx.placements), None, None


class _ToLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: Any) -> Any:
        ctx.spec = tensor._spec
        ctx.placements = of_gradient(tensor.placements) if placements is None else placements
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return DTensor(grad, ctx.spec.with_placements(ctx.placements)), None


class _Redistribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: tuple[Placement, ...], forward_dtype: Any,
                backward_dtype: Any) -> Any:
        ctx.placements, ctx.dtype, ctx.backward_dtype = tensor.placements, tensor.dtype, backward_dtype
        local = tensor._local_tensor.to(forward_dtype or tensor.dtype)
        made = redistributed(local, tensor._spec, placements)
        if made is tensor._local_tensor:
            made = made.view_as(made)
        return DTensor(made, _of_dtype(tensor._spec.with_placements(placements), made.dtype))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        back = of_gradient(ctx.placements)
        local = grad._local_tensor.to(ctx.backward_dtype or grad.dtype)
        made = redistributed(local, grad._spec, back).to(ctx.dtype)
        return DTensor(made, _of_dtype(grad._spec.with_placements(back), ctx.dtype)), None, None, None


def _of_dtype(spec: DTensorSpec, dtype: Any) -> DTensorSpec:
    return DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta._replace(dtype=dtype))


class DTensor(torch.Tensor):
    """A tensor in pieces on the processes of a mesh. Operators on it are one program on all processes."""

    _local_tensor: torch.Tensor
    _spec: DTensorSpec

    @staticmethod
    def __new__(cls: Any, local_tensor: Any, spec: DTensorSpec, *, requires_grad: bool = False) -> Any:
        meta = spec.tensor_meta
        made = make_wrapper_subclass(cls, meta.shape, strides=meta.stride, dtype=local_tensor.dtype,
                                     device=local_tensor.device, requires_grad=requires_grad)
        made._local_tensor, made._spec = local_tensor.detach(), spec
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done in `__new__`."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return (f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
                f"placements={self._spec.placements})")

    @property
    def device_mesh(self) -> DeviceMesh:
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        return self._spec.placements

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], flatten_spec: Any, outer_size: Any,
                             outer_stride: Any) -> Any:
        spec, requires_grad = flatten_spec
        return DTensor(inner_tensors["_local_tensor"], spec, requires_grad=requires_grad)

    @staticmethod
    def from_local(local_tensor: Any, device_mesh: Any = None, placements: Any = None, *, run_check: bool = False,
                   shape: Any = None, stride: Any = None, grad_placements: Any = None) -> Any:
        """A tensor of the pieces that the processes have; pieces of uneven length need `shape` and `stride`."""
        mesh = device_mesh if device_mesh is not None else _default_mesh()
        placed = checked(placements, mesh, local_tensor.ndim)
        if shape is None:
            lengths = list(local_tensor.shape)
            for dim, placement in enumerate(placed):
                if isinstance(placement, Cut):
                    lengths[placement.dim] *= mesh.size(dim)
            shape = lengths
        if run_check:
            for dim, placement in enumerate(placed):
                if isinstance(placement, Replicate):
                    collectives.broadcast(local_tensor.detach(), group=mesh.get_group(dim), group_src=0)
        steps = tuple(stride) if stride is not None else contiguous_strides(tuple(shape))
        meta = TensorMeta(torch.Size(shape), steps, local_tensor.dtype)
        back = None if grad_placements is None else checked(grad_placements, mesh, local_tensor.ndim)
        return _FromLocal.apply(local_tensor, DTensorSpec(mesh, placed, meta), back)

    def to_local(self, *, grad_placements: Any = None) -> Any:
        """The piece of this process."""
        if not torch.is_grad_enabled() or not self.requires_grad:
            return self._local_tensor
        return _ToLocal.apply(self, None if grad_placements is None else checked(grad_placements, self._spec.mesh,
                                                                                 self.ndim))

    def redistribute(self, device_mesh: Any = None, placements: Any = None, *, async_op: bool = False,
                     forward_dtype: Any = None, backward_dtype: Any = None) -> Any:
        """The same tensor under other placements."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        wanted = checked(placements, self._spec.mesh, self.ndim)
        for now, then in zip(self.placements, wanted, strict=True):
            if isinstance(then, Partial) and now != then:
                raise RuntimeError(f"Can not redistribute from {now} to {then}, redistributing to Partial is for "
                                   "internal use only!")
        if wanted == self.placements and forward_dtype is None and backward_dtype is None:
            return self
        return _Redistribute.apply(self, wanted, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements: Any = None) -> Any:
        """The whole tensor, on every process."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        from ._dispatch import dispatch

        return dispatch(func, args, kwargs or {})


def _default_mesh() -> DeviceMesh:
    return _mesh_resources.get_current_mesh()


def distribute_tensor(tensor: Any, device_mesh: Any = None, placements: Any = None, *,
                      src_data_rank: int | None = 0) -> Any:
    """A leaf in pieces, cut out of the tensor that the first process of the mesh has."""
    mesh = device_mesh if device_mesh is not None else _default_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placed = checked(placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != placed:
            raise ValueError(f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
                             f"placements {placed}. do you want to call `redistribute` instead?")
        return tensor
    whole = tensor.detach().clone(memory_format=torch.contiguous_format)
    if src_data_rank is not None:
        for dim in range(mesh.ndim):
            collectives.broadcast(whole, group=mesh.get_group(dim), group_src=src_data_rank)
    meta = TensorMeta(tensor.shape, contiguous_strides(tuple(tensor.shape)), tensor.dtype)
    spec = DTensorSpec(mesh, placed, meta)
    local = redistributed(whole, spec.with_placements([Replicate()] * mesh.ndim), placed)
    made = DTensor(local, spec, requires_grad=tensor.requires_grad)
    return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def distribute_module(module: Any, device_mesh: Any = None, partition_fn: Callable | None = None,
                      input_fn: Callable | None = None, output_fn: Callable | None = None) -> Any:
    """A module with distributed parameters and buffers: as `partition_fn(name, module, mesh)` does, the rest whole."""
    mesh = device_mesh if device_mesh is not None else _default_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module should only be called once on a module, but it has already been called "
                           "on this module!")
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, value in part._parameters.items():
            if value is not None and not isinstance(value.data, DTensor):
                part.register_parameter(key, torch.nn.Parameter(
                    distribute_tensor(value.data, mesh, [Replicate()] * mesh.ndim), value.requires_grad))
        for key, value in part._buffers.items():
            if value is not None and not isinstance(value, DTensor):
                part._buffers[key] = distribute_tensor(value, mesh, [Replicate()] * mesh.ndim)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _factory(make: Callable, random: bool = False) -> Callable:
    def made(*size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = torch.strided,
             device_mesh: Any = None, placements: Any = None, **more: Any) -> Any:
        shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
        mesh = device_mesh if device_mesh is not None else _default_mesh()
        placed = checked(placements, mesh, len(shape))
        kind = dtype if dtype is not None else torch.get_default_dtype()
        spec = DTensorSpec(mesh, placed, TensorMeta(torch.Size(shape), contiguous_strides(shape), kind))
        if random:  # the numbers of the whole tensor, whatever the mesh
            whole = make(shape, dtype=kind, device=mesh.device_type, **more)
            local = redistributed(whole, spec.with_placements([Replicate()] * mesh.ndim), placed)
        else:
            local = make(local_shape(spec), dtype=kind, device=mesh.device_type, **more)
        return DTensor(local, spec, requires_grad=requires_grad)

    made.__name__ = make.__name__
    made.__doc__ = f"`torch.{make.__name__}` in pieces."
    return made


zeros, ones, empty = _factory(torch.zeros), _factory(torch.ones), _factory(torch.empty)
rand, randn = _factory(torch.rand, random=True), _factory(torch.randn, random=True)


def full(size: Any, fill_value: Any, **options: Any) -> Any:
    """`torch.full` in pieces."""
    kind = options.pop("dtype", None) or torch.full((), fill_value).dtype
    return _factory(lambda shape, **named: torch.full(shape, fill_value, **named))(size, dtype=kind, **options)
