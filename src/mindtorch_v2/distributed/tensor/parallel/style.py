"""How one module is cut over a mesh: its parameters, what goes into it and what comes out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import nn

from ...device_mesh import DeviceMesh
from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
           "RowwiseParallel", "SequenceParallel"]

Layout = Placement | None
Layouts = Layout | Sequence[Layout]


class ParallelStyle(ABC):
    """What is done to a module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any: ...

    def _shown(self, **values: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _placed(value: Any, mesh: DeviceMesh, layout: Placement, wanted: Placement) -> Any:
    """A value of a layout, a distributed tensor or a piece of one, under the placement that is wanted."""
    tensor = value if isinstance(value, DTensor) else DTensor.from_local(value, mesh, [layout], run_check=False)
    return tensor.redistribute(placements=[wanted], async_op=True) if tensor.placements != (wanted,) else tensor


class _Cut(ParallelStyle):
    """A linear layer or an embedding whose parameters are cut."""

    _parameters: dict[type, dict[str, Placement]]
    _inside: dict[type, Placement]

    def __init__(self, input_layout: Placement, output_layout: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (input_layout,), (output_layout,)
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        kind = next((kind for kind in self._parameters if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        inside = self._inside[kind]
        cut = self._parameters[kind]

        def partition(name: str, part: Any, mesh: DeviceMesh) -> None:
            for key, value in list(part._parameters.items()):
                if value is not None:
                    placed = distribute_tensor(value, mesh, [cut[key]], src_data_rank=self.src_data_rank)
                    part.register_parameter(key, nn.Parameter(placed, value.requires_grad))

        def prepare(part: Any, inputs: tuple, mesh: DeviceMesh) -> tuple:
            return (_placed(inputs[0], mesh, self.input_layouts[0], inside), *inputs[1:])

        def finish(part: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            if outputs.placements != self.output_layouts:
                outputs = outputs.redistribute(placements=self.output_layouts, async_op=True)
            return outputs.to_local() if self.use_local_output else outputs

        return distribute_module(module, device_mesh, partition, prepare, finish)

    def __repr__(self) -> str:
        return self._shown(input_layouts=self.input_layouts, output_layouts=self.output_layouts,
                           use_local_output=self.use_local_output)


class ColwiseParallel(_Cut):
    """Each process computes some features of the result: rows of a linear layer's weight, columns of an embedding's."""

    _parameters = {nn.Linear: {"weight": Shard(0), "bias": Shard(0)}, nn.Embedding: {"weight": Shard(1)}}
    _inside = {nn.Linear: Replicate(), nn.Embedding: Replicate()}

    def __init__(self, *, input_layouts: Layout = None, output_layouts: Layout = None,
                 use_local_output: bool = True) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)


class RowwiseParallel(_Cut):
    """Each process has some features of what goes in: columns of a linear layer's weight, rows of an embedding's."""

    _parameters = {nn.Linear: {"weight": Shard(1), "bias": Replicate()}, nn.Embedding: {"weight": Shard(0)}}
    _inside = {nn.Linear: Shard(-1), nn.Embedding: Replicate()}

    def __init__(self, *, input_layouts: Layout = None, output_layouts: Layout = None,
                 use_local_output: bool = True) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)


class SequenceParallel(ParallelStyle):
    """A norm or dropout, whole on each process, that is run on pieces of the sequence."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def replicate(name: str, part: Any, mesh: DeviceMesh) -> None:
            for key, value in list(part._parameters.items()):
                if value is not None:
                    whole = DTensor.from_local(value.detach(), mesh, [Replicate()], run_check=False)
                    part.register_parameter(key, nn.Parameter(whole, value.requires_grad))

        def prepare(part: Any, inputs: tuple, mesh: DeviceMesh) -> tuple:
            value = inputs[0]
            if not isinstance(value, torch.Tensor):
                raise ValueError(f"expecting input of {part} to be a torch.Tensor or DTensor, but got {value}")
            return (_placed(value, mesh, self.sequence_sharding[0], self.sequence_sharding[0]), *inputs[1:])

        def finish(part: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            return outputs.to_local() if self.use_local_output else outputs

        return distribute_module(module, device_mesh, replicate, prepare, finish)

    def __repr__(self) -> str:
        return self._shown(sequence_dim=self.sequence_sharding[0].dim, use_local_output=self.use_local_output)


def _listed(layouts: Layouts) -> tuple[Layout, ...] | None:
    if layouts is None:
        return None
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _each(values: Any, mesh: DeviceMesh, layouts: Sequence[Layout], wanted: Sequence[Layout], to_local: bool,
          mismatch: str) -> list[Any]:
    """Values brought from layouts to those wanted; a value without a layout stays as it is."""
    if len(values) != len(layouts):
        raise ValueError(mismatch)
    return [_prepared(*each, mesh, to_local) for each in zip(values, layouts, wanted, strict=True)]


def _prepared(value: Any, layout: Layout, wanted: Layout, mesh: DeviceMesh, to_local: bool) -> Any:
    if layout is None:
        return value
    if not isinstance(value, torch.Tensor):
        raise AssertionError("expecting input to be a torch.Tensor!")
    made = _placed(value, mesh, layout, layout if wanted is None else wanted)
    return made.to_local() if to_local else made


class PrepareModuleInput(ParallelStyle):
    """What goes into a module, made into distributed tensors of the layouts that the module expects."""

    def __init__(self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
                 input_kwarg_layouts: dict[str, Placement] | None = None,
                 desired_input_kwarg_layouts: dict[str, Placement] | None = None,
                 use_local_output: bool = False) -> None:
        self.input_layouts, self.desired_input_layouts = _listed(input_layouts), _listed(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _positional(self, inputs: Any, mesh: DeviceMesh) -> Any:
        if self.input_layouts is None:
            return inputs
        values = inputs if isinstance(inputs, tuple) else (inputs,)
        return tuple(_each(values, mesh, self.input_layouts, self.desired_input_layouts or (), self.use_local_output,
                           "module inputs and input_layouts should have same length!"))

    def _prepare(self, mesh: DeviceMesh, part: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        made = {name: _prepared(value, self.input_kwarg_layouts.get(name), self.desired_input_kwarg_layouts.get(name),
                                mesh, self.use_local_output) for name, value in kwargs.items()}
        return self._positional(args, mesh), made

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if self.with_kwargs:
            module.register_forward_pre_hook(partial(self._prepare, device_mesh), with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda part, inputs: self._positional(inputs, device_mesh))
        return module

    def __repr__(self) -> str:
        return self._shown(input_layouts=self.input_layouts, desired_input_layouts=self.desired_input_layouts,
                           input_kwarg_layouts=self.input_kwarg_layouts,
                           desired_input_kwarg_layouts=self.desired_input_kwarg_layouts,
                           use_local_output=self.use_local_output)


class PrepareModuleOutput(ParallelStyle):
    """What comes out of a module, in the layouts that are wanted."""

    def __init__(self, *, output_layouts: Layouts, desired_output_layouts: Layouts,
                 use_local_output: bool = True) -> None:
        self.output_layouts = _listed(output_layouts) or (None,)
        self.desired_output_layouts = _listed(desired_output_layouts) or (None,)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _finish(self, mesh: DeviceMesh, part: Any, inputs: Any, outputs: Any) -> Any:
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        made = _each(values, mesh, self.output_layouts, self.desired_output_layouts, self.use_local_output,
                     "module outputs and output_layouts should have same length!")
        return made[0] if len(made) == 1 else tuple(made)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        hook: Callable = partial(self._finish, device_mesh)
        module.register_forward_hook(hook)
        return module

    def __repr__(self) -> str:
        return self._shown(output_layouts=self.output_layouts, desired_output_layouts=self.desired_output_layouts,
                           use_local_output=self.use_local_output)


class PrepareModuleInputOutput(ParallelStyle):
    """What goes into a module and what comes out of it."""

    def __init__(self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
                 input_kwarg_layouts: dict[str, Placement] | None = None,
                 desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_input: bool = False,
                 output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        into, out = self.prepare_module_input, self.prepare_module_output
        return self._shown(input_layouts=into.input_layouts, desired_input_layouts=into.desired_input_layouts,
                           input_kwarg_layouts=into.input_kwarg_layouts,
                           desired_input_kwarg_layouts=into.desired_input_kwarg_layouts,
                           use_local_input=into.use_local_output, output_layouts=out.output_layouts,
                           desired_output_layouts=out.desired_output_layouts, use_local_output=out.use_local_output)
