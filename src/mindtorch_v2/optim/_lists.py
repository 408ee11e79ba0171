"""What optimizers share whose step is one function of lists: parameters, gradients, and each kind of state."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import mindtorch_v2 as torch

from .._backends.cpu.blocks import BLOCK
from .._core.allocation import reserve
from .._core.tensor_base import bump_versions
from .._dispatch.keys import COO_MASK, CPU_MASK, TORCH_DISPATCH_MASK, modes
from .._ops.fused_steps import passes
from .optimizer import COUNTED_ON_HOST, Optimizer, ParamsT, _get_scalar_dtype, _use_grad_for_differentiable

Tensors = list[torch.Tensor]

# Where a step may be recorded into a device graph, and where a step may run as one kernel.
CAPTURABLE_DEVICES = ("cuda", "xpu", "hpu", "privateuseone", "xla")
_WHOLE = {(kind, where) for kind in (torch.float32, torch.float64) for where in ("cpu", "cuda")}
_WHOLE |= {(kind, "cuda") for kind in (torch.float16, torch.bfloat16)} | {(torch.float32, "npu")}
_FUSED_DEVICES = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone")


class ListOptimizer(Optimizer):
    """An optimizer whose step calls `_function` on lists, once for each group.

    The function takes parameters, gradients, the state entries named in `_states`, and by keyword those options of the
    group that it has parameters for. Those in `_optional` exist only with some options. `_added` are options that old
    checkpoints lack.
    """

    _function: ClassVar[Callable[..., None]]
    _states: ClassVar[tuple[str, ...]]
    _optional: ClassVar[tuple[str, ...]] = ()
    _added: ClassVar[dict[str, Any]] = {
        "foreach": None, "maximize": False, "differentiable": False, "capturable": False,
    }  # fmt: skip
    _counters: ClassVar[tuple[str, ...]] = ("step",)
    _sparse_error: ClassVar[str] = "{} does not support sparse gradients"
    _in_blocks: ClassVar[bool] = False  # whether plain parameters are stepped a block at a time
    _elementwise: ClassVar[bool] = True  # whether a step of a piece of a tensor is the piece of a step
    _room: tuple[Any, int] = (None, 0)  # what a step's arrays take, and of how many parameters and states that holds

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if "fused" in defaults:  # the flags may contradict each other; otherwise they change no number
            if defaults["fused"] and defaults["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults["fused"] and defaults["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
            self._step_supports_amp_scaling = bool(defaults["fused"])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._added.items():
                group.setdefault(name, value)
            for entry in filter(None, map(self.state.get, group["params"])):
                for name in self._counters:
                    if name in entry and not isinstance(entry[name], torch.Tensor):
                        # Old checkpoints count in Python numbers.
                        entry[name] = torch.tensor(float(entry[name]), dtype=_get_scalar_dtype())

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        zeros = {name: torch.zeros_like(parameter) for name in self._states if name != "step"}
        return {"step": self._new_step(parameter, group), **zeros}

    @staticmethod
    def _new_step(parameter: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        """A counter, on the host unless the step runs as one kernel."""
        if group.get("capturable") or group.get("fused") and parameter.device.type not in COUNTED_ON_HOST:
            return torch.zeros((), dtype=torch.float32, device=parameter.device)
        return torch.tensor(0.0, dtype=_get_scalar_dtype())

    def _lists(self, group: dict[str, Any]) -> tuple[Tensors, Tensors, list[dict[str, Any]]]:
        """The group's parameters that have a gradient, the gradients, and the states."""
        params, gradients, states = [], [], []
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient._keys & COO_MASK:
                self._take_sparse(parameter, gradient)
            state = self.state[parameter]
            if not state:
                state.update(self._init_state(parameter, group))
            params.append(parameter)
            gradients.append(gradient)
            states.append(state)
        return params, gradients, states

    def _take_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        raise RuntimeError(self._sparse_error.format(type(self).__name__))

    def _options(self, group: dict[str, Any]) -> dict[str, Any]:
        """What the function takes by keyword."""
        names = _parameters(type(self)._function)[2 + len(self._states) :]
        options = {name: group[name] for name in names if name in group}
        if "betas" in group and "beta1" in names:  # groups may have options that are not this optimizer's
            options["beta1"], options["beta2"] = group["betas"]
        if group.get("fused"):
            options |= {name: getattr(self, name, None) for name in ("grad_scale", "found_inf")}
        return options

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step; the closure, if given, computes the loss anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._find_room()
        for group in self.param_groups:
            self._update(group)
        return loss

    def _find_room(self) -> None:
        """Raises, before any parameter is changed, if there is no memory for the arrays that a step makes."""
        seen = sum([len(group["params"]) for group in self.param_groups]), len(self.state)
        if self._room[0] != seen:
            params = [(group, parameter) for group in self.param_groups for parameter in group["params"]]
            passing = max((self._temporaries(parameter) for _, parameter in params), default=0)
            lasting = sum(self._state_arrays(group) * _host_bytes(parameter) for group, parameter in params
                          if parameter not in self.state)
            self._room = seen, passing + lasting
        reserve(self._room[1])

    def _state_arrays(self, group: dict[str, Any]) -> int:
        """How many arrays of a parameter's size are kept for it."""
        return len(self._states)

    def _temporaries(self, parameter: torch.Tensor) -> int:
        """Bytes that a parameter's step takes for a while."""
        size = _host_bytes(parameter)
        if self._in_blocks and parameter.dtype in (torch.float32, torch.float64) and parameter.is_contiguous():
            size = min(size, 2 * BLOCK * parameter.element_size())
        return 4 * size * max(4 // parameter.element_size(), 1)

    def _update(self, group: dict[str, Any]) -> None:
        params, gradients, states = self._lists(group)
        lists = [
            [state[name] for state in states if name in state or name not in self._optional] for name in self._states
        ]
        if group.get("fused") and params:
            check_fused(params[0])
        columns = [params, gradients, *lists]
        if self._elementwise and any([p._keys & TORCH_DISPATCH_MASK for p in params]):
            columns = pieces(columns)
        type(self)._function(*columns, **self._options(group))


def pieces(columns: list[Tensors]) -> list[Tensors]:
    """The pieces that this process has of distributed tensors, if those of each parameter lie alike."""
    from ..distributed.tensor import DTensor

    for row in zip(*[column for column in columns if column], strict=True):
        placed = {tensor._spec.placements for tensor in row if isinstance(tensor, DTensor)}
        if len(placed) > 1 or None in row or any(p.is_partial() for how in placed for p in how):
            return columns
    for tensor in (tensor for column in columns for tensor in column if isinstance(tensor, DTensor)):
        tensor._bump_version()
    return [[t._local_tensor if isinstance(t, DTensor) else t for t in column] for column in columns]


def _host_bytes(parameter: torch.Tensor) -> int:
    return parameter.nbytes if parameter.device.type == "cpu" and not parameter.is_sparse else 0


@functools.cache
def _parameters(function: Callable) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


# checks --------------------------------------------------------------------------------------------------------------

_LABELS = {"lr": "learning rate", "eps": "epsilon value"}


def at_least(limit: float, value: Any) -> Any:
    """Whether an option reaches a limit; one that is no number fails with the words of this order."""
    return limit <= value


def check_options(positive: bool = False, **options: Any) -> None:
    """Raises for options that are negative, or 0 where they must be positive, and for betas outside [0, 1)."""
    limit = 0.0
    for name, value in options.items():
        if name == "lr" and isinstance(value, torch.Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if name == "betas":
            for index in (0, 1):
                if not 0.0 <= value[index] < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {index}: {value[index]}")
        elif not (limit < value if positive else limit <= value):
            raise ValueError(f"Invalid {_LABELS.get(name, f'{name} value')}: {value}")


def check_fused(parameter: torch.Tensor) -> None:
    if not (parameter.is_floating_point() and parameter.device.type in (*_FUSED_DEVICES, "npu")):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"{list(_FUSED_DEVICES)} but {parameter.dtype} and {parameter.device.type}"
        )


def check_call(
    params: Tensors,
    state_steps: Sequence[Any],
    foreach: bool | None,
    differentiable: bool,
    capturable: bool = False,
    lists: str = "params and state_steps",
    devices: tuple[str, ...] = CAPTURABLE_DEVICES,
) -> None:
    """Raises for what no step can be made with; the flags are those of the functions."""
    if not all(isinstance(step, torch.Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if foreach and differentiable:
        raise AssertionError("_foreach ops don't support autograd")
    if capturable and not all(parameter.device.type in devices for parameter in params):
        raise AssertionError(f"If capturable=True, {lists} must be on supported devices: {list(devices)}.")


# pieces of steps -----------------------------------------------------------------------------------------------------


_COUNTS = np.dtype(np.float32), np.dtype(np.float64)  # the types of steps that PyTorch makes


def advance(steps: Tensors) -> None:
    """Counts one step in each tensor; on the host, where nobody looks on, without an operator for each."""
    if modes.masks[0] or any([
            step._keys != CPU_MASK or (array := step._array).__class__ is not np.ndarray or array.ndim
            or array.dtype not in _COUNTS for step in steps]):
        torch._foreach_add_(steps, 1)  # which refuses what 1 cannot be added to
        return
    for step in steps:
        array = step._array
        array[...] = array.item() + 1  # a tenth of what NumPy's add takes
    bump_versions(steps)


def as_number(value: Any, differentiable: bool = False) -> Any:
    """A hyperparameter as a number, unless a differentiable step wants its gradient."""
    if isinstance(value, torch.Tensor) and not (differentiable and value.requires_grad):
        return value.item()
    return value


def decayed(parameter: torch.Tensor, gradient: torch.Tensor, weight_decay: Any, maximize: bool) -> torch.Tensor:
    """The gradient to follow down, with weight decay in it."""
    if maximize:
        gradient = -gradient
    if isinstance(weight_decay, torch.Tensor) and not weight_decay.dim():
        return gradient.addcmul(unshared(parameter), weight_decay)
    return gradient.add(parameter, alpha=weight_decay) if weight_decay != 0 else gradient


def stepping(
    params: Tensors,
    grads: Tensors,
    *states: Tensors,
    state_steps: Tensors,
    weight_decay: Any = 0,
    maximize: bool = False,
    apart: Any = None,
) -> Iterator[tuple[torch.Tensor, ...]]:
    """For each parameter: its numbers, the gradient to follow down, its states, and its counter, one step further.

    Weight decay is in the gradient, or where a rate `apart` is given, has been taken from the parameter.
    """
    for parameter, gradient, *state, step in zip(params, grads, *states, state_steps, strict=True):
        step += 1
        if apart is not None and weight_decay != 0:
            parameter.mul_(1 - apart * weight_decay)
        gradient = decayed(parameter, gradient, weight_decay if apart is None else 0, maximize)
        yield *real_views(parameter, gradient, *state), step


def unshared(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that a differentiable step may remember, though a later step writes to this one."""
    return tensor.clone() if tensor.requires_grad and torch.is_grad_enabled() else tensor


def real_views(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Complex tensors with real and imaginary parts as separate numbers, others as they are."""
    return tuple(torch.view_as_real(t) if t.is_complex() else t for t in tensors)


def descend(parameter: torch.Tensor, direction: torch.Tensor, rate: Any) -> None:
    """parameter -= rate * direction; a rate that is a tensor keeps its gradient."""
    if isinstance(rate, torch.Tensor):
        parameter.addcmul_(direction, rate, value=-1)
    else:
        parameter.add_(direction, alpha=-rate)


def descend_quotient(parameter: torch.Tensor, above: torch.Tensor, below: torch.Tensor, rate: Any) -> None:
    """parameter -= rate * above / below."""
    above, below = unshared(above), unshared(below)
    if isinstance(rate, torch.Tensor):
        parameter.addcmul_(above / below, rate, value=-1)
    else:
        parameter.addcdiv_(above, below, value=-rate)


def update_moments(
    mean: torch.Tensor, square_mean: torch.Tensor, gradient: torch.Tensor, beta1: Any, beta2: Any
) -> None:
    """Moves the running means of gradients and of their squares."""
    mean.lerp_(gradient, 1 - beta1)
    if isinstance(beta2, torch.Tensor) and beta2.requires_grad:
        square_mean.lerp_(gradient * gradient, 1 - beta2)
    elif isinstance(beta2, torch.Tensor):
        square_mean.mul_(beta2).add_((1 - beta2) * gradient * gradient)
    else:
        square_mean.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)


def runs_whole(lists: Sequence[Tensors], differentiable: bool = False, steps: Sequence[torch.Tensor] = ()) -> bool:
    """Whether a step may run as one kernel with the numbers of single operators: all of `_WHOLE`, states as parameters.

    Counts of steps may have been loaded to another device than the parameters'.
    """
    if differentiable or steps and steps[0].device.type not in ("cpu", lists[0][0].device.type):
        return False
    first = lists[0][0]
    kind, place = first._array.dtype, first._device
    alike = True
    for tensors in lists:
        for tensor in tensors:
            if tensor._keys & TORCH_DISPATCH_MASK and tensors is lists[0]:  # their class knows single operators
                return False
            if tensor._array.dtype is not kind or tensor._device is not place:
                alike = False
    if alike:
        return (first.dtype, place.type) in _WHOLE
    kinds = {(tensor.dtype, tensor.device.type) for tensors in lists for tensor in tensors}
    if len(kinds) > 1:
        rows = zip(*(tensors for tensors in lists if tensors), strict=True)
        return kinds <= _WHOLE and all(len({tensor.dtype for tensor in row}) == 1 for row in rows)
    return kinds <= _WHOLE


class rounding:
    """Context that says whether fused steps round half types wherever single operators would."""

    def __init__(self, between: bool) -> None:
        self.between = between

    def __enter__(self) -> None:
        passes.rounded = self.between

    def __exit__(self, *exc: object) -> None:
        passes.rounded = False
