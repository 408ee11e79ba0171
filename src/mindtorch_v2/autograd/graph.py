"""A look into the recorded graph, and hooks on it."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.engine import edge_for
from .._autograd.node import Node, RemovableHandle, accumulator_of, saving_hooks
from .._autograd.roots import GradientEdge
from .._autograd.saved import run_pack_hook
from .._core.tensor import Tensor
from .._dispatch.keys import modes

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
           "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]

def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    edge = tensor._current_edge()
    return GradientEdge(accumulator_of(tensor), 0) if edge is None else GradientEdge(*edge)


def increment_version(tensor: "Tensor | Sequence[Tensor]") -> None:
    """Counts a write that autograd could not see."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump_version()


class saved_tensors_hooks:
    """Inside, tensors saved for backward go through `pack_hook`, and through `unpack_hook` when wanted."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        disabled = modes.__dict__.get("saved_hooks_disabled")
        if disabled:
            raise RuntimeError(disabled)
        stack = modes.__dict__.setdefault("saved_hooks", [])
        pack, unpack = self.hooks

        def packing(tensor: Tensor) -> Any:
            # A hook may compute; what it computes is not saved through itself.
            held = stack.pop()
            try:
                return run_pack_hook(pack, tensor)
            finally:
                stack.append(held)

        stack.append((packing, unpack))
        saving_hooks.users += 1

    def __exit__(self, *exc: object) -> None:
        if modes.__dict__.get("saved_hooks"):  # else it was left more often than entered
            modes.__dict__["saved_hooks"].pop()
            saving_hooks.users -= 1


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in host memory until backward wants them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple:
            return tensor.device, tensor.cpu()

        def unpack(packed: tuple) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks:
    """Inside, entering `saved_tensors_hooks` raises with the given message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        if modes.__dict__.get("saved_hooks"):
            raise RuntimeError(self.message)
        self.previous = modes.__dict__.get("saved_hooks_disabled")
        modes.__dict__["saved_hooks_disabled"] = self.message

    def __exit__(self, *exc: object) -> None:
        modes.__dict__["saved_hooks_disabled"] = self.previous


class _MultiHandle(RemovableHandle):
    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """`fn` runs once the gradients of all the tensors (or, with mode "any", of the first one) are known."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    edges = [edge_for(t) for t in tensors]
    states: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()  # of each backward pass
    lock = threading.Lock()  # passes may run in several threads

    def hook_of(i: int) -> Callable:
        def hook(grad: Tensor) -> None:
            current = modes.__dict__["backward_pass"]
            with lock:
                state = states.get(current)
                first = state is None
                if state is None:
                    taking_part = sum(current.will_run(e) for e in edges if e is not None)
                    state = states[current] = {"grads": [None] * len(tensors), "left": taking_part}
                state["grads"][i] = grad
                state["left"] -= 1
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and not state["left"]:
                fn(state["grads"])

        return hook

    return _MultiHandle(tuple(t.register_hook(hook_of(i)) for i, t in enumerate(tensors)))


class _Saved:
    """Stands in the graph for a tensor that was saved."""


class _MutableSaved:
    """What `allow_mutation_on_saved_tensors` knows: the tensors that graphs have saved, and copies of those written."""

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[tuple, _Saved] = weakref.WeakValueDictionary()
        self.sid_to_tid: dict[int, set[tuple]] = {}

    def clear(self) -> None:
        for known in (self.cloned, self.original, self.tid_to_weakhandle, self.sid_to_tid):
            known.clear()

    def pack(self, tensor: Tensor) -> _Saved:
        storage = tensor.untyped_storage().data_ptr()
        shown = (storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor._version)
        saved = self.tid_to_weakhandle.get(shown)
        if saved is None:
            saved = self.tid_to_weakhandle[shown] = _Saved()
            self.original[saved] = tensor.detach()
            self.sid_to_tid.setdefault(storage, set()).add(shown)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        found = self.cloned.get(saved)
        found = self.original.get(saved) if found is None else found
        if found is None:
            raise AssertionError("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which "
                                 "the graph was originally recorded.")
        return found

    def keep(self, written: Tensor) -> None:
        """Copies what was saved of a tensor's memory, before it is written."""
        for shown in self.sid_to_tid.pop(written.untyped_storage().data_ptr(), ()):
            saved = self.tid_to_weakhandle.get(shown)
            if saved is not None and saved in self.original:
                self.cloned[saved] = self.original.pop(saved).clone()  # type: ignore[attr-defined]


class allow_mutation_on_saved_tensors:
    """Inside, tensors that were saved for backward may be written: the graph keeps what they were."""

    def __enter__(self) -> _MutableSaved:
        from ..utils._python_dispatch import TorchDispatchMode

        known = self.known = _MutableSaved()

        class Keeping(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
                kwargs = kwargs or {}
                arguments = func._operator.schema.arguments
                written = [value for value, a in zip(args, arguments, strict=False) if a.writes]
                names = {a.name for a in arguments if a.writes} | {"out"}
                written += [value for name, value in kwargs.items() if name in names]
                for value in written:
                    for tensor in value if isinstance(value, (tuple, list)) else (value,):
                        if isinstance(tensor, Tensor):
                            known.keep(tensor)
                return func(*args, **kwargs)

        self.contexts = (saved_tensors_hooks(known.pack, known.unpack), Keeping())
        if modes.__dict__.get("mutable_saved"):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        modes.__dict__["mutable_saved"] = True
        for context in self.contexts:
            context.__enter__()
        return known

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)
        modes.__dict__["mutable_saved"] = False
        self.known.clear()
