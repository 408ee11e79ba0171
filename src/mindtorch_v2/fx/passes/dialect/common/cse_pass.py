"""Common subexpressions: calls of the same function with the same arguments become one."""

from typing import Any

import mindtorch_v2 as torch

from ....._dispatch.registry import registry
from ....._ops._declare.batch import draws
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]


def get_CSE_banned_ops() -> set[Any]:
    """The operators whose second call is not the first one again: random ones. Those that write are never taken."""
    names = {operator.schema.base_name for operator in registry if draws(operator)}
    return {getattr(torch.ops.aten, name) for name in (*names, "dropout") if hasattr(torch.ops.aten, name)}


def _of_node(value: Any, known: dict[Node, Node]) -> tuple[str, Any]:
    """A value that can be a key: equal ones of different types stay different."""
    if isinstance(value, Node):
        return "node", known[value]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(_of_node(item, known) for item in value)
    if isinstance(value, dict):
        return "dict", tuple((key, _of_node(item, known)) for key, item in value.items())
    if isinstance(value, slice):
        return "slice", tuple(_of_node(part, known) for part in (value.start, value.stop, value.step))
    return type(value).__name__, value


def _with_defaults(node: Node) -> tuple[tuple, dict[str, Any]]:
    """A call's arguments, as keywords where its schema knows their names, with the defaults that it leaves out."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.args, dict(node.kwargs)
    named = dict(zip((a.name for a in schema.arguments), node.args, strict=False))
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return (), dict(sorted({**defaults, **named, **node.kwargs}.items()))


class CSEPass(PassBase):
    """Keeps the first of equal calls; `banned_ops` (packets of operators) are left alone."""

    def __init__(self, banned_ops: Any = None) -> None:
        self.banned_ops = banned_ops or set()

    def call(self, graph_module: GraphModule) -> PassResult:
        made, modified = Graph(), False
        known: dict[Node, Node] = {}
        first: dict[Any, Node] = {}
        for node in graph_module.graph.nodes:
            packet = getattr(node.target, "overloadpacket", node.target)
            key = None
            writes = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
            if node.op == "call_function" and packet not in self.banned_ops and not writes and not node.is_impure():
                key = self._key(node, known)
            if key is not None and key in first:
                known[node], modified = first[key], True
                continue
            known[node] = made.node_copy(node, lambda n: known[n])
            if key is not None:
                first[key] = known[node]
        return PassResult(GraphModule(graph_module, made), modified)

    def _key(self, node: Node, known: dict[Node, Node]) -> Any:
        """What equal calls share; None for one whose arguments cannot be compared."""
        key = node.target, _of_node(_with_defaults(node), known)
        try:
            hash(key)
        except TypeError:
            return None
        return key
