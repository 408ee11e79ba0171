"""The level of vmap: below it, its tensors have one more dimension in front, which the rules of operators carry."""

from collections.abc import Sequence
from typing import Any, NoReturn, Self

from .._dispatch.keys import VMAP_MASK, modes
from .._dispatch.levels import Level, LevelArray, open_levels
from .._dispatch.registry import Operator
from .._ops._declare.batch import Call, Rule, elementwise, one_by_one
from .grad_level import finished, wrapped

ESCAPED = ("Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
           "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
           "`gen_vmap_plumbing` Please file an issue if it looks like the latter")
UNBATCHED_WRITE = ("vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` "
                   "in extra_args that has more elements than `self`. This happened due to `other` being vmapped over "
                   "but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "
                   "inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a "
                   "bug report instead.")
_READS = {
    "bool()": "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
              "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues .",
    "item()": "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
              "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere "
              "inside PyTorch internals, please file a bug report.",
}


class BatchLevel(Level):
    """One vmap in progress, over `size` samples."""

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def __enter__(self) -> Self:
        super().__enter__()
        self._include = modes.include
        modes.update(include=modes.include | VMAP_MASK)
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        modes.update(include=self._include)

    def wrap(self, value: Any) -> Any:
        return wrapped(self, value)

    def left(self, tensor: Any) -> Any:
        if tensor._array.batched:
            raise RuntimeError(ESCAPED)
        return tensor._array.value

    def run(self, operator: Operator, args: Sequence[Any]) -> Any:
        call = Call(self, operator, args)
        if not call.any_batched():
            return finished(self, operator, args, call.run(*call.values))
        rule = rule_of(operator)
        if call.writes and rule is not elementwise and not _writes_into_batched(call):
            raise RuntimeError(UNBATCHED_WRITE)
        result, batched = rule(call)
        return result if batched is None else finished(self, operator, args, result, batched)

    def apply_function(self, function: Any, args: tuple) -> Any:
        from .autograd_function import vmapped_apply

        return vmapped_apply(self, function, args)

    def shown(self, array: LevelArray, value: str) -> str:
        if not array.batched:
            return value.strip()
        return f"BatchedTensor(lvl={self.depth}, bdim=0, value=\n{value}\n)"

    def refuse(self, action: str) -> NoReturn:
        if not self.alive:
            raise RuntimeError(ESCAPED)
        raise RuntimeError(_READS.get(action, "Cannot access data pointer of Tensor that doesn't have storage"))


def _writes_into_batched(call: Call) -> bool:
    for argument, batched in zip(call.operator.schema.arguments, call.batched, strict=True):
        if argument.writes and not (all(batched) if isinstance(batched, tuple) else batched):
            return False
    return True


# The rules of operators that others declare, by name (torch.library.register_vmap).
CUSTOM: dict[str, Rule] = {}


def rule_of(operator: Operator) -> Rule:
    """The rule of an operator; of an in-place form, that of the functional one."""
    declared = operator.declaration
    return CUSTOM.get(operator.name) or (declared.batch_rule if declared is not None else None) or one_by_one


def innermost_batch_level() -> BatchLevel | None:
    return next((level for level in reversed(open_levels()) if isinstance(level, BatchLevel)), None)
