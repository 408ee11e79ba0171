"""State dicts of models and optimizers by the names that the plain model has, whatever it is wrapped and cut into."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import distributed as dist

from ...nn.modules.module import _IncompatibleKeys
from ...nn.parallel import DistributedDataParallel
from ..tensor import DTensor, distribute_tensor
from ._nested_dict import flatten_state_dict, unflatten_state_dict

__all__ = ["FQNS_T", "OptimizerStateType", "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict",
           "get_state_dict", "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict"]

FQNS_T = set[str]
OptimizerStateType = dict[str, Any]
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


@dataclass
class StateDictOptions:
    """How state dicts are given and taken.

    `full_state_dict`: tensors are whole, not in pieces. `cpu_offload`: they are on the CPU; whole ones on rank 0 only,
    and the others get an empty dict. `broadcast_from_rank0`: only rank 0 has the dict that is to be loaded.
    `ignore_frozen_params`: without parameters that need no gradient. `flatten_optimizer_state_dict`: one level of
    `state.<parameter>.<name>` and `param_groups.<parameter>.<name>`. `strict`: as of `load_state_dict`.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _plain_name(model: Any, key: str) -> str:
    """A name without the parts that wrappers add."""
    module, parts = model, []
    for part in key.split("."):
        wraps = part in _WRAPPERS or (part == "module" and isinstance(module, DistributedDataParallel))
        parts += [] if wraps else [part]
        module = getattr(module, part, None)
    return ".".join(parts)


@dataclass
class _Names:
    """A model's parameters by plain name; one that is used twice has several."""

    of: dict[Any, list[str]] = field(default_factory=dict)

    @staticmethod
    def from_model(model: Any) -> "_Names":
        found = _Names()
        for key, parameter in model.named_parameters(remove_duplicate=False):
            names = found.of.setdefault(parameter, [])
            name = _plain_name(model, key)
            if name not in names:
                names.append(name)
        return found

    def used(self, parameter: Any, in_use: Callable[[str], bool]) -> list[str]:
        """The names of a parameter under which a state dict has it; its only name in any case."""
        names = self.of[parameter]
        return names if len(names) == 1 else [name for name in names if in_use(name)]


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _optimizers(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, torch.optim.Optimizer) else tuple(given)


def _mapped(value: Any, of_tensor: Callable[[Any], Any]) -> Any:
    """The same tree with other tensors."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, Mapping):
        return {key: _mapped(each, of_tensor) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, of_tensor) for each in value)
    return value


def _delivered(state_dict: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """A state dict with whole tensors or on the CPU, as the options want."""
    if options.full_state_dict:
        def whole(tensor: Any) -> Any:  # all take part, also where nothing is kept
            made = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            return made.cpu() if options.cpu_offload else made

        made = _mapped(state_dict, whole)
        return {} if options.cpu_offload and dist.is_initialized() and dist.get_rank() != 0 else made
    return _mapped(state_dict, lambda tensor: tensor.cpu()) if options.cpu_offload else state_dict


@torch.no_grad()
def get_model_state_dict(model: Any, *, submodules: set[Any] | None = None,
                         options: StateDictOptions | None = None) -> dict[str, Any]:
    """A model's state by plain names."""
    options = _checked(options)
    state = {_plain_name(model, key): value for key, value in model.state_dict().items()}
    if submodules:
        state = dict(_below(model, state, submodules, options.keep_submodule_prefixes))
    if options.ignore_frozen_params:
        for key, parameter in model.named_parameters():
            if not parameter.requires_grad:
                state.pop(_plain_name(model, key), None)
    if not state and options.strict and not submodules and not options.ignore_frozen_params:
        raise RuntimeError("The option indicates that model state_dict is required to save or load, but model "
                           "state_dict is empty."
                           f"rank = dist.get_rank()={dist.get_rank() if dist.is_initialized() else 0}.")
    return _delivered(state, options)


def _below(model: Any, state: dict[str, Any], submodules: set[Any], keep: bool) -> Iterator[tuple[str, Any]]:
    warnings.warn("Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This "
                  "feature can be achieved by manually filtering out the state_dict returned from get_state_dict.",
                  FutureWarning, stacklevel=3)
    prefixes = [f"{_plain_name(model, name)}." for name, module in model.named_modules() if module in submodules]
    for name, value in state.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                yield (name if keep else name[len(prefix):]), value


def _initialise(optimizer: Any) -> None:
    """Makes an optimizer's state by a step that changes nothing, so that there are tensors to load into."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if optimizer.state or any(parameter.grad is not None for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = torch.tensor(0.0) if isinstance(rate, torch.Tensor) else 0.0
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def _flat(state_dict: OptimizerStateType) -> dict[str, Any]:
    """An optimizer's state in one level, a parameter's group beside its state."""
    made: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                add(f"{prefix}.{key}", each)
        elif isinstance(value, torch.Tensor | int | float):
            made[prefix] = value
        else:
            raise NotImplementedError("Flattening optimizer state_dict only supports tensor, int, float, dict states "
                                      f"now. Type is {type(value)}.")

    for name, state in state_dict["state"].items():
        add(f"state.{name}", state)
    for group in state_dict["param_groups"]:
        for name in group["params"]:
            made.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return made


def _from_flat(optimizer: Any, state_dict: dict[str, Any], names: _Names) -> OptimizerStateType:
    """An optimizer's own part of a flat state dict."""
    state: dict[str, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        settings = [key for key in group if key != "params"]
        used = []
        for parameter in group["params"]:
            for name in names.used(parameter, lambda name: f"param_groups.{name}.{settings[0]}" in state_dict):  # noqa: B023
                used.append(name)
                if parameter.requires_grad:
                    state[name] = {key: _from_flat_value(f"state.{name}.{key}", state_dict)
                                   for key in optimizer.state[parameter]}
        groups.append({"params": used, **{key: state_dict[f"param_groups.{used[0]}.{key}"] for key in settings}})
    return {"state": state, "param_groups": groups}


def _from_flat_value(key: str, state_dict: dict[str, Any]) -> Any:
    """A value, or the dict of what lies below its name."""
    if key in state_dict:
        return state_dict[key]
    parts = {name: tuple(name[len(key) + 1:].split(".")) for name in state_dict if name.startswith(f"{key}.")}
    return unflatten_state_dict({name: state_dict[name] for name in parts}, parts)  # type: ignore[arg-type]


@torch.no_grad()
def _optimizer_state(model: Any, optimizers: Iterable[Any], options: StateDictOptions) -> OptimizerStateType:
    """The joined state of optimizers by names, in pieces as they are."""
    firsts = {parameter: _plain_name(model, key) for key, parameter in model.named_parameters()}
    made: OptimizerStateType = {"state": {}, "param_groups": []}
    for optimizer in optimizers:
        _initialise(optimizer)
        order = list(itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups))
        own = optimizer.state_dict()
        made["state"].update({firsts[order[number]]: state for number, state in own["state"].items()})
        made["param_groups"] += [{**group, "params": [firsts[order[number]] for number in group["params"]]}
                                 for group in own["param_groups"]]
    return _flat(made) if options.flatten_optimizer_state_dict else made


def get_optimizer_state_dict(model: Any, optimizers: Any, *, submodules: set[Any] | None = None,
                             options: StateDictOptions | None = None) -> OptimizerStateType:
    """The state of a model's optimizers, by the names of parameters."""
    options = _checked(options)
    with torch.no_grad():
        return _delivered(_optimizer_state(model, _optimizers(optimizers), options), options)


def get_state_dict(model: Any, optimizers: Any, *, submodules: set[Any] | None = None,
                   options: StateDictOptions | None = None) -> tuple[dict[str, Any], OptimizerStateType]:
    """(the model's state, its optimizers' state)."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, options=options))


def _cut(whole: Any, like: Any) -> Any:
    """A whole tensor, placed as another is."""
    if not isinstance(like, DTensor):
        return whole
    whole = whole.detach().to(like.device_mesh.device_type)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _in_pieces(state_dict: dict[str, Any], local: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """A flat state dict with whole tensors, cut as those of this process; of rank 0's if only that has one."""
    if not options.broadcast_from_rank0:
        return {name: _cut(value, local[name]) if isinstance(value, torch.Tensor) and name in local else value
                for name, value in state_dict.items()}
    kinds = [{name: (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) and value.ndim else value
              for name, value in state_dict.items()} if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(kinds, src=0)
    made = {}
    for name, kind in kinds[0].items():  # type: ignore[union-attr]
        like = local.get(name)
        if not (isinstance(kind, tuple) and len(kind) == 2 and isinstance(kind[1], torch.dtype)):
            made[name] = kind
            continue
        device = like.device_mesh.device_type if isinstance(like, DTensor) else getattr(like, "device", "cpu")
        device = "cpu" if str(device) == "meta" else device
        whole = (state_dict[name].detach().to(device).contiguous() if dist.get_rank() == 0
                 else torch.empty(kind[0], dtype=kind[1], device=device))
        dist.broadcast(whole, src=0)
        if like is not None:
            made[name] = _cut(whole, like)
    return made


@torch.no_grad()
def set_model_state_dict(model: Any, model_state_dict: dict[str, Any], *,
                         options: StateDictOptions | None = None) -> _IncompatibleKeys:
    """Loads a state by plain names; gives what is missing and what was not expected."""
    options = _checked(options)
    if not model_state_dict and not options.broadcast_from_rank0:
        return _IncompatibleKeys({}, {})  # type: ignore[arg-type]
    values = dict(itertools.chain(model.named_parameters(remove_duplicate=False),
                                  model.named_buffers(remove_duplicate=False)))
    keys = {_plain_name(model, key): key for key in values}
    state = {keys.get(name, name): value for name, value in model_state_dict.items()}
    if options.strict and not options.broadcast_from_rank0:
        missing = [name for name, key in keys.items() if name != key and key in model.state_dict() and key not in state]
        if missing:
            raise RuntimeError(f"Missing key: {missing[0]}.")
    assign = False
    if options.full_state_dict:
        state = _in_pieces(state, values, options)
        assign = any(value.device.type == "meta" for value in values.values())
    return model.load_state_dict(state, strict=options.strict, assign=assign)


def _own_part(optimizer: Any, state_dict: OptimizerStateType, names: _Names, strict: bool) -> OptimizerStateType:
    """What an optimizer needs of the joined state of several."""
    if all(isinstance(key, int) for key in state_dict["state"]):
        return state_dict
    homes = {name: group for group in state_dict["param_groups"] for name in group["params"]}
    state: dict[str, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        used: list[str] = []
        settings: dict[str, Any] = {}
        for parameter in group["params"]:
            for name in names.used(parameter, homes.__contains__):
                used.append(name)
                settings = homes.get(name, settings)
                if not parameter.requires_grad:
                    continue
                if name in state_dict["state"]:
                    state[name] = state_dict["state"][name]
                elif strict:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires "
                        "gradients but has no saved optimizer state. To load anyway, use "
                        "StateDictOptions(strict=False).")
        if not group["params"]:
            settings = _settings_of_nothing(state_dict["param_groups"], len(optimizer.param_groups))
        groups.append({**settings, "params": used})
    return {"state": state, "param_groups": groups}


def _settings_of_nothing(groups: list[dict[str, Any]], expected: int) -> dict[str, Any]:
    """The saved group that has no parameters."""
    empty = [group for group in groups if not group["params"]]
    if len(empty) != 1:
        raise ValueError("There are param groups that have zero parameters. In such a case, DSD only support exactly "
                         "one param group with zero parameters.But the loaded state_dict has zero or more than one "
                         "param groups that have zero parameters.")
    if len(groups) != expected:
        raise ValueError("When there is a parameter group that has zero parameters, multiple optimizers are not "
                         "supported.")
    return empty[0]


@torch.no_grad()
def set_optimizer_state_dict(model: Any, optimizers: Any, optim_state_dict: OptimizerStateType, *,
                             options: StateDictOptions | None = None) -> None:
    """Loads the state of optimizers, by the names of parameters."""
    options = _checked(options)
    if not optim_state_dict and not options.broadcast_from_rank0:
        raise RuntimeError("The option indicates that model state_dict is required to save, or load but optim "
                           f"state_dict is empty. {optim_state_dict}")
    names = _Names.from_model(model)
    for optimizer in _optimizers(optimizers):
        _initialise(optimizer)
        part: OptimizerStateType = {}
        if optim_state_dict:
            part = (_own_part(optimizer, optim_state_dict, names, options.strict) if "state" in optim_state_dict
                    else _from_flat(optimizer, optim_state_dict, names))
        if options.full_state_dict:
            part = _part_in_pieces(part, _optimizer_state(model, (optimizer,), replace(
                options, flatten_optimizer_state_dict=False)), options)
        optimizer.load_state_dict(part)


def _part_in_pieces(part: OptimizerStateType, local: OptimizerStateType,
                    options: StateDictOptions) -> OptimizerStateType:
    """An optimizer's state of whole tensors, cut as its own is."""
    own, paths = flatten_state_dict(local)
    flat, given = flatten_state_dict(part)
    cut = _in_pieces(flat, own, options)
    made: OptimizerStateType = unflatten_state_dict({**own, **cut}, {**given, **paths})
    for group in made["param_groups"]:
        group.setdefault("params", [])
    return made


def set_state_dict(model: Any, optimizers: Any, *, model_state_dict: dict[str, Any],
                   optim_state_dict: OptimizerStateType, options: StateDictOptions | None = None) -> _IncompatibleKeys:
    """Loads the states of a model and of its optimizers."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
