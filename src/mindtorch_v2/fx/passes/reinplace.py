"""reinplace: operators of a graph write in place again where nobody reads what they overwrite."""

from collections.abc import Iterator
from typing import Any

from ..._compat.operator_names import OpOverload, OpOverloadPacket, ops
from ..._core.tensor import Tensor
from ...utils._pytree import tree_leaves
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["reinplace"]

aten = ops.aten
# What puts a written part back, and the view that shows the part.
_VIEW_OF = {"diagonal_scatter": "diagonal", "select_scatter": "select", "slice_scatter": "slice",
            "as_strided_scatter": "as_strided"}


def _inplace(target: Any) -> Any:
    """The overload that writes what another gives into its first argument; None if there is none."""
    if not isinstance(target, OpOverload) or target.namespace != "aten" or target._opname.endswith("_"):
        return None
    packet = getattr(aten, f"{target._opname}_", None)
    if not isinstance(packet, OpOverloadPacket) or not packet._operators() or target.is_view:
        return None
    found = getattr(packet, target._overloadname, None)
    return found if isinstance(found, OpOverload) and found._operator.schema.writes else None


def _inputs(node: Node) -> Iterator[Node]:
    return (leaf for leaf in tree_leaves((node.args, node.kwargs)) if isinstance(leaf, Node))


class _Storages:
    """Which nodes share memory; a node that is made to write joins what it writes to."""

    def __init__(self, nodes: list[Node]) -> None:
        self.of: dict[Node, int] = {}
        for node in nodes:
            value = node.meta.get("val")
            if isinstance(value, Tensor):
                self.of[node] = id(value.untyped_storage())

    def join(self, node: Node, target: Node) -> None:
        old, new = self.of[node], self.of[target]
        self.of = {n: new if storage == old else storage for n, storage in self.of.items()}

    def same(self, one: Any, other: Any) -> bool:
        if not isinstance(one, Node) or not isinstance(other, Node) or one not in self.of:
            return False
        return self.of[one] == self.of.get(other)


def _overlaps_itself(tensor: Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _part_of(scatter: Node, part: Node) -> bool:
    """Whether a node is the view that a scatter puts back."""
    name = _VIEW_OF.get(scatter.target._opname) if isinstance(scatter.target, OpOverload) else None
    return (name is not None and isinstance(part.target, OpOverload) and part.target._opname == name
            and part.args[1:] == scatter.args[2:] and part.kwargs == scatter.kwargs)


def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """The module with operators that write in place where the values they replace are not read afterwards."""
    nodes = list(gm.graph.nodes)
    storages = _Storages(nodes)
    given = {storages.of[n] for n in nodes if n.op == "placeholder" and n in storages.of}
    written: dict[Node, Node] = {}  # nodes that write, and the view that they write to
    for at, node in enumerate(nodes):
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            continue
        target: Node = node.args[0]
        if isinstance(node.target, OpOverload) and node.target._opname in _VIEW_OF:
            changed: Any = node.args[1]
            if changed in written and storages.same(target, changed) and _part_of(node, written[changed]):
                storages.join(node, target)
                node.replace_all_uses_with(target)
                gm.graph.erase_node(node)
            continue
        inplace = _inplace(node.target)
        if inplace is None or target not in storages.of or storages.of[target] in given:
            continue
        value, result = target.meta["val"], node.meta.get("val")
        if (not isinstance(result, Tensor) or result.shape != value.shape or result.dtype is not value.dtype
                or _overlaps_itself(value)):
            continue
        if sum(storages.same(other, target) for other in _inputs(node)) > 1:
            continue
        root = written.get(target, target)
        readers = [n for n in nodes[at + 1:] if n in gm.graph.nodes
                   and any(storages.same(i, target) for i in _inputs(n))]
        if all(_part_of(n, root) and n.args[1] is node for n in readers):
            node.target = inplace
            storages.join(node, target)
            written[node] = root
    gm.recompile()
    return gm
