"""Nodes of the recorded graph, and what they keep."""

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from .._core.deferred import Deferred
from .._core.device import Size
from .._core.dtype import FLOAT, OF_ARRAY
from .._core.elements import type_text
from .._core.planning import changes
from .._dispatch.keys import (
    AUTOGRAD_MASK,
    BACKEND_MASK,
    CPU_MASK,
    DUAL_MASK,
    INFERENCE_MASK,
    TORCH_DISPATCH_MASK,
    VIEW_MASK,
    WITH_GRAD,
    modes,
)
from .names import renamed

_sequence = itertools.count()
_DISCRETE = "biu"  # the kinds of NumPy types that have no gradient

FREED = ("Trying to backward through the graph a second time (or directly access saved tensors after they have already "
         "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
         "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
         "saved tensors after calling backward.")

SAVED_IN_INFERENCE = ("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                      "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                      "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                      "`torch.inference_mode()`.")


class VersionCounter:
    """How often memory was written in place; shared by a tensor and its views."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


class UncountedWrites(VersionCounter):
    """What a counter becomes when its memory is shown to somebody whose writes it does not count: `.data`, a storage.

    So what was made of the elements (_backends/cpu/factors.py) can tell that it may no longer be right.
    """

    __slots__ = ()


class SharedMemory(UncountedWrites):
    """The same for good: nobody can tell whether that somebody, NumPy or another library, is still there."""

    __slots__ = ()


class RemovableHandle:
    """Takes a hook out again."""

    _ids = itertools.count()

    def __init__(self, hooks: OrderedDict, *, extra_dict: Any = None) -> None:
        changes[0] += 1
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = next(RemovableHandle._ids)
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extras)

    def remove(self) -> None:
        changes[0] += 1
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple) -> None:
        hooks, self.id, extras = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extras if d is not None)
        RemovableHandle._ids = itertools.count(max(next(RemovableHandle._ids), self.id + 1))  # no id stands for two

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class HookDict(OrderedDict):
    """Hooks in the order in which they were registered."""

    def add(self, hook: Callable) -> RemovableHandle:
        handle = RemovableHandle(self)
        self[handle.id] = hook
        return handle


class InputMetadata:
    """What the gradient of one output of a node has to be."""

    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, shape: tuple, kind: Any, device: Any) -> None:
        self.shape, self.dtype, self.device = Size(shape), OF_ARRAY[kind], device


class Node:
    """A recorded operation. `edges` are (target, output number) or None: the target is the Node that made the
    input, or with number -1 the leaf tensor itself."""

    edges: tuple = ()
    outputs: tuple = ()  # (shape, NumPy type, device) of each output, for fitting incoming gradients
    saved: tuple | None = ()
    versions: tuple = ()
    pre_hooks: HookDict | None = None
    post_hooks: HookDict | None = None
    tensor_hooks: dict[int, HookDict] | None = None
    retained: dict[int, Any] | None = None  # output number -> weakref to the tensor that wants its grad
    traceback: str | None = None
    watched = False  # whether one of the hooks above is set
    shown: Callable[[Any], str] | None = None  # the name, where it depends on the call
    written_view: Callable[[], tuple] | None = None  # the edge of what it wrote, where that is a view
    replayed: bool = False  # made anew for a view after a write, which PyTorch does by absolute geometry

    def __init__(self) -> None:
        self.seq = next(_sequence)

    # what users see --------------------------------------------------------------------------------------------

    def name(self) -> str:
        if self.replayed:
            return "AsStridedBackward0"
        kind = type(self)
        return kind.__name__ if kind.shown is None else kind.shown(self)

    def _sequence_nr(self) -> int:
        return self.seq

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        self.seq = sequence_nr

    @property
    def _input_metadata(self) -> tuple:
        return tuple(InputMetadata(*output) for output in self.outputs)

    requires_grad = True

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple:
        return tuple((None, 0) if e is None else ((accumulator_of(e[0]), 0) if e[1] < 0 else e) for e in self.edges)

    @next_functions.setter
    def next_functions(self, functions: Sequence) -> None:
        self.edges = tuple(
            None if f is None else (f.variable, -1) if isinstance(f, AccumulateGrad) else (f, nr) for f, nr in functions
        )
        self.seq = next(_sequence)  # a node runs before those it leads to, so it must be the younger

    @property
    def metadata(self) -> dict:
        return self.__dict__.setdefault("_metadata", {})

    @property
    def saved_tensors(self) -> tuple:
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(v for v in map(self.unpack, range(len(self.saved))) if hasattr(v, "_keys"))

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` runs after the node and may replace grad_inputs."""
        self.watched = True
        if self.post_hooks is None:
            self.post_hooks = HookDict()
        return self.post_hooks.add(hook)

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """`hook(grad_outputs)` runs before the node and may replace grad_outputs."""
        self.watched = True
        if self.pre_hooks is None:
            self.pre_hooks = HookDict()
        return self.pre_hooks.add(hook)

    def _register_hook_dict(self, tensor: Any) -> None:
        """Has the hooks of a tensor that this node made run here, which they do."""

    def backward(self, *grad_outputs: Any) -> Any:
        raise NotImplementedError(f"{self.name()}.backward is not implemented: override it in a subclass")

    def apply(self, *grad_outputs: Any) -> tuple:
        """The gradients for `edges`; what the engine calls."""
        result = self.backward(*grad_outputs)
        return result if isinstance(result, tuple) else (result,)

    def __call__(self, *grad_outputs: Any) -> Any:
        result = self.apply(*grad_outputs)
        return result[0] if len(result) == 1 else result

    # saved values ----------------------------------------------------------------------------------------------

    saved_names: tuple[str, ...] = ()

    def save(self, *values: Any) -> None:
        """Keeps tensors, with the versions they have now, and other values."""
        if any(getattr(value, "_keys", 0) & INFERENCE_MASK for value in values):
            raise RuntimeError(SAVED_IN_INFERENCE)
        self.saved = values
        self.versions = tuple(version_of(v) for v in values)
        if saving_hooks.users:
            pack_saved(self)

    def unpack(self, i: int) -> Any:
        """The i-th saved value, if it is still what was saved."""
        if self.saved is None:
            raise RuntimeError(FREED)
        value, version = self.saved[i], self.versions[i]
        kind = value.__class__
        if kind is SavedOutput:
            if value._counter.value != version:
                raise_modified(self, value, version)
            return value.unpack(self)
        if kind is Packed:
            return value.unpack(self)
        if kind is tuple and value and any(v.__class__ is Packed for v in value):
            return tuple([v.unpack(self) if v.__class__ is Packed else v for v in value])
        if version is not None and version is not True and version_of(value) != version:
            raise_modified(self, value, version)
        return value

    def release(self) -> None:
        """Lets saved tensors go; a node that saved none can run again."""
        for version in self.versions:
            if version is not None:
                self.saved, self.versions = None, ()
                return

    def keeps_tensors(self) -> bool:
        """Whether there is something that `release` would let go."""
        return any([version is not None for version in self.versions])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_") and name[7:] in type(self).saved_names:
            return self.unpack(type(self).saved_names.index(name[7:]))
        if name.startswith("_raw_saved_") and name[11:] in type(self).saved_names:
            from .saved import raw_saved  # late, since it stands on nodes

            return raw_saved(self, type(self).saved_names.index(name[11:]))
        shown = type(self).__name__ if "seq" not in self.__dict__ else self.name().rpartition("::")[2]
        raise AttributeError(f"'{shown}' object has no attribute '{name}'")


class SavedOutput:
    """A node's own output, kept without the edge that would make a cycle: its memory and its version."""

    __slots__ = ("_counter", "array", "device", "fields", "keys", "kind", "nr")
    fields: dict[str, Any] | None  # those that a tensor has beside its memory, its device and its keys
    kind: type

    def __init__(self, tensor: Any, nr: int = 0) -> None:
        counter = tensor._counter
        if counter is None:
            counter = tensor._counter = VersionCounter()
        self._counter, self.nr, self.array, self.kind = counter, nr, tensor._array, tensor.__class__
        keys = tensor._keys
        if self.array.__class__ is Deferred:
            self.array.trace.saves = True
        self.device, self.keys, self.fields = tensor._device, keys & ~(AUTOGRAD_MASK | VIEW_MASK), None
        if keys & TORCH_DISPATCH_MASK:  # a tensor that its class answers for
            self.fields = {"kept": tensor._shallow_copy()}
        elif tensor._storage is not None or tensor._offset:
            self.fields = {"_storage": tensor._storage, "_offset": tensor._offset}

    def attach_tangent(self, tangent: tuple) -> None:
        """Makes the kept output dual."""
        self.fields, self.keys = {**(self.fields or {}), "_tangent": tangent}, self.keys | DUAL_MASK

    @property
    def tensor(self) -> Any:
        """The output outside the graph."""
        fields = self.fields
        if fields is not None and "kept" in fields:
            return fields["kept"]._shallow_copy()
        made: Any = object.__new__(self.kind)
        made._array, made._counter = self.array, self._counter
        if made._array.__class__ is Deferred:
            self._show(made)
        if self.keys != CPU_MASK:
            made._keys, made._device = self.keys, self.device
        if fields is not None:
            for name, value in fields.items():
                setattr(made, name, value)
        return made

    def _show(self, made: Any) -> None:
        """Gives a tensor the array that a pipeline recorded: computed by now, or when it is."""
        if self.array.value is None:
            self.array.held_by(made)
        else:
            made._array = self.array = self.array.value

    def unpack(self, node: Node) -> Any:
        """The output as `node` made it."""
        if self.array.dtype.kind in _DISCRETE:
            return self.tensor
        if self.fields is None:
            made: Any = object.__new__(self.kind)
            made._array, made._counter = self.array, self._counter
            made._keys = self.keys | WITH_GRAD[self.keys & BACKEND_MASK]
            if self.keys != CPU_MASK:
                made._device = self.device
            if made._array.__class__ is Deferred:
                self._show(made)
        else:
            made = self.tensor
            made._keys |= WITH_GRAD[made._keys & BACKEND_MASK]
        made._edge = (node, self.nr) if node.written_view is None else node.written_view()
        return made


def version_of(value: Any) -> Any:
    """A tensor's version, None for anything else, a tuple of them for a tuple."""
    if value.__class__ is SavedOutput:
        return value._counter.value
    if hasattr(value, "_keys"):
        counter = value._counter
        return 0 if counter is None else counter.value
    if value.__class__ is tuple and any(hasattr(v, "_keys") for v in value):
        return tuple(version_of(v) for v in value)
    return None


def function_name(node: Node) -> str:
    """What errors call the function a node stands for: `MulBackward0` is Mul, `SqueezeBackward1` Squeeze1."""
    name, _, number = node.name().rpartition("Backward")
    return name + number.removeprefix("0") if not number or number.isdigit() else node.name()


def raise_modified(node: Node, value: Any, expected: Any) -> None:
    """PyTorch's error for a saved tensor that was written in place."""

    if value.__class__ is tuple:
        value, expected = next((v, e) for v, e in zip(value, expected, strict=True) if version_of(v) != e)
    if value.__class__ is SavedOutput:
        tensor = value.tensor
        edge = (node, value.nr) if tensor.dtype.category >= FLOAT else None
    else:
        tensor, edge = value, value._current_edge()
    source = f", which is output {edge[1]} of {function_name(edge[0])}," if edge else ""
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{type_text(tensor)} {list(tensor.shape)}]{source} is at version {version_of(value)}; expected version "
        f"{expected} instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).")


def next_sequence_number() -> int:
    """What nodes made from now on have more than."""
    return next(_sequence)


def rename(tensor: Any, name: str, before: int) -> None:
    """Gives another name to the node that made a tensor, if it is younger than `before`."""
    edge = tensor._edge if hasattr(tensor, "_keys") else None
    if edge is not None and edge[1] >= 0 and edge[0].seq > before:
        edge[0].__class__ = renamed(type(edge[0]), name)


def in_autograd(node: Node) -> str:
    """The name of a node that stands for no operator."""
    return f"torch::autograd::{type(node).__name__}"


class AccumulateGrad(Node):
    """What adds into a leaf's `.grad`. The engine does it on the leaf itself; this object is for looking and hooks."""

    shown = staticmethod(in_autograd)

    def __init__(self, variable: Any) -> None:
        super().__init__()
        self.variable = variable
        self.outputs = ((variable._array.shape, variable._array.dtype, variable._device),)

    def apply(self, *grad_outputs: Any) -> tuple:
        from .engine import accumulate

        if grad_outputs[0] is not None:
            accumulate(self.variable, grad_outputs[0])
        return ()


class NotDerived(Node):
    """The history of a tensor written by an operator that has no derivative."""

    shown = staticmethod(in_autograd)

    def __init__(self, operator: str, edges: tuple) -> None:
        super().__init__()
        self.operator_name, self.edges = operator, edges

    def apply(self, *grad_outputs: Any) -> tuple:
        raise RuntimeError(f"derivative for {self.operator_name} is not implemented")


NotDerived.__name__ = "NotImplemented"  # PyTorch's name


def accumulator_of(leaf: Any) -> AccumulateGrad:
    """The leaf's one AccumulateGrad, held weakly by the leaf."""
    ref = leaf._accumulator
    node = ref() if ref is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(node)
    return node


# saved-tensor hooks --------------------------------------------------------------------------------------------------


class _SavingHooks:
    """How many contexts of any thread are watching; zero keeps the recording path free of look-ups."""

    users = 0


saving_hooks = _SavingHooks


class Packed:
    """A saved tensor that went through a pack hook, and where in the graph it stood."""

    __slots__ = ("edge", "packed", "unpack_hook")
    _counter = VersionCounter(-1)  # the version of no tensor

    def __init__(self, packed: Any, unpack_hook: Callable, edge: tuple | None) -> None:
        self.packed, self.unpack_hook, self.edge = packed, unpack_hook, edge

    def unpack(self, node: Node) -> Any:
        """What the unpack hook gives, in the saved tensor's place in the graph."""
        made = self.unpack_hook(self.packed)
        if not hasattr(made, "_keys"):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                            f"{type(made).__name__}")
        if self.edge is None:
            return made.detach() if made.requires_grad else made
        target, nr = self.edge
        return made._with_edge((node if target is None else target, nr))


def packed(values: Sequence[Any], node: Any = None) -> tuple:
    """The values that `node` saves, with tensors run through this thread's innermost pack hook."""
    stack = modes.__dict__.get("saved_hooks")
    if not stack:
        return tuple(values)
    pack, unpack = stack[-1]
    return tuple([_packed_one(value, pack, unpack, node) for value in values])


def _packed_one(value: Any, pack: Callable, unpack: Callable, node: Any) -> Any:
    if value.__class__ is SavedOutput:
        shown = value.unpack(node)
        kept = pack(shown)
        # The node itself is named at unpacking: an edge kept here would be a cycle, and so would the output.
        edge = (None, value.nr) if shown._edge is not None else None
        return Packed(value.tensor if kept is shown else kept, unpack, edge)
    if value.__class__ is tuple:
        return tuple([_packed_one(v, pack, unpack, node) for v in value])
    if not hasattr(value, "_keys"):
        return value
    return Packed(pack(value), unpack, value._recording_edge() if value.requires_grad else None)


def pack_saved(node: Node) -> None:
    """Runs this thread's innermost pack hook over what `node` saved, and notes where it was recorded."""
    if modes.__dict__.get("anomaly"):
        import traceback

        node.traceback = "".join(traceback.format_stack()[:-2])
    if node.saved:
        node.saved = packed(node.saved, node)
