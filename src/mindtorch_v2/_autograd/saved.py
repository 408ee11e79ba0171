"""What a node saved, as an object that takes hooks of its own (`grad_fn._raw_saved_self`)."""

from collections.abc import Callable
from typing import Any

from .._dispatch.keys import changed_modes
from .node import FREED, Node, Packed, SavedOutput

_FREED_HOOKS = ("Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
                "to backward through the graph a second time or if you need to access saved variables after "
                "calling backward.")


def run_pack_hook(pack: Callable, tensor: Any) -> Any:
    """What a pack hook makes of a tensor, which it must not write."""
    version = tensor._version
    with changed_modes(grad_enabled=False):
        kept = pack(tensor)
    if tensor._version != version:
        raise RuntimeError("A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
                           "pack hook cannot be modified by in-place operations as this can lead to unexpected "
                           "side-effects. Please open an issue if you need to perform in-place operations on "
                           "the input to a pack hook.")
    return kept


class SavedTensor:
    """The value that a node saved at one place, or in a list at one place."""

    def __init__(self, *args: Any) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    node: Node
    place: int
    item: int | None

    @classmethod
    def of(cls, node: Node, place: int, item: int | None = None) -> "SavedTensor":
        made = object.__new__(cls)
        made.node, made.place, made.item = node, place, item
        return made

    def _kept(self) -> Any:
        if self.node.saved is None:
            return None
        kept = self.node.saved[self.place]
        return kept if self.item is None else kept[self.item]

    @property
    def data(self) -> Any:
        """What is kept: what a pack hook gave, the tensor, or an output of the node without its history."""
        kept = self._kept()
        if kept.__class__ is Packed:
            return kept.packed
        return kept.tensor if kept.__class__ is SavedOutput else kept

    @property
    def unpack_hook(self) -> Callable | None:
        kept = self._kept()
        return kept.unpack_hook if kept.__class__ is Packed else None

    def unpack(self) -> Any:
        """The tensor that was saved, in its place in the graph."""
        value = self.node.unpack(self.place)
        return value if self.item is None else value[self.item]

    def register_hooks(self, pack_hook: Any = None, unpack_hook: Any = None) -> None:
        """Packs the saved tensor now; `unpack_hook` makes a tensor of it when it is wanted."""
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments: it takes two functions")
        if self.node.saved is None:
            raise RuntimeError(_FREED_HOOKS)
        kept = self._kept()
        if kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if kept.__class__ is Packed:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only "
                               "one pair of hooks is allowed at a time.")
        edge: tuple | None
        if kept.__class__ is SavedOutput:
            shown = kept.unpack(self.node)
            edge = (None, kept.nr)
        else:
            shown = kept
            edge = kept._recording_edge() if kept.requires_grad else None
        value: Any = Packed(run_pack_hook(pack_hook, shown), unpack_hook, edge)
        saved = list(self.node.saved)
        if self.item is not None:
            items = list(saved[self.place])
            items[self.item] = value
            value = tuple(items)
        saved[self.place] = value
        self.node.saved = tuple(saved)


def raw_saved(node: Node, place: int) -> Any:
    """The SavedTensor, or a tuple of them, of what a node keeps at a place; a value that is no tensor as it is."""
    value = node.saved[place] if node.saved is not None else None
    if value.__class__ is tuple:
        return tuple(SavedTensor.of(node, place, item) for item in range(len(value)))
    return SavedTensor.of(node, place)


def raw_saved_tensors(node: Node) -> tuple:
    """A SavedTensor for each value that a custom Function saved."""
    if node.saved is None:
        raise RuntimeError(FREED)
    return tuple(SavedTensor.of(node, place) for place in range(len(node.saved)))


def make_saved_tensor(tensor: Any, is_output: bool) -> SavedTensor:
    """A SavedTensor of its own, packed by the hooks that are in force."""
    node = Node()
    node.save(SavedOutput(tensor) if is_output else tensor)
    return SavedTensor.of(node, 0)
