"""Activation checkpointing: what a function saves for backward is not kept but computed again when wanted."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import mindtorch_v2 as torch

from .._dispatch.keys import modes
from ..amp.autocast_mode import settings
from ..autograd import Function
from ..autograd.graph import saved_tensors_hooks

__all__ = ["CheckpointError", "CheckpointFunction", "check_backward_validity", "checkpoint", "checkpoint_sequential",
           "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
           "set_checkpoint_early_stop", "set_device_states"]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not repeat the first."""


class _StopRecomputation(Exception):
    """Everything wanted has been computed again."""


_early_stop = [True]


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


class _Recomputation:
    """Values saved by one run of a checkpointed function, computed again at the first one wanted."""

    def __init__(self, run: Callable[[], Any], surroundings: _Surroundings, context: Any) -> None:
        self.run, self.surroundings, self.context = run, surroundings, context
        self.descriptions: list[tuple] = []  # shape, type and device of each value saved in the first run
        self.values: dict[int, Any] | None = None

    def pack(self, tensor: Any) -> int:
        self.descriptions.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return len(self.descriptions) - 1

    def unpack(self, place: int) -> Any:
        if self.values is None or place not in self.values:
            self._recompute()
        assert self.values is not None
        return self.values.pop(place)

    def _recompute(self) -> None:
        values: dict[int, Any] = {}
        expected = len(self.descriptions)

        def keep(tensor: Any) -> Any:
            place = len(values)
            if place >= expected:
                raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the "
                                      "original forward and recomputation.\nNumber of tensors saved during forward: "
                                      f"{expected}\nNumber of tensors saved during recomputation: more than that.")
            values[place] = tensor.detach()
            if _early_stop[0] and place + 1 == expected:
                raise _StopRecomputation
            return tensor

        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(_StopRecomputation))
            stack.enter_context(saved_tensors_hooks(keep, lambda tensor: tensor))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(self.surroundings.restored())
            stack.enter_context(self.context)
            self.run()
        if len(values) != expected:
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original "
                                  f"forward and recomputation.\nNumber of tensors saved during forward: {expected}\n"
                                  f"Number of tensors saved during recomputation: {len(values)}")
        self._check(values)
        self.values = values

    def _check(self, values: dict[int, Any]) -> None:
        lines = []
        for place, (shape, kind, device) in enumerate(self.descriptions):
            tensor = values[place]
            if (tuple(tensor.shape), tensor.dtype, tensor.device) != (shape, kind, device):
                lines.append(f"tensor at position {place}:\nsaved metadata: {{'shape': {list(shape)}, 'dtype': {kind}, "
                             f"'device': {device}}}\nrecomputed metadata: {{'shape': {list(tensor.shape)}, 'dtype': "
                             f"{tensor.dtype}, 'device': {tensor.device}}}")
        if lines:
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different "
                                  "metadata than during the forward pass.\n" + "\n".join(lines))


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
            "use_reentrant=True.",
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
    forward_context, recompute_context = context_fn()
    if not torch.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    frame = _Recomputation(lambda: function(*args, **kwargs), _Surroundings(preserve, args), recompute_context)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Runs modules one after another, in `segments` parts of which all but the last are checkpointed."""
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
