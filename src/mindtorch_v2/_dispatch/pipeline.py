"""Deferred execution: `with torch.pipeline() as pipe:` records calls and runs them at a flush.

Each recorded call answers at once with tensors whose shape and type its Meta kernel inferred; they are `_pending` until
the flush puts the real memory and history into them. Writes, transfers and calls whose result depends on data flush
first and run at once.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.node import Node
from .._backends.meta import MetaArray
from .._core.device import META, device
from .._core.tensor import Tensor, fields_of, flush_pending
from .callers import call_bound
from .keys import (
    AUTOCAST_MASK,
    BACKEND_MASK,
    META_MASK,
    PIPELINE_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    WITH_GRAD,
    DispatchKey,
    changed_modes,
    modes,
)
from .levels import level_of
from .registry import Operator, PerOperator, registry

# Errors that keep their type when the pipeline adds where the call was recorded.
_REBUILT = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)
_PACKAGE = __name__.partition(".")[0]


class _NotYet(Node):
    """The history of a tensor that was not computed yet."""


class Record:
    """One deferred call and the tensors that wait for it."""

    def __init__(self, pipe: "Pipeline", operator: Operator, args: tuple, results: list[Tensor], where: str) -> None:
        self.pipe, self.operator, self.args, self.results, self.where = pipe, operator, args, results, where
        self.grad_enabled = modes.grad_enabled
        self.error: BaseException | None = None


class Pipeline:
    """The queue of one `with torch.pipeline()` block."""

    def __init__(self) -> None:
        self.queue: list[Record] = []

    def __enter__(self) -> "Pipeline":
        _flush_current()  # an outer pipeline's tensors are not ours to compute
        self._previous = (modes.__dict__.get("pipeline"), modes.include)
        modes.__dict__["pipeline"] = self
        modes.update(include=modes.include | PIPELINE_MASK)
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        outer, include = self._previous
        modes.update(include=include)
        try:
            self.flush()
        finally:
            modes.__dict__["pipeline"] = outer

    def __len__(self) -> int:
        return len(self.queue)

    def flush(self) -> None:
        """Runs all recorded calls. An error empties the queue and stays with the results that now never come."""
        queue, self.queue = self.queue, []
        for i, record in enumerate(queue):
            try:
                include = modes.include & ~(PIPELINE_MASK | AUTOCAST_MASK)  # casts were recorded
                with changed_modes(include=include, grad_enabled=record.grad_enabled):
                    result = call_bound(record.operator, record.args)
            except Exception as error:
                kind = type(error) if type(error) in _REBUILT else RuntimeError
                failure = kind(f"{record.operator.name}, recorded at {record.where}, failed when the pipeline "
                                       f"was flushed: {error}")
                for lost in queue[i:]:
                    lost.error = failure
                raise failure from error
            _fill(record.results, result if isinstance(result, (tuple, list)) else (result,))


def _fill(pending: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    for tensor, result in zip(pending, results, strict=True):
        hooks, grad = tensor._hooks, tensor._grad
        fields_of(tensor).clear()
        fields_of(tensor).update(fields_of(result))
        if hooks is not None and tensor._edge is not None:
            for hook in hooks.values():
                tensor.register_hook(hook)
        if grad is not None:
            tensor._grad = grad


def _where() -> str:
    """The line of the caller's program."""
    frame = sys._getframe(2)
    while frame is not None and (frame.f_globals.get("__name__", "") or "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown place"


def _twin(tensor: Tensor) -> Tensor:
    """A Meta tensor of the same geometry."""
    made = object.__new__(Tensor)
    made._array = MetaArray(tensor._array.shape, tensor._array.dtype, tensor._array.strides)
    made._keys, made._device = META_MASK, META
    return made


def _inferred(operator: Operator, args: tuple) -> Any:
    """What the Meta kernel says of a call; None if it cannot, or if an argument itself comes back."""
    twins: dict[int, Tensor] = {}
    originals: dict[int, Tensor] = {}

    def to_meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            twin = twins.get(id(value))
            if twin is None:
                twin = twins[id(value)] = _twin(value)
                originals[id(twin)] = value
            return twin
        return tuple(map(to_meta, value)) if value.__class__ in (tuple, list) else value

    meta_args = tuple(map(to_meta, args))
    try:
        with changed_modes(include=0, grad_enabled=False):
            result = operator.lookup(META_MASK)(*meta_args)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # the real call decides whether that was an error or only depends on data
    several = isinstance(result, (tuple, list))
    made = []
    for value in result if several else (result,):
        if not isinstance(value, Tensor):
            return None
        made.append(originals.get(id(value), value))
    if any(m is o for m in made for o in originals.values()):
        return None
    return type(result)(*made) if hasattr(result, "_fields") else type(result)(made) if several else made[0]


def _pipeline_kernel(operator: Operator) -> Callable:
    schema = operator.schema
    writes = any(a.writes for a in schema.arguments)

    def kernel(*args: Any) -> Any:
        tensors = [t for a in args for t in (a if a.__class__ in (tuple, list) else (a,)) if isinstance(t, Tensor)]
        for tensor in tensors:
            if tensor._record is not None and tensor._record.error is not None:
                raise RuntimeError("this tensor was never computed: "
                                   f"{tensor._record.error}") from tensor._record.error
        pipe = modes.__dict__.get("pipeline")
        active = pipe is not None and modes.include & PIPELINE_MASK
        defers = (active and tensors and not writes and not level_of(args)
                  and not any(t._keys & SPARSE_MASK for t in tensors)
                  and len({t._device for t in tensors} | set(_devices(args))) == 1)
        if defers and modes.include & AUTOCAST_MASK:
            given = registry.autocast(operator, args, tensors[0]._device.type)
            if given is not None:
                with changed_modes(include=modes.include & ~AUTOCAST_MASK):
                    return call_bound(operator, given)
            defers = not operator.is_composite  # whose parts may be cast
        result = _inferred(operator, args) if defers else None
        if result is None:
            for owner in {t._record.pipe for t in tensors if t._record is not None} | ({pipe} if pipe else set()):
                owner.flush()
            with changed_modes(include=modes.include & ~PIPELINE_MASK):
                return call_bound(operator, args)
        assert pipe is not None
        where = tensors[0]._device
        backend = tensors[0]._keys & BACKEND_MASK
        needs_grad = modes.grad_enabled and any(t._keys & REQUIRES_GRAD for t in tensors) and _differentiable(operator)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        record = Record(pipe, operator, args, results, _where())
        for tensor in results:
            tensor._device, tensor._record = where, record
            tensor._keys = backend | PIPELINE_MASK
            if needs_grad and tensor.dtype.category >= 2:
                tensor._keys |= WITH_GRAD[backend]
                tensor._edge = (_NotYet(), 0)
        pipe.queue.append(record)
        return result

    return kernel


def _devices(args: tuple) -> list[device]:
    return [a for a in args if a.__class__ is device]


def _differentiable(operator: Operator) -> bool:
    declaration = operator.declaration
    return declaration is None or declaration.derivative is not None or operator.is_composite


def _flush_current() -> None:
    pipe = modes.__dict__.get("pipeline")
    if pipe is not None:
        pipe.flush()


def pipeline() -> Pipeline:
    """A context in which operations are recorded and run together at a flush."""
    return Pipeline()


pipeline_context = pipeline  # the name in this module; `pipeline` is the public one

flush_pending[0] = _flush_current
registry.register_for_all(DispatchKey.Pipeline, PerOperator(_pipeline_kernel))
