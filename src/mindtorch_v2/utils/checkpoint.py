"""Activation checkpointing: what a function saves for backward is not kept but computed again when wanted."""

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import mindtorch_v2 as torch

from .._autograd.node import Node
from .._dispatch.keys import modes
from ..amp.autocast_mode import settings
from ..autograd import Function
from ..autograd.graph import saved_tensors_hooks
from ._selective_checkpoint import (  # noqa: F401 - two of them by these names only
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
    create_selective_checkpoint_contexts,
)

__all__ = ["CheckpointError", "CheckpointFunction", "CheckpointPolicy", "GraphExecGroup", "SelectiveCheckpointContext",
           "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
           "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
           "set_checkpoint_early_stop", "set_device_states"]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not repeat the first."""


class _StopRecomputation(Exception):
    """Everything wanted has been computed again."""


_early_stop: list[bool | None] = [None]  # what `set_checkpoint_early_stop` says, if anything


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether a second run ends at the last value it is run for."""
    before, _early_stop[0] = _early_stop[0], enable
    try:
        yield
    finally:
        _early_stop[0] = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    yield


def noop_context_fn() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple) -> tuple:
    """The inputs cut off from their history, asking for grad where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple(value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
                 for value in inputs)


def check_backward_validity(inputs: Any) -> None:
    if not any(value.requires_grad for value in inputs if isinstance(value, torch.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Devices other than the CPU that the arguments are on, with the states of their generators."""
    places = {a.device for a in args if isinstance(a, torch.Tensor)}
    devices = sorted((place for place in places if place.type not in ("cpu", "meta")), key=str)
    return [d.index or 0 for d in devices], [getattr(torch, d.type).get_rng_state(d) for d in devices]


def set_device_states(devices: list[int], states: list[Any], *, device_type: str | None = None) -> None:
    for index, state in zip(devices, states, strict=True):
        getattr(torch, device_type or "cuda").set_rng_state(state, index)


class _Surroundings:
    """Generators and autocast settings of the first run, put back for the second."""

    def __init__(self, preserve_rng_state: bool, args: Any) -> None:
        self.autocast = settings()
        self.state = torch.get_rng_state() if preserve_rng_state else None
        self.devices = get_device_states(*args) if preserve_rng_state else ([], [])
        kinds = {a.device.type for a in args if isinstance(a, torch.Tensor)} - {"cpu", "meta"}
        self.device_type = kinds.pop() if kinds else "cuda"

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for context in self.autocast:
                stack.enter_context(context)
            if self.state is not None:
                stack.enter_context(torch.random.fork_rng())
                torch.set_rng_state(self.state)
                set_device_states(*self.devices, device_type=self.device_type)
            yield


class CheckpointFunction(Function):
    """The reentrant form: the function runs without recording, and again, recorded, inside backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, _Surroundings(preserve_rng_state, args)
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
        ctx.others = [None if i in ctx.places else value for i, value in enumerate(args)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if modes.__dict__["backward_pass"].needed is not None:  # a pass that goes to some inputs only
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing "
                "an `inputs` parameter to .backward(). To resolve this error, you can either set "
                "use_reentrant=False, or call .backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.restored(), torch.enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        wanted = [(out, grad) for out, grad in zip(outputs, grads, strict=True)
                  if isinstance(out, torch.Tensor) and out.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([out for out, _ in wanted], [grad for _, grad in wanted])
        return None, None, *[value.grad if isinstance(value, torch.Tensor) else None for value in detached]


class _Place:
    """Stands in a node for a tensor that is computed again; `recomputed` has it for each backward pass, once."""

    __slots__ = ("__weakref__", "recomputed")

    def __init__(self) -> None:
        self.recomputed: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class _NoPass:
    """Stands for a backward pass where a saved tensor is looked at outside of one."""


class GraphExecGroup:
    """Inside, several backward passes count as one: what the first computes again, the others use."""

    current: "GraphExecGroup | None" = None

    def __enter__(self) -> "GraphExecGroup":
        if GraphExecGroup.current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested.")
        GraphExecGroup.current = self
        return self

    def __exit__(self, *error: object) -> None:
        GraphExecGroup.current = None


_MORE_DETAIL = """
Tip: pass `debug=True` to `torch.utils.checkpoint.checkpoint(...)`, or use
`with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):`, for a more detailed message.
"""


def _description(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


# What is compared of a tensor saved in both runs, by the name of the check.
_DETERMINISM_CHECKS: dict[str, Callable] = {"default": _description, "none": lambda tensor: None}


class _Recomputation:
    """Values saved by one run of a checkpointed function, computed again at the first one wanted in a pass."""

    def __init__(self, run: Callable[..., Any], args: tuple, early_stop: bool, description: Callable) -> None:
        self.run, self.early_stop, self.description = run, early_stop, description
        self.tensors = [i for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
        # Kept as a node keeps them: watched for writes, and packed by the checkpoint around this one.
        self.saved = Node()
        self.saved.save(*[args[i] for i in self.tensors])
        self.args = tuple(None if i in self.tensors else value for i, value in enumerate(args))
        self.places: list[weakref.ref[_Place]] = []
        self.descriptions: list[Any] = []
        self.passes: weakref.WeakSet[Any] = weakref.WeakSet()
        self.completed, self.compares = False, True

    def pack(self, tensor: Any) -> _Place:
        place = _Place()
        self.places.append(weakref.ref(place))
        self.descriptions.append(self.description(tensor))
        return place

    def unpack(self, place: _Place) -> Any:
        current = GraphExecGroup.current or modes.__dict__.get("backward_pass") or _NoPass()
        if current not in self.passes:
            self._recompute(current)
            self.passes.add(current)
            self._check(current)
        value = place.recomputed[current]
        if value is None and current is GraphExecGroup.current:
            raise RuntimeError("Performing two backward calls that overlap (i.e. require the same saved activation in "
                               "order to compute gradients) is not allowed while under the torch.utils.checkpoint."
                               "GraphExecGroup context.")
        if value is None:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you "
                "are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an "
                "issue with details on your use case.")
        place.recomputed[current] = None
        return value

    def _recompute(self, current: Any) -> None:
        self.count = 0

        def keep(tensor: Any) -> Any:
            tensor = tensor.detach() if tensor.requires_grad else tensor
            number = self.count
            self.count += 1
            if number >= len(self.places):
                if not self.completed:  # a backward pass inside the function
                    self.compares = False
                    return tensor
                raise CheckpointError("torch.utils.checkpoint: trying to save more tensors during recomputation than "
                                      f"during the original forward pass.\n{_MORE_DETAIL}")
            place = self.places[number]()
            if place is not None:  # else nobody will ask
                place.recomputed[current] = tensor
            if self.early_stop and self.count == len(self.places):
                raise _StopRecomputation
            return tensor

        args = list(self.args)
        for i, place in enumerate(self.tensors):
            args[place] = self.saved.unpack(i)
        with (
            contextlib.suppress(_StopRecomputation),
            saved_tensors_hooks(keep, lambda tensor: tensor),
            torch.enable_grad(),
        ):
            self.run(*args)

    def _check(self, current: Any) -> None:
        if not self.compares:
            return
        if self.count != len(self.places):
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original "
                                  f"forward and recomputation.\nNumber of tensors saved during forward: "
                                  f"{len(self.places)}\nNumber of tensors saved during recomputation: {self.count}.\n"
                                  f"{_MORE_DETAIL}")
        lines = []
        for number, (reference, saved) in enumerate(zip(self.places, self.descriptions, strict=True)):
            place = reference()
            again = saved if place is None else self.description(place.recomputed[current])
            if again != saved:
                lines.append(f"tensor at position {number}:\nsaved metadata: {saved}\nrecomputed metadata: {again}\n")
        if lines:
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different "
                                  f"metadata than during the forward pass.\n{''.join(lines)}.\n{_MORE_DETAIL}")


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, keeping none of what it saves for backward: backward runs it a second time."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in "
            "PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception. use_reentrant=False "
            "is recommended, but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True. Refer to docs for more details on the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs and use_reentrant:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant:
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    surroundings = _Surroundings(preserve, args)

    def again(*args: Any) -> None:
        with surroundings.restored(), recompute_context:
            function(*args, **kwargs)

    stops = early_stop if _early_stop[0] is None else _early_stop[0]
    frame = _Recomputation(again, args, stops, _DETERMINISM_CHECKS[determinism_check])
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
        frame.completed = True
    if not frame.completed:
        raise RuntimeError("torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception "
                           "raised during the checkpointed forward. This is not supported because checkpoint cannot "
                           "return a value for a failed forward.")
    return result


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Runs modules one after another, in `segments` parts of which all but the last are checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In "
            "version 2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable:
        def forward(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return forward

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(size * (segments - 1), len(steps))(input)
