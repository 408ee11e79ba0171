"""What recorded nodes are called: PyTorch's names, which users read in printed tensors and in graphs.

A name is the operator's in capitals, `Backward`, and the number of the overload. Where PyTorch composes what is one
operator here, the node has the name of PyTorch's last one: the field `node` of the declaration says it, or tells it of
a node.
"""

from collections.abc import Callable
from typing import Any

NodeName = str | Callable[[Any], str] | None


def overload_by(argument: str) -> Callable[[Any], str]:
    """Backward1 where the argument was given, else Backward0."""

    def name(node: Any) -> str:
        return type(node).__name__[:-1] + ("0" if saved_by(node, argument) is None else "1")

    return name


def saved_by(node: Any, name: str) -> Any:
    """What a node saved of its call; None once it is freed."""
    return None if node.saved is None else node.saved[type(node).saved_names.index(name)]


def class_name(declared: NodeName, base_name: str) -> str:
    """The name of an operator's node class, without the namespace of a declared one."""
    if isinstance(declared, str):
        return declared.rpartition("::")[2]
    return base_name.title().replace("_", "") + "Backward0"
