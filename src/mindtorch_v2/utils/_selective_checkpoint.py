"""Selective checkpointing: results of chosen operators are kept, the others are computed again in backward."""

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .._compat.operator_names import OpOverload, OpOverloadPacket
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

# What runs unseen in both runs, as often as it may: questions about a tensor, and detaching it.
_NAMES = ("detach", "dim", "is_contiguous", "is_non_overlapping_and_dense", "is_strides_like_format", "layout", "numel",
          "size", "storage_offset", "stride", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride")
_NOT_FOUND = ("encountered during backward but not found in storage. This can happen if the operations in the "
              "checkpointed region are nondeterministic or depend on global state that changed between forward "
              "and backward.")


class CheckpointPolicy(enum.Enum):
    """What becomes of the result of an operator: it is kept, or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVING = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """What a policy is told beside the operator and its arguments."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A result of the first run, which the second takes once."""

    def __init__(self, value: Any) -> None:
        self.val = value.detach() if isinstance(value, torch.Tensor) else value
        self.version = self.val._version if isinstance(value, torch.Tensor) else None
        self.taken = False

    def take(self, allow_mutation: bool) -> Any:
        if self.taken:
            raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any region "
                               "computed under selective activation checkpoint.")
        value = self.val
        if self.version is not None and value._version != self.version and not allow_mutation:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        self.val, self.taken = None, True
        return value


def _is_ignored(function: Any) -> bool:
    return function.namespace == "aten" and function._opname in _NAMES


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run: keeps what the policy says. `storage` has the calls of each operator, None where none is kept."""

    def __init__(self, policy_fn: Callable, storage: dict) -> None:
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if _is_ignored(func):
            return result
        policy = self.policy_fn(SelectiveCheckpointContext(is_recompute=False, op_output=result), func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        if policy in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD):
            raise NotImplementedError(f"{policy} is not there: keep the result with MUST_SAVE")
        self.storage[func].append(tree_map(_Kept, result) if policy in _SAVING else None)
        return result


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The second run: takes what was kept."""

    def __init__(self, policy_fn: Callable, storage: dict, allow_cache_entry_mutation: bool = False) -> None:
        super().__init__()
        self.policy_fn, self.storage, self.allow_mutation = policy_fn, storage, allow_cache_entry_mutation
        self.calls: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.calls.clear()  # the graph may be run through again
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if _is_ignored(func):
            return func(*args, **kwargs)
        if func not in self.storage:
            raise RuntimeError(f"{func} {_NOT_FOUND}")
        number = self.calls[func]
        self.calls[func] += 1
        if number >= len(self.storage[func]):
            raise RuntimeError(f"{func} invocation index {number} {_NOT_FOUND}")
        kept = self.storage[func][number]
        if kept is None:
            return func(*args, **kwargs)
        return tree_map(lambda one: one.take(self.allow_mutation), kept)


def create_selective_checkpoint_contexts(policy_fn_or_list: Callable | Sequence,
                                         allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:
    """What `checkpoint(context_fn=...)` takes, for a policy or a list of operators whose results are kept."""
    if isinstance(policy_fn_or_list, list):
        for operator in policy_fn_or_list:
            if not isinstance(operator, OpOverload):
                more = ("Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                        "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                        if isinstance(operator, OpOverloadPacket) else "")
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {operator} of type "
                                 f"{type(operator)}. {more}")
        kept = policy_fn_or_list

        def policy(ctx: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if operator in kept else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, list] = defaultdict(list)
    return (_CachingTorchDispatchMode(policy, storage),
            _CachedTorchDispatchMode(policy, storage, allow_cache_entry_mutation))
