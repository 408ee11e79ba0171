"""What a result is made of. Containers are taken apart, and so are objects that the call has made: a cache, say.

A replay gives each time new ones, of the same classes and with the same attributes but for tensors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.tensor import Tensor
from ..utils import _pytree as pytree
from .watching import NotGuarded

_HEAP_TYPE = 1 << 9  # the flag of classes that Python code defines


class Made(NamedTuple):
    """An object among the leaves: its class, and where its attributes begin and end, with what joins them."""

    kind: type
    begin: int
    end: int
    attributes: Any


class Parts:
    """The leaves of a result, and how they are put together.

    `is_new` tells of objects whether the call made them, `is_fixed` of values that they were there before it.
    """

    def __init__(self, result: Any, is_new: Callable[[Any], bool], is_fixed: Callable[[Any], bool]) -> None:
        self.leaves, self.structure = pytree.tree_flatten(result, is_fixed)
        self.count = len(self.leaves)
        self.objects: dict[int, Made] = {}  # by the place of their leaf
        seen: set[int] = set()
        for at, leaf in enumerate(self.leaves):  # which grows
            if isinstance(leaf, Tensor) or not is_new(leaf):
                continue
            kind = type(leaf)
            if not all([one is object or _is_plain(one) for one in kind.__mro__]):
                raise NotGuarded(f"it gives a {kind.__name__}")
            if id(leaf) in seen:
                raise NotGuarded(f"it gives a {kind.__name__} twice")
            seen.add(id(leaf))
            held, attributes = pytree.tree_flatten(vars(leaf), is_fixed)
            self.objects[at] = Made(kind, len(self.leaves), len(self.leaves) + len(held), attributes)
            self.leaves += held

    def joined(self, leaves: list[Any]) -> Any:
        """A result of these leaves; those of objects are filled in."""
        for at, (kind, begin, end, attributes) in reversed(self.objects.items()):
            made: Any = object.__new__(kind)
            leaves[at] = made
            vars(made).update(attributes.unflatten(leaves[begin:end]))
        return self.structure.unflatten(leaves[: self.count])


def _is_plain(kind: type) -> bool:
    """Whether what is of a class is in the attributes of its objects."""
    return bool(kind.__flags__ & _HEAP_TYPE) and not vars(kind).get("__slots__")
