"""Random operators inside vmap: an error, different numbers for each sample, or the same for all."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .._core.tensor import Tensor
from .._dispatch.keys import DispatchKey, changed_modes
from .._dispatch.levels import level_of, open_levels
from .._dispatch.registry import Around, Operator, registry
from .._ops._declare.batch import Call, Draws, Result, draws, elementwise, one_by_one
from ..random import get_rng_state, set_rng_state
from .batching import BatchLevel, innermost_batch_level
from .grad_level import finished


@contextlib.contextmanager
def _below(level: BatchLevel) -> Iterator[None]:
    """Outside the level, where an outer vmap has its say."""
    stack = open_levels()
    at = stack.index(level)
    inner = stack[at:]
    del stack[at:]
    try:
        with changed_modes(include=level._include):
            yield
    finally:
        stack.extend(inner)


def _kernel(operator: Operator, below: Callable, mask: int) -> Callable:
    declared = getattr(operator.declaration, "batch", None)
    own = declared if isinstance(declared, Draws) else Draws()

    def kernel(*args: Any) -> Any:
        level, top = innermost_batch_level(), level_of(args)
        if level is None or (top is not None and top.serial > level.serial):
            return below(*args)
        if level.randomness == "error":
            raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the "
                               "'same' or 'different' randomness flags on vmap or perform the randomness operation out "
                               "of vmap")
        call = Call(level, operator, args)
        with _below(level):
            result, batched = _same(call, own) if level.randomness == "same" else _different(call, own)
        return finished(level, operator, args, result, batched)

    return kernel


def _different(call: Call, own: Draws) -> Result:
    schema = call.operator.schema
    tensors = [i for i, v in enumerate(call.values) if isinstance(v, Tensor)]
    if call.writes:
        if not call.batched[0]:
            raise RuntimeError("vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
                               "appear like same randomness. If this is necessary for your usage, please file an issue "
                               "with functorch.")
        return elementwise(call)
    if not tensors and "size" in schema.index:
        values = list(call.values)
        values[schema.index["size"]] = (call.size, *values[schema.index["size"]])
        return call.run(*values), True
    for i in tensors:
        call.values[i], call.batched[i] = call.full(i), True
    return ((own.different or elementwise) if tensors else one_by_one)(call)


def _same(call: Call, own: Draws) -> Result:
    """One draw for all samples."""
    if not call.any_batched():
        return call.run(*call.values), False
    if call.writes and sum(map(bool, call.batched)) == 1:
        first = call.sample(0)
        drawn = call.run(first[0].clone(), *first[1:])
        return call.values[0].copy_(drawn.unsqueeze(0).expand(call.values[0].shape)), True
    if own.same is not None:
        return own.same(call)
    state, run = get_rng_state(), call.run

    def replayed(*values: Any) -> Any:
        set_rng_state(state)
        return run(*values)

    call.run = replayed  # type: ignore[method-assign]
    return one_by_one(call)


def _draws(operator: Operator) -> bool:
    return draws(operator) and DispatchKey.FuncTorch not in operator.kernels


for _operator in registry:
    if _draws(_operator):
        registry.register_kernel(_operator.name, DispatchKey.FuncTorchVmapMode, Around(_kernel))
