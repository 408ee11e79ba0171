"""Random operators inside vmap: an error, different numbers for each sample, or the same for all."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .._dispatch.keys import DispatchKey, changed_modes
from .._dispatch.levels import level_of, open_levels
from .._dispatch.registry import Around, Operator, registry
from .._tensor import Tensor
from ..random import get_rng_state, set_rng_state
from .batching import BatchLevel, Call, innermost_batch_level, one_by_one, pointwise
from .grad_level import finished, like_result

_WITHOUT_GENERATOR = ("_dropout_noise", "native_dropout")
# Their tensor only tells the shape.
_SHAPED = ("rand_like", "randn_like", "randint_like", "_dropout_noise")


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
            result, batched = (_same if level.randomness == "same" else _different)(call)
        return finished(level, operator, args, result, batched)

    return kernel


def _different(call: Call) -> tuple[Any, Any]:
    schema = call.operator.schema
    tensors = [i for i, v in enumerate(call.values) if isinstance(v, Tensor)]
    if schema.arguments[0].writes:
        if not call.batched[0]:
            raise RuntimeError("vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
                               "appear like same randomness. If this is necessary for your usage, please file an issue "
                               "with functorch.")
        return pointwise(call)
    if not tensors and "size" in schema.index:
        values = list(call.values)
        values[schema.index["size"]] = (call.size, *values[schema.index["size"]])
        return call.run(*values), True
    for i in tensors:
        call.values[i], call.batched[i] = call.full(i), True
    if not tensors or schema.base_name == "multinomial" and call.ndim(0) > 1 or "features" in schema.index \
            and call.at("features"):
        return one_by_one(call)
    return (call.run(*call.values), True) if schema.base_name == "multinomial" else pointwise(call)


def _same(call: Call) -> tuple[Any, Any]:
    """One draw for all samples."""
    if not call.any_batched():
        return call.run(*call.values), False
    schema = call.operator.schema
    first = [v.select(0, 0) if b else v for v, b in zip(call.values, call.batched, strict=True)]
    if schema.arguments[0].writes and sum(map(bool, call.batched)) == 1:
        drawn = call.run(first[0].clone(), *first[1:])
        return call.values[0].copy_(drawn.unsqueeze(0).expand(call.values[0].shape)), True
    if schema.base_name in _SHAPED:
        return call.run(*first), False
    if schema.base_name == "native_dropout":
        made = call.run(first[0].detach().new_ones(first[0].shape), *first[1:])
        return like_result(made, (call.values[0] * made[0], made[1])), (True, False)
    state, run = get_rng_state(), call.run

    def replayed(*values: Any) -> Any:
        set_rng_state(state)
        return run(*values)

    call.run = replayed  # type: ignore[method-assign]
    return one_by_one(call)


def _draws(operator: Operator) -> bool:
    schema = operator.schema
    named = any(a.type == "Generator" for a in schema.arguments) or schema.base_name in _WITHOUT_GENERATOR
    return named and DispatchKey.FuncTorch not in operator.kernels


for _operator in registry:
    if _draws(_operator):
        registry.register_kernel(_operator.name, DispatchKey.FuncTorchVmapMode, Around(_kernel))
